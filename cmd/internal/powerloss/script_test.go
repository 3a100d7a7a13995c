package powerloss

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// script drives a client through a random but repeatable life. Its queues are its own, so that what they hold follows
// from what it has asked for.
type script struct {
	*client
	rng    *rand.Rand
	queues []string
	fanout string // an exchange bound to the first two queues
	now    contents
	number uint64 // of this client, in the top half of its messages' ids
	sent   uint64
	tags   int
}

func newScript(c *client, number, seed uint64) *script {
	s := &script{client: c, number: number, rng: rand.New(rand.NewPCG(seed, number)), now: contents{},
		fanout: fmt.Sprintf("fanout-%d", number)}
	for i := range 3 {
		s.queues = append(s.queues, fmt.Sprintf("queue-%d-%d", number, i))
	}
	return s
}

// run plays the script until enough says so, or the session is lost (errLeft).
func (s *script) run(enough func() bool) error {
	if err := s.begin(); err != nil {
		return err
	}
	for !enough() {
		if err := s.step(); err != nil {
			return err
		}
	}
	return s.confirmed()
}

func (s *script) begin() error {
	if err := s.attach(); err != nil {
		return err
	}
	for _, q := range s.queues {
		s.declare(q)
	}
	s.change(change{what: declare, queues: []string{s.fanout}})
	s.call(&entry.ExchangeDeclare{Ref: s.ref(), Name: s.fanout, Type: "fanout", Durable: true})
	s.bind(s.queues[0])
	s.bind(s.queues[1])
	return s.wait(func() bool { return len(s.calls) == 0 })
}

func (s *script) ref() entry.Ref { return entry.Ref{Channel: channel} }

func (s *script) change(x change) {
	s.now.apply(x)
	s.ask(x)
}

func (s *script) declare(q string) {
	s.change(change{what: declare, queues: []string{q}})
	s.call(&entry.QueueDeclare{Ref: s.ref(), Name: q, Durable: true})
}

// bind is a change too: a binding is as a queue that never holds anything.
func (s *script) bind(q string) {
	s.change(change{what: declare, queues: []string{binding(s.fanout, q)}})
	s.call(&entry.QueueBind{Binding: entry.Binding{Ref: s.ref(), Destination: q, Source: s.fanout}})
}

func binding(source, destination string) string { return source + " to " + destination }

func (s *script) step() error {
	q := s.queues[s.rng.IntN(len(s.queues))]
	switch k := s.rng.IntN(20); {
	case k < 8:
		return s.burst(q)
	case k < 14:
		return s.consume(q)
	case k < 16:
		return s.get(q)
	case k == 16:
		s.change(change{what: purge, queues: []string{q}})
		return s.callAndWait(&entry.QueuePurge{Ref: s.ref(), Name: q})
	case k == 17:
		return s.renew()
	case k == 18:
		return s.reattach()
	}
	return s.confirmed()
}

// burst publishes some messages, to a queue or to the exchange, without waiting for their confirms.
func (s *script) burst(q string) error {
	for range 1 + s.rng.IntN(12) {
		exchange, key, queues := "", q, []string{q}
		if s.rng.IntN(4) == 0 {
			exchange, key, queues = s.fanout, "", s.queues[:2]
		}
		s.sent++
		id := s.number<<32 | s.sent
		size := bodyLeast + s.rng.IntN(2000)
		fragments := 0
		if s.rng.IntN(40) == 0 {
			fragments, size = 1+s.rng.IntN(3), 20_000+s.rng.IntN(30_000)
		}
		s.change(change{what: publish, queues: queues, ids: []uint64{id}})
		s.publish(exchange, key, makeBody(id, size), fragments)
	}
	return s.flush()
}

func (s *script) publish(exchange, key string, body []byte, fragments int) {
	r := message.Record{Form: message.FormAMQP091, Exchange: []byte(exchange), RoutingKey: []byte(key),
		Properties: []byte{0, 0}, BodySize: uint64(len(body))}
	piece := len(body) / (fragments + 1)
	for range fragments {
		s.session.Fragment(channel, body[:piece])
		body = body[piece:]
	}
	r.Body = body
	s.session.Publish(channel, false, fragments > 0, &r)
}

