package core

import (
	"fmt"
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/internal/ledger"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
)

// The window of consumers that have no prefetch: how much may be on its way to their socket.
const (
	windowMessages = 2000
	windowBytes    = 4 << 20
)

// Flags of a ready.Ref. The bits from priorityShift on are its lane, those from countShift on the number of failed
// deliveries.
const (
	flagRedelivered = 1 << iota
	flagFragmented  // content has parts: vhost.content
	flagNoAck       // of a delivery: it is settled when written
	flagNoted       // the queue has a note on it: queue.notes
	flagLettered    // the broker keeps something beside it: vhost.letter
	flagGathered    // of a delivery: a transaction has its settlement
	flagOwed        // of a delivery: it is to be sent again
	flagAgain       // of a delivery: of an earlier attachment, or sent again; channel.Written tells nothing of it
	priorityShift   = 8
	countShift      = 16
	countOne        = 1 << countShift
)

func (v *vhost) consumerByNumber(number uint32) *consumer {
	if c := v.lastConsumer; c != nil && c.Number == number {
		return c
	}
	c := v.consumer[number]
	if c != nil {
		v.lastConsumer = c
	}
	return c
}

func (m *Machine) applyConsume(x *entry.Consume) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	q, claim, code, text := m.judgeConsume(h, x)
	if code != CodeOK {
		m.refuse(h, entry.KindConsume, code, text)
		return
	}
	c := m.newConsumer(h, q, claim, x)
	m.touch(q)
	m.touch(c)
	m.replyNamed(h, entry.KindConsume, x.NoWait, x.Tag, 0, 0)
	m.adopt(c)
	m.regain(c)
}

// judgeConsume answers the queue of a new consumer and the claim that it adopts, which may be nil, or its refusal.
func (m *Machine) judgeConsume(h *channel, x *entry.Consume) (q *queue, claim *consumer, code Code, text string) {
	if h.tagged(x.Tag) != nil {
		return nil, nil, CodeNotAllowed, fmt.Sprintf("attempt to reuse consumer tag '%s'", x.Tag)
	}
	if q, code, text = h.find(x.Queue); code != CodeOK {
		return nil, nil, code, text
	}
	others := len(q.consumers)
	if claim = h.claimFor(q, x); claim != nil {
		others--
	}
	if code, text = checkConsumer(q, x.Arguments); code != CodeOK {
		return nil, nil, code, text
	}
	if q.exclusive != nil && q.exclusive != claim || x.Exclusive && (others > 0 || q.set.singleActive) {
		return nil, nil, CodeAccessRefused, q.vhost.named("queue", q.Name) + " in exclusive use"
	}
	code, text = m.checkConsumers(h)
	return q, claim, code, text
}

// newConsumer makes a consumer, or of claim what it is now.
func (m *Machine) newConsumer(h *channel, q *queue, claim *consumer, x *entry.Consume) *consumer {
	v := h.session.vhost
	row := consumerRow{Vhost: v.Vhost, Queue: q.ID, Session: h.Session, Channel: h.Number, Tag: x.Tag, NoAck: x.NoAck,
		Exclusive: x.Exclusive, Timeout: none, Limit: h.Prefetch, Arguments: clone(x.Arguments)}
	if x.NoAck {
		row.Limit = 0
	}
	row.Priority, _ = argumentInteger(x.Arguments, argumentPriority)
	if limit, ok := argumentInteger(x.Arguments, argumentTimeout); ok {
		row.Timeout = limit
	}
	if claim != nil {
		m.revive(claim, h, row)
		return claim
	}
	v.Consumers++
	m.touch(v)
	row.Number = v.Consumers
	c := &consumer{consumerRow: row}
	m.linkConsumer(c, q, h)
	if q.set.singleActive && q.Active == 0 {
		q.Active = c.Number
	}
	return c
}

func (m *Machine) linkConsumer(c *consumer, q *queue, h *channel) {
	c.queue, c.channel = q, h
	q.vhost.consumer[c.Number] = c
	q.consumers = append(q.consumers, c)
	h.consumers = append(h.consumers, c)
	if c.Exclusive {
		q.exclusive = c
	}
}

// tagged answers the channel's consumer with a tag; a claim has none as long as nobody adopts it.
func (h *channel) tagged(tag string) *consumer {
	for _, c := range h.consumers {
		if c.Tag == tag && !c.Claim {
			return c
		}
	}
	return nil
}

func (m *Machine) applyCancel(x *entry.Cancel) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	c := h.tagged(x.Tag)
	if c != nil {
		m.removeConsumer(c)
		m.giveBackOwed(c)
	}
	m.replyNamed(h, entry.KindCancel, x.NoWait, x.Tag, 0, 0)
	if c != nil {
		m.autoDelete(c.queue)
	}
}

