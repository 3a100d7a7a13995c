package link

import (
	"sync"
	"time"
)

// sighting is a source's entry that is known to be there.
type sighting struct {
	index uint64
	at    time.Time // since when
	// asOf is the newest moment at which nothing beyond it was committed.
	asOf time.Time
}

// sightingsMax bounds what is remembered of one group; beyond it every second one goes.
const sightingsMax = 256

// hearsay is how much older than the question an answer may be: what is committed comes to a node a little later than to others, and a
// busy leader too may have applied less than a follower has confirmed to a client.
const hearsay = time.Second

// view is what this node knows of the source: how far it is in each group, as answers to reads and beats told, and when.
type view struct {
	mu     sync.Mutex
	groups map[uint64]*groupView
	now    func() time.Time
	began  time.Time
}

type groupView struct {
	known     []sighting // ascending in both; those at or below the position are dropped
	most      uint64     // the furthest entry heard of
	contact   time.Time  // when the newest answer was asked for
	caughtUp  time.Time  // the newest moment at which nothing beyond the position was committed, zero if none is known
	byAddress map[int]sighting
}

func newView(now func() time.Time) *view {
	return &view{groups: map[uint64]*groupView{}, now: now, began: now()}
}

func (v *view) group(id uint64) *groupView {
	g := v.groups[id]
	if g == nil {
		g = &groupView{byAddress: map[int]sighting{}}
		v.groups[id] = g
	}
	return g
}

// contact takes note of an answer of the source node at address i, asked for at a moment: it has applied the entry index.
func (v *view) contact(group uint64, i int, index uint64, asked time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	g, now := v.group(group), v.now()
	if asked.After(g.contact) {
		g.contact = asked
	}
	if s := g.byAddress[i]; index > s.index {
		g.byAddress[i] = sighting{index: index, at: now}
	}
	asOf := asked.Add(-hearsay)
	switch {
	case index < g.most: // older than what is known
		return
	case index > g.most:
		g.most = index
		g.known = append(g.known, sighting{index, now, asOf})
		g.thin()
	case len(g.known) == 0:
		g.caughtUp = later(g.caughtUp, asOf)
	default:
		last := &g.known[len(g.known)-1]
		last.asOf = later(last.asOf, asOf)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (g *groupView) thin() {
	if len(g.known) <= sightingsMax {
		return
	}
	kept := g.known[:0]
	for i, s := range g.known {
		if i%2 == 1 || i == len(g.known)-1 {
			kept = append(kept, s)
		}
	}
	g.known = kept
}

// settle drops what the position has reached.
func (g *groupView) settle(position uint64) {
	n := 0
	for n < len(g.known) && g.known[n].index <= position {
		g.caughtUp = later(g.caughtUp, g.known[n].asOf)
		n++
	}
	g.known = g.known[n:]
}

// behindFor is how long the oldest entry beyond the position has been known, 0 if none is.
func (v *view) behindFor(group, position uint64) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	g := v.group(group)
	g.settle(position)
	if len(g.known) == 0 {
		return 0
	}
	return max(v.now().Sub(g.known[0].at), 0)
}

// better names a source node that has been known to be beyond the position for a while, when the one at address i is not.
func (v *view) better(group uint64, i int, position uint64) (int, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	g := v.group(group)
	if g.byAddress[i].index > position {
		return 0, false
	}
	best, found := 0, false
	for at, s := range g.byAddress {
		if s.index > position && v.now().Sub(s.at) >= silentBefore && (!found || s.index > g.byAddress[best].index) {
			best, found = at, true
		}
	}
	return best, found
}

// Lag is how far a group lies behind its source, as this node knows it.
type Lag struct {
	Entries uint64
	// Seconds is the age of the oldest entry of the source that is known and not applied here; where nothing is known to be
	// missing but the source is silent, how long it has been: since its last word, or since this node began to ask.
	Seconds float64
	// ContactAge is the time since the newest answer of the source was asked for; negative if there was none.
	ContactAge float64
	// CaughtUpAge is the time since a moment at which nothing was committed at the source that is not applied here; negative
	// if there is none that can be told.
	CaughtUpAge float64
}

// silence is how old a contact may be before what is not known counts as lag.
const silence = 2 * time.Second

// lag answers how far the position lies behind.
func (v *view) lag(group, position uint64) Lag {
	v.mu.Lock()
	defer v.mu.Unlock()
	g := v.group(group)
	g.settle(position)
	l := Lag{ContactAge: -1, CaughtUpAge: -1}
	if g.most > position {
		l.Entries = g.most - position
	}
	now := v.now()
	if len(g.known) > 0 {
		l.Seconds = now.Sub(g.known[0].at).Seconds()
	}
	if !g.caughtUp.IsZero() {
		l.CaughtUpAge = now.Sub(g.caughtUp).Seconds()
	}
	heard := v.began
	if !g.contact.IsZero() {
		heard = g.contact
		l.ContactAge = now.Sub(heard).Seconds()
	}
	if silent := now.Sub(heard); silent > silence {
		l.Seconds = max(l.Seconds, silent.Seconds())
	}
	return l
}
