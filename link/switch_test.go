package link

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/wire"
)

// handsOver is a source that a standby asks to drain and to be fenced.
type handsOver struct {
	mu      sync.Mutex
	drain   func(wire.Drain) // called for each drain that is asked for
	drains  []wire.Drain     // cancellations
	fences  []wire.Fence     // that were delivered
	refuses int              // so many of them
	fenced  wire.FenceAnswer // what the rest are answered
	server  *httptest.Server
}

func newHandsOver(t *testing.T, drain func(wire.Drain)) *handsOver {
	s := &handsOver{drain: drain, fenced: wire.FenceAnswer{Fenced: true}}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

func (s *handsOver) address() string { return strings.TrimPrefix(s.server.URL, "http://") }

func (s *handsOver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case wire.PathDrain:
		var d wire.Drain
		if err := wire.ReadJSON(r.Body, &d); err != nil {
			wire.WriteJSON(w, http.StatusBadRequest, wire.Refusal{Reason: err.Error()})
			return
		}
		if d.Cancelled {
			s.drains = append(s.drains, d)
			if s.refuses > 0 {
				s.refuses--
				wire.WriteJSON(w, http.StatusServiceUnavailable, wire.Refusal{Reason: "no majority"})
				return
			}
		}
		s.drain(d)
		wire.WriteJSON(w, http.StatusOK, wire.DrainAnswer{State: "draining"})
	case wire.PathFence:
		var f wire.Fence
		if err := wire.ReadJSON(r.Body, &f); err != nil {
			wire.WriteJSON(w, http.StatusBadRequest, wire.Refusal{Reason: err.Error()})
			return
		}
		s.fences = append(s.fences, f)
		if s.refuses > 0 {
			s.refuses--
			wire.WriteJSON(w, http.StatusServiceUnavailable, wire.Refusal{Reason: "no majority"})
			return
		}
		wire.WriteJSON(w, http.StatusOK, s.fenced)
	}
}

// change changes a group of the assembly.
func (a *assembly) change(group uint64, how func(*Standing)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.groups[group]
	how(&s)
	a.groups[group] = s
}

// conductors runs those of three nodes, which reach the source at the addresses, and answers the first one's.
func conductors(t *testing.T, a *assembly, addresses ...string) (first *Conductor) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	for id := 1; id <= 3; id++ {
		c := NewConductor(member{a, id}, New(Options{Addresses: addresses, Logger: discard()}), discard())
		running.Go(func() { c.Run(ctx) })
		if id == 1 {
			first = c
		}
	}
	return first
}

