package session

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// fakeGroup keeps what was submitted, decoded.
type fakeGroup struct {
	mu       sync.Mutex
	commands []entry.Command
	err      error
	later    int // calls of SubmitLater
	arrived  chan struct{}
}

func (f *fakeGroup) Submit(b []byte, n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	b = append([]byte(nil), b...)
	for range n {
		cmd, rest, err := entry.Next(b)
		if err != nil {
			return err
		}
		f.commands, b = append(f.commands, cmd), rest
	}
	if f.arrived != nil {
		f.arrived <- struct{}{}
	}
	return nil
}

func (f *fakeGroup) SubmitLater(b []byte, n int) error { f.later++; return f.Submit(b, n) }

func (f *fakeGroup) last() entry.Command {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commands[len(f.commands)-1]
}

func (f *fakeGroup) Content(loc message.Loc, _ uint32) ([]byte, error) {
	return []byte{byte(loc.Offset())}, nil
}

type fakeEndpoint struct {
	events []Event
	closed *Error
	ending bool
}

func (f *fakeEndpoint) Events(e []Event) { f.events = append(f.events, e...) }
func (f *fakeEndpoint) Closed(e *Error)  { f.closed = e }
func (f *fakeEndpoint) Ending() bool     { return f.ending }

func newBroker(f *fakeGroup) *Broker {
	b := New(Options{
		Node: 7, Submit: map[uint64]Submitter{1: f}, Contents: map[uint64]Contents{1: f},
		VhostHome: func(v string) (Home, bool) { return Home{Group: 1}, v == "/" },
	})
	b.Registered(1, 1)
	return b
}

func attach(t *testing.T, b *Broker, f *fakeGroup, e Endpoint, id uint64) *Session {
	t.Helper()
	f.arrived = make(chan struct{}, 1)
	type answer struct {
		s   *Session
		err error
	}
	got := make(chan answer, 1)
	go func() {
		s, err := b.Attach(t.Context(), Attach{Vhost: "/", User: "u", Connection: "c"}, e)
		got <- answer{s, err}
	}()
	<-f.arrived
	f.arrived = nil
	request := f.last().(*entry.Attach).Request
	b.Dispatch(1, &core.Effects{List: []Event{{Kind: core.EffectAttached, Session: id, Epoch: 3, Node: 7, Request: request}}})
	a := <-got
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a.s
}

func TestAttachIsAnsweredOnceApplied(t *testing.T) {
	f := &fakeGroup{}
	b := newBroker(f)
	s := attach(t, b, f, &fakeEndpoint{}, 11)
	if s.ID() != 11 || s.Epoch() != 3 {
		t.Fatalf("attached as %d epoch %d", s.ID(), s.Epoch())
	}
}

func TestAttachOfAnotherNodeIsNotOurs(t *testing.T) {
	f := &fakeGroup{arrived: make(chan struct{}, 1)}
	b := newBroker(f)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.Attach(ctx, Attach{Vhost: "/"}, &fakeEndpoint{})
		done <- err
	}()
	<-f.arrived
	b.Dispatch(1, &core.Effects{List: []Event{{Kind: core.EffectAttached, Session: 5, Node: 8, Request: 1}}})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestAbandonedAttachIsEnded(t *testing.T) {
	f := &fakeGroup{arrived: make(chan struct{}, 1)}
	b := newBroker(f)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.Attach(ctx, Attach{Vhost: "/"}, &fakeEndpoint{})
		done <- err
	}()
	<-f.arrived
	cancel()
	<-done
	b.Dispatch(1, &core.Effects{List: []Event{{Kind: core.EffectAttached, Session: 5, Epoch: 2, Node: 7, Request: 1}}})
	<-f.arrived
	if lost, ok := f.last().(*entry.Detach); !ok || lost.Session != 5 || lost.Epoch != 2 {
		t.Fatalf("got %#v", f.last())
	}
}

func TestAttachRefusals(t *testing.T) {
	f := &fakeGroup{}
	b := newBroker(f)
	var refusal *Error
	if _, err := b.Attach(t.Context(), Attach{Vhost: "nope"}, nil); !errors.As(err, &refusal) || refusal.Code != core.CodeNotAllowed || refusal.Text != "vhost nope not found" {
		t.Fatalf("got %v", err)
	}
	b.Unregistered(1, "no leader")
	if _, err := b.Attach(t.Context(), Attach{Vhost: "/"}, nil); !errors.As(err, &refusal) || refusal.Code != core.CodeConnectionForced || refusal.Text != "no leader" {
		t.Fatalf("got %v", err)
	}
}

