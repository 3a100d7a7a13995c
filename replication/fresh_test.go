package replication

import "testing"

func TestWhatANodeHasAppliedAgesWhileItHearsOfMore(t *testing.T) {
	var f freshness
	for i, c := range []struct {
		term, hears, applied uint64
		age                  uint64
	}{
		{1, 10, 9, 0},
		{1, 10, 10, 0},
		{1, 20, 12, 0}, // it has heard of 20 only just now
		{1, 30, 19, 1}, // of which it has not all
		{1, 30, 19, 2},
		{1, 40, 25, 0}, // 20 are applied: it is as old as this tick's look, and waits for 40 now
		{1, 50, 39, 1},
		{2, 39, 39, 0}, // a new leader, which has less
		{1, 99, 39, 0}, // a former one's word
		{2, 45, 45, 0},
		{2, 45, 45, 0}, // nothing comes, nothing ages
	} {
		f.hears(c.term, c.hears)
		f.tick(uint64(i+1), c.applied)
		if got := f.age(uint64(i + 1)); got != c.age {
			t.Errorf("step %d, %+v: age %d", i, c, got)
		}
	}
}
