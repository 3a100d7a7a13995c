package rawclient

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"
)

// Frame types and the octet that ends a frame.
const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameHeartbeat = 8
	frameEnd       = 0xCE
)

// frameBytesMax is the frame size that is negotiated.
const frameBytesMax = 128 << 10

// Conn is a connection with channel 1 open.
type Conn struct {
	nc  net.Conn
	r   *bufio.Reader
	w   *bufio.Writer
	buf []byte // the last frame's payload
	msg []byte // the last message's body
}

// method is class id and method id.
type method struct{ class, id uint16 }

var (
	connStart, connStartOk, connTune, connTuneOk = method{10, 10}, method{10, 11}, method{10, 30}, method{10, 31}
	connOpen, connOpenOk, connClose              = method{10, 40}, method{10, 41}, method{10, 50}
	chanOpen, chanOpenOk, chanClose              = method{20, 10}, method{20, 11}, method{20, 40}
	queueDeclare, queueDeclareOk                 = method{50, 10}, method{50, 11}
	basicQos, basicQosOk                         = method{60, 10}, method{60, 11}
	basicConsume                                 = method{60, 20}
	basicPublish, basicDeliver                   = method{60, 40}, method{60, 60}
	basicAck, basicNack                          = method{60, 80}, method{60, 120}
	confirmSelect, confirmSelectOk               = method{85, 10}, method{85, 11}
)

// Dial connects to an amqp:// URL.
func Dial(amqpURL string) (*Conn, error) {
	u, err := url.Parse(amqpURL)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	nc, err := net.DialTimeout("tcp", u.Host, 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	c := &Conn{nc: nc, r: bufio.NewReaderSize(nc, 256<<10), w: bufio.NewWriterSize(nc, 64<<10)}
	if err := c.shakeHands(u); err != nil {
		return nil, errors.Join(fmt.Errorf("dial %s: %w", u.Host, err), nc.Close())
	}
	return c, nil
}

func (c *Conn) shakeHands(u *url.URL) error {
	pass, _ := u.User.Password()
	vhost := strings.TrimPrefix(u.Path, "/")
	if vhost == "" {
		vhost = "/"
	}
	if _, err := c.w.WriteString("AMQP\x00\x00\x09\x01"); err != nil {
		return err
	}
	if err := c.expect(connStart); err != nil {
		return err
	}
	c.send(0, connStartOk, u32(0), short("PLAIN"), long("\x00"+u.User.Username()+"\x00"+pass), short("en_US"))
	if err := c.expect(connTune); err != nil {
		return err
	}
	c.send(0, connTuneOk, []byte{0x07, 0xff}, u32(frameBytesMax), []byte{0, 0})
	c.send(0, connOpen, short(vhost), short(""), []byte{0})
	if err := c.expect(connOpenOk); err != nil {
		return err
	}
	return c.call(chanOpenOk, chanOpen, short(""))
}

// Close cuts the connection.
func (c *Conn) Close() error { return c.nc.Close() }

// Flush sends what is buffered.
func (c *Conn) Flush() error { return c.w.Flush() }

// Pending says whether a part of another frame has been read already, so that an ack may wait for more.
func (c *Conn) Pending() bool { return c.r.Buffered() > 0 }

// DeclareQueue declares a durable queue.
func (c *Conn) DeclareQueue(name string) error {
	return c.call(queueDeclareOk, queueDeclare, []byte{0, 0}, short(name), []byte{2}, u32(0))
}

// call sends a method on channel 1 and waits for its reply.
func (c *Conn) call(reply, m method, args ...[]byte) error {
	c.send(1, m, args...)
	return c.expect(reply)
}

// send buffers a method frame; an error of the buffer comes with the next Flush.
func (c *Conn) send(channel uint16, m method, args ...[]byte) {
	_, _ = c.w.Write(appendMethod(nil, channel, m, args...))
}

func appendMethod(b []byte, channel uint16, m method, args ...[]byte) []byte {
	n := 4
	for _, a := range args {
		n += len(a)
	}
	b = appendHead(b, frameMethod, channel, n)
	b = binary.BigEndian.AppendUint16(b, m.class)
	b = binary.BigEndian.AppendUint16(b, m.id)
	for _, a := range args {
		b = append(b, a...)
	}
	return append(b, frameEnd)
}

func appendHead(b []byte, kind byte, channel uint16, n int) []byte {
	b = append(b, kind)
	b = binary.BigEndian.AppendUint16(b, channel)
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

func u32(v int) []byte      { return binary.BigEndian.AppendUint32(nil, uint32(v)) }
func short(s string) []byte { return append([]byte{byte(len(s))}, s...) }
func long(s string) []byte  { return append(u32(len(s)), s...) }

// expect flushes and reads until the method comes.
func (c *Conn) expect(want method) error {
	if err := c.Flush(); err != nil {
		return err
	}
	for {
		kind, p, err := c.frame()
		if err != nil {
			return fmt.Errorf("waiting for method %d.%d: %w", want.class, want.id, err)
		}
		if kind == frameMethod && methodOf(p) == want {
			return nil
		}
	}
}

func methodOf(p []byte) method {
	return method{binary.BigEndian.Uint16(p), binary.BigEndian.Uint16(p[2:])}
}

// frame reads the next frame; its payload is valid until the next call. A close of the broker's is an error.
func (c *Conn) frame() (kind byte, payload []byte, err error) {
	var head [7]byte
	if _, err = io.ReadFull(c.r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[3:])
	if size > frameBytesMax {
		return 0, nil, fmt.Errorf("a frame of %d bytes", size)
	}
	n := int(size) + 1
	if cap(c.buf) < n {
		c.buf = make([]byte, max(n, 4096))
	}
	p := c.buf[:n]
	if _, err = io.ReadFull(c.r, p); err != nil {
		return 0, nil, err
	}
	if p[n-1] != frameEnd {
		return 0, nil, errors.New("a frame without its end")
	}
	p = p[:n-1]
	if head[0] == frameMethod {
		if len(p) < 4 {
			return 0, nil, errors.New("a method frame without a method")
		}
		if m := methodOf(p); (m == connClose || m == chanClose) && len(p) >= 7 {
			return 0, nil, fmt.Errorf("closed by the broker: %d %s", binary.BigEndian.Uint16(p[4:]), p[7:min(len(p), 7+int(p[6]))])
		}
	}
	return head[0], p, nil
}
