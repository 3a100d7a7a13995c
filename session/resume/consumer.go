package resume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// headerNumber is the number that the broker gives a message: the same on source and standby.
	headerNumber = "x-message-number"
	// headerMark is a name that a Publisher gives a message, for Consumers to know it by when it is published again after a
	// promotion that lost it: its number is another one then.
	headerMark = "x-resume-mark"
)

// ErrNotHeld says that a delivery is settled already, or that its number was never handed out.
var ErrNotHeld = errors.New("delivery is not held")

// settling is what a Consumer needs of a channel; *amqp.Channel is one.
type settling interface {
	Ack(tag uint64, multiple bool) error
	Nack(tag uint64, multiple, requeue bool) error
}

// ConsumeOptions say how to consume.
type ConsumeOptions struct {
	Tag       string // of the consumer; default: a random one
	Prefetch  int    // unsettled deliveries at a time; 100
	Exclusive bool
	Args      amqp.Table
}

// Consumer receives from one queue.
type Consumer struct {
	numbered
	s     *Session
	queue string
	o     ConsumeOptions
	out   chan amqp.Delivery
	wake  chan struct{} // one slot: waiting has something

	mu      sync.Mutex
	ch      settling // nil while there is none
	sync    func() error
	ledger  ledger
	waiting []amqp.Delivery // for the application, in order
	unsure  int             // settled since the last sweep
	ended   chan struct{}
	err     error
}

// Consume begins to consume from a queue. The deliveries' DeliveryTag is the consumer's own count; their Ack, Nack and Reject
// may be called at any time, whatever became of the connection, and answer an error only for what is settled already or once
// the session is over.
func (s *Session) Consume(ctx context.Context, queue string, o ConsumeOptions) (*Consumer, error) {
	defaults(&o.Prefetch, 100)
	if o.Tag == "" {
		o.Tag = "resume-" + random()
	}
	c := &Consumer{s: s, queue: queue, o: o, out: make(chan amqp.Delivery), wake: make(chan struct{}, 1), ended: make(chan struct{}),
		ledger: newLedger(s.o.Replay)}
	if err := s.enter(ctx, c); err != nil {
		return nil, err
	}
	go c.feed()
	return c, nil
}

// Deliveries gives what the queue has, until the consumer or the session is over; Err then says why.
func (c *Consumer) Deliveries() <-chan amqp.Delivery { return c.out }

// Err answers why the consumer is over, nil while it is not.
func (c *Consumer) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the consumer: what it holds goes back to the queue.
func (c *Consumer) Close() error {
	c.s.leave(c)
	c.mu.Lock()
	ch, _ := c.ch.(*amqp.Channel)
	c.mu.Unlock()
	c.fail(ErrClosed)
	if ch != nil {
		return ch.Close()
	}
	return nil
}

func (c *Consumer) attach(ch *amqp.Channel, how EventKind) error {
	failures := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := ch.Qos(c.o.Prefetch, 0, false); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.attach(how, time.Now())
	deliveries, err := ch.Consume(c.queue, c.o.Tag, false, c.o.Exclusive, false, false, c.o.Args)
	if err != nil {
		return err
	}
	c.ch = ch
	c.sync = func() error { return ch.Qos(c.o.Prefetch, 0, false) }
	go c.follow(ch, deliveries, failures)
	return nil
}

func (c *Consumer) detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ch = nil
}

// follow takes the deliveries of one channel, until it is closed.
func (c *Consumer) follow(ch settling, deliveries <-chan amqp.Delivery, failures <-chan *amqp.Error) {
	swept := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(swept)
		c.sweep(ch, done)
	}()
	for d := range deliveries {
		c.take(ch, &d)
	}
	close(done)
	<-swept
	c.mu.Lock()
	mine := c.ch == ch
	c.mu.Unlock()
	if !mine {
		return
	}
	var err error
	select {
	case e := <-failures:
		if e == nil || !e.Server || hard(e) {
			return // the connection is lost, and this channel with it
		}
		if err = c.s.reopen(c); err == nil || fatal(err) == nil {
			return
		}
	default:
		if c.s.Err() != nil {
			return // finish says so
		}
		err = fmt.Errorf("consumer cancelled by the broker: queue '%s' is gone", c.queue)
	}
	c.fail(err)
	c.s.leave(c)
}

