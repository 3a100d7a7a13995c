package core

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// numbered is the least that a series takes.
type numbered struct {
	session
	number int
}

func (n *numbered) code(*rowCoder) {}

func TestASeriesKeepsItsOrderWhateverGoes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var s series[*numbered]
	var model []*numbered
	for i := range 20_000 {
		if n := len(model); n > 0 && r.IntN(2000) < 900+i/10 { // fewer and fewer are left
			at := r.IntN(n)
			model[at].gone = true
			model = slices.Delete(model, at, at+1)
			s.tidy()
		} else {
			x := &numbered{number: i}
			s.add(x)
			model = append(model, x)
		}
		var list []*numbered
		s.each(func(x *numbered) { list = append(list, x) })
		if !slices.Equal(list, model) || s.len() != len(model) {
			t.Fatalf("after %d steps: %d are listed, %d counted, %d there", i, len(list), s.len(), len(model))
		}
		if len(model) > 0 && (s.oldest() != model[0] || s.newest() != model[len(model)-1]) {
			t.Fatalf("after %d steps: from %d to %d", i, s.oldest().number, s.newest().number)
		}
		if len(s.list) > 2*len(model)+goneMost+1 {
			t.Fatalf("after %d steps: %d places for %d", i, len(s.list), len(model))
		}
	}
}
