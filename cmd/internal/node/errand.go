package node

import (
	"context"
	"errors"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session"
)

// What an errand's session is called in listings, and its one channel.
const (
	errandName    = "admin API"
	errandChannel = 1
)

// errand is a session that carries out one command for a caller of the admin API, as an AMQP client's would.
type errand struct {
	answer chan *session.Error // nil: the command was carried out; buffered, the dispatcher never waits
}

// Events implements session.Endpoint.
func (e *errand) Events(events []session.Event) {
	for i := range events {
		switch x := &events[i]; {
		case x.Kind == core.EffectReply && x.Command != entry.KindChannelOpen:
			e.tell(nil)
		case x.Kind == core.EffectRefused:
			e.tell(&session.Error{Code: x.Code, Text: x.Text})
		}
	}
}

// Closed implements session.Endpoint.
func (e *errand) Closed(err *session.Error) { e.tell(err) }

// tell answers once; what comes after the first answer is of no interest.
func (e *errand) tell(err *session.Error) {
	select {
	case e.answer <- err:
	default:
	}
}

// run carries out a command on behalf of a user and answers once it is applied here. The command is made, or refused, on sight
// of a state that is at least as new as the call. Errors: NotFound, Forbidden, Unavailable, or what else the machine refuses.
func (n *Node) run(ctx context.Context, user, vhost string, command func() (entry.Addressed, error)) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	e := &errand{answer: make(chan *session.Error, 1)}
	s, err := n.broker.Attach(ctx, session.Attach{Vhost: vhost, User: user, Connection: errandName}, e)
	if err != nil {
		return refusal(err)
	}
	defer s.End()
	cmd, err := command()
	if err != nil {
		return err
	}
	s.Do(&entry.ChannelOpen{Ref: entry.Ref{Channel: errandChannel}})
	s.Do(cmd)
	if err := s.Flush(); err != nil {
		return admin.Unavailable{Err: err}
	}
	select {
	case err := <-e.answer:
		if err != nil {
			return refusal(err)
		}
		return nil
	case <-ctx.Done():
		return admin.Unavailable{Err: errors.New("no answer in time: the change may still come, look before trying again")}
	}
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
