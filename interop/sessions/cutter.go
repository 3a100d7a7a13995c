package sessions

import (
	"net"
	"sync"
	"sync/atomic"
)

// ending is how a cut looks to the broker.
type ending uint8

const (
	endClosed   ending = iota // the connection is closed
	endReset                  // it is reset
	endHalfOpen               // it hears nothing more: the client is gone without a word
)

// cutter forwards one connection, and cuts it after so many octets of one direction. The client's side is closed at the cut.
type cutter struct {
	listener net.Listener
	target   string
	up       bool  // count the octets from the client to the broker, not those back
	after    int64 // octets that pass; below 0 all
	end      ending

	passed [2]atomic.Int64 // octets: from the client, to the client
	cut    atomic.Bool     // the place was reached
	over   sync.Once
	wg     sync.WaitGroup
	near   net.Conn
	far    net.Conn
}

func startCutter(target string, up bool, after int64, end ending) (*cutter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &cutter{listener: l, target: target, up: up, after: after, end: end}
	c.wg.Go(c.serve)
	return c, nil
}

func (c *cutter) address() string { return c.listener.Addr().String() }

func (c *cutter) serve() {
	near, err := c.listener.Accept()
	if err != nil {
		return
	}
	defer near.Close() //nolint:errcheck // the client's side has nothing left to say
	far, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	c.near, c.far = near, far
	var both sync.WaitGroup
	both.Go(func() { c.pump(far, near, 0, c.up) })
	both.Go(func() { c.pump(near, far, 1, !c.up) })
	both.Wait()
}

// pump moves octets until either side ends, or the cut.
func (c *cutter) pump(to, from net.Conn, way int, counted bool) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if counted && c.after >= 0 && c.passed[way].Load()+int64(n) >= c.after {
			_, _ = to.Write(buf[:c.after-c.passed[way].Load()])
			c.cut.Store(true)
			c.hangUp(c.end)
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				c.hangUp(endClosed)
				return
			}
			c.passed[way].Add(int64(n))
		}
		if err != nil {
			c.hangUp(endClosed)
			return
		}
	}
}

// hangUp ends the connection on both sides, the broker's in the way given.
func (c *cutter) hangUp(how ending) {
	c.over.Do(func() {
		_ = c.near.Close()
		switch how {
		case endHalfOpen:
			return // until close
		case endReset:
			if t, ok := c.far.(*net.TCPConn); ok {
				_ = t.SetLinger(0)
			}
		}
		_ = c.far.Close()
	})
}

func (c *cutter) close() {
	_ = c.listener.Close()
	if c.far != nil {
		_ = c.far.Close()
	}
	c.wg.Wait()
}
