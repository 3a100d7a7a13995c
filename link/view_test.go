package link

import (
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
	c.pass(time.Minute)
	if l := v.lag(1, 10); l.Entries != 0 || l.Seconds != 60 || l.ContactAge != 60 {
		t.Errorf("silent: %+v", l)
	}
	v.contact(1, 0, 10, c.now())
	if l := v.lag(1, 10); l.Seconds != 0 || l.ContactAge != 0 {
		t.Errorf("heard again: %+v", l)
	}
	if l := v.lag(2, 0); l.ContactAge >= 0 || l.CaughtUpAge >= 0 || l.Seconds != 60 {
		t.Errorf("a group that was never heard of, a minute after the start: %+v", l)
	}
}

func TestWhatMayBeMissingBeginsAtTheNewestMomentAtWhichNothingWas(t *testing.T) {
	v, c := newClockedView()
	v.contact(1, 0, 10, c.now())
	c.pass(2 * time.Second)
	v.contact(1, 0, 10, c.now())
	c.pass(time.Second)
	v.contact(1, 0, 12, c.now()) // 11 and 12 came between
	if l := v.lag(1, 11); l.CaughtUpAge != 1+hearsay.Seconds() {
		t.Errorf("at 11, when nothing beyond 10 was there a second ago: %+v", l)
	}
	if l := v.lag(1, 12); l.CaughtUpAge != hearsay.Seconds() {
		t.Errorf("at 12: %+v", l)
	}
}

func TestAnAnswerIsHearsayAndANodeThatLagsBehindAnotherDoesNotCount(t *testing.T) {
	v, c := newClockedView()
	v.contact(1, 0, 10, c.now())
	if l := v.lag(1, 10); l.CaughtUpAge != hearsay.Seconds() {
		t.Errorf("%+v", l)
	}
	v.contact(1, 1, 12, c.now())
	c.pass(time.Second)
	v.contact(1, 0, 10, c.now()) // older than what another node has told
	if l := v.lag(1, 10); l.CaughtUpAge != 1+hearsay.Seconds() {
		t.Errorf("a node that lags behind another counts: %+v", l)
	}
}

func TestSightingsAreBoundedAndKeepTheNewest(t *testing.T) {
	v, c := newClockedView()
	for i := range uint64(10 * sightingsMax) {
		c.pass(time.Millisecond)
		v.contact(1, 0, i+1, c.now())
	}
	g := v.group(1)
	if len(g.known) > sightingsMax || g.known[len(g.known)-1].index != 10*sightingsMax {
		t.Errorf("%d sightings, the newest of %d", len(g.known), g.known[len(g.known)-1].index)
	}
}
