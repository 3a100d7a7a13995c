package harness

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// gate rules one direction of traffic between two nodes: bytes from a to b, whichever of the two dialled.
type gate struct {
	mu    sync.Mutex
	cut   bool
	delay time.Duration
	moved chan struct{} // closed and renewed at every change
}

func newGate() *gate { return &gate{moved: make(chan struct{})} }

func (g *gate) set(change func(*gate)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(g)
	close(g.moved)
	g.moved = make(chan struct{})
}

// pass holds a chunk that came at the given time until it may go on; false if the link ended first.
func (g *gate) pass(came time.Time, end <-chan struct{}) bool {
	for {
		g.mu.Lock()
		cut, wait, moved := g.cut, time.Until(came.Add(g.delay)), g.moved
		g.mu.Unlock()
		if !cut && wait <= 0 {
			return true
		}
		var due <-chan time.Time
		if !cut {
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-moved:
		case <-end:
			return false
		}
	}
}

// proxy forwards the connections that one node dials to another.
type proxy struct {
	listener net.Listener
	target   string
	out, in  *gate // from the dialling node, and back to it
	end      chan struct{}
	wg       sync.WaitGroup
}

func startProxy(target string, out, in *gate) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy to %s: %w", target, err)
	}
	p := &proxy{listener: l, target: target, out: out, in: in, end: make(chan struct{})}
	p.wg.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) close() {
	close(p.end)
	_ = p.listener.Close()
	p.wg.Wait()
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(near) })
	}
}

// serve waits with the dial until the way is open: a cut network opens no connections.
func (p *proxy) serve(near net.Conn) {
	defer func() { _ = near.Close() }()
	if !p.out.pass(time.Now(), p.end) {
		return
	}
	far, err := net.DialTimeout("tcp", p.target, 2*time.Second)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	done := make(chan struct{})
	var once sync.Once
	over := func() { once.Do(func() { close(done) }) }
	p.wg.Go(func() { defer over(); p.pump(far, near, p.out, done) })
	p.wg.Go(func() { defer over(); p.pump(near, far, p.in, done) })
	select {
	case <-done:
	case <-p.end:
		over()
	}
}

type chunk struct {
	came time.Time
	data []byte
}

// pump moves bytes from src to dst through the gate. Reading and writing are apart, so that a delay costs latency and
// not bandwidth; what is under way is bounded by the channel.
func (p *proxy) pump(dst io.Writer, src io.Reader, g *gate, done <-chan struct{}) {
	under := make(chan chunk, 64)
	p.wg.Go(func() {
		defer close(under)
		for {
			buf := make([]byte, 64<<10)
			n, err := src.Read(buf)
			if n > 0 {
				select {
				case under <- chunk{time.Now(), buf[:n]}:
				case <-done:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	for c := range under {
		if !g.pass(c.came, done) {
			return
		}
		if _, err := dst.Write(c.data); err != nil {
			return
		}
	}
	g.pass(time.Now(), done) // an end of stream does not cross a cut either
}
