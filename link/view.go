package link

import (
	"slices"
	"sync"
	"time"
)

// sighting is a moment at which something was so of a source's entry. All are of this node's clock: no other's counts.
type sighting struct {
	index uint64
	at    time.Time
}

const (
	// sightingsMax bounds what is remembered of one group; beyond it every second one goes.
	sightingsMax = 256
	// proofPause is how long nothing may be proven of a group before every source node is asked to: one is enough otherwise.
	proofPause = 500 * time.Millisecond
)

// view is what this node knows of the source: how far it is in each group, as answers to reads and beats told, and when.
type view struct {
	mu     sync.Mutex
	groups map[uint64]*groupView
	now    func() time.Time
	began  time.Time
}

type groupView struct {
	known     []sighting // entries beyond the position, and since when they are known to be there: ascending in both
	proofs    []sighting // entries beyond it, and when nothing beyond them was committed: ascending in both
	most      uint64     // the furthest entry heard of
	contact   time.Time  // when the newest answer was asked for
	proven    time.Time  // when the newest proof was asked for
	prover    int        // the address of the source node that is to prove what is committed
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
	g.contact = later(g.contact, asked)
	if s := g.byAddress[i]; index > s.index {
		g.byAddress[i] = sighting{index, now}
	}
	if index > g.most {
		g.most = index
		g.known = thinned(append(g.known, sighting{index, now}))
	}
}

// proof takes note that the source node at address i has proven, to a question asked at a moment, that nothing beyond the entry index
// was committed at that moment. When the answer came does not matter, nor what any other clock says.
func (v *view) proof(group uint64, i int, index uint64, asked time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	g := v.group(group)
	if v.now().Sub(g.proven) >= proofPause {
		g.prover = i
	}
	g.proven = later(g.proven, asked)
	// One that names no earlier entry and no later moment than another says nothing beside it.
	g.proofs = slices.DeleteFunc(g.proofs, func(p sighting) bool { return p.index >= index && !p.at.After(asked) })
	n := 0
	for n < len(g.proofs) && g.proofs[n].index <= index {
		n++
	}
	if n == 0 || g.proofs[n-1].at.Before(asked) {
		g.proofs = thinned(slices.Insert(g.proofs, n, sighting{index, asked}))
	}
}

// leads takes note that the source node at address i says that it leads the group.
func (v *view) leads(group uint64, i int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.group(group).prover = i
}

// toProve says whether the source node at address i is to prove what is committed: the leader is, or one that did when nobody else had for
// a while. All are where none has.
func (v *view) toProve(group uint64, i int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	g := v.group(group)
	return g.prover == i || v.now().Sub(g.proven) >= proofPause
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// thinned leaves every second one where there are too many, and the last.
func thinned(list []sighting) []sighting {
	if len(list) <= sightingsMax {
		return list
	}
	kept := list[:0]
	for i, s := range list {
		if i%2 == 1 || i == len(list)-1 {
			kept = append(kept, s)
		}
	}
	return kept
}

// settled takes note that the position has come to an entry.
func (v *view) settled(group, position uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.group(group).settle(position)
}

// settle drops what the position has reached.
func (g *groupView) settle(position uint64) {
	reached := func(s sighting) bool { return s.index <= position }
	for _, p := range g.proofs {
		if reached(p) {
			g.caughtUp = later(g.caughtUp, p.at)
		}
	}
	g.proofs = slices.DeleteFunc(g.proofs, reached)
	g.known = slices.DeleteFunc(g.known, reached)
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
	// Seconds is the age of the oldest entry of the source that is known and not applied here; where none is, but the source has for
	// a while not proven how far it is, for how long: since it did last, or since this node began to ask.
	Seconds float64
	// ContactAge is the time since the newest answer of the source was asked for; negative if there was none.
	ContactAge float64
	// CaughtUp is the newest moment that is known, by this node's clock, at which nothing was committed at the source that is not
	// applied here; zero if there is none.
	CaughtUp time.Time
}

// silence is for how long nothing may be proven before what is not known counts as lag.
const silence = 2 * time.Second

// lag answers how far the position lies behind.
func (v *view) lag(group, position uint64) Lag {
	v.mu.Lock()
	defer v.mu.Unlock()
	g := v.group(group)
	g.settle(position)
	l := Lag{ContactAge: -1, CaughtUp: g.caughtUp}
	if g.most > position {
		l.Entries = g.most - position
	}
	now := v.now()
	if len(g.known) > 0 {
		l.Seconds = now.Sub(g.known[0].at).Seconds()
	}
	if !g.contact.IsZero() {
		l.ContactAge = now.Sub(g.contact).Seconds()
	}
	if silent := now.Sub(later(v.began, g.proven)); silent > silence {
		l.Seconds = max(l.Seconds, silent.Seconds())
	}
	return l
}
