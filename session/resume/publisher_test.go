package resume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// line is a channel that writes down what is published, and breaks after so many.
type line struct {
	sent  []string
	after int // 0 never
}

func (l *line) PublishWithContext(_ context.Context, _, key string, _, _ bool, msg amqp.Publishing) error {
	if l.after > 0 && len(l.sent) >= l.after {
		return amqp.ErrClosed
	}
	l.sent = append(l.sent, fmt.Sprintf("%s %v", key, msg.Headers[headerSeq]))
	return nil
}

func newPublisher(o Options) *Publisher {
	o.URLs = []string{"amqp://localhost"}
	if err := o.ensureDefaults(); err != nil {
		panic(err)
	}
	life, stop := context.WithCancel(context.Background())
	return &Publisher{s: &Session{o: o, ctx: life, stop: stop, up: make(chan struct{})}, name: "p", slots: make(chan struct{}, o.Outbox)}
}

func (p *Publisher) put(t *testing.T, keys ...string) (list []*Receipt) {
	t.Helper()
	for _, k := range keys {
		r, err := p.Publish(t.Context(), "", k, true, amqp.Publishing{Body: []byte(k)})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// on begins to use a channel, as attach does.
func (p *Publisher) on(l *line, how EventKind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(l, how)
}

func sent(t *testing.T, l *line, want ...string) {
	t.Helper()
	if !slices.Equal(l.sent, want) {
		t.Errorf("sent %q, want %q", l.sent, want)
	}
}

func TestPublisherSendsWhatIsUnconfirmedAgainInOrder(t *testing.T) {
	p := newPublisher(Options{})
	r := p.put(t, "a") // before there is a connection
	first := &line{after: 3}
	p.on(first, Attached)
	r = append(r, p.put(t, "b", "c", "d")...)
	sent(t, first, "a 1", "b 2", "c 3") // d finds it broken
	p.answered(first, true)             // too late: the channel is given up
	second := &line{}
	p.on(second, Resumed)
	r = append(r, p.put(t, "e")...)
	sent(t, second, "a 1", "b 2", "c 3", "d 4", "e 5")
	p.answered(first, true) // not of this channel
	for range 5 {
		p.answered(second, true)
	}
	for i, x := range r {
		select {
		case <-x.Done():
			if x.Err() != nil {
				t.Errorf("%d: %v", i, x.Err())
			}
		default:
			t.Errorf("%d has no answer", i)
		}
	}
	third := &line{}
	p.on(third, Resumed)
	sent(t, third)
}

func TestPublisherRepeatsWhatWasConfirmedAfterAPromotion(t *testing.T) {
	p := newPublisher(Options{})
	first := &line{}
	p.on(first, Attached)
	p.put(t, "a", "b", "c")
	p.answered(first, true)
	p.answered(first, true)
	p.recent[0].at = time.Now().Add(-time.Hour) // a is too old
	p.prune(time.Now())
	second := &line{}
	p.on(second, Promoted)
	sent(t, second, "b 2", "c 3")
	p.answered(second, false) // b's fate is known
	p.answered(second, true)
	if len(p.outbox) != 0 || len(p.slots) != 0 {
		t.Errorf("%d are unconfirmed, %d slots taken", len(p.outbox), len(p.slots))
	}
}

func TestPublisherRemembersWithinBounds(t *testing.T) {
	p := newPublisher(Options{ReplayBytes: 10})
	l := &line{}
	p.on(l, Attached)
	p.put(t, "aaaa", "bbbb", "cccc")
	for range 3 {
		p.answered(l, true)
	}
	if len(p.recent) != 2 || p.bytes != 8 {
		t.Errorf("%d are kept, of %d bytes", len(p.recent), p.bytes)
	}
	none := newPublisher(Options{Replay: -1})
	none.on(l, Attached)
	none.put(t, "a")
	none.answered(l, true)
	if len(none.recent) != 0 {
		t.Error("one is kept")
	}
}

func TestReceiptsTellWhatBecameOfAMessage(t *testing.T) {
	p := newPublisher(Options{})
	l := &line{}
	p.on(l, Attached)
	r := p.put(t, "fine", "full", "lost", "lost", "bad", "next")
	p.returned(l, &amqp.Return{RoutingKey: "lost", Body: []byte("lost")})
	p.answered(l, true)
	p.answered(l, false)
	p.answered(l, true)
	p.answered(l, true)
	fault := &amqp.Error{Code: amqp.NotFound, Reason: "no exchange", Server: true}
	if !p.failed(l, fault) {
		t.Fatal("the channel is not opened anew")
	}
	again := &line{}
	p.on(again, Resumed)
	sent(t, again, "next 6")
	p.answered(again, true)
	for i, want := range []error{nil, ErrNacked, ErrReturned, nil, fault, nil} {
		if err := r[i].Wait(t.Context()); !errors.Is(err, want) {
			t.Errorf("message %d: %v, want %v", i+1, err, want)
		}
	}
}

func TestPublishBlocksWhileTheOutboxIsFull(t *testing.T) {
	p := newPublisher(Options{Outbox: 2})
	p.put(t, "a", "b")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Publish(ctx, "", "c", false, amqp.Publishing{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	p.fail(ErrTakenOver)
	if _, err := p.Publish(t.Context(), "", "d", false, amqp.Publishing{}); !errors.Is(err, ErrTakenOver) {
		t.Errorf("got %v", err)
	}
}

func TestTheApplicationsHeadersAreLeftAlone(t *testing.T) {
	p := newPublisher(Options{})
	headers := amqp.Table{"a": 1}
	if _, err := p.Publish(t.Context(), "", "k", false, amqp.Publishing{Headers: headers}); err != nil || len(headers) != 1 {
		t.Errorf("%v %v", headers, err)
	}
}

func TestWhichErrorsEndASession(t *testing.T) {
	for _, c := range []struct {
		err error
		end bool
	}{
		{amqp.ErrClosed, false},
		{&amqp.Error{Code: amqp.FrameError, Reason: "EOF"}, false}, // the library's own for a lost connection
		{&amqp.Error{Code: amqp.ConnectionForced, Server: true}, false},
		{&amqp.Error{Code: amqp.InternalError, Server: true}, false},
		{&amqp.Error{Code: amqp.ResourceLocked, Server: true}, false}, // contended: it passes
		{&amqp.Error{Code: amqp.NotAllowed, Server: true}, true},
		{&amqp.Error{Code: amqp.AccessRefused, Server: true}, true},
		{fmt.Errorf("%w: why", ErrTakenOver), true},
		{ErrNoSessions, true},
	} {
		if got := fatal(c.err) != nil; got != c.end {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"URLs is empty":        {},
		"AMQP scheme must be":  {URLs: []string{"http://x"}},
		"Recovery must be nil": {URLs: []string{"amqp://x"}, Config: amqp.Config{Recovery: &amqp.Recovery{}}},
	} {
		if err := o.ensureDefaults(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
