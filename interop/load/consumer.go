package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/checker"
)

// A consumer asks for a synchronous reply behind its acks after so many deliveries, or when it has been idle.
const (
	barrierEvery = 100
	barrierIdle  = 100 * time.Millisecond
)

// One first delivery in requeueEvery is given back. Every other consumer acknowledges ackTogether deliveries at once.
const (
	requeueEvery = 200
	ackTogether  = 10
)

func (l *Load) consumeForever(ctx context.Context, queue Queue, n int, rng *rand.Rand) {
	every := 1
	if n%2 == 0 {
		every = ackTogether
	}
	l.visit(ctx, n, rng, func(node int, ch *amqp.Channel) bool {
		c := consumer{load: l, node: node, queue: queue, ch: ch, rng: rng, ackEvery: every}
		return c.run(ctx)
	})
}

// consumer is one basic.consume on one connection.
type consumer struct {
	load     *Load
	node     int
	queue    Queue
	ch       *amqp.Channel
	rng      *rand.Rand
	ackEvery int

	record     *checker.Consumer
	last       amqp.Delivery // the newest that is to be acknowledged
	toAck      int           // deliveries that are not acknowledged yet
	sinceReply int           // deliveries since the last barrier
}

// run takes and settles deliveries until the connection breaks or ctx ends; true if there were any.
func (c *consumer) run(ctx context.Context) bool {
	if err := c.ch.Qos(c.load.Prefetch, 0, false); err != nil {
		return false
	}
	c.record = c.load.History.Consumer(false)
	in, err := c.ch.Consume(c.queue.Name, "", false, false, false, false, nil)
	if err != nil {
		return false
	}
	for {
		select {
		case d, ok := <-in:
			if !ok {
				return len(c.record.Deliveries) > 0
			}
			if c.take(d) != nil {
				return true
			}
			c.rest(ctx)
		case <-time.After(barrierIdle):
			if c.sinceReply > 0 && c.barrier() != nil {
				return true
			}
		case <-ctx.Done():
			_ = c.barrier() // what is not settled by now returns to its queue
			return true
		}
	}
}

// take writes a delivery down and settles it, or lets it wait for others to be settled with.
func (c *consumer) take(d amqp.Delivery) error {
	seen := c.load.delivery(c.node, c.queue.Name, d)
	c.judge(&seen, d)
	c.record.Deliver(seen)
	c.sinceReply++
	if seen.Requeued || seen.Rejected {
		if err := c.refuse(&seen, d); err != nil {
			return err
		}
	} else {
		c.last = d
		c.toAck++
	}
	if c.toAck >= c.ackEvery {
		if err := c.ack(); err != nil {
			return err
		}
	}
	if c.sinceReply >= barrierEvery {
		return c.barrier()
	}
	return nil
}

// ack acknowledges what was taken and not given back.
func (c *consumer) ack() error {
	if c.toAck == 0 {
		return nil
	}
	c.record.Ack()
	c.toAck = 0
	return c.last.Ack(c.ackEvery > 1)
}

// barrier waits for a reply behind all acks: basic.qos is answered in their order, and concerns new consumers only.
func (c *consumer) barrier() error {
	if err := c.ack(); err != nil {
		return err
	}
	if err := c.ch.Qos(c.load.Prefetch, 0, false); err != nil {
		return err
	}
	c.record.Barrier(c.load.History.Now())
	c.sinceReply = 0
	return nil
}

// delivery is what is written down of a delivery.
func (l *Load) delivery(node int, queue string, d amqp.Delivery) checker.Delivery {
	id, ok := checker.BodyID(d.Body)
	return checker.Delivery{
		ID: id, Malformed: !ok, Node: node, Queue: queue, Sum: checker.Sum(d.Body),
		Redelivered: d.Redelivered, At: l.History.Now(), Death: deathOf(d),
	}
}

// WaitEmpty waits until no queue has a ready message, so that the drain finds little.
func (l *Load) WaitEmpty(ctx context.Context) error {
	for {
		var left int
		err := l.Anywhere(ctx, func(ch *amqp.Channel) error {
			left = 0
			for _, q := range l.Queues {
				state, err := ch.QueueDeclarePassive(q.Name, true, false, false, false, nil)
				if err != nil {
					return err
				}
				left += state.Messages
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("waiting for empty queues: %w", err)
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d messages are still ready: %w", left, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Drain empties the queues with basic.get once producers and consumers have ended. It asks again until everything
// confirmed was seen, since deliveries of consumers that died return late, or until ctx ends (the checker says then what
// is missing).
func (l *Load) Drain(ctx context.Context) error {
	for {
		err := l.Anywhere(ctx, l.drainOnce)
		if err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		if l.left() == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (l *Load) drainOnce(ch *amqp.Channel) error {
	record := l.History.Consumer(true)
	l.drained = 0
	for _, q := range l.Queues {
		for {
			d, ok, err := ch.Get(q.Name, false)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			l.drained++
			record.Deliver(l.delivery(-1, q.Name, d))
			record.Ack()
			if err := d.Ack(false); err != nil {
				return err
			}
		}
	}
	if err := ch.Qos(1, 0, false); err != nil {
		return err
	}
	record.Barrier(l.History.Now())
	return nil
}
