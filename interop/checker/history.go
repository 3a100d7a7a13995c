package checker

import (
	"sync"
	"sync/atomic"
	"time"
)

// ID is a message's own random number, carried in its body.
type ID [16]byte

// Time is nanoseconds since the history began, on one monotonic clock.
type Time int64

// Fate is what the broker said of a publish.
type Fate uint8

// The fates. Unknown: the connection broke before the broker had said anything.
const (
	Unknown Fate = iota
	Confirmed
	Refused
)

// Attempt is one publish. A producer never sends a message twice.
type Attempt struct {
	ID       ID
	Producer int    // number of the producer
	Conn     int    // number of its connection, from 1
	Node     int    // index of the URL that it was connected to
	Seq      uint64 // strictly increasing per producer
	Queue    string
	Priority uint8
	Batch    uint64 // number of the transaction that it is part of, 0 for none
	Sum      uint64 // checksum of the whole body
	At       Time
	Fate     Fate
	FateAt   Time
}

// Death is what the newest entry of x-death says of a message that came as a dead letter.
type Death struct {
	Queue, Reason string
	Count         int64
}

// Delivery is one message received.
type Delivery struct {
	ID          ID
	Consumer    int // number of the consumer: one basic.consume on one connection
	Node        int // index of the URL that it was connected to
	Queue       string
	Sum         uint64
	Redelivered bool
	Malformed   bool // the body does not even hold an ID
	At          Time
	Requeued    bool // the consumer gave it back; it is never acknowledged
	Rejected    bool // the consumer rejected it for good; it is never acknowledged
	Death       *Death
	AckSent     bool
	Committed   Time // when a synchronous reply behind the ack came, 0 if none did
}

// Producer records the publishes of one producer.
type Producer struct {
	Attempts  []Attempt
	confirmed atomic.Int64
}

// Publish records an attempt before it is made and answers its index for Settle.
func (p *Producer) Publish(a Attempt) int {
	p.Attempts = append(p.Attempts, a)
	return len(p.Attempts) - 1
}

// Settle records the broker's word on an attempt.
func (p *Producer) Settle(i int, fate Fate, at Time) {
	p.Attempts[i].Fate, p.Attempts[i].FateAt = fate, at
	if fate == Confirmed {
		p.confirmed.Add(1)
	}
}

// Consumer records the deliveries to one consumer, from its basic.consume to the end of its connection.
type Consumer struct {
	Number     int
	Drain      bool // of the final drain, when nothing else consumes
	Deliveries []Delivery
	delivered  atomic.Int64
	acked      int // deliveries up to here were acknowledged or given back
	committed  int // deliveries up to here are known to be settled
}

// Deliver records a delivery.
func (c *Consumer) Deliver(d Delivery) {
	d.Consumer = c.Number
	c.Deliveries = append(c.Deliveries, d)
	c.delivered.Add(1)
}

// Ack records, before it is sent, an ack of every delivery so far that was not given back.
func (c *Consumer) Ack() {
	for ; c.acked < len(c.Deliveries); c.acked++ {
		d := &c.Deliveries[c.acked]
		d.AckSent = !d.Requeued && !d.Rejected
	}
}

// Barrier records that a synchronous reply came behind all acks sent so far on this channel: they are committed.
func (c *Consumer) Barrier(at Time) {
	for ; c.committed < len(c.Deliveries); c.committed++ {
		if d := &c.Deliveries[c.committed]; d.AckSent {
			d.Committed = at
		}
	}
}

// History is everything that happened.
type History struct {
	begin time.Time
	mu    sync.Mutex
	// Producers and Consumers in order of their beginning.
	Producers []*Producer
	Consumers []*Consumer
}

// NewHistory begins a history; its clock starts.
func NewHistory() *History { return &History{begin: time.Now()} }

// Now is the time on the history's clock.
func (h *History) Now() Time { return Time(time.Since(h.begin)) }

// Producer adds a producer.
func (h *History) Producer() (*Producer, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &Producer{}
	h.Producers = append(h.Producers, p)
	return p, len(h.Producers)
}

// Consumer adds a consumer.
func (h *History) Consumer(drain bool) *Consumer {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &Consumer{Number: len(h.Consumers) + 1, Drain: drain}
	h.Consumers = append(h.Consumers, c)
	return c
}

// Confirmed counts the publishes confirmed so far; safe while the load runs.
func (h *History) Confirmed() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	var n int64
	for _, p := range h.Producers {
		n += p.confirmed.Load()
	}
	return n
}

// Delivered counts the deliveries so far; safe while the load runs.
func (h *History) Delivered() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	var n int64
	for _, c := range h.Consumers {
		n += c.delivered.Load()
	}
	return n
}

// Outstanding counts the confirmed messages that nobody has acknowledged. Only when producers and consumers rest.
func (h *History) Outstanding() int {
	acked := map[ID]bool{}
	for _, c := range h.Consumers {
		for i := range c.Deliveries {
			if c.Deliveries[i].AckSent {
				acked[c.Deliveries[i].ID] = true
			}
		}
	}
	n := 0
	for _, p := range h.Producers {
		for i := range p.Attempts {
			if p.Attempts[i].Fate == Confirmed && !acked[p.Attempts[i].ID] {
				n++
			}
		}
	}
	return n
}
