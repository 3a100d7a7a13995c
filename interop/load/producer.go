package load

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/checker"
)

// pace is how often a producer with a rate looks whether something is due.
const pace = 5 * time.Millisecond

// lastConfirms is how long a producer that is to stop waits for what is not confirmed yet.
const lastConfirms = 15 * time.Second

type producer struct {
	load    *Load
	record  *checker.Producer
	first   int // the node to begin at
	number  int
	queue   Queue
	rng     *rand.Rand
	seq     uint64
	conns   int
	batches uint64 // transactions begun
}

func (p *producer) run(ctx context.Context) {
	p.load.visit(ctx, p.first, p.rng, func(node int, ch *amqp.Channel) bool {
		if p.queue.Transactions != "" {
			p.conns++
			return p.transact(ctx, node, ch) > 0
		}
		if err := ch.Confirm(false); err != nil {
			return false
		}
		p.conns++
		return p.produce(ctx, node, ch) > 0
	})
}

// produce publishes on one connection until it breaks or ctx ends, and answers how many publishes were confirmed.
func (p *producer) produce(ctx context.Context, node int, ch *amqp.Channel) (confirmed int) {
	// The buffer holds every confirm that can be under way, so the library's reader never waits for us.
	acks := ch.NotifyPublish(make(chan amqp.Confirmation, p.load.Window))
	first, sent, open := len(p.record.Attempts), 0, 0
	begin, stopping, last := time.Now(), ctx.Done(), (<-chan time.Time)(nil)
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		due := p.due(begin, sent)
		for ; last == nil && due > 0 && open < p.load.Window; due-- {
			if !p.publish(node, ch, p.queue.Name, 0) {
				return confirmed
			}
			sent++
			open++
		}
		select {
		case a, ok := <-acks:
			if !ok {
				return confirmed
			}
			fate := checker.Refused
			if a.Ack {
				fate = checker.Confirmed
				confirmed++
			}
			p.record.Settle(first+int(a.DeliveryTag)-1, fate, p.load.History.Now())
			open--
		case <-tick.C:
		case <-stopping:
			stopping, last = nil, time.After(lastConfirms)
		case <-last:
			return confirmed
		}
		if last != nil && open == 0 {
			return confirmed
		}
	}
}

// due is how many publishes the rate asks for now.
func (p *producer) due(begin time.Time, sent int) int {
	if p.load.Rate == 0 {
		return p.load.Window
	}
	return int(time.Since(begin).Seconds()*float64(p.load.Rate)) - sent
}

// publish sends the next message; false if the connection is gone (whether the broker has the message is unknown then).
func (p *producer) publish(node int, ch *amqp.Channel, queue string, batch uint64) bool {
	p.seq++
	var id checker.ID
	binary.BigEndian.PutUint64(id[:], p.rng.Uint64())
	binary.BigEndian.PutUint64(id[8:], p.rng.Uint64())
	body := checker.Body(id, p.number, p.seq, p.size())
	m := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}
	if p.queue.Priorities > 0 {
		m.Priority = uint8(p.rng.IntN(p.queue.Priorities + 1))
	}
	p.record.Publish(checker.Attempt{
		ID: id, Producer: p.number, Conn: p.conns, Node: node, Seq: p.seq, Queue: queue, Priority: m.Priority, Batch: batch,
		Sum: checker.Sum(body), At: p.load.History.Now(),
	})
	return ch.PublishWithContext(context.Background(), "", queue, false, false, m) == nil
}

// size is small mostly; the biggest bodies travel through the cluster in several pieces.
func (p *producer) size() int {
	size := checker.HeaderBytes + p.rng.IntN(p.load.Bytes)
	switch n := p.rng.IntN(1024); {
	case n == 0:
		return 1<<20 + p.rng.IntN(1<<20)
	case n%64 == 0:
		return 16 * size
	}
	return size
}
