package powerloss

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/core/store"
	"github.com/understudy-mq/understudy/session"
)

// channel is the one that clients use.
const channel = 1

var errLeft = errors.New("the client's session is over")

// arrival is a message that was delivered or got, unsettled.
type arrival struct {
	tag         uint64
	id          uint64
	redelivered bool
}

// client is an endpoint that keeps a ledger. Its command methods belong to one goroutine.
type client struct {
	ledger
	ctx     context.Context
	broker  *session.Broker
	session *session.Session

	changed sync.Cond // on ledger.mu, as are the following
	events  []session.Event
	empty   int // Gets answered with nothing
	closed  error
}

// newClient makes a client that gives up when ctx ends.
func newClient(ctx context.Context, b *session.Broker, owner, vhost string) *client {
	c := &client{ledger: ledger{owner: owner, vhost: vhost}, ctx: ctx, broker: b}
	c.changed.L = &c.mu
	context.AfterFunc(ctx, func() { c.Closed(&session.Error{Text: "the test is out of patience"}) })
	return c
}

var _ session.Endpoint = (*client)(nil)

// Events implements session.Endpoint.
func (c *client) Events(events []session.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range events {
		c.event(&events[i])
	}
	c.changed.Broadcast()
}

func (c *client) event(e *session.Event) {
	switch e.Kind {
	case core.EffectConfirmed:
		c.promise(c.publishes[e.Count-1])
		c.publishes = c.publishes[e.Count:]
	case core.EffectReply:
		c.answered()
	case core.EffectGetEmpty:
		c.empty++
		c.answered()
	case core.EffectGot:
		c.answered()
		c.events = append(c.events, *e)
	case core.EffectDelivered:
		c.events = append(c.events, *e)
	case core.EffectRefused:
		c.closed = fmt.Errorf("%s: a %d was refused: %s", c.owner, e.Command, e.Text)
	}
}

func (c *client) answered() {
	c.promise(c.calls[0])
	c.calls = c.calls[1:]
}

// Closed implements session.Endpoint.
func (c *client) Closed(err *session.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = fmt.Errorf("%w: %s", errLeft, err.Text)
	c.changed.Broadcast()
}

// Ending implements session.Endpoint.
func (c *client) Ending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed != nil
}

// attach opens a session and a confirming channel. What was asked for before in another session is committed then.
func (c *client) attach() error {
	s, err := c.broker.Attach(c.ctx, session.Attach{Vhost: c.vhost, User: "guest", Connection: c.owner}, c)
	if err != nil {
		return fmt.Errorf("%w: %w", errLeft, err)
	}
	c.session = s
	c.mu.Lock()
	c.promise(len(c.asked))
	c.mu.Unlock()
	ref := entry.Ref{Channel: channel}
	c.call(&entry.ChannelOpen{Ref: ref})
	return c.callAndWait(&entry.ConfirmSelect{Ref: ref})
}

// ask notes a change that is about to be sent.
func (c *client) ask(x change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, x)
	if x.what == publish {
		c.publishes = append(c.publishes, len(c.asked))
	}
}

// call sends a command that is answered.
func (c *client) call(cmd entry.Addressed) {
	c.mu.Lock()
	c.calls = append(c.calls, len(c.asked))
	c.mu.Unlock()
	c.session.Do(cmd)
}

func (c *client) callAndWait(cmd entry.Addressed) error {
	c.call(cmd)
	return c.wait(func() bool { return len(c.calls) == 0 })
}

// wait flushes and waits; ok is called with mu held.
func (c *client) wait(ok func() bool) error {
	if err := c.flush(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for !ok() {
		if c.closed != nil {
			return c.closed
		}
		c.changed.Wait()
	}
	return nil
}

// flush hands on what was sent.
func (c *client) flush() error {
	if err := c.session.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errLeft, err)
	}
	return nil
}

// confirmed waits until every publish is confirmed.
func (c *client) confirmed() error { return c.wait(func() bool { return len(c.publishes) == 0 }) }

// take answers what has arrived, once there are n, each with its body checked.
func (c *client) take(n int) ([]arrival, error) {
	if err := c.wait(func() bool { return len(c.events) >= n }); err != nil {
		return nil, err
	}
	c.mu.Lock()
	events := c.events
	c.events = nil
	c.mu.Unlock()
	var out []arrival
	for i := range events {
		id, err := c.read(&events[i])
		if errors.Is(err, store.ErrClosed) { // it came while the process still was
			return nil, fmt.Errorf("%w: %w", errLeft, err)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: delivery %d: %w", c.owner, events[i].Tag, err)
		}
		out = append(out, arrival{events[i].Tag, id, events[i].Redelivered})
	}
	return out, nil
}

// read reads a delivery's body, which has to be what was published.
func (c *client) read(e *session.Event) (uint64, error) {
	record, parts, err := c.session.Content(e)
	if err != nil {
		return 0, err
	}
	var r message.Record
	if err := message.ParseRecord(record, &r); err != nil {
		return 0, err
	}
	body := append(bytes.Join(parts, nil), r.Body...)
	if len(body) < bodyLeast || uint64(len(body)) != r.BodySize {
		return 0, fmt.Errorf("a body of %d bytes, %d were published", len(body), r.BodySize)
	}
	id := binary.BigEndian.Uint64(body)
	if !bytes.Equal(body, makeBody(id, len(body))) {
		return 0, fmt.Errorf("the body of message %x is not what was published", id)
	}
	return id, nil
}

const bodyLeast = 8

// makeBody is the body of n bytes of a message: its id, and bytes that follow from it.
func makeBody(id uint64, n int) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, n+8), id)
	for rng := rand.NewPCG(id, 1); len(b) < n; {
		b = binary.BigEndian.AppendUint64(b, rng.Uint64())
	}
	return b[:n]
}

// leave ends the session; what is unanswered stays so.
func (c *client) leave() {
	c.session.End()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.publishes, c.calls, c.events = nil, nil, nil
}