func TestEventsComeInOrderToTheirSession(t *testing.T) {
	f := &fakeGroup{}
	b := newBroker(f)
	one, two := &fakeEndpoint{}, &fakeEndpoint{}
	attach(t, b, f, one, 1)
	attach(t, b, f, two, 2)
	for range 2 { // the second time with reused slices
		one.events, two.events = nil, nil
		var list []Event
		for i := range uint64(10) {
			list = append(list, Event{Kind: core.EffectDelivered, Session: 1 + i%2, Tag: i}, Event{Kind: core.EffectDelivered, Session: 99, Tag: i})
		}
		b.Dispatch(1, &core.Effects{List: list})
		for i, e := range one.events {
			if e.Tag != uint64(2*i) {
				t.Fatalf("event %d of session 1 has tag %d", i, e.Tag)
			}
		}
		if len(one.events) != 5 || len(two.events) != 5 || two.events[4].Tag != 9 {
			t.Fatalf("got %d and %d events", len(one.events), len(two.events))
		}
	}
}

func TestASessionIsAttachedWhileItsConnectionGoesOn(t *testing.T) {
	for name, end := range map[string]func(f *fakeGroup, b *Broker, s *Session, e *fakeEndpoint){
		"its client is told to go":         func(_ *fakeGroup, _ *Broker, _ *Session, e *fakeEndpoint) { e.ending = true },
		"it is lost":                       func(_ *fakeGroup, _ *Broker, s *Session, _ *fakeEndpoint) { s.Detach() },
		"the node is no longer registered": func(_ *fakeGroup, b *Broker, _ *Session, _ *fakeEndpoint) { b.Unregistered(1, "no leader") },
		"the node takes nothing for it": func(f *fakeGroup, _ *Broker, s *Session, _ *fakeEndpoint) {
			f.err = errors.New("the disk is full")
			s.Do(&entry.ChannelOpen{Ref: entry.Ref{Channel: 1}})
			_ = s.Flush()
		},
	} {
		f := &fakeGroup{}
		b, e := newBroker(f), &fakeEndpoint{}
		s := attach(t, b, f, e, 5)
		if !b.Attached(1, 5) || b.Attached(1, 6) || b.Attached(2, 5) {
			t.Fatal("not session 5 of group 1 alone")
		}
		if end(f, b, s, e); b.Attached(1, 5) {
			t.Errorf("once %s it counts as attached", name)
		}
	}
}

func TestUnregisteredClosesSessionsAndAttempts(t *testing.T) {
	f := &fakeGroup{}
	b := newBroker(f)
	e := &fakeEndpoint{}
	s := attach(t, b, f, e, 1)
	f.arrived = make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() {
		_, err := b.Attach(t.Context(), Attach{Vhost: "/"}, &fakeEndpoint{})
		done <- err
	}()
	<-f.arrived
	b.Unregistered(1, "node is down")
	if err := <-done; err == nil || e.closed == nil || e.closed.Text != "node is down" || e.closed.Code != core.CodeConnectionForced {
		t.Fatalf("attempt %v, session %v", err, e.closed)
	}
	before := len(f.commands)
	s.Detach()
	if len(f.commands) != before {
		t.Fatal("a session that the broker closed sent its own end")
	}
}

func TestDetachedEventClosesAfterWhatCameBefore(t *testing.T) {
	f := &fakeGroup{}
	b := newBroker(f)
	e := &fakeEndpoint{}
	attach(t, b, f, e, 1)
	b.Dispatch(1, &core.Effects{List: []Event{
		{Kind: core.EffectDelivered, Session: 1}, {Kind: core.EffectDetached, Session: 1, Text: "session taken over"}, {Kind: core.EffectDelivered, Session: 1},
	}})
	if len(e.events) != 1 || e.closed == nil || e.closed.Text != "session taken over" {
		t.Fatalf("%d events, closed %v", len(e.events), e.closed)
	}
}