// removeConsumer ends a consumer. Its deliveries stay with the channel.
func (m *Machine) removeConsumer(c *consumer) {
	q, h := c.queue, c.channel
	q.leave(c)
	q.consumers = without(q.consumers, c)
	h.consumers = without(h.consumers, c)
	if q.exclusive == c {
		q.exclusive = nil
	}
	delete(q.vhost.consumer, c.Number)
	m.use(q)
	if q.Active == c.Number {
		m.promote(q)
	}
	q.vhost.lastConsumer = nil
	c.gone = true
	m.touch(c)
	m.touch(q)
}

func without(list []*consumer, c *consumer) []*consumer {
	at, _ := slices.BinarySearchFunc(list, c.Number, func(c *consumer, n uint32) int { return compare(c.Number, n) })
	return slices.Delete(list, at, at+1)
}

// windowed says that the consumer has no prefetch.
func (c *consumer) windowed() bool { return c.Limit == 0 }

// credit says whether the consumer may get one more delivery.
func (c *consumer) credit() bool {
	if c.windowed() {
		if c.Unwritten >= windowMessages || c.UnwrittenBytes >= windowBytes {
			return false
		}
	} else if c.InFlight-c.Owed >= c.Limit {
		return false
	}
	return c.NoAck || c.channel.Limit == 0 || c.channel.InFlight-c.channel.Owed < c.channel.Limit
}

// promote makes another consumer the active one of a queue that serves one alone: of those with the highest priority the
// oldest, claims behind all others. One that comes later does not take its place, whatever its priority.
func (m *Machine) promote(q *queue) {
	q.Active = 0
	var next *consumer
	for _, c := range q.consumers {
		if next == nil || next.Claim && !c.Claim || next.Claim == c.Claim && c.Priority > next.Priority {
			next = c
		}
	}
	if next != nil {
		q.Active = next.Number
		m.regain(next)
	}
}

// regain gives a consumer that has credit again its place in the service ring.
func (m *Machine) regain(c *consumer) {
	if c.Turn != 0 || c.Claim || !c.credit() {
		return
	}
	if c.Owed > 0 {
		m.awaitResend(c)
		return
	}
	if c.queue.set.singleActive && c.queue.Active != c.Number {
		return
	}
	c.queue.join(c)
	m.touch(c)
	m.touch(c.queue)
	m.wait(c.queue)
}

// regainAll is regain for a channel's consumers, when its common limit has room again. It begins behind the one that was
// served last, or that one would be served for ever.
func (m *Machine) regainAll(h *channel) {
	n := len(h.consumers)
	at, found := slices.BinarySearchFunc(h.consumers, h.Served, func(c *consumer, n uint32) int { return compare(c.Number, n) })
	if found {
		at++
	}
	for i := range n {
		m.regain(h.consumers[(at+i)%n])
	}
}

// renew gives back window for a delivery that was written, or settled before it was.
func (m *Machine) renew(c *consumer, r *ledger.Record) {
	c.Unwritten--
	c.UnwrittenBytes -= uint64(r.Size)
	m.touch(c)
	m.regain(c)
}

// join puts a consumer at the end of the service ring.
func (q *queue) join(c *consumer) {
	q.Turns++
	c.Turn = q.Turns
	q.link(c)
}

// link puts a consumer into the ring behind those of its own priority and of higher ones.
func (q *queue) link(c *consumer) {
	before := q.last
	for before != nil && before.Priority < c.Priority {
		before = before.previous
	}
	c.previous = before
	if before == nil {
		c.next = q.first
		q.first = c
	} else {
		c.next = before.next
		before.next = c
	}
	if c.next == nil {
		q.last = c
	} else {
		c.next.previous = c
	}
}

// leave takes a consumer out of the service ring.
func (q *queue) leave(c *consumer) {
	if c.Turn == 0 {
		return
	}
	if c.previous == nil {
		q.first = c.next
	} else {
		c.previous.next = c.next
	}
	if c.next == nil {
		q.last = c.previous
	} else {
		c.next.previous = c.previous
	}
	c.next, c.previous, c.Turn = nil, nil, 0
}

// wait has a queue served at the end of the command, if there is anything to hand out and anyone to take it.
func (m *Machine) wait(q *queue) {
	if (q.first != nil || q.trims) && q.ready.len() > 0 {
		m.await(q)
	}
}

func (m *Machine) await(q *queue) {
	if !q.waiting {
		q.waiting = true
		m.waiting = append(m.waiting, q)
	}
}

