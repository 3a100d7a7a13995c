package resume

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// attachment is one connection that the session is, or was, attached to.
type attachment struct {
	conn    *amqp.Connection
	tap     *tap
	address string
	closes  chan *amqp.Error
	ended   chan struct{} // closed when the session has left it
	leaving sync.Once

	opened int // channels so far: the library numbers them in order. Guarded by Session.mu
	status status

	busy    sync.Mutex    // of general
	general *amqp.Channel // for whatever is no role's
}

// status is what the broker says of the session.
type status struct {
	new        bool
	generation int64 // of its cluster: how many promotions there were
}

// Bounds of the pause between rounds over all addresses.
const (
	pauseMin = 20 * time.Millisecond
	pauseMax = 2 * time.Second
)

// connect attaches to the session over the first address that lets it, for as long as it takes.
func (s *Session) connect(ctx context.Context) (*attachment, error) {
	pause := pauseMin
	for {
		var last error
		for _, url := range s.addresses() {
			a, err := s.attach(ctx, url)
			if err == nil {
				return a, nil
			}
			if ctx.Err() != nil {
				return nil, fmt.Errorf("%w (the last attempt: %w)", ctx.Err(), err)
			}
			if err := fatal(err); err != nil {
				return nil, err
			}
			last = err
		}
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (the last attempt: %w)", ctx.Err(), last)
		}
		pause = min(2*pause, pauseMax)
	}
}

// addresses are the URLs to try: the given ones, and what the broker told of.
func (s *Session) addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.o.URLs)
	first, err := amqp.ParseURI(list[0])
	if err != nil {
		return list
	}
	known := func(host string) bool {
		return slices.ContainsFunc(list, func(u string) bool { return strings.Contains(u, host) })
	}
	for _, h := range s.hosts {
		if host, port, err := net.SplitHostPort(h); err == nil && !known(h) {
			u := first
			u.Host = host
			if _, err := fmt.Sscan(port, &u.Port); err == nil {
				list = append(list, u.String())
			}
		}
	}
	for i, u := range list {
		if address(u) == s.address { // lost a moment ago: the others first
			return append(slices.Delete(list, i, i+1), u)
		}
	}
	return list
}

// attach makes a connection, and brings everybody onto it.
func (s *Session) attach(ctx context.Context, url string) (*attachment, error) {
	a, err := s.dial(ctx, url)
	if err != nil {
		s.o.Events(Event{Kind: Failed, Address: address(url), Err: err})
		return nil, err
	}
	stop := context.AfterFunc(ctx, a.cut)
	defer stop()
	how, err := s.settleIn(a)
	if err != nil {
		if why := a.reason(); why != nil {
			err = why
		}
		s.detach(a)
		a.cut()
		s.o.Events(Event{Kind: Failed, Address: a.address, Err: err})
		return nil, err
	}
	s.o.Events(Event{Kind: how, Address: a.address})
	return a, nil
}

func address(url string) string {
	u, err := amqp.ParseURI(url)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(u.Host, fmt.Sprint(u.Port))
}

// dial makes the connection alone.
func (s *Session) dial(ctx context.Context, url string) (*attachment, error) {
	a := &attachment{address: address(url), ended: make(chan struct{}), closes: make(chan *amqp.Error, 1)}
	config := s.o.Config
	config.Properties = s.o.properties(s.incarnation)
	config.SASL = slices.Clone(config.SASL)
	secure := tlsOf(url, config.TLSClientConfig)
	config.Dial = func(network, _ string) (net.Conn, error) {
		nc, err := s.connectTo(ctx, network, a.address)
		if err == nil && secure != nil {
			t := tls.Client(nc, secure)
			nc, err = t, t.HandshakeContext(ctx)
		}
		if err != nil {
			return nil, err
		}
		a.tap = &tap{Conn: nc}
		return a.tap, nil
	}
	var err error
	if a.conn, err = amqp.DialConfig(strings.Replace(url, "amqps://", "amqp://", 1), config); err != nil {
		if a.tap != nil {
			_ = a.tap.Close()
		}
		return nil, err
	}
	a.conn.NotifyClose(a.closes)
	if capabilities, _ := a.conn.Properties["capabilities"].(amqp.Table); capabilities["session_resumption"] != true {
		_ = a.conn.Close()
		return nil, ErrNoSessions
	}
	return a, nil
}

// connectTo opens the socket. The library clears the deadline once the connection is open.
func (s *Session) connectTo(ctx context.Context, network, address string) (net.Conn, error) {
	dial := s.o.Config.Dial
	if dial == nil {
		d := net.Dialer{Timeout: s.o.DialTimeout}
		dial = func(network, address string) (net.Conn, error) { return d.DialContext(ctx, network, address) }
	}
	nc, err := dial(network, address)
	if err != nil {
		return nil, err
	}
	return nc, nc.SetDeadline(time.Now().Add(s.o.DialTimeout))
}

