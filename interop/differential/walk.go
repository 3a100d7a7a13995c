package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// walk makes a conversation from a seed.
type walk struct {
	*rand.Rand
	bodies  int    // messages published
	sane    bool   // nothing is wrong on purpose
	narrow  bool   // every message is for one queue, so that queues may refuse messages
	opening []move // a topology to begin with
}

func newWalk(seed uint64) *walk {
	w := &walk{Rand: rand.New(rand.NewPCG(seed, 1)), sane: seed%2 == 0, narrow: seed%4 > 1}
	w.open()
	return w
}

// view is what a walk has to know of its conversation.
type view interface {
	isOpen(conn int, channel uint16) bool
	heldBy(conn int, channel uint16) int
}

func (w *walk) chance(percent int) bool { return w.IntN(100) < percent }

// wrong says whether something is to be wrong.
func (w *walk) wrong() bool { return !w.sane && w.chance(4) }

func pick[T any](w *walk, from []T) T { return from[w.IntN(len(from))] }

// open has the conversation begin with a topology in which most things are there.
func (w *walk) open() {
	for i, x := range exchangeNames[:3] {
		if w.chance(80) {
			w.begin(step{method: "exchange.declare", arguments: list{x, exchangeTypes[(i+w.IntN(4))%4], false, true, false, false, false, w.exchangeArguments()}})
		}
	}
	for _, q := range queueNames[:4] {
		if w.chance(80) {
			w.begin(step{method: "queue.declare", arguments: list{q, false, true, false, false, false, w.queueArguments()}})
			w.begin(step{method: "queue.bind", arguments: list{q, pick(w, exchangeNames[:3]), pick(w, keys), false, w.bindingArguments()}})
			w.begin(step{method: "queue.bind", arguments: list{q, pick(w, exchangeNames[4:]), pick(w, keys), false, w.bindingArguments()}})
		}
	}
}

func (w *walk) begin(s step) {
	w.opening = append(w.opening, move{channel: 1, steps: []step{{method: "channel.open"}, s}})
	if len(w.opening) == 1 {
		w.opening[0].steps = w.opening[0].steps[1:]
	}
}

// move is the next move.
func (w *walk) move(v view) move {
	m := move{conn: w.IntN(5) / 4, channel: uint16(1 + w.IntN(2))}
	if len(w.opening) > 0 {
		m, w.opening = w.opening[0], w.opening[1:]
		if v.isOpen(m.conn, m.channel) && len(m.steps) > 1 {
			m.steps = m.steps[1:]
		}
		return m
	}
	if !v.isOpen(m.conn, m.channel) {
		if w.wrong() {
			m.steps = []step{{method: "basic.qos", arguments: list{0, 1, false}}}
			return m
		}
		m.steps = append(m.steps, step{method: "channel.open"})
	}
	several := w.chance(20)
	for range 1 + w.IntN(4) {
		s := w.step(v.heldBy(m.conn, m.channel))
		if len(m.steps) == 0 || !s.alone() {
			m.steps = append(m.steps, s)
		}
		if !several || s.alone() {
			break
		}
	}
	return m
}

// alone says whether nothing is to be sent with a step: RabbitMQ goes on with what is behind it before the queue has answered, or the
// connection ends for it and what was before it has no answer.
func (s *step) alone() bool {
	switch s.method {
	case "queue.declare", "basic.consume", "basic.cancel", "basic.recover", "tx.commit", "channel.close", "channel.flow":
		return true
	case "basic.publish":
		return s.arguments[3] == true
	case "basic.qos":
		return s.arguments[0] != 0
	}
	return false
}

func (w *walk) step(held int) step {
	for n := w.IntN(weights); ; {
		for _, c := range choices {
			if n -= c.weight; n < 0 {
				if w.sane && held == 0 && c.settles {
					n = w.IntN(weights)
					break
				}
				s := step{method: c.method}
				c.fill(w, &s, held)
				return s
			}
		}
	}
}

func (w *walk) queue() string {
	if w.wrong() {
		return pick(w, oddNames)
	}
	return pick(w, queueNames)
}

// lately is a queue, or the one that was declared last on the channel.
func (w *walk) lately() string {
	if w.chance(8) {
		return ""
	}
	return w.queue()
}

func (w *walk) exchange() string {
	if w.wrong() {
		return pick(w, oddNames)
	}
	return pick(w, exchangeNames)
}

func (w *walk) tag(held int) any {
	switch {
	case held > 0 && !w.wrong():
		return tagOf(w.IntN(held))
	case w.chance(50):
		return w.IntN(4)
	}
	return tagOf(w.IntN(3))
}

func (w *walk) publish(s *step) {
	exchange, key := w.exchange(), pick(w, keys)
	if w.narrow {
		exchange = ""
	}
	if exchange == "" {
		key = w.queue()
	}
	s.arguments = list{exchange, key, w.chance(30), w.wrong() && w.chance(50)}
	w.bodies++
	s.body = fmt.Sprintf("m%d", w.bodies)
	p := &s.properties
	if w.chance(30) {
		p.DeliveryMode = byte(1 + w.IntN(2))
	}
	if w.chance(30) {
		p.Headers = w.headers()
	}
	if w.chance(15) {
		v := byte(w.IntN(8))
		p.Priority = &v
	}
	if w.chance(10) {
		p.ContentType, p.MessageID = "text/plain", "id"
	}
	if !slices.Contains(exchangeNames[3:], exchange) {
		return // RabbitMQ looks for the exchange before it judges the rest
	}
	switch {
	case w.wrong():
		p.Expiration = pick(w, badExpirations)
	case w.wrong():
		p.UserID = "nope"
	case w.chance(10):
		p.Expiration, p.UserID = pick(w, expirations), "guest"
	}
}
