package amqp_test

import (
	"bufio"
	"encoding/binary"
	"net"
	"testing"

	"github.com/understudy-mq/understudy/amqp/v091"
	"github.com/understudy-mq/understudy/amqp/v091/wire"
)

// rawClient speaks frames.
type rawClient struct {
	t  testing.TB
	nc net.Conn
	r  *bufio.Reader
}

// dialRaw opens a connection and channel 1.
func dialRaw(t testing.TB, address string) *rawClient {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	c := &rawClient{t: t, nc: nc, r: bufio.NewReaderSize(nc, 256<<10)}
	c.write([]byte(v091.Header))
	c.await(wire.IDConnectionStart)
	c.send(0, &wire.ConnectionStartOk{Mechanism: "PLAIN", Response: []byte("\x00guest\x00guest")})
	c.await(wire.IDConnectionTune)
	c.send(0, &wire.ConnectionTuneOk{})
	c.send(0, &wire.ConnectionOpen{VirtualHost: "/"})
	c.await(wire.IDConnectionOpenOk)
	c.send(1, &wire.ChannelOpen{})
	c.await(wire.IDChannelOpenOk)
	return c
}

func (c *rawClient) write(b []byte) {
	if _, err := c.nc.Write(b); err != nil {
		c.t.Error(err)
	}
}

func (c *rawClient) send(channel uint16, m wire.Method) { c.write(wire.AppendMethod(nil, channel, m)) }

// next reads a frame. Its payload is valid until the next one.
func (c *rawClient) next(f *wire.Frame) bool {
	head, err := c.r.Peek(7)
	if err != nil {
		return false
	}
	n := int(binary.BigEndian.Uint32(head[3:])) + wire.FrameOverhead
	b, err := c.r.Peek(n)
	if err != nil {
		return false
	}
	if _, err := wire.Parse(b, 1<<20, f); err != nil {
		c.t.Error(err)
		return false
	}
	_, _ = c.r.Discard(n)
	return true
}

// await reads up to a method of the id, heartbeats and content aside, and answers its arguments.
func (c *rawClient) await(id wire.ID) []byte {
	c.t.Helper()
	var f wire.Frame
	for c.next(&f) {
		if f.Type != wire.FrameMethod {
			continue
		}
		got, args, _ := wire.SplitMethod(f.Payload)
		if got != id {
			c.t.Fatalf("%s came, want %s: %q", got, id, args)
		}
		return args
	}
	c.t.Fatalf("the connection ended, want %s", id)
	return nil
}