// tlsOf is the TLS configuration for a URL, nil for none. The session does TLS itself, so that its tap is within.
func tlsOf(url string, given *tls.Config) *tls.Config {
	u, err := amqp.ParseURI(url)
	if err != nil || u.Scheme != "amqps" {
		return nil
	}
	t := &tls.Config{}
	if given != nil {
		t = given.Clone()
	}
	if t.ServerName == "" {
		t.ServerName = u.Host
	}
	return t
}

// settleIn learns how the session stands and brings its roles onto the connection.
func (s *Session) settleIn(a *attachment) (how EventKind, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.opened++
	if a.general, err = a.conn.Channel(); err != nil {
		return 0, err
	}
	if a.status, err = ask(a.general); err != nil {
		return 0, err
	}
	if how, err = s.compare(a.status); err != nil {
		return 0, err
	}
	s.bare = s.bare || a.status.new || how == Promoted
	if s.bare && s.o.Setup != nil {
		if err = s.o.Setup(a.general); err != nil {
			return 0, err
		}
	}
	s.bare = false
	if err := a.openAll(s.roles, how); err != nil {
		return 0, err
	}
	s.generation, s.address = a.status.generation, a.address
	if hosts, _ := a.tap.heard(); len(hosts) > 0 {
		s.hosts = hosts
	}
	s.link = a
	close(s.up)
	return how, nil
}

// compare says what a session's state is to one that was attached before. A former source that does not know yet that its
// standby was promoted is none to go back to.
func (s *Session) compare(now status) (EventKind, error) {
	switch {
	case now.generation < s.generation:
		return 0, fmt.Errorf("this cluster is of generation %d and another one was promoted in its place (%d)", now.generation, s.generation)
	case now.generation > s.generation && s.address != "":
		return Promoted, nil
	case now.new:
		return Attached, nil
	}
	return Resumed, nil
}

// ask reads the session's state.
func ask(ch *amqp.Channel) (status, error) {
	d, ok, err := ch.Get("amq.session", true)
	if err == nil && !ok {
		err = errors.New("there is none")
	}
	if err != nil {
		return status{}, fmt.Errorf("ask for the session's state: %w", err)
	}
	generation, _ := d.Headers["x-session-generation"].(int64)
	return status{new: d.Headers["x-session-state"] == "new", generation: generation}, nil
}

// openAll opens every role's channel under the number that it had. Numbers that nobody has any more are left out by opening
// them too, for a moment.
func (a *attachment) openAll(roles []role, how EventKind) error {
	roles = slices.Clone(roles)
	slices.SortFunc(roles, func(x, y role) int { return int(x.channelNumber()) - int(y.channelNumber()) })
	var gaps []*amqp.Channel
	for _, r := range roles {
		for a.opened+1 < int(r.channelNumber()) {
			a.opened++
			ch, err := a.conn.Channel()
			if err != nil {
				return err
			}
			gaps = append(gaps, ch)
		}
		if err := a.open(r, how); err != nil && a.conn.IsClosed() {
			return err
		} else if err != nil {
			r.fail(err)
		}
	}
	for _, ch := range gaps {
		if err := ch.Close(); err != nil {
			return err
		}
	}
	return nil
}

// open gives a role its channel.
func (a *attachment) open(r role, how EventKind) error {
	a.opened++
	ch, err := a.conn.Channel()
	if err != nil {
		return err
	}
	r.setChannelNumber(uint16(a.opened))
	return r.attach(ch, how)
}

// do calls f with the general channel, or with a new one where a fault has closed it.
func (a *attachment) do(s *Session, f func(*amqp.Channel) error) (err error) {
	a.busy.Lock()
	defer a.busy.Unlock()
	if a.general.IsClosed() {
		s.mu.Lock()
		a.opened++
		a.general, err = a.conn.Channel()
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return f(a.general)
}

// wait waits until the connection is lost and answers why.
func (a *attachment) wait(ctx context.Context) error {
	select {
	case e := <-a.closes:
		if why := a.reason(); why != nil {
			return why
		}
		if e != nil {
			return e
		}
		return amqp.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reason is the server's for closing the connection, nil if it gave none.
func (a *attachment) reason() error {
	_, e := a.tap.heard()
	switch {
	case e == nil:
		return nil
	case strings.Contains(e.Reason, "session taken over"):
		return fmt.Errorf("%w: %w", ErrTakenOver, e)
	}
	return e
}

// lost says whether the connection is over.
func (a *attachment) lost(ctx context.Context) bool { return a.conn.IsClosed() || ctx.Err() != nil }

// gone waits until the session has left the attachment.
func (a *attachment) gone(ctx context.Context, s *Session) error {
	select {
	case <-a.ended:
		return nil
	case <-s.over:
		return s.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cut ends the connection without a word.
func (a *attachment) cut() {
	a.leaving.Do(func() {
		close(a.ended)
		_ = a.tap.Close()
	})
}
