package link

import (
	"slices"
	"testing"
	"time"
)

// clock is a hand-set one.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func (c *clock) pass(d time.Duration) { c.at = c.at.Add(d) }

func newClockedView() (*view, *clock) {
	c := &clock{time.Unix(1_000_000, 0)}
	return newView(c.now), c
}

func TestLagIsTheAgeOfTheOldestEntryThatIsKnownAndMissing(t *testing.T) {
	v, c := newClockedView()
	v.contact(1, 0, 10, c.now())
	c.pass(time.Second)
	v.contact(1, 0, 15, c.now())
	c.pass(500 * time.Millisecond)
	if l := v.lag(1, 8); l.Entries != 7 || l.Seconds != 1.5 {
		t.Errorf("behind both: %+v", l)
	}
	if l := v.lag(1, 12); l.Entries != 3 || l.Seconds != 0.5 {
		t.Errorf("behind one: %+v", l)
	}
	if l := v.lag(1, 15); l.Entries != 0 || l.Seconds != 0 || l.ContactAge != 0.5 {
		t.Errorf("behind none: %+v", l)
	}
}

func TestASilentSourceIsNoSourceThatHasNothingNew(t *testing.T) {
	v, c := newClockedView()
	v.contact(1, 0, 10, c.now())
	v.proof(1, 0, 10, c.now())
	c.pass(time.Minute)
	if l := v.lag(1, 10); l.Entries != 0 || l.Seconds != 60 || l.ContactAge != 60 {
		t.Errorf("silent: %+v", l)
	}
	v.contact(1, 0, 10, c.now())
	if l := v.lag(1, 10); l.Seconds != 60 || l.ContactAge != 0 {
		t.Errorf("it answers, and proves nothing: %+v", l)
	}
	v.proof(1, 0, 10, c.now())
	if l := v.lag(1, 10); l.Seconds != 0 || l.ContactAge != 0 {
		t.Errorf("heard again: %+v", l)
	}
	if l := v.lag(2, 0); l.ContactAge >= 0 || !l.CaughtUp.IsZero() || l.Seconds != 60 {
		t.Errorf("a group that was never heard of, a minute after the start: %+v", l)
	}
}

// caughtUp is how many seconds after the clock's origin nothing beyond the position was committed, by the view.
func caughtUp(v *view, position uint64) float64 {
	return v.lag(1, position).CaughtUp.Sub(time.Unix(1_000_000, 0)).Seconds()
}

func TestWhatMayBeMissingBeginsAtTheNewestMomentAtWhichNothingWas(t *testing.T) {
	v, c := newClockedView()
	c.pass(time.Second)
	v.proof(1, 0, 10, c.now())
	c.pass(time.Second)
	v.proof(1, 0, 10, c.now())
	c.pass(time.Second)
	v.proof(1, 0, 12, c.now()) // 11 and 12 came between
	if got := caughtUp(v, 11); got != 2 {
		t.Errorf("at 11, when nothing beyond 10 was there: %v", got)
	}
	if got := caughtUp(v, 12); got != 3 {
		t.Errorf("at 12: %v", got)
	}
}

func TestAnAnswerWithoutAProofMovesNoBound(t *testing.T) {
	v, c := newClockedView()
	c.pass(time.Second)
	v.proof(1, 0, 10, c.now())
	c.pass(time.Second)
	v.contact(1, 0, 10, c.now())
	v.contact(1, 1, 12, c.now())
	if got := caughtUp(v, 12); got != 1 {
		t.Errorf("%v", got)
	}
}

func TestProofsCountByWhatWasAskedWheneverTheyCome(t *testing.T) {
	v, c := newClockedView()
	c.pass(10 * time.Second)
	began := time.Unix(1_000_000, 0)
	for _, p := range []struct{ index, second uint64 }{
		{12, 5}, {10, 3}, // an answer that was held up
		{20, 4},          // one to an early question whose round came late: says less than the first
		{11, 4}, {30, 8}, // another node's
		{30, 7},
	} {
		v.proof(1, 0, p.index, began.Add(time.Duration(p.second)*time.Second))
	}
	if n := len(v.group(1).proofs); n != 4 {
		t.Errorf("%d proofs are kept: %+v", n, v.group(1).proofs)
	}
	for _, want := range []struct {
		position uint64
		second   float64
	}{{10, 3}, {11, 4}, {29, 5}, {30, 8}} {
		if got := caughtUp(v, want.position); got != want.second {
			t.Errorf("at %d: %v, want %v", want.position, got, want.second)
		}
	}
}

func TestTheLeaderProvesAndAllAreAskedToWhereNoneHas(t *testing.T) {
	v, c := newClockedView()
	asked := func() (list []int) {
		for i := range 3 {
			if v.toProve(1, i) {
				list = append(list, i)
			}
		}
		return list
	}
	if got := asked(); len(got) != 3 {
		t.Errorf("at first %v are asked", got)
	}
	v.proof(1, 1, 10, c.now())
	v.proof(1, 0, 10, c.now()) // who was asked too
	if got := asked(); !slices.Equal(got, []int{1}) {
		t.Errorf("%v are asked, 1 has proven", got)
	}
	v.leads(1, 2)
	if got := asked(); !slices.Equal(got, []int{2}) {
		t.Errorf("%v are asked, 2 leads", got)
	}
	c.pass(proofPause)
	if got := asked(); len(got) != 3 {
		t.Errorf("%v are asked, none has proven for a while", got)
	}
}

func TestSightingsAreBoundedAndKeepTheNewest(t *testing.T) {
	v, c := newClockedView()
	for i := range uint64(10 * sightingsMax) {
		c.pass(time.Millisecond)
		v.contact(1, 0, i+1, c.now())
		v.proof(1, 0, i+1, c.now())
	}
	g := v.group(1)
	for _, list := range [][]sighting{g.known, g.proofs} {
		if n := len(list); n > sightingsMax || list[n-1].index != 10*sightingsMax {
			t.Errorf("%d sightings, the newest of %d", n, list[n-1].index)
		}
	}
}
