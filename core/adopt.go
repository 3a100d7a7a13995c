package core

import (
	"slices"
	"sort"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/internal/ledger"
)

// A claim is a consumer whose connection was lost. A client that consumes from its queue again adopts it, and with it its
// deliveries: it is the same consumer from then on, in its place among the queue's.

// claimFor finds the claim that a consumer of the channel adopts: of the session's on the queue the one with its tag and
// channel, else the oldest on its channel, else the oldest. Nil if there is none.
func (h *channel) claimFor(q *queue, x *entry.Consume) *consumer {
	if !h.session.named() || h.session.Adopt == 0 {
		return nil
	}
	var best *consumer
	rank := 0
	for _, c := range q.consumers {
		if !c.Claim || c.Session != h.Session {
			continue
		}
		is := 1
		switch {
		case len(c.channel.Settled) > 0 && (c.channel != h || x.NoAck):
			continue // a transaction has the settlement of some of its deliveries, and they are neither moved nor given back
		case c.channel == h && c.Tag == x.Tag:
			is = 3
		case c.channel == h:
			is = 2
		}
		if is > rank {
			best, rank = c, is
		}
	}
	return best
}

// revive makes a claim a consumer of the channel, as row says.
func (m *Machine) revive(c *consumer, h *channel, row consumerRow) {
	row.Number, row.InFlight, row.Turn = c.Number, c.InFlight, c.Turn
	row.Owed, row.Cursor = c.Owed, 0
	if c.Exclusive && !row.Exclusive && c.queue.exclusive == c {
		c.queue.exclusive = nil
	}
	from := c.channel
	c.consumerRow = row
	if row.Exclusive {
		c.queue.exclusive = c
	}
	if from != h {
		m.move(c, from, h)
	}
	m.allow(h, timeoutOf(c.queue, c)) // for what is not sent again
	m.touch(c)
}

// move takes a consumer to another channel. Its deliveries get new tags there, under which they are owed.
func (m *Machine) move(c *consumer, from, to *channel) {
	from.consumers = without(from.consumers, c)
	at, _ := slices.BinarySearchFunc(to.consumers, c.Number, func(c *consumer, n uint32) int { return compare(c.Number, n) })
	to.consumers = slices.Insert(to.consumers, at, c)
	c.channel = to
	for tag := from.flight.Next(1); tag != 0; tag = from.flight.Next(tag + 1) {
		if from.flight.Get(tag).Consumer == c.Number { // none is in a transaction (claimFor)
			m.moveOne(c, from, to, tag)
		}
	}
	m.touch(from)
	m.touch(to)
	m.regainAll(from)
}

func (m *Machine) moveOne(c *consumer, from, to *channel, tag uint64) {
	r, _ := from.flight.Take(&m.tagPool, tag)
	m.fingerprint -= flightHash(from, tag, &r)
	from.InFlight--
	if r.Flags&flagOwed != 0 {
		from.Owed--
		c.Owed--
	}
	r.Flags |= flagOwed | flagAgain | flagRedelivered
	if len(to.Runs) == 0 {
		to.beginRun(to.LastTag+1, m.header.Stamp)
	}
	at := to.flight.Add(&m.tagPool, r)
	m.fingerprint += flightHash(to, at, &r)
	to.LastTag = at
	to.setRun(at, run{Stamp: m.header.Stamp}) // sent on no attachment so far
	to.Resumed = true
	to.InFlight++
	m.owe(to, &r)
}

// adopt gives a consumer that has just begun the deliveries that are left of it, or of those that are gone: they are sent
// again as far as its prefetch goes. A consumer that needs no acknowledgement gets them anew from the queue.
func (m *Machine) adopt(c *consumer) {
	h := c.channel
	if !h.Resumed || h.session.Adopt == 0 {
		return
	}
	if c.NoAck {
		for tag := h.flight.Before(h.LastTag); tag != 0; tag = h.flight.Before(tag - 1) {
			if h.flight.Get(tag).Consumer == c.Number {
				m.giveBack(h, tag, entry.Released)
			}
		}
		return
	}
	for tag := h.flight.Next(1); tag != 0; tag = h.flight.Next(tag + 1) {
		r := h.flight.Get(tag)
		if r.Flags&flagOwed == 0 || r.Queue != c.queue.ID || r.Consumer == 0 || m.holder(h, r) != nil {
			continue
		}
		m.fingerprint -= flightHash(h, tag, r)
		h.flight.Assign(tag, c.Number)
		m.fingerprint += flightHash(h, tag, r)
		c.InFlight++
		c.Owed++
	}
	m.touch(h)
	m.touch(c)
}

// awaitResend has a consumer sent what it is owed at the end of the command: a settlement must not find among its tags one
// that was sent again meanwhile.
func (m *Machine) awaitResend(c *consumer) {
	if !c.owing {
		c.owing = true
		m.owing = append(m.owing, c)
	}
}

func (m *Machine) resendAll() {
	for _, c := range m.owing {
		c.owing = false
		if c.gone || c.Claim || m.gate.Holds() {
			continue
		}
		if m.resend(c); c.Owed == 0 {
			m.regain(c)
		}
	}
	clear(m.owing)
	m.owing = m.owing[:0]
}

// resend sends a consumer what it is owed, as far as it has credit.
func (m *Machine) resend(c *consumer) {
	h := c.channel
	for c.Owed > 0 && c.credit() {
		tag := h.flight.Next(c.Cursor + 1)
		for tag != 0 && !owedTo(c, h.flight.Get(tag)) {
			tag = h.flight.Next(tag + 1)
		}
		if tag == 0 {
			break // a transaction has the settlement of the rest
		}
		c.Cursor = tag
		m.resendOne(c, tag)
	}
}