// A switch is accepted, and then promotes, only when every group has the source's fence.
func TestASwitchPromotesOnlyWithEveryFence(t *testing.T) {
	a := newAssembly()
	last := make(chan string, 1)
	s := newHandsOver(t, func(d wire.Drain) {
		for g := range uint64(2) { // the third comes later
			a.change(g, func(s *Standing) { s.Fence = d.Switch })
		}
		select {
		case last <- d.Switch:
		default:
		}
	})
	c := conductors(t, a, s.address())
	answer := make(chan error, 1)
	go func() { answer <- c.Switchover(bounded(t), time.Second) }()
	id := <-last
	eventually(t, "the source was asked again", func() bool { return len(last) > 0 })
	if first := (member{a, 1}).Standing(0); first.Accepted || first.Role != Standby {
		t.Fatalf("with a fence missing: %+v", first)
	}
	a.change(2, func(s *Standing) { s.Fence = id })
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
	first := (member{a, 1}).Standing(0)
	if !a.whole() || !first.Accepted || first.Switch != id {
		t.Errorf("promoted %v, system group %+v", a.promoted, first)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if want := []entry.Kind{entry.KindLinkAccept, entry.KindLinkPromote}; !slices.Equal(a.log, want) {
		t.Errorf("the system group's entries are of kinds %v, want %v", a.log, want)
	}
}

// A switch that does not come about is recorded as cancelled before the source hears of it: there are never two primaries.
func TestASwitchIsTakenBackOnlyOnceTheStandbyHasCancelledIt(t *testing.T) {
	a := newAssembly()
	ctx, cancel := context.WithCancel(bounded(t))
	early := false
	s := newHandsOver(t, func(d wire.Drain) {
		if d.Cancelled {
			early = early || !(member{a, 1}).Standing(0).Cancelled
			return
		}
		a.change(0, func(s *Standing) { s.Fence = d.Switch })
		cancel()
	})
	c := conductors(t, a, s.address())
	if err := c.Switchover(ctx, time.Second); !errors.Is(err, ErrCancelled) {
		t.Errorf("answered %v", err)
	}
	first := (member{a, 1}).Standing(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if early || len(s.drains) == 0 || !first.Cancelled || first.Role != Standby {
		t.Fatalf("told before it was recorded: %v; told %d times; %+v", early, len(s.drains), first)
	}
	// What is fenced late changes nothing any more.
	for g := range uint64(3) {
		a.change(g, func(s *Standing) { s.Fence = first.Switch })
	}
	for id := 1; id <= 3; id++ {
		NewConductor(member{a, id}, c.link, discard()).duties()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.asked, entry.KindLinkAccept) || slices.Contains(a.asked, entry.KindLinkPromote) {
		t.Errorf("a switch that was cancelled goes on: %v", a.asked)
	}
}

// A source that is lost cannot hand over: that is said soon, with what to do instead.
func TestASwitchIsGivenUpWhereNoSourceNodeAnswers(t *testing.T) {
	a := newAssembly()
	s := newHandsOver(t, nil)
	s.server.Close()
	c := NewConductor(member{a, 1}, New(Options{Addresses: []string{s.address()}, Logger: discard()}), discard())
	begun := time.Now()
	c.now = func() time.Time { return begun.Add(50 * time.Since(begun)) }
	err := c.Switchover(bounded(t), time.Second)
	if !errors.Is(err, ErrCancelled) || !strings.Contains(err.Error(), "promote this standby") || !strings.Contains(err.Error(), "no answer from") {
		t.Errorf("answered %v", err)
	}
	if first := (member{a, 1}).Standing(0); !first.Cancelled || first.Role != Standby {
		t.Errorf("%+v", first)
	}
}

// Its fence would stay for ever.
func TestASourceThatCouldNotBeToldOfACancelledSwitchIsToldLater(t *testing.T) {
	a := newAssembly()
	ctx, cancel := context.WithCancel(bounded(t))
	taken := make(chan struct{})
	s := newHandsOver(t, func(d wire.Drain) {
		if d.Cancelled {
			close(taken)
		} else {
			cancel()
		}
	})
	s.refuses = 2
	if err := conductors(t, a, s.address()).Switchover(ctx, time.Second); !errors.Is(err, ErrCancelled) || !strings.Contains(err.Error(), "no majority") {
		t.Errorf("answered %v", err)
	}
	select {
	case <-taken: // a second time would panic
	case <-time.After(patience):
		t.Fatal("the source was never told")
	}
}

// A second switch is asked for, and given up too, before the source could be told that the first one is cancelled. Only one is on record.
func TestASourceIsToldOfEachCancelledSwitchThoughAnotherCameBetween(t *testing.T) {
	a := newAssembly()
	asked, taken := make(chan string, 100), make(chan string, 100)
	s := newHandsOver(t, func(d wire.Drain) {
		if d.Cancelled {
			taken <- d.Switch
		} else {
			asked <- d.Switch
		}
	})
	s.refuses = 1 << 30
	c := conductors(t, a, s.address())
	var ids [2]string
	for i := range ids {
		ctx, giveUp := context.WithCancel(bounded(t))
		answer := make(chan error, 1)
		go func() { answer <- c.Switchover(ctx, time.Second) }()
		ids[i] = <-asked
		giveUp()
		if i == 1 {
			eventually(t, "the source is asked to take the first one back", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.drains) > 3 })
			if first := (member{a, 1}).Standing(0); !first.Cancelled || first.Switch != ids[0] {
				t.Errorf("the first one's record went before the source was told: %+v", first)
			}
			s.mu.Lock()
			s.refuses = 0
			s.mu.Unlock()
		}
		if err := <-answer; !errors.Is(err, ErrCancelled) {
			t.Errorf("switch %d: %v", i, err)
		}
		for len(asked) > 0 {
			<-asked
		}
	}
	told := map[string]bool{}
	for len(told) < 2 {
		select {
		case id := <-taken:
			told[id] = true
		case <-time.After(patience):
			t.Fatalf("the source was told of %v, not of each of %v", told, ids)
		}
	}
}

