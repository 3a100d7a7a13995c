package long

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/understudy-mq/understudy/interop/rawclient"
)

// window bounds the publishes that are not confirmed.
const window = 2000

// traffic is a run of numbered messages of one size.
type traffic struct {
	queue    string
	messages int
	bytes    int // of a body, 16 at least
}

// fill writes body i: its number at both ends, so that a cut one is seen.
func (tr traffic) fill(body []byte, i int) {
	binary.BigEndian.PutUint64(body, uint64(i))
	binary.BigEndian.PutUint64(body[len(body)-8:], uint64(i))
}

// examine checks that a body is number i.
func (tr traffic) examine(body []byte, i int) error {
	if len(body) != tr.bytes {
		return fmt.Errorf("message %d has %d bytes instead of %d", i, len(body), tr.bytes)
	}
	first, last := binary.BigEndian.Uint64(body), binary.BigEndian.Uint64(body[len(body)-8:])
	if first != uint64(i) || last != first {
		return fmt.Errorf("message %d came where %d was expected (its end says %d)", first, i, last)
	}
	return nil
}

// publish publishes all and waits for the last confirm.
func (tr traffic) publish(url string) error {
	conn, err := rawclient.Dial(url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.DeclareQueue(tr.queue); err != nil {
		return err
	}
	p, err := conn.Publisher(tr.queue, tr.bytes)
	if err != nil {
		return err
	}
	confirms := &confirms{conn: conn}
	confirms.moved = sync.NewCond(&confirms.mu)
	go confirms.read(tr.messages)
	for i := range tr.messages {
		if i >= window {
			if err := confirms.wait(i-window+1, conn.Flush); err != nil {
				return err
			}
		}
		tr.fill(p.Body(), i)
		if err := p.Publish(); err != nil {
			return errors.Join(err, confirms.failure())
		}
	}
	return confirms.wait(tr.messages, conn.Flush)
}

// confirms counts the confirms of a connection.
type confirms struct {
	conn  *rawclient.Conn
	mu    sync.Mutex
	moved *sync.Cond
	count int
	err   error
}

func (c *confirms) read(n int) {
	for count := 0; count < n; {
		tag, multiple, err := c.conn.Confirm()
		if multiple {
			count = max(count, int(tag))
		} else {
			count++
		}
		c.mu.Lock()
		c.count, c.err = count, err
		c.mu.Unlock()
		c.moved.Signal()
		if err != nil {
			return
		}
	}
}

func (c *confirms) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// wait waits until n are confirmed; flush is called before it sleeps.
func (c *confirms) wait(n int, flush func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.count < n && c.err == nil {
		c.mu.Unlock()
		err := flush()
		c.mu.Lock()
		if err != nil {
			return errors.Join(err, c.err)
		}
		if c.count < n && c.err == nil {
			c.moved.Wait()
		}
	}
	return c.err
}

// consume takes all messages in order and acknowledges them; it ends behind a reply that says that the acks are
// committed.
func (tr traffic) consume(url string) error {
	conn, err := rawclient.Dial(url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.DeclareQueue(tr.queue); err != nil {
		return err
	}
	if err := conn.Consume(tr.queue, window); err != nil {
		return err
	}
	for i := range tr.messages {
		d, err := conn.Next()
		if err == nil {
			err = tr.examine(d.Body, i)
		}
		if err != nil {
			return fmt.Errorf("consuming from %s: %w", tr.queue, err)
		}
		if i%(window/4) == 0 || i == tr.messages-1 {
			conn.Ack(d.Tag, true)
			if err := conn.Flush(); err != nil {
				return err
			}
		}
	}
	return conn.Barrier()
}

// pass publishes at one node and consumes at another, at the same time.
func (tr traffic) pass(from, to string) error {
	published := make(chan error, 1)
	go func() { published <- tr.publish(from) }()
	return errors.Join(tr.consume(to), <-published)
}
