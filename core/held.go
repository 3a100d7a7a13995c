package core

import (
	"github.com/understudy-mq/understudy/core/entry"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

// A message may have to wait before it is there for anybody: one that was published to an x-delayed-message exchange with
// an x-delay header, before it is routed; one that was given back to a queue with delayed retry, before it returns to its
// place. Each is a row of its own with a deadline of its own.

type heldRow struct {
	Vhost  uint32
	ID     uint64
	Until  int64  // stamp
	Queue  uint32 // where it returns to, 0 for one that is still to be routed
	Number uint64 // of one that returns
	Loc    message.Loc
	Size   uint32
	Flags  uint32 // of one that returns
	// Of one that is still to be routed:
	Exchange string
	TTL      int64
	Body     uint64
	Parts    []message.Part
	Letter   letterRow // key, copies, headers, priority
}

type held struct {
	meta
	heldRow
	timer   timer
	vhost   *vhost
	atQueue int // in queue.held
}

func (x *held) key(dst []byte) []byte { return keyOf(dst, tableHeld, uint64(x.Vhost), x.ID) }

func (x *heldRow) code(c *rowCoder) {
	c.u32(&x.Vhost)
	c.u64(&x.ID)
	c.i64(&x.Until)
	c.u32(&x.Queue)
	c.u64(&x.Number)
	if !c.hashing {
		c.u64((*uint64)(&x.Loc))
	}
	c.u32(&x.Size)
	c.u32(&x.Flags)
	c.str(&x.Exchange)
	c.i64(&x.TTL)
	c.u64(&x.Body)
	c.parts(&x.Parts)
	x.Letter.code(c)
}

func (x *heldRow) visit(visit func(message.Loc, uint32)) {
	visit(x.Loc, x.Size)
	visitParts(x.Parts, visit)
}

func (v *vhost) addHeld(row heldRow) *held {
	row.Letter.particulars = v.sharing.shared(row.Letter.particulars)
	x := &held{heldRow: row, vhost: v}
	// What returns at one time returns in its order: each is offered to consumers before the next.
	x.timer = timer{table: tableHeld, vhost: v.Vhost, rank: row.Number, id: row.ID, owner: x}
	v.held.add(x)
	if q := v.queue[row.Queue]; q != nil {
		x.atQueue = len(q.held)
		q.held = append(q.held, x)
	}
	return x
}

// hold keeps a message until its time. Its reference to the content is the caller's.
func (m *Machine) hold(v *vhost, row heldRow) {
	v.Held++
	m.touch(v)
	row.Vhost, row.ID = v.Vhost, v.Held
	m.touch(v.addHeld(row))
}

// unhold ends a held message's wait.
func (m *Machine) unhold(x *held) {
	if q := x.vhost.queue[x.Queue]; q != nil {
		if y := take(&q.held, x.atQueue); y != nil {
			y.atQueue = x.atQueue
		}
	}
	x.gone = true
	x.vhost.held.tidy()
	m.touch(x)
}

func (x *held) timing() *timer  { return &x.timer }
func (x *held) deadline() int64 { return max(x.Until, 1) }

// due returns the message to its queue, or routes it.
func (x *held) due(m *Machine) {
	if x.gone {
		return
	}
	v := x.vhost
	m.unhold(x)
	if x.Queue != 0 {
		m.enqueue(v.queue[x.Queue], x.ref())
		return
	}
	m.routes = m.routeKeys(v, x.Exchange, &x.Letter, m.routes[:0], x.Letter.CC, x.Letter.BCC)
	m.arrive(x)
	m.live.remove(uint64(x.Loc), x.Size)
}

// arrive enters a message whose delay is over into the queues that it is routed to.
func (m *Machine) arrive(x *held) {
	if len(m.routes) == 0 {
		m.live.removeParts(x.Parts)
		return
	}
	v := x.vhost
	m.freshen(v)
	v.Messages++
	m.touch(v)
	r := ready.Ref{Number: v.Messages, Loc: uint64(x.Loc), Size: x.Size}
	marks, letter := marks{priority: x.Letter.Priority, ttl: x.TTL, body: x.Body}, x.Letter
	if v.rejecting > 0 && m.refused(v, marks.body) {
		m.turnAway(v, r, &marks, &letter, x.Parts)
		return
	}
	m.enqueueAll(v, r, &marks, &letter, x.Parts)
}

func (x *held) ref() ready.Ref {
	return ready.Ref{Number: x.Number, Loc: uint64(x.Loc), Size: x.Size, Flags: x.Flags}
}

// delayOf is how long the publish at hand has to wait before it is routed, in milliseconds; 0 for almost all.
func (m *Machine) delayOf(v *vhost) int64 {
	if v.delaying == 0 || len(m.record.Exchange) == 0 {
		return 0
	}
	if x := v.exchange[string(m.record.Exchange)]; x == nil || !x.Delayed {
		return 0
	}
	value, _ := m.recordHeaders().Get("x-delay")
	n, _ := message.Integer(value)
	return min(max(n, 0), expiryMax)
}

// delay holds the publish at hand.
func (m *Machine) delay(h *channel, x *entry.Publish, offset int, marks *marks, wait int64, parts []message.Part) {
	v := h.session.vhost
	row := heldRow{Until: m.header.Stamp + wait, Loc: message.NewLoc(m.index, offset), Size: uint32(len(x.Record)),
		Exchange: string(m.record.Exchange), TTL: marks.ttl, Body: marks.body, Parts: parts, Letter: m.newLetter(v, marks)}
	m.live.add(uint64(row.Loc), row.Size)
	m.hold(v, row)
	m.rememberAtHand(h.session)
	m.confirm(h, EffectConfirmed)
}

// retryAfter is how long a delivery that was given back waits before it returns to the queue; 0 is at once.
func (q *queue) retryAfter(flags uint32, outcome entry.Outcome) int64 {
	s := &q.set
	failed := outcome == entry.Modified
	if s.retry == retryNone || s.retry == retryFailed && !failed || s.retry == retryReturned && failed {
		return 0
	}
	wait := s.retryMin * int64(max(flags>>countShift, 1))
	if s.retryMax != none {
		wait = min(wait, s.retryMax)
	}
	return min(wait, expiryMax)
}

// retryLater holds a message of the queue's that was given back.
func (m *Machine) retryLater(q *queue, r ready.Ref, wait int64) {
	m.hold(q.vhost, heldRow{Until: m.header.Stamp + wait, Queue: q.ID, Number: r.Number, Loc: message.Loc(r.Loc), Size: r.Size, Flags: r.Flags})
}

// dropHeld ends what waits to return to a queue that goes.
func (m *Machine) dropHeld(q *queue) {
	for len(q.held) > 0 {
		x := q.held[len(q.held)-1]
		m.unhold(x)
		r := x.ref()
		m.dispose(q.vhost, q, &r)
	}
}
