package resume

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Session is a named session of the broker's, and the connection that it has at the moment.
type Session struct {
	o           Options
	incarnation string
	ctx         context.Context // done when the session is over
	stop        context.CancelFunc
	over        chan struct{} // closed when run has returned

	mu         sync.Mutex
	link       *attachment   // nil while detached
	up         chan struct{} // closed while attached
	roles      []role        // by channel number
	hosts      []string      // that the broker told of
	address    string        // of the last attachment
	generation int64         // of the cluster then
	bare       bool          // Setup is due, and has not been through
	err        error
}

// role is a Publisher or a Consumer: what has a channel of its own.
type role interface {
	// attach begins to use a channel; channel errors come back as they are.
	attach(ch *amqp.Channel, how EventKind) error
	// detach says that the channel is lost.
	detach()
	// fail ends the role.
	fail(err error)
	channelNumber() uint16
	setChannelNumber(uint16)
}

// numbered is the channel number of a role, guarded by Session.mu.
type numbered struct{ number uint16 }

func (n *numbered) channelNumber() uint16     { return n.number }
func (n *numbered) setChannelNumber(k uint16) { n.number = k }

// Dial opens a session. It tries the addresses until one answers or ctx is done.
func Dial(ctx context.Context, o Options) (*Session, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.Background())
	s := &Session{o: o, incarnation: random(), ctx: life, stop: stop, over: make(chan struct{}), up: make(chan struct{})}
	a, err := s.connect(ctx)
	if err != nil {
		stop()
		return nil, fmt.Errorf("resume: dial: %w", err)
	}
	go s.run(a)
	return s, nil
}

// ID is the session's id.
func (s *Session) ID() string { return s.o.Session }

// Err answers why the session is over, nil while it is not.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// run keeps the session attached until it is over.
func (s *Session) run(a *attachment) {
	defer close(s.over)
	for {
		err := a.wait(s.ctx)
		s.detach(a)
		if s.Err() != nil { // closed by Close
			s.finish(nil)
			return
		}
		s.o.Events(Event{Kind: Lost, Address: a.address, Err: err})
		if err = fatal(err); err == nil {
			a, err = s.connect(s.ctx)
		}
		if err != nil {
			s.finish(err)
			return
		}
	}
}

// fatal answers err if no other connection can help.
func fatal(err error) error {
	var e *amqp.Error
	switch {
	case errors.Is(err, ErrTakenOver), errors.Is(err, ErrNoSessions):
		return err
	case errors.As(err, &e) && e.Server && e.Code != amqp.ConnectionForced && e.Code != amqp.InternalError && e.Code != amqp.ResourceLocked:
		return err
	}
	return nil
}

// detach tells everybody that the connection is lost.
func (s *Session) detach(a *attachment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != a {
		return
	}
	s.link, s.up = nil, make(chan struct{})
	for _, r := range s.roles {
		r.detach()
	}
	a.cut()
}

// finish ends the session.
func (s *Session) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	if s.err == nil {
		s.err = ErrClosed
	}
	s.stop()
	for _, r := range s.roles {
		r.fail(s.err)
	}
	s.roles = nil
}

// Close ends the session in good order, once what was published is confirmed; the broker forgets it. When ctx is done first
// the error says so, and the session ends all the same.
func (s *Session) Close(ctx context.Context) error {
	var waiting error
	for _, p := range s.publishers() {
		if err := p.drained(ctx); err != nil {
			waiting = err
		}
	}
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return s.err
	}
	s.err = ErrClosed
	a := s.link
	s.mu.Unlock()
	var err error
	if a != nil {
		err = a.conn.Close()
	}
	s.stop()
	<-s.over
	return errors.Join(waiting, err)
}

func (s *Session) publishers() []*Publisher {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*Publisher
	for _, r := range s.roles {
		if p, ok := r.(*Publisher); ok {
			list = append(list, p)
		}
	}
	return list
}

// Do calls f with a channel of the moment, and again where a lost connection interrupted it: f must be one that may be
// repeated, as declares and binds are. Its errors of other kinds come back, and cost only that channel.
func (s *Session) Do(ctx context.Context, f func(*amqp.Channel) error) error {
	for {
		a, err := s.await(ctx)
		if err != nil {
			return err
		}
		err = a.do(s, f)
		if err == nil || !a.lost(s.ctx) {
			return err
		}
		if err := a.gone(ctx, s); err != nil {
			return err
		}
	}
}

// await answers the attachment, once there is one.
func (s *Session) await(ctx context.Context) (*attachment, error) {
	for {
		s.mu.Lock()
		a, up, err := s.link, s.up, s.err
		s.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case a != nil:
			return a, nil
		}
		select {
		case <-up:
		case <-s.ctx.Done():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// enter gives a new role a channel, and keeps it in one from then on.
func (s *Session) enter(ctx context.Context, r role) error {
	for {
		a, err := s.await(ctx)
		if err != nil {
			return err
		}
		if err = s.enterOn(a, r); err == nil {
			return nil
		}
		if !a.lost(s.ctx) {
			return err
		}
		if err := a.gone(ctx, s); err != nil {
			return err
		}
	}
}

func (s *Session) enterOn(a *attachment, r role) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != a {
		return amqp.ErrClosed
	}
	if err := a.open(r, Attached); err != nil {
		return err
	}
	s.roles = append(s.roles, r)
	return nil
}

// reopen gives a role a new channel on the same connection, its own having failed.
func (s *Session) reopen(r role) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		return nil // attached with the next connection
	}
	return s.link.open(r, Resumed)
}

// leave takes a role out.
func (s *Session) leave(r role) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, x := range s.roles {
		if x == r {
			s.roles = append(s.roles[:i:i], s.roles[i+1:]...)
			return
		}
	}
}
