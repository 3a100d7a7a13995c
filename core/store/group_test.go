package store

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func (r *rig) count(lower, upper []byte) int {
	r.t.Helper()
	it, err := r.db.p.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	r.must(err)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	r.must(it.Close())
	return n
}

func TestRestartRestoresTheStateOfTheNewestCheckpoint(t *testing.T) {
	for seed := range uint64(5) {
		r := newRig(t, vfs.NewMem(), seed)
		for range 4 {
			r.random(50, 200)
			r.checkpoint()
			at, _ := r.g.Durable()
			r.random(20, 200)
			r.reopen()
			if got, _ := r.g.Applied(); got != at {
				t.Fatalf("reopened at %d, the checkpoint was at %d", got, at)
			}
			if got, want := r.g.Fingerprint(), r.log.sums[at]; got != want {
				t.Fatalf("reopened with fingerprint %x, want %x", got, want)
			}
			r.replay()
			r.readable()
		}
	}
}
