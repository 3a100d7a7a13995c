package ledger

import (
	"maps"
	"slices"
	"testing"

	"github.com/understudy-mq/understudy/core/internal/queue"
	"pgregory.net/rapid"
)

// model is the obvious ledger: a map.
type model struct {
	records map[uint64]Record
	rows    map[uint64][]Record
	last    uint64
}

func (m *model) tags() []uint64 { return slices.Sorted(maps.Keys(m.records)) }

func (m *model) next(tag uint64) uint64 {
	for _, t := range m.tags() {
		if t >= tag {
			return t
		}
	}
	return 0
}

func (m *model) before(tag uint64) uint64 {
	found := uint64(0)
	for _, t := range m.tags() {
		if t <= tag {
			found = t
		}
	}
	return found
}

func (m *model) checkpoint(l *Ledger) {
	l.Changes(
		func(base uint64, r []Record) { m.rows[base] = slices.Clone(r) },
		func(base uint64) { delete(m.rows, base) })
}

func (m *model) reload(l *Ledger, p *Pool) *Ledger {
	m.checkpoint(l)
	var n Ledger
	for _, base := range slices.Sorted(maps.Keys(m.rows)) {
		n.Load(p, base, m.rows[base])
	}
	n.Loaded(m.last)
	return &n
}

func (m *model) check(t *rapid.T, l *Ledger) {
	if l.Len() != len(m.records) || l.Last() != m.last {
		t.Fatalf("%d in flight up to %d, want %d up to %d", l.Len(), l.Last(), len(m.records), m.last)
	}
	var got []uint64
	l.Each(func(tag uint64, r *Record) {
		got = append(got, tag)
		if *r != m.records[tag] {
			t.Fatalf("tag %d is %v, want %v", tag, *r, m.records[tag])
		}
	})
	if !slices.Equal(got, m.tags()) {
		t.Fatalf("in flight %v, want %v", got, m.tags())
	}
}

func TestLedgerBehavesAsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, l := &Pool{}, &Ledger{}
		m := &model{records: map[uint64]Record{}, rows: map[uint64][]Record{}}
		take := func(tag uint64) {
			r, ok := l.Take(p, tag)
			want, exists := m.records[tag]
			if ok != exists || r != want {
				t.Fatalf("took %v %v at %d, want %v %v", r, ok, tag, want, exists)
			}
			delete(m.records, tag)
		}
		for step := rapid.IntRange(1, 40).Draw(t, "steps"); step > 0; step-- {
			n := rapid.SampledFrom([]int{1, 2, 10, 100, 600}).Draw(t, "n")
			tag := rapid.Uint64Range(0, m.last+2).Draw(t, "tag")
			switch rapid.IntRange(0, 6).Draw(t, "op") {
			case 0, 1:
				for ; n > 0; n-- {
					m.last++
					r := Record{Ref: queue.Ref{Number: m.last * 3, Loc: 5}, Queue: 7, Consumer: 8}
					m.records[m.last] = r
					if got := l.Add(p, r); got != m.last {
						t.Fatalf("tag %d, want %d", got, m.last)
					}
				}
			case 2:
				for ; n > 0; n-- {
					take(tag)
					tag++
				}
			case 3:
				for ; n > 0 && l.Next(0) != 0; n-- {
					take(l.Next(0))
				}
			case 4:
				if l.Next(tag) != m.next(tag) || l.Before(tag) != m.before(tag) {
					t.Fatalf("around %d: %d and %d, want %d and %d", tag, l.Next(tag), l.Before(tag), m.next(tag), m.before(tag))
				}
			case 5:
				m.checkpoint(l)
			case 6:
				l = m.reload(l, p)
			}
			m.check(t, l)
		}
	})
}

func TestOneForgottenDeliveryCostsOneChunk(t *testing.T) {
	p, l := &Pool{}, &Ledger{}
	l.Add(p, Record{Ref: queue.Ref{Number: 1}})
	for i := uint64(2); i < 1_000_000; i++ {
		l.Take(p, l.Add(p, Record{Ref: queue.Ref{Number: i}}))
	}
	if len(l.chunks) > 2 {
		t.Errorf("%d chunks are held for one delivery", len(l.chunks))
	}
	if l.Get(1) == nil {
		t.Error("the forgotten delivery is lost")
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	p, l := &Pool{}, &Ledger{}
	round := func() {
		for range 1000 {
			l.Add(p, Record{Ref: queue.Ref{Number: 1}})
		}
		for l.Len() > 3 {
			l.Take(p, l.Next(0))
		}
	}
	for range 5 {
		round()
	}
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%.1f allocations per 1000 deliveries, want none", n)
	}
}
