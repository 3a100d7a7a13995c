package v091

import "time"

// Info is what is known of a connection, for listings.
type Info struct {
	Name           string // "peer -> local"
	Title          string // the client's connection_name
	User, Vhost    string // "" until connection.open
	Peer, Local    string
	Properties     []byte // a field table of what the client says of itself: 4 KiB of it, and nothing that names its session
	Protocol       string
	State          string // "starting", "running", "blocked" (publishes are held back) or "closing"
	Channels       int
	ChannelMax     uint16
	FrameMax       uint32
	Heartbeat      time.Duration
	Since          time.Time
	Received, Sent uint64 // octets
}

// Name is the connection's display name.
func (c *Conn) Name() string { return c.name }

// User is who has opened the connection, "" until then.
func (c *Conn) User() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info.User
}

// Info is a snapshot.
func (c *Conn) Info() Info {
	c.mu.Lock()
	x := c.info
	x.State = "running"
	if c.session == nil {
		x.State = "starting"
	}
	c.mu.Unlock()
	if c.shared.blocked.Load() {
		x.State = "blocked"
	}
	if c.shared.closing.Load() {
		x.State = "closing"
	}
	x.Name, x.Protocol, x.Since = c.name, "AMQP 0-9-1", c.since
	x.Peer, x.Local = peerOf(c.nc.RemoteAddr()), peerOf(c.nc.LocalAddr())
	x.Channels = int(c.shared.open.Load())
	x.FrameMax, x.Heartbeat = c.frameMax.Load(), time.Duration(c.heartbeat.Load())
	x.Received, x.Sent = c.received.Load(), c.sent.Load()
	return x
}