func owedTo(c *consumer, r *ledger.Record) bool {
	return r.Consumer == c.Number && r.Flags&(flagOwed|flagGathered) == flagOwed
}

func (m *Machine) resendOne(c *consumer, tag uint64) {
	h := c.channel
	m.sendAgain(h, tag)
	r := h.flight.Get(tag)
	if c.windowed() {
		c.Unwritten++
		c.UnwrittenBytes += uint64(r.Size)
		h.Resent = append(h.Resent, resent{Tag: tag, After: h.LastTag})
	}
	if e := m.emit(h.session, EffectDelivered, h.Number); e != nil {
		e.Name, e.Tag, e.Windowed = c.Tag, tag, c.windowed()
		m.describe(e, c.queue, &r.Ref)
	}
}

// giveBackOwed returns what a consumer that is gone was owed.
func (m *Machine) giveBackOwed(c *consumer) {
	h := c.channel
	for tag := h.flight.Before(h.LastTag); tag != 0 && c.Owed > 0; tag = h.flight.Before(tag - 1) {
		if owedTo(c, h.flight.Get(tag)) {
			m.giveBack(h, tag, entry.Released)
		}
	}
}

// sendAgain notes that an owed delivery is sent on this attachment.
func (m *Machine) sendAgain(h *channel, tag uint64) {
	m.mark(h, tag, flagRedelivered, flagOwed)
	r := h.flight.Get(tag)
	m.owedOne(h, r)
	h.setRun(tag, run{Stamp: m.header.Stamp, Epoch: h.session.Epoch})
	m.allow(h, timeoutOf(h.session.vhost.queueByID(r.Queue), m.holder(h, r)))
	m.counts.Redelivered++
}

// askAgain makes what is unsettled on a channel owed, and sends it to the consumers that have it. What a consumer left that
// was cancelled has nowhere to go, and stays as it is.
func (m *Machine) askAgain(h *channel) {
	h.Resumed = true
	m.touch(h)
	for _, c := range h.consumers {
		c.queue.leave(c)
		c.Cursor = 0
		m.touch(c)
	}
	for tag := h.flight.Next(1); tag != 0; tag = h.flight.Next(tag + 1) {
		r := h.flight.Get(tag)
		if r.Flags&(flagNoAck|flagGathered|flagOwed) != 0 || r.Consumer != 0 && m.holder(h, r) == nil {
			continue
		}
		if r.Flags&flagAgain == 0 && tag > h.Written {
			m.unwritten(h, r)
		}
		m.owe(h, r)
		m.mark(h, tag, flagOwed|flagAgain|flagRedelivered, 0)
	}
	m.regainAll(h)
}

// reget answers the first delivery of an earlier get of the queue on the channel that is to be sent again, 0 for none.
func (h *channel) reget(q *queue) uint64 {
	if h.OwedGets == 0 {
		return 0
	}
	for tag := h.flight.Next(1); tag != 0; tag = h.flight.Next(tag + 1) {
		if r := h.flight.Get(tag); r.Consumer == 0 && r.Queue == q.ID && r.Flags&(flagOwed|flagGathered) == flagOwed {
			return tag
		}
	}
	return 0
}

// restartRuns makes all that is in flight look as if it had been made now.
func (h *channel) restartRuns(stamp int64) {
	runs := h.Runs[:0]
	for i, r := range h.Runs {
		end := h.LastTag + 1
		if i+1 < len(h.Runs) {
			end = h.Runs[i+1].Tag
		}
		if next := h.flight.Next(r.Tag); next == 0 || next >= end {
			r.Epoch = 0 // all are settled
		}
		r.Stamp = stamp
		if n := len(runs); r.Tag < end && (n == 0 || runs[n-1].Epoch != r.Epoch) {
			runs = append(runs, r)
		}
	}
	h.Runs = append(runs, run{Tag: h.LastTag + 1, Stamp: stamp, Epoch: h.session.Epoch})
}

// runOf is the run that a tag is in.
func (h *channel) runOf(tag uint64) int {
	return max(sort.Search(len(h.Runs), func(i int) bool { return h.Runs[i].Tag > tag })-1, 0)
}

// sentUnder is the epoch of the attachment that a delivery was last sent on, also of one that is settled; 0 if that is not
// known any more, or it was on none.
func (h *channel) sentUnder(tag uint64) uint64 {
	if len(h.Runs) == 0 {
		return 0
	}
	return h.Runs[h.runOf(tag)].Epoch
}

// setRun takes one tag out of its run into x.
func (h *channel) setRun(tag uint64, x run) {
	x.Tag = tag
	at := h.runOf(tag)
	old := h.Runs[at]
	if old.Epoch == x.Epoch && x.Stamp-old.Stamp < runMillis {
		return
	}
	rest := old
	rest.Tag = tag + 1
	ends := at+1 < len(h.Runs) && h.Runs[at+1].Tag == tag+1
	if !ends {
		h.Runs = slices.Insert(h.Runs, at+1, rest)
	}
	joins := at > 0 && h.Runs[at-1].Epoch == x.Epoch && x.Stamp-h.Runs[at-1].Stamp < runMillis
	switch {
	case old.Tag != tag:
		h.Runs = slices.Insert(h.Runs, at+1, x)
	case joins:
		h.Runs = slices.Delete(h.Runs, at, at+1)
	default:
		h.Runs[at] = x
	}
}
