package amqp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/amqp/v091"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/session"
)

// Options configure a Server. Zero values stand for the defaults named.
type Options struct {
	V091                v091.Options
	ConnectionsMax      int           // open connections; 0: no limit
	HandshakesMax       int           // connections that have not been opened yet; 1024
	TLSHandshakeTimeout time.Duration // 5 s
	Logger              *slog.Logger  // discards
}

// ConnectionInfo is what listings show of a connection.
type ConnectionInfo = v091.Info

// Sessions lets the endpoints attach to the sessions of a broker; it is v091.Options.Attach.
func Sessions(b *session.Broker) func(context.Context, session.Attach, session.Endpoint) (v091.Session, error) {
	return func(ctx context.Context, a session.Attach, e session.Endpoint) (v091.Session, error) {
		s, err := b.Attach(ctx, a, e)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// Server serves AMQP on any number of listeners.
type Server struct {
	opts       Options
	handshakes chan struct{} // a slot for each connection that is not open yet

	mu        sync.Mutex
	closed    bool
	done      chan struct{}
	listeners map[net.Listener]struct{}
	sockets   map[net.Conn]bool // true: it has an endpoint, which closes it
	conns     map[*v091.Conn]struct{}
	open      int
	serving   sync.WaitGroup
}

// New makes a Server.
func New(o Options) *Server {
	if o.HandshakesMax == 0 {
		o.HandshakesMax = 1024
	}
	if o.TLSHandshakeTimeout == 0 {
		o.TLSHandshakeTimeout = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.V091.Logger == nil {
		o.V091.Logger = o.Logger
	}
	o.V091.EnsureDefaults()
	s := &Server{
		opts: o, handshakes: make(chan struct{}, o.HandshakesMax), done: make(chan struct{}),
		listeners: map[net.Listener]struct{}{}, sockets: map[net.Conn]bool{}, conns: map[*v091.Conn]struct{}{},
	}
	s.limitOpen()
	return s
}

// limitOpen refuses connections beyond the limit at connection.open, where a client can be told.
func (s *Server) limitOpen() {
	attach := s.opts.V091.Attach
	s.opts.V091.Attach = func(ctx context.Context, a session.Attach, e session.Endpoint) (v091.Session, error) {
		if !s.reserve() {
			text := fmt.Sprintf("connection refused: node connection limit (%d) is reached", s.opts.ConnectionsMax)
			return nil, &session.Error{Code: core.CodeNotAllowed, Text: text}
		}
		x, err := attach(ctx, a, e)
		if err != nil {
			s.unreserve()
		}
		return x, err
	}
}

// Serve accepts clients from l until ctx is done or the server closes; then it answers nil. With a TLS configuration
// clients speak TLS. l is closed.
func (s *Server) Serve(ctx context.Context, l net.Listener, t *tls.Config) error {
	if !s.listen(l) {
		return l.Close()
	}
	defer s.unlisten(l)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		select {
		case s.handshakes <- struct{}{}:
		case <-ctx.Done():
			return nil
		case <-s.done:
			return nil
		}
		nc, err := accept(ctx, l, s.opts.Logger)
		if err != nil {
			<-s.handshakes
			if ctx.Err() != nil || s.isClosed() {
				return nil
			}
			return fmt.Errorf("accept AMQP clients on %s: %w", l.Addr(), err)
		}
		if !s.enter(nc) {
			<-s.handshakes
			_ = nc.Close()
			continue
		}
		go s.serve(nc, t)
	}
}

// accept waits out what passes, such as too many open files.
func accept(ctx context.Context, l net.Listener, log *slog.Logger) (net.Conn, error) {
	for {
		nc, err := l.Accept()
		var temporary interface{ Temporary() bool }
		if err == nil || ctx.Err() != nil || !errors.As(err, &temporary) || !temporary.Temporary() {
			return nc, err
		}
		log.Warn("cannot accept a client; trying again", "listener", l.Addr().String(), "error", err)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// serve is one connection from its first octet to its last.
func (s *Server) serve(nc net.Conn, t *tls.Config) {
	release := sync.OnceFunc(func() { <-s.handshakes })
	defer s.leave(nc)
	defer release()
	log := s.opts.Logger.With("peer", nc.RemoteAddr().String())
	secured, err := s.secure(nc, t)
	if err != nil {
		log.Debug("TLS handshake failed", "error", err)
		_ = nc.Close()
		return
	}
	since := time.Now()
	if err := sniff(secured, since.Add(s.opts.V091.HandshakeTimeout)); err != nil {
		log.Debug("not an AMQP client", "error", err)
		_ = secured.Close()
		return
	}
	c := v091.NewConn(secured, since, &s.opts.V091)
	if !s.add(nc, c) {
		_ = secured.Close()
		return
	}
	defer s.remove(c)
	opened := false
	c.Serve(func() {
		opened = true
		release()
	})
	if opened {
		s.unreserve()
	}
}

func (s *Server) secure(nc net.Conn, t *tls.Config) (net.Conn, error) {
	if t == nil {
		return nc, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.TLSHandshakeTimeout)
	defer cancel()
	c := tls.Server(nc, t)
	return c, c.HandshakeContext(ctx)
}