// take judges a delivery: new ones wait for the application, those that it has settled are settled again, and those that it
// has in hand are left with it.
func (c *Consumer) take(ch settling, d *amqp.Delivery) {
	number, ok := messageNumber(d.Headers)
	if !ok {
		number = d.DeliveryTag
	}
	mark, _ := d.Headers[headerMark].(string)
	delete(d.Headers, headerNumber)
	delete(d.Headers, headerMark)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch != ch {
		return // redelivered on the next
	}
	r, fresh := c.ledger.delivered(number, d.DeliveryTag, mark)
	if !fresh {
		if r.settled() {
			c.send(r)
		}
		return
	}
	d.Acknowledger, d.DeliveryTag = c, r.handle
	c.waiting = append(c.waiting, *d)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func messageNumber(headers amqp.Table) (uint64, bool) {
	switch n := headers[headerNumber].(type) {
	case int64:
		return uint64(n), true
	case int32:
		return uint64(n), true
	}
	return 0, false
}

// feed hands deliveries to the application, in order.
func (c *Consumer) feed() {
	defer close(c.out)
	for {
		c.mu.Lock()
		var next *amqp.Delivery
		if len(c.waiting) > 0 {
			next = &c.waiting[0]
			c.waiting = c.waiting[1:]
		}
		c.mu.Unlock()
		if next == nil {
			select {
			case <-c.wake:
			case <-c.ended:
				return
			}
			continue
		}
		select {
		case c.out <- *next:
		case <-c.ended:
			return
		}
	}
}

// Ack implements amqp.Acknowledger.
func (c *Consumer) Ack(handle uint64, multiple bool) error {
	return c.settle(handle, multiple, acked)
}

// Nack implements amqp.Acknowledger.
func (c *Consumer) Nack(handle uint64, multiple, requeue bool) error {
	if requeue {
		return c.settle(handle, multiple, requeued)
	}
	return c.settle(handle, multiple, rejected)
}

// Reject implements amqp.Acknowledger.
func (c *Consumer) Reject(handle uint64, requeue bool) error { return c.Nack(handle, false, requeue) }

var _ amqp.Acknowledger = (*Consumer)(nil)

func (c *Consumer) settle(handle uint64, multiple bool, o outcome) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	settled := c.ledger.settle(handle, multiple, o, time.Now())
	if len(settled) == 0 && !multiple {
		return ErrNotHeld
	}
	for _, r := range settled {
		c.send(r)
	}
	return nil
}

// send settles on the channel of the moment. What does not arrive is settled again when it is redelivered.
func (c *Consumer) send(r *record) {
	if c.ch == nil || !r.moored {
		return
	}
	var err error
	switch r.outcome {
	case acked:
		err = c.ch.Ack(r.tag, false)
	default:
		err = c.ch.Nack(r.tag, false, r.outcome == requeued)
	}
	if err == nil {
		c.unsure++
		r.sent = c.ch
	}
}

// sweepEvery is how often settlements are forgotten that have surely arrived.
const sweepEvery = time.Second

// sweep forgets settlements: a synchronous reply says that those before it are in.
func (c *Consumer) sweep(ch settling, done <-chan struct{}) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-done:
			return
		}
		c.mu.Lock()
		sync, upTo, idle := c.sync, c.ledger.mark(), c.unsure == 0
		c.unsure = 0
		mine := c.ch == ch
		c.mu.Unlock()
		if !mine || !idle && sync() != nil {
			return
		}
		c.mu.Lock()
		c.ledger.arrived(upTo, ch)
		c.ledger.prune(time.Now())
		c.mu.Unlock()
	}
}

func (c *Consumer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err, c.ch = err, nil
		close(c.ended)
	}
}
