package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Options configure a Transport. Functions are called from its goroutines and must not be nil but where it says so.
type Options struct {
	Self      uint64
	Listen    string // "" listens nowhere
	Advertise string // where others reach this node; Listen if ""
	TLS       *tls.Config

	ClusterID func() string
	Fresh     func() bool
	Admit     func(Hello) error

	// Receive takes a frame; an error closes the connection.
	Receive func(from uint64, f Frame) error
	// Connected is told of each new bulk connection to a peer.
	Connected func(peer uint64)
	// HungUp is told when a peer has ended its urgent connection to this node, as a process that dies does; may be nil.
	HungUp func(peer uint64)
	// Snapshot receives a snapshot; nil means that it is on disk.
	Snapshot func(ctx context.Context, from, group uint64, header []byte, r io.ReadCloser) error
	// PeerAddr overrides a peer's address where it answers one; may be nil.
	PeerAddr func(peer uint64) string

	Logger *slog.Logger
}

const (
	pingEvery   = time.Second
	silenceMost = 4 * time.Second
	writeMost   = 10 * time.Second
	backoffMin  = 50 * time.Millisecond
	backoffMax  = time.Second
	// incomingMost bounds connections that are served at once.
	incomingMost = 1024
)

var errUnexpected = errors.New("an unexpected frame")

// Transport connects a node with its peers. See the package's documentation.
type Transport struct {
	opts     Options
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	wait     sync.WaitGroup
	slots    chan struct{}

	mu       sync.Mutex
	peers    map[uint64]*peer
	troubles map[uint64]*trouble // with incoming connections
	closed   bool
}

// Start listens and begins to accept peers.
func Start(o Options) (*Transport, error) {
	if o.Advertise == "" {
		o.Advertise = o.Listen
	}
	t := &Transport{opts: o, peers: map[uint64]*peer{}, troubles: map[uint64]*trouble{}, slots: make(chan struct{}, incomingMost)}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	if o.Listen == "" {
		return t, nil
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		t.cancel()
		return nil, fmt.Errorf("listen for peers: %w", err)
	}
	t.listener = l
	if o.TLS != nil {
		t.listener = tls.NewListener(l, o.TLS)
	}
	t.wait.Go(t.accept)
	return t, nil
}

// Addr is where the transport listens; nil if nowhere.
func (t *Transport) Addr() net.Addr {
	if t.listener == nil {
		return nil
	}
	return t.listener.Addr()
}

// Send queues a frame. It never blocks; false means that it was dropped.
func (t *Transport) Send(to uint64, f Frame) bool {
	t.mu.Lock()
	p := t.peers[to]
	t.mu.Unlock()
	if p == nil {
		return false
	}
	return p.pipe(f.Urgent).put(f)
}

// SetPeer says where a peer listens, and begins to connect to it.
func (t *Transport) SetPeer(id uint64, address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || id == t.opts.Self {
		return
	}
	if p := t.peers[id]; p != nil {
		p.setAddress(address)
		return
	}
	p := newPeer(t, id, address)
	t.peers[id] = p
	t.wait.Go(func() { p.bulk.run(p.ctx) })
	t.wait.Go(func() { p.urgent.run(p.ctx) })
}

// RemovePeer closes the connections to a peer and forgets it.
func (t *Transport) RemovePeer(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[id]; p != nil {
		p.cancel()
		delete(t.peers, id)
	}
}

// Close ends all connections and waits for every goroutine.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	var err error
	if t.listener != nil {
		err = t.listener.Close()
	}
	t.wait.Wait()
	return err
}

func (t *Transport) address(id uint64) string {
	if t.opts.PeerAddr != nil {
		if a := t.opts.PeerAddr(id); a != "" {
			return a
		}
	}
	t.mu.Lock()
	p := t.peers[id]
	t.mu.Unlock()
	if p == nil {
		return ""
	}
	return p.currentAddress()
}

// dial opens a connection of a role to a peer.
func (t *Transport) dial(ctx context.Context, to uint64, r role) (net.Conn, *frameReader, error) {
	a := t.address(to)
	if a == "" {
		return nil, nil, fmt.Errorf("node %d has no known address", to)
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	var conn net.Conn
	var err error
	if t.opts.TLS != nil {
		c := t.opts.TLS.Clone()
		if c.ServerName == "" {
			c.ServerName, _, _ = net.SplitHostPort(a)
		}
		conn, err = (&tls.Dialer{Config: c}).DialContext(ctx, "tcp", a)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", a)
	}
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	fr, err := t.greet(conn, to, r)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, fr, nil
}
