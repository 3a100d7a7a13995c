package session

import (
	"errors"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session/auth"
)

// asked attaches with client properties, has the machine answer, and answers what it was asked.
func asked(t *testing.T, b *Broker, f *fakeGroup, e Endpoint, p message.Table, answer Event) (*Session, *entry.Attach, error) {
	t.Helper()
	f.arrived = make(chan struct{}, 1)
	type attached struct {
		s   *Session
		err error
	}
	got := make(chan attached, 1)
	go func() {
		s, err := b.Attach(t.Context(), Attach{Vhost: "/", User: "u", Connection: "c", Properties: p}, e)
		got <- attached{s, err}
	}()
	<-f.arrived
	f.arrived = nil
	cmd := f.last().(*entry.Attach)
	answer.Request, answer.Node = cmd.Request, 7
	b.Dispatch(1, &core.Effects{List: []Event{answer}})
	a := <-got
	return a.s, cmd, a.err
}

var attachedEvent = Event{Kind: core.EffectAttached, Session: 11, Epoch: 3, State: core.StateResumed, Name: "ADDRESS", Messages: 4, Count: 2}

func TestANamedAttachAsksForWhatTheClientSays(t *testing.T) {
	f := &fakeGroup{}
	b := newBroker(f)
	b.bounds.expiry, b.bounds.sessions = 100, 9
	s, cmd, err := asked(t, b, f, &fakeEndpoint{}, properties("x-session-id", "k", "x-session-expiry", "5000", "x-session-incarnation", "i",
		"x-session-inflight", "keep", "x-session-on-close", "keep", "x-session-expect", "resume", "x-session-numbers", "true"), attachedEvent)
	if err != nil {
		t.Fatal(err)
	}
	address := cmd.Address
	cmd.Request, cmd.Address = 0, ""
	want := entry.Attach{Vhost: "/", User: "u", Connection: "c", Key: "k", Process: "i", Expiry: 100, Expect: entry.ExpectResume, KeepInFlight: true,
		KeepOnClose: true, SessionsMax: 9}
	if *cmd != want || len(address) < 20 {
		t.Errorf("asked %+v, address %q", cmd, address)
	}
	granted := Grant{Named: true, State: core.StateResumed, Expiry: 100, KeepInFlight: true, KeepNumbers: true, Address: "ADDRESS", InFlight: 4, Released: 2}
	if s.Grant() != granted {
		t.Errorf("granted %+v", s.Grant())
	}
}

func TestAPlainAttachAsksForNothing(t *testing.T) {
	f := &fakeGroup{}
	s, cmd, err := asked(t, newBroker(f), f, &fakeEndpoint{}, properties("product", "x"), Event{Kind: core.EffectAttached, Session: 11})
	if err != nil || *cmd != (entry.Attach{Request: cmd.Request, Vhost: "/", User: "u", Connection: "c"}) || s.Grant() != (Grant{}) || s.dedup != nil {
		t.Errorf("asked %+v, granted %+v, %v", cmd, s.Grant(), err)
	}
}

func TestARefusalSaysWhetherItIsAboutANamedSession(t *testing.T) {
	refused := Event{Kind: core.EffectRefused, Command: entry.KindAttach, Code: core.CodeNotFound, Text: "no"}
	for id, named := range map[string]bool{"k": true, "": false} {
		f := &fakeGroup{}
		p := properties()
		if named {
			p = properties("x-session-id", id)
		}
		_, _, err := asked(t, newBroker(f), f, &fakeEndpoint{}, p, refused)
		var e *Error
		if !errors.As(err, &e) || e.Named != named || e.Code != core.CodeNotFound || e.Text != "no" {
			t.Errorf("named %t: %+v", named, err)
		}
	}
}

func TestABadRequestIsRefusedBeforeTheLog(t *testing.T) {
	f := &fakeGroup{}
	_, err := newBroker(f).Attach(t.Context(), Attach{Vhost: "/", Properties: properties("x-session-id", "")}, &fakeEndpoint{})
	var e *Error
	if !errors.As(err, &e) || !e.Named || e.Code != core.CodeNotAllowed || len(f.commands) != 0 {
		t.Errorf("%v, %d commands", err, len(f.commands))
	}
}

