package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/checker"
)

// A consumer asks for a synchronous reply behind its acks after so many of them, or when it has been idle.
const (
	barrierEvery = 100
	barrierIdle  = 100 * time.Millisecond
)

func (l *Load) consumeForever(ctx context.Context, queue string, rng *rand.Rand) {
	l.visit(ctx, rng, func(node int, _ *amqp.Connection, ch *amqp.Channel) bool {
		return l.consume(ctx, node, queue, ch)
	})
}

// consume takes and acknowledges deliveries until the connection breaks or ctx ends; true if there were any.
func (l *Load) consume(ctx context.Context, node int, queue string, ch *amqp.Channel) bool {
	if err := ch.Qos(l.Prefetch, 0, false); err != nil {
		return false
	}
	record := l.History.Consumer(false)
	in, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return false
	}
	// basic.qos is answered in order behind the acks; it concerns new consumers only, so nothing changes.
	barrier := func() bool {
		if ch.Qos(l.Prefetch, 0, false) != nil {
			return false
		}
		record.Barrier(l.History.Now())
		return true
	}
	open := 0
	for {
		select {
		case d, ok := <-in:
			if !ok {
				return len(record.Deliveries) > 0
			}
			record.Deliver(l.delivery(node, queue, d))
			if d.Ack(false) != nil {
				return true
			}
			if open++; open < barrierEvery {
				continue
			}
			if !barrier() {
				return true
			}
			open = 0
		case <-time.After(barrierIdle):
			if open > 0 && !barrier() {
				return true
			}
			open = 0
		case <-ctx.Done():
			_ = barrier()
			return true
		}
	}
}

// delivery is what a consumer writes down before it acknowledges: from here on the ack may have reached the broker.
func (l *Load) delivery(node int, queue string, d amqp.Delivery) checker.Delivery {
	id, ok := checker.BodyID(d.Body)
	return checker.Delivery{
		ID: id, Malformed: !ok, Node: node, Queue: queue, Sum: checker.Sum(d.Body),
		Redelivered: d.Redelivered, At: l.History.Now(), AckSent: true,
	}
}

// WaitEmpty waits until no queue has a ready message, so that the drain finds little.
func (l *Load) WaitEmpty(ctx context.Context) error {
	for {
		var left int
		err := l.anywhere(ctx, func(ch *amqp.Channel) error {
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
		err := l.anywhere(ctx, l.drainOnce)
		if err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		if l.History.Outstanding() == 0 {
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
	for _, q := range l.Queues {
		for {
			d, ok, err := ch.Get(q.Name, false)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			record.Deliver(l.delivery(-1, q.Name, d))
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
