package rawclient

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Publisher publishes persistent messages of one size to one queue through the default exchange.
type Publisher struct {
	conn  *Conn
	frame []byte // publish method, header and body, of which only the body changes
	body  []byte // the body's place in frame
}

// Publisher turns on confirms and prepares the frames.
func (c *Conn) Publisher(queue string, bodyBytes int) (*Publisher, error) {
	if bodyBytes > frameBytesMax-8 {
		return nil, fmt.Errorf("publisher: a body of %d bytes does not fit a frame", bodyBytes)
	}
	if err := c.call(confirmSelectOk, confirmSelect, []byte{0}); err != nil {
		return nil, err
	}
	f := appendMethod(nil, 1, basicPublish, []byte{0, 0}, short(""), short(queue), []byte{0})
	header := binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, uint64(bodyBytes))
	header = append(header, 0x10, 0x00, 2) // property flags: delivery-mode alone; persistent
	f = append(append(appendHead(f, frameHeader, 1, len(header)), header...), frameEnd)
	f = appendHead(f, frameBody, 1, bodyBytes)
	at := len(f)
	f = append(append(f, make([]byte, bodyBytes)...), frameEnd)
	return &Publisher{conn: c, frame: f, body: f[at : at+bodyBytes]}, nil
}

// Body is where the next message's body is to be written.
func (p *Publisher) Body() []byte { return p.body }

// Publish buffers a message with the body as it stands; Conn.Flush sends it at last.
func (p *Publisher) Publish() error {
	_, err := p.conn.w.Write(p.frame)
	return err
}

// Confirm reads the next confirm: the publish it is for, and all before it if multiple. A nack is an error.
func (c *Conn) Confirm() (tag uint64, multiple bool, err error) {
	for {
		kind, p, err := c.frame()
		if err != nil {
			return 0, false, err
		}
		if kind != frameMethod || len(p) < 13 {
			continue
		}
		switch methodOf(p) {
		case basicAck:
			return binary.BigEndian.Uint64(p[4:]), p[12]&1 == 1, nil
		case basicNack:
			return 0, false, fmt.Errorf("publish %d was refused", binary.BigEndian.Uint64(p[4:]))
		}
	}
}

// Consume starts a consumer with manual acknowledgement.
func (c *Conn) Consume(queue string, prefetch int) error {
	if err := c.call(basicQosOk, basicQos, u32(0), []byte{byte(prefetch >> 8), byte(prefetch), 0}); err != nil {
		return err
	}
	c.send(1, basicConsume, []byte{0, 0}, short(queue), short("raw"), []byte{0}, u32(0))
	return c.Flush() // consume-ok is passed over by Next
}

// Delivery is a message that has come. Body is valid until the next call of Next.
type Delivery struct {
	Tag         uint64
	Redelivered bool
	Body        []byte
}

// Next reads the next delivery.
func (c *Conn) Next() (Delivery, error) {
	var d Delivery
	left := -1 // bytes of body to come, -1 before the header
	c.msg = c.msg[:0]
	for {
		kind, p, err := c.frame()
		if err != nil {
			return d, err
		}
		switch {
		case kind == frameMethod && methodOf(p) == basicDeliver:
			at := 5 + int(p[4]) // behind the consumer tag
			if len(p) < at+9 {
				return d, errors.New("a basic.deliver that is too short")
			}
			d.Tag, d.Redelivered = binary.BigEndian.Uint64(p[at:]), p[at+8]&1 == 1
		case kind == frameHeader && len(p) >= 12:
			left = int(binary.BigEndian.Uint64(p[4:]))
		case kind == frameBody:
			c.msg = append(c.msg, p...)
			left -= len(p)
		}
		if left == 0 {
			d.Body = c.msg
			return d, nil
		}
	}
}

// Ack buffers an ack; Flush sends it.
func (c *Conn) Ack(tag uint64, multiple bool) {
	bit := byte(0)
	if multiple {
		bit = 1
	}
	var frame [32]byte
	b := appendHead(frame[:0], frameMethod, 1, 13)
	b = append(b, 0, 60, 0, 80)
	b = binary.BigEndian.AppendUint64(b, tag)
	_, _ = c.w.Write(append(b, bit, frameEnd)) // an error comes with Flush
}

// Barrier waits for a synchronous reply: all acks before it are committed. Deliveries that come meanwhile are dropped,
// so it belongs behind the last one.
func (c *Conn) Barrier() error {
	return c.call(basicQosOk, basicQos, u32(0), []byte{0, 1, 0})
}