func TestAPolicyIsAskedByVhostUserAndName(t *testing.T) {
	f := &fakeGroup{}
	b := newBroker(f)
	b.policy = func(vhost, user, name string) core.SessionPolicy {
		return core.SessionPolicy{Session: "connection-name", Expiry: int64(len(vhost + user + name))}
	}
	_, cmd, err := asked(t, b, f, &fakeEndpoint{}, properties("connection_name", "billing"), attachedEvent)
	if err != nil || cmd.Key != "billing" || cmd.Expiry != 9 {
		t.Errorf("asked %+v, %v", cmd, err)
	}
}

func TestAnAnswerToACloseCountsOnceAndAfterATakeoverOnly(t *testing.T) {
	f, e := &fakeGroup{}, &fakeEndpoint{}
	b := newBroker(f)
	s, _, _ := asked(t, b, f, e, properties("x-session-id", "k"), attachedEvent)
	s.Answered()
	if _, told := f.last().(*entry.Answered); told {
		t.Error("told without a takeover")
	}
	b.Dispatch(1, &core.Effects{List: []Event{{Kind: core.EffectDetached, Command: entry.KindAttach, Session: 11, Epoch: 3, Text: "session taken over"}}})
	if e.closed == nil || e.closed.Code != core.CodeConnectionForced || e.closed.Text != "session taken over" {
		t.Fatalf("closed %+v", e.closed)
	}
	before := len(f.commands)
	s.Answered()
	s.Answered()
	s.Detach() // the session is another connection's
	if len(f.commands) != before+1 {
		t.Fatalf("%d commands more", len(f.commands)-before)
	}
	if x, ok := f.last().(*entry.Answered); !ok || x.Session != 11 || x.Epoch != 3 {
		t.Errorf("told %#v", f.last())
	}
}

func TestPublishesOfANamedSessionSayWhatTheyAreKnownBy(t *testing.T) {
	f := &fakeGroup{}
	s, _, _ := asked(t, newBroker(f), f, &fakeEndpoint{}, properties("x-session-id", "k"), attachedEvent)
	s.Publish(1, false, false, recorded(properties("x-dedup-id", "i", "x-pub-name", "p", "x-pub-seq", int64(7), "a", "b"), ""))
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	x := f.last().(*entry.Publish)
	var rec message.Record
	if err := message.ParseRecord(x.Record, &rec); err != nil {
		t.Fatal(err)
	}
	if string(x.DedupID) != "i" || string(x.Publisher) != "p" || x.Sequence != 7 || string(rec.Properties) != string(recorded(properties("a", "b"), "").Properties) {
		t.Errorf("published %+v, properties %q", x, rec.Properties)
	}
	s.Publish(1, false, false, recorded(properties("x-pub-seq", "none"), ""))
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if x, ok := f.last().(*entry.Refuse); !ok || x.Code != uint8(core.CodePreconditionFailed) || x.Command != entry.KindPublish {
		t.Errorf("a bad one became %#v", f.last())
	}
}

func TestTheBrokersOwnSessionsAreNotJudged(t *testing.T) {
	f := &fakeGroup{arrived: make(chan struct{}, 1)}
	b := newBroker(f)
	b.access = auth.NewRegistry() // which knows nobody
	done := make(chan error, 1)
	go func() {
		s, err := b.Attach(t.Context(), Attach{Vhost: "/", Own: true}, &fakeEndpoint{})
		if err == nil {
			s.release() // holds nothing
		}
		done <- err
	}()
	<-f.arrived
	b.Dispatch(1, &core.Effects{List: []Event{{Kind: core.EffectAttached, Session: 5, Node: 7, Request: 1}}})
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestNobodyElsePublishesToTheBrokersExchanges(t *testing.T) {
	s, f, _, _ := guarded(t, core.PermissionInfo{Configure: ".*", Write: ".*", Read: ".*"})
	for _, exchange := range []string{"amq.session", "amq.failover", "amq.qpid"} {
		s.Publish(1, false, false, &message.Record{Exchange: []byte(exchange), Properties: []byte{0, 0}})
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		if x, ok := f.last().(*entry.Refuse); !ok || x.Code != uint8(core.CodeAccessRefused) {
			t.Errorf("%s: %#v", exchange, f.last())
		}
	}
}