// serve does for the waiting queues what the command has left to do: messages go to consumers with credit, and then those
// that there is no room or time for go.
func (m *Machine) serve() {
	if len(m.owing) > 0 {
		m.resendAll()
	}
	for i := 0; i < len(m.waiting); i++ {
		q := m.waiting[i]
		q.waiting = false
		m.feed(q)
		if q.trims {
			m.trim(q)
			m.feed(q) // where it had stopped at an expired message for want of budget, and that is gone now
		}
		m.expire(q)
	}
	clear(m.waiting)
	m.waiting = m.waiting[:0]
}

// feed hands ready messages to consumers with credit, one each in turn.
func (m *Machine) feed(q *queue) {
	if m.gate.Holds() {
		return
	}
	for q.first != nil && q.ready.len() > 0 {
		if q.notes.Len() > 0 && !m.expireHead(q) {
			return
		}
		c := q.first
		q.leave(c)
		m.touch(c)
		if !c.credit() {
			continue
		}
		m.deliver(q, c)
		if c.credit() {
			q.join(c)
		}
	}
}

// takeReady takes the first ready message of a queue.
func (m *Machine) takeReady(q *queue) ready.Ref { return m.takeFrom(q, q.ready.top()) }

// takeFrom takes the first ready message of a lane.
func (m *Machine) takeFrom(q *queue, lane *ready.List) ready.Ref {
	r := q.ready.pop(&m.queuePool, lane)
	m.fingerprint -= readyHash(q, &r)
	q.bytes -= q.vhost.sizeOf(&r)
	if q.set.maxBytes != none {
		q.bodies -= q.bodyOf(&r)
	}
	m.touch(q)
	return r
}

// fly enters a delivery of r into the channel's ledger. c is nil for a get.
func (m *Machine) fly(h *channel, q *queue, c *consumer, r ready.Ref, noAck bool) (tag uint64) {
	rec := ledger.Record{Ref: r, Queue: q.ID}
	if c != nil {
		rec.Consumer = c.Number
	}
	if noAck {
		rec.Flags |= flagNoAck
	} else {
		q.Unacked++
		q.flying += q.vhost.sizeOf(&r)
	}
	tag = h.flight.Add(&m.tagPool, rec)
	m.fingerprint += flightHash(h, tag, &rec)
	h.LastTag = tag
	if !noAck {
		m.flown(h, q, c, tag)
	}
	m.touch(h)
	return tag
}

func (m *Machine) deliver(q *queue, c *consumer) {
	r := m.takeReady(q)
	h := c.channel
	tag := m.fly(h, q, c, r, c.NoAck)
	h.session.counters().delivered(&q.counters, c.NoAck, r.Flags&flagRedelivered != 0)
	h.Served = c.Number
	if !c.NoAck {
		c.InFlight++
		h.InFlight++
	}
	if c.windowed() {
		c.Unwritten++
		c.UnwrittenBytes += uint64(r.Size)
	}
	if e := m.emit(h.session, EffectDelivered, h.Number); e != nil {
		e.Name, e.Tag, e.NoAck, e.Windowed = c.Tag, tag, c.NoAck, c.windowed()
		m.describe(e, q, &r)
	}
}

// describe fills in which message an effect is about.
func (m *Machine) describe(e *Effect, q *queue, r *ready.Ref) {
	e.Redelivered = r.Flags&flagRedelivered != 0
	e.Content = m.contentOf(q.vhost, r)
	if r.Flags&^(flagRedelivered|flagFragmented) != 0 {
		e.Extra = m.extraOf(q, r)
	}
}

func (m *Machine) applyGet(x *entry.Get) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	q, code, text := h.find(x.Queue)
	if code != CodeOK {
		m.refuse(h, entry.KindGet, code, text)
		return
	}
	m.use(q)
	if tag := h.reget(q); tag != 0 && !x.NoAck && !m.gate.Holds() {
		m.sendAgain(h, tag)
		m.got(h, q, tag, &h.flight.Get(tag).Ref, false)
		return
	}
	some := !m.gate.Holds() && m.expireHead(q)
	m.wait(q) // for what was behind the expired ones
	if !some {
		h.session.counters().GotEmpty++
		q.counters.GotEmpty++
		if e := m.emit(h.session, EffectGetEmpty, h.Number); e != nil {
			e.Command = entry.KindGet
		}
		return
	}
	r := m.takeReady(q)
	m.got(h, q, m.fly(h, q, nil, r, x.NoAck), &r, x.NoAck)
}

func (m *Machine) got(h *channel, q *queue, tag uint64, r *ready.Ref, noAck bool) {
	h.session.counters().got(&q.counters, noAck, r.Flags&flagRedelivered != 0)
	if e := m.emit(h.session, EffectGot, h.Number); e != nil {
		e.Command, e.Tag, e.NoAck, e.Messages = entry.KindGet, tag, noAck, uint32(q.ready.len())
		m.describe(e, q, r)
	}
}
