package node

import (
	"context"
	"errors"
	"sync"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session"
)

// What the sessions of the admin API are called, and their one channel.
const (
	errandName    = "admin API"
	errandChannel = 1
)

// errand is a session on behalf of a caller of the admin API, by the rules for an AMQP client's.
type errand struct {
	*session.Session

	wake   chan struct{} // holds one: there is something
	mu     sync.Mutex
	heard  []session.Event
	closed *session.Error
}

var _ session.Endpoint = (*errand)(nil)

// Events implements session.Endpoint. It keeps little: a caller asks one thing after the other.
func (t *errand) Events(events []session.Event) {
	t.mu.Lock()
	t.heard = append(t.heard, events...)
	t.mu.Unlock()
	t.signal()
}

// Closed implements session.Endpoint.
func (t *errand) Closed(err *session.Error) {
	t.mu.Lock()
	t.closed = err
	t.mu.Unlock()
	t.signal()
}

// Ending implements session.Endpoint.
func (t *errand) Ending() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed != nil
}

func (t *errand) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// errand opens a session for a user, and its channel. The caller Ends it. Errors are those of refusal.
func (n *Node) errand(ctx context.Context, user, vhost string) (*errand, error) {
	t := &errand{wake: make(chan struct{}, 1)}
	return n.begin(ctx, t, session.Attach{Vhost: vhost, User: user, Connection: errandName})
}

// trusted is errand for what an administrator may have done in any vhost.
func (n *Node) trusted(ctx context.Context, user, vhost string) (*errand, error) {
	t := &errand{wake: make(chan struct{}, 1)}
	return n.begin(ctx, t, session.Attach{Vhost: vhost, User: user, Connection: errandName, Own: true})
}

func (n *Node) begin(ctx context.Context, t *errand, a session.Attach) (*errand, error) {
	if n.standsBy() {
		return nil, errChangesNothing
	}
	s, err := n.broker.Attach(ctx, a, t)
	if err != nil {
		return nil, refusal(err)
	}
	t.Session = s
	if _, err := t.do(ctx, &entry.ChannelOpen{Ref: onErrand()}); err != nil {
		s.End()
		return nil, err
	}
	return t, nil
}

// onErrand is the address of a command of an errand, but for its session.
func onErrand() entry.Ref { return entry.Ref{Channel: errandChannel} }

// do has a command carried out that is answered with one event.
func (t *errand) do(ctx context.Context, cmd entry.Addressed) (session.Event, error) {
	t.Do(cmd)
	return t.answer(ctx)
}

// answer hands on what was encoded, and waits for the next event.
func (t *errand) answer(ctx context.Context) (session.Event, error) {
	if err := t.Flush(); err != nil {
		return session.Event{}, admin.Unavailable{Err: err}
	}
	for {
		if e, err, ok := t.next(); ok {
			return e, err
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			return session.Event{}, admin.Unavailable{Err: errors.New("no answer in time: the change may still come, look before trying again")}
		}
	}
}

// next takes an event; a refusal is an error.
func (t *errand) next() (e session.Event, err error, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.heard) > 0:
		e = t.heard[0]
		t.heard = t.heard[1:]
		if e.Kind == core.EffectRefused {
			err = refusal(&session.Error{Code: e.Code, Text: e.Text})
		}
		return e, err, true
	case t.closed != nil:
		return e, refusal(t.closed), true
	}
	return e, nil, false
}

// run carries out a command on behalf of a user and answers once it is applied here. The command is made, or refused, on sight
// of a state that is at least as new as the call. Errors: NotFound, Forbidden, Unavailable, or what else the machine refuses.
func (n *Node) run(ctx context.Context, user, vhost string, command func() (entry.Addressed, error)) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	t, err := n.errand(ctx, user, vhost)
	if err != nil {
		return err
	}
	defer t.End()
	cmd, err := command()
	if err != nil {
		return err
	}
	_, err = t.do(ctx, cmd)
	return err
}

// refusal classes what a session was refused with.
func refusal(err error) error {
	var e *session.Error
	if !errors.As(err, &e) {
		return admin.Unavailable{Err: err}
	}
	switch e.Code {
	case core.CodeNotFound:
		return admin.NotFound{Err: e}
	case core.CodeAccessRefused, core.CodeNotAllowed:
		return admin.Forbidden{Err: e}
	case core.CodeConnectionForced, core.CodeInternalError:
		return admin.Unavailable{Err: e}
	}
	return e
}
