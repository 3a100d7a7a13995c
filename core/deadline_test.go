package core

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTimersComeInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := timers{}
		all := make([]*timer, 30)
		for i := range all {
			all[i] = &timer{id: uint64(i)}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			h.set(all[rapid.IntRange(0, len(all)-1).Draw(t, "which")], rapid.Int64Range(0, 9).Draw(t, "at"))
			var want []*timer
			for _, x := range all {
				if x.at != 0 {
					want = append(want, x)
				}
			}
			if len(h.heap) != len(want) {
				t.Fatalf("%d timers, want %d", len(h.heap), len(want))
			}
			if len(want) == 0 {
				continue
			}
			first := slices.MinFunc(want, func(a, b *timer) int {
				if a.before(b) {
					return -1
				}
				return 1
			})
			if h.heap[0] != first {
				t.Fatalf("first is %d at %d, want %d at %d", h.heap[0].id, h.heap[0].at, first.id, first.at)
			}
		}
	})
}
