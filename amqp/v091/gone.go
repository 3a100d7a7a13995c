package v091

import (
	"errors"
	"os"
	"time"
)

// breaks notes why the writer cannot go on: the client is gone, unless the connection is being closed anyway.
func (c *Conn) breaks(err error) {
	if c.shared.closing.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = err
}

// mourn tells of a client that went without closing its connection; err is the reader's. It is the reader's to call.
func (c *Conn) mourn(err error) {
	c.mu.Lock()
	broken := c.broken
	c.mu.Unlock()
	switch {
	case c.recv.phase != running:
	case broken != nil:
		c.log.Info("a client is gone without closing its connection", "user", c.recv.user, "error", broken)
	case c.shared.closing.Load():
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.log.Info("a client is cut: nothing came of it for two of its heartbeats", "user", c.recv.user, "heartbeat", time.Duration(c.heartbeat.Load()).String())
	default:
		c.log.Info("a client is gone without closing its connection", "user", c.recv.user, "error", err)
	}
}