// consume takes messages from a queue through a consumer, settles some of them this way and that, and returns the rest.
func (s *script) consume(q string) error {
	prefetch := 1 + s.rng.IntN(20)
	s.tags++
	tag := fmt.Sprintf("consumer-%d", s.tags)
	s.call(&entry.Qos{Ref: s.ref(), Prefetch: uint32(prefetch)})
	s.call(&entry.Consume{Ref: s.ref(), Queue: q, Tag: tag})
	var held []arrival
	for range 1 + s.rng.IntN(4) {
		came, err := s.take(min(prefetch, len(s.now[q])) - len(held))
		if err != nil {
			return err
		}
		held = s.settleSome(q, append(held, came...))
	}
	if err := s.callAndWait(&entry.Cancel{Ref: s.ref(), Tag: tag}); err != nil {
		return err
	}
	if _, err := s.take(0); err != nil { // what came between the last settlement and the cancel
		return err
	}
	return s.callAndWait(&entry.Recover{Ref: s.ref(), Requeue: true})
}

// settleSome settles some of what is held, and answers the rest.
func (s *script) settleSome(q string, held []arrival) []arrival {
	if len(held) == 0 {
		return nil
	}
	slices.SortFunc(held, func(a, b arrival) int { return int(int64(a.tag) - int64(b.tag)) })
	n := 1 + s.rng.IntN(len(held))
	switch s.rng.IntN(4) {
	case 0: // all up to one
		s.settled(q, held[:n])
		s.session.Settle(channel, entry.Accepted, true, 0, held[n-1].tag)
	case 1: // one by one, the last first
		for _, a := range slices.Backward(held[:n]) {
			s.settled(q, []arrival{a})
			s.session.Settle(channel, entry.Accepted, false, a.tag, a.tag)
		}
	case 2: // for good
		s.settled(q, held[:n])
		s.session.Settle(channel, entry.Rejected, true, 0, held[n-1].tag)
	case 3: // back to its place
		s.session.Settle(channel, entry.Released, true, 0, held[n-1].tag)
	}
	return held[n:]
}

func (s *script) settled(q string, which []arrival) {
	x := change{what: settle, queues: []string{q}}
	for _, a := range which {
		x.ids = append(x.ids, a.id)
	}
	s.change(x)
}

// get takes the first message of a queue, for good or to settle it.
func (s *script) get(q string) error {
	if s.rng.IntN(2) == 0 {
		s.change(change{what: pop, queues: []string{q}})
		if err := s.callAndWait(&entry.Get{Ref: s.ref(), Queue: q, NoAck: true}); err != nil {
			return err
		}
		_, err := s.take(0)
		return err
	}
	if err := s.callAndWait(&entry.Get{Ref: s.ref(), Queue: q}); err != nil {
		return err
	}
	came, err := s.take(0)
	if err != nil || len(came) == 0 {
		return err
	}
	s.settled(q, came)
	s.session.Settle(channel, entry.Accepted, false, came[0].tag, came[0].tag)
	return nil
}

// renew deletes the queue that is bound to nothing, and declares it again.
func (s *script) renew() error {
	q := s.queues[2]
	s.change(change{what: remove, queues: []string{q}})
	s.call(&entry.QueueDelete{Ref: s.ref(), Name: q})
	s.declare(q)
	return s.wait(func() bool { return len(s.calls) == 0 })
}

// reattach ends the session, with deliveries in flight, and opens another.
func (s *script) reattach() error {
	if n := len(s.now[s.queues[0]]); n > 0 {
		if err := s.callAndWait(&entry.Get{Ref: s.ref(), Queue: s.queues[0]}); err != nil {
			return err
		}
		if _, err := s.take(1); err != nil {
			return err
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.leave()
	return s.attach()
}