func TestCommandsCarryTheirAttachment(t *testing.T) {
	f := &fakeGroup{}
	b := newBroker(f)
	s := attach(t, b, f, &fakeEndpoint{}, 9)
	rec := message.Record{Form: message.FormAMQP091, Exchange: []byte("x"), RoutingKey: []byte("k"), Properties: []byte{0, 0}, BodySize: 4, Body: []byte("body")}
	s.Do(&entry.Qos{Ref: entry.Ref{Channel: 2}, Prefetch: 5})
	s.Publish(3, true, false, &rec)
	s.Settle(4, entry.Released, true, 0, 17)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	got := f.commands[len(f.commands)-3:]
	if q := got[0].(*entry.Qos); q.Session != 9 || q.Epoch != 3 || q.Channel != 2 || q.Prefetch != 5 {
		t.Fatalf("%+v", q)
	}
	var back message.Record
	p := got[1].(*entry.Publish)
	if err := message.ParseRecord(p.Record, &back); err != nil || p.Channel != 3 || !p.Mandatory || string(back.Body) != "body" || string(back.RoutingKey) != "k" {
		t.Fatalf("%+v %+v %v", p, back, err)
	}
	if x := got[2].(*entry.Settle); x.Channel != 4 || x.Outcome != entry.Released || !x.Multiple || x.Last != 17 {
		t.Fatalf("%+v", x)
	}
	f.err = errors.New("gone")
	s.Publish(3, true, false, &rec)
	if err := s.Flush(); err == nil {
		t.Fatal("a failed hand-over was not told")
	}
}

func TestAClientIsToldThatTheGroupTakesNothing(t *testing.T) {
	f, e := &fakeGroup{}, &fakeEndpoint{}
	b := newBroker(f)
	s := attach(t, b, f, e, 9)
	f.err = errors.New("the disk is full")
	s.Do(&entry.Qos{})
	_ = s.Flush()
	if e.closed == nil || e.closed.Code != core.CodeConnectionForced || e.closed.Text != "node takes nothing for the vhost: the disk is full" {
		t.Fatalf("closed with %v", e.closed)
	}
	e.closed = nil
	_ = s.Flush()
	b.Unregistered(1, "node is down")
	if e.closed != nil {
		t.Errorf("closed again with %v", e.closed)
	}
}

func TestEndOfASessionIsToldOnceTheGroupTakesItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeGroup{}
		b := newBroker(f)
		s := attach(t, b, f, &fakeEndpoint{}, 9)
		f.err = errors.New("the disk is full")
		s.Do(&entry.Qos{})
		_ = s.Flush()
		s.Detach()
		time.Sleep(3 * insistEvery) // on the test's own clock
		f.mu.Lock()
		f.err = nil
		f.mu.Unlock()
		time.Sleep(2 * insistEvery)
		synctest.Wait()
		if d, ok := f.last().(*entry.Detach); !ok || d.Session != 9 || d.Epoch != 3 {
			t.Fatalf("got %#v", f.last())
		}
	})
}

func TestEndOfASessionIsNotToldUnderAnotherRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeGroup{}
		b := newBroker(f)
		s := attach(t, b, f, &fakeEndpoint{}, 9)
		before := len(f.commands)
		f.err = errors.New("the disk is full")
		s.Detach()
		b.Unregistered(1, "node is down")
		b.Registered(1, 2)
		time.Sleep(3 * insistEvery)
		f.mu.Lock()
		f.err = nil
		f.mu.Unlock()
		time.Sleep(3 * insistEvery)
		synctest.Wait()
		if len(f.commands) != before {
			t.Fatalf("got %#v", f.last())
		}
	})
}

func TestPublishAllocatesNothing(t *testing.T) {
	f := discard{}
	s := &Session{group: &group{submitter: f}}
	rec := message.Record{Form: message.FormAMQP091, RoutingKey: []byte("k"), Properties: []byte{0, 0}, BodySize: 4, Body: []byte("body")}
	if n := testing.AllocsPerRun(1000, func() { s.Publish(1, false, false, &rec); s.Settle(1, entry.Accepted, false, 1, 1); _ = s.Flush() }); n > 0 {
		t.Fatalf("%v allocations per message", n)
	}
}

type discard struct{}

func (discard) Submit([]byte, int) error { return nil }

func (discard) SubmitLater([]byte, int) error { return nil }
