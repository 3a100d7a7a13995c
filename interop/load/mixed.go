package load

import (
	"context"
	"encoding/binary"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/checker"
)

// Manner is how a queue's producers and consumers go about it. The zero value confirms and acknowledges.
type Manner struct {
	// Transactions names a second queue: publishes come in transactions of batchSize, to either in turn. "" for confirms.
	Transactions string
	Priorities   int           // publishes have one from 0 to this
	Slow         time.Duration // what a consumer takes over a message
	// Verdict of a consumer on a message, by its sequence number; nil accepts all.
	Verdict func(seq uint64) Verdict
}

// Verdict is what a consumer does with a message.
type Verdict uint8

// The verdicts. A message that is returned counts as failed.
const (
	Accept Verdict = iota
	Reject
	Return
)

const (
	batchSize     = 6
	rollbackEvery = 5 // one transaction in so many is rolled back
	batchPace     = 30 * time.Millisecond
)

// Mixture is a load of all that makes messages end otherwise than by being consumed: age, limits, rejection, a delivery
// limit, transactions; and priorities. All dead letters come to one queue. Names end with suffix.
func Mixture(suffix string) ([]Queue, *checker.Rules) {
	const ttl = 400 * time.Millisecond
	name := func(s string) string { return s + "-" + suffix }
	dead := name("dead")
	letters := func(more amqp.Table) amqp.Table {
		t := amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
		for k, v := range more {
			t[k] = v
		}
		return t
	}
	slow := Manner{Slow: 100 * time.Millisecond}
	picky := Manner{Verdict: func(seq uint64) Verdict { return []Verdict{Return, Reject, Accept, Accept}[seq%4] }}
	queues := []Queue{
		{Name: name("aged"), Producers: 1, Consumers: 1, Manner: slow, Arguments: letters(amqp.Table{"x-message-ttl": ttl.Milliseconds()})},
		{Name: name("short"), Producers: 1, Consumers: 1, Manner: slow, Arguments: letters(amqp.Table{"x-max-length": int64(20)})},
		{Name: name("small"), Producers: 1, Consumers: 1, Manner: slow, Arguments: amqp.Table{"x-max-length": int64(20)}},
		{Name: name("full"), Producers: 1, Consumers: 1, Manner: slow, Arguments: amqp.Table{"x-max-length": int64(20), "x-overflow": "reject-publish"}},
		{Name: name("picky"), Producers: 1, Consumers: 1, Manner: picky, Arguments: letters(amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(3)})},
		{Name: name("fair"), Producers: 1, Consumers: 1, Manner: Manner{Priorities: 5, Slow: 50 * time.Millisecond}, Arguments: amqp.Table{"x-max-priority": int64(5)}},
		{Name: name("tx-a"), Producers: 1, Consumers: 1, Manner: Manner{Transactions: name("tx-b")}},
		{Name: name("tx-b"), Consumers: 1},
		{Name: dead, Consumers: 1},
	}
	return queues, &checker.Rules{DeadLetters: dead, Queues: map[string]checker.Rule{
		name("aged"):  {Deaths: []string{"expired"}, TTL: ttl},
		name("short"): {Deaths: []string{"maxlen"}},
		name("small"): {Keeps: 20},
		name("full"):  {},
		name("picky"): {Deaths: []string{"rejected", "delivery_limit"}},
		name("fair"):  {Priorities: true},
		name("tx-a"):  {},
		name("tx-b"):  {},
	}}
}

// Mixed is the account of a load with Rules.
func (l *Load) Mixed() *checker.MixedReport { return checker.CheckMixed(l.History, *l.Rules) }

// left is how many messages are missing, as far as the history tells; with Rules also those that may still be on their way
// from one queue to another.
func (l *Load) left() int {
	if l.Rules == nil {
		return l.History.Outstanding()
	}
	return l.Mixed().Lost + l.drained
}

// deathOf reads the newest death of a dead letter, nil if it is none.
func deathOf(d amqp.Delivery) *checker.Death {
	deaths, _ := d.Headers["x-death"].([]any)
	if len(deaths) == 0 {
		return nil
	}
	newest, _ := deaths[0].(amqp.Table)
	var death checker.Death
	death.Queue, _ = newest["queue"].(string)
	death.Reason, _ = newest["reason"].(string)
	death.Count, _ = newest["count"].(int64)
	return &death
}

// judge notes what the consumer is going to do with a message.
func (c *consumer) judge(seen *checker.Delivery, d amqp.Delivery) {
	switch {
	case seen.Malformed:
	case c.queue.Verdict != nil:
		verdict := c.queue.Verdict(binary.BigEndian.Uint64(d.Body[checker.HeaderBytes-8:]))
		seen.Rejected, seen.Requeued = verdict == Reject, verdict == Return
	default:
		seen.Requeued = !d.Redelivered && c.rng.IntN(requeueEvery) == 0
	}
}

// refuse does what judge has noted.
func (c *consumer) refuse(seen *checker.Delivery, d amqp.Delivery) error {
	if c.queue.Verdict != nil {
		return d.Reject(seen.Requeued)
	}
	return d.Nack(false, true)
}

// rest is the time that a slow consumer takes.
func (c *consumer) rest(ctx context.Context) {
	if c.queue.Slow == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(c.queue.Slow):
	}
}

// transact publishes in transactions until its channel fails, and answers how many it committed. What was published and
// never followed by a commit was refused, as far as the broker is concerned.
func (p *producer) transact(ctx context.Context, node int, ch *amqp.Channel) (committed int) {
	if ch.Tx() != nil {
		return 0
	}
	tick := time.NewTicker(batchPace)
	defer tick.Stop()
	for {
		p.batches++
		first := len(p.record.Attempts)
		for i := range batchSize {
			queue := p.queue.Name
			if i%2 == 1 {
				queue = p.queue.Transactions
			}
			if !p.publish(node, ch, queue, p.batches) {
				p.settleFrom(first, checker.Refused)
				return committed
			}
		}
		if p.rng.IntN(rollbackEvery) == 0 {
			p.settleFrom(first, checker.Refused)
			if ch.TxRollback() != nil {
				return committed
			}
		} else {
			if ch.TxCommit() != nil {
				return committed
			}
			p.settleFrom(first, checker.Confirmed)
			committed++
		}
		select {
		case <-ctx.Done():
			return committed
		case <-tick.C:
		}
	}
}

func (p *producer) settleFrom(first int, fate checker.Fate) {
	for i := first; i < len(p.record.Attempts); i++ {
		p.record.Settle(i, fate, p.load.History.Now())
	}
}