// Nothing has to be recorded of a switch of which the source has never said anything; that an earlier one was cancelled stays on record.
func TestASwitchThatNoSourceNodeHasHeardOfLeavesTheRecordOfACancelledOne(t *testing.T) {
	a := newAssembly()
	a.change(0, func(s *Standing) { s.Switch, s.Cancelled = "before", true })
	s := newHandsOver(t, nil)
	s.server.Close()
	c := NewConductor(member{a, 1}, New(Options{Addresses: []string{s.address()}, Logger: discard()}), discard())
	begun := time.Now()
	c.now = func() time.Time { return begun.Add(50 * time.Since(begun)) }
	if err := c.Switchover(bounded(t), time.Second); err == nil || errors.Is(err, ErrCancelled) || !strings.Contains(err.Error(), "promote this standby") {
		t.Errorf("answered %v", err)
	}
	if first := (member{a, 1}).Standing(0); first.Switch != "before" || !first.Cancelled {
		t.Errorf("%+v", first)
	}
	for g := range uint64(3) { // it is cancelled once every group of the source has taken the other one back
		c.cancelGiven((member{a, 1}).Standing(0))
		if first := (member{a, 1}).Standing(0); first.Switch != "before" {
			t.Errorf("with %d groups of 3: %+v", g, first)
		}
		a.change(g, func(s *Standing) { s.Undone = "before" })
	}
	c.cancelGiven((member{a, 1}).Standing(0))
	if first := (member{a, 1}).Standing(0); first.Switch == "before" || !first.Cancelled {
		t.Errorf("in the end: %+v", first)
	}
	if c.cancelGiven((member{a, 1}).Standing(0)); len(c.given) != 0 {
		t.Errorf("still to be cancelled: %v", c.given)
	}
}

func TestTheFenceIsDeliveredUntilTheFormerSourceTakesIt(t *testing.T) {
	a := newAssembly()
	s := newHandsOver(t, nil)
	s.refuses = 1
	c := conductors(t, a, s.address())
	if err := c.Promote(bounded(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the refusal shows", func() bool { return strings.Contains(c.Fences()[s.address()].Error, "no majority") })
	eventually(t, "the source is fenced", func() bool { return c.Fences()[s.address()].Fenced })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.fences {
		if f.Cluster != sourceID || f.Generation != (entry.Generation{Number: 1, Cluster: standbyID}) || len(f.Cuts) != 3 {
			t.Errorf("delivered %+v", f)
		}
		for _, cut := range f.Cuts {
			if cut.Index != 10+cut.Group || cut.Term != 2 {
				t.Errorf("group %d is cut at %+v", cut.Group, cut.Position)
			}
		}
	}
}

// Whose standby it is is known once a source node has said so; each group is attached by its leader.
func TestAStandbyIsAttachedOnceTheSourceHasSaidWhoItIs(t *testing.T) {
	a := newAssembly()
	for g := range a.groups {
		a.groups[g] = Standing{Role: Primary}
	}
	a.waits = true
	l := New(Options{Addresses: []string{"a:1", "b:1"}, Logger: discard()})
	duties := func() {
		for id := 1; id <= 3; id++ {
			NewConductor(member{a, id}, l, discard()).duties()
		}
	}
	duties()
	if len(a.attached) != 0 {
		t.Fatalf("attached to nobody: %+v", a.attached)
	}
	now := time.Now()
	l.sources[0] = SourceNode{Answered: now.Add(-time.Second), Cluster: "a former one"}
	l.sources[1] = SourceNode{Answered: now, Cluster: sourceID, Generation: entry.Generation{Number: 4}}
	duties()
	if len(a.attached) != 3 {
		t.Fatalf("attached %+v", a.attached)
	}
	for g, x := range a.attached {
		if x.Source != sourceID || x.Cluster != standbyID || x.Generation.Number != 4 {
			t.Errorf("group %d is attached as %+v", g, x)
		}
	}
}
