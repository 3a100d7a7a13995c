package simtest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// road leads from a node of the standby to a node of the source.
type road struct{ standby, source int }

// network carries connections in memory. A road that is cut refuses new ones and keeps what is sent on old ones until it is
// open again, as a partition does; breaking it ends them.
type network struct {
	mu    sync.Mutex
	to    map[string]*listener
	cut   map[road]chan struct{} // closed when the road is open again
	conns map[road]map[*conn]struct{}
}

func newNetwork() *network {
	return &network{to: map[string]*listener{}, cut: map[road]chan struct{}{}, conns: map[road]map[*conn]struct{}{}}
}

var errCut = errors.New("the road is cut")

// set cuts a road, or opens it.
func (n *network) set(r road, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	open, is := n.cut[r]
	switch {
	case cut && !is:
		n.cut[r] = make(chan struct{})
	case !cut && is:
		close(open)
		delete(n.cut, r)
	}
}

// broken ends a road's connections.
func (n *network) broken(r road) {
	n.mu.Lock()
	var conns []*conn
	for c := range n.conns[r] {
		conns = append(conns, c)
	}
	n.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// dialer is how a node of the standby reaches the source.
func (n *network) dialer(standby int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		n.mu.Lock()
		l := n.to[address]
		r := road{standby, l.node}
		_, cut := n.cut[r]
		n.mu.Unlock()
		if cut {
			return nil, errCut
		}
		near, far := net.Pipe()
		a, b := n.conn(near, r), n.conn(far, r)
		select {
		case l.accept <- b:
			return a, nil
		case <-l.closed:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (n *network) conn(c net.Conn, r road) *conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	x := &conn{Conn: c, network: n, road: r, closed: make(chan struct{})}
	if n.conns[r] == nil {
		n.conns[r] = map[*conn]struct{}{}
	}
	n.conns[r][x] = struct{}{}
	return x
}

// conn is one end of a connection.
type conn struct {
	net.Conn
	network *network
	road    road
	once    sync.Once
	closed  chan struct{}
}

func (c *conn) Write(b []byte) (int, error) {
	for {
		c.network.mu.Lock()
		open, cut := c.network.cut[c.road]
		c.network.mu.Unlock()
		if !cut {
			return c.Conn.Write(b)
		}
		select {
		case <-open:
		case <-c.closed:
			return 0, net.ErrClosed
		}
	}
}

func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.network.mu.Lock()
		delete(c.network.conns[c.road], c)
		c.network.mu.Unlock()
	})
	return c.Conn.Close()
}

// listener is a source node's link port.
type listener struct {
	node    int
	address string
	accept  chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (n *network) listen(node int, address string) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &listener{node: node, address: address, accept: make(chan net.Conn), closed: make(chan struct{})}
	n.to[address] = l
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.address) }

type address string

func (address) Network() string  { return "memory" }
func (a address) String() string { return string(a) }
