package core

import (
	"github.com/understudy-mq/understudy/core/entry"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

// A transactional channel gathers publishes and settlements until they are committed. A publish is routed when it comes,
// as RabbitMQ does, and what is refused is refused then. A commit is one command, so that the whole vhost sees all of it or
// nothing.

// txMost bounds what one transaction gathers.
const txMost = 1 << 16

// pending is a publish that waits for its commit.
type pending struct {
	Loc       message.Loc
	Size      uint32
	Mandatory bool
	Parts     []message.Part
	Routes    []uint64 // ids of queues
	Priority  uint8
	TTL       int64
	Body      uint64
	Wait      int64  // milliseconds to be delayed, and
	Exchange  string // the exchange that delays it
	Token     token
	Lettered  bool
	Letter    letterRow
}

func (p *pending) code(c *rowCoder) {
	if !c.hashing {
		c.u64((*uint64)(&p.Loc))
	}
	c.u32(&p.Size)
	c.boolean(&p.Mandatory)
	c.parts(&p.Parts)
	c.u64s(&p.Routes)
	c.u8(&p.Priority)
	c.i64(&p.TTL)
	c.u64(&p.Body)
	c.i64(&p.Wait)
	c.str(&p.Exchange)
	p.Token.code(c)
	if c.boolean(&p.Lettered); p.Lettered {
		p.Letter.code(c)
	}
}

func (p *pending) visit(visit func(message.Loc, uint32)) {
	visit(p.Loc, p.Size)
	visitParts(p.Parts, visit)
}

// settled is a settlement that waits for its commit. Its deliveries are marked.
type settled struct {
	Outcome     uint8
	First, Last uint64
}

// settlement is one of which not all that is in the range is meant.
type settlement struct {
	settled
	Epoch uint64 // attachment on which the deliveries that are meant were last sent, 0 for any
}

// noAttachment is the Epoch of a settlement that means no delivery.
const noAttachment = ^uint64(0)

func (x *settled) code(c *rowCoder) {
	c.u8(&x.Outcome)
	c.u64(&x.First)
	c.u64(&x.Last)
}

func (h *channelRow) codeTx(c *rowCoder) {
	c.boolean(&h.Tx)
	n, k := uint64(len(h.Pending)), uint64(len(h.Settled))
	if c.count(&n); !c.encoding {
		h.Pending = make([]pending, n)
	}
	for i := range h.Pending {
		h.Pending[i].code(c)
	}
	if c.count(&k); !c.encoding {
		h.Settled = make([]settled, k)
	}
	for i := range h.Settled {
		h.Settled[i].code(c)
	}
	if n == 0 {
		h.Pending = nil
	}
	if k == 0 {
		h.Settled = nil
	}
}

func (m *Machine) applyTxSelect(x *entry.TxSelect) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	if h.Confirm {
		m.refuse(h, entry.KindTxSelect, CodePreconditionFailed, "cannot switch from confirm to tx mode")
		return
	}
	h.Tx = true
	m.touch(h)
	m.reply(h, entry.KindTxSelect, false)
}

// transaction answers the channel of a commit or rollback; nil if there is none, which the client has been told.
func (m *Machine) transaction(r *entry.Ref, kind entry.Kind) *channel {
	h := m.channelOf(r)
	if h != nil && !h.Tx {
		m.refuse(h, kind, CodePreconditionFailed, "channel is not transactional")
		return nil
	}
	return h
}

// gather keeps the publish at hand, which is routed, for its commit.
func (m *Machine) gather(h *channel, x *entry.Publish, offset int, marks *marks, wait int64, parts []message.Part) {
	if len(h.Pending) == txMost {
		m.live.removeParts(parts)
		m.refuse(h, entry.KindPublish, CodePreconditionFailed, "transaction is too large")
		return
	}
	p := pending{Loc: message.NewLoc(m.index, offset), Size: uint32(len(x.Record)), Mandatory: x.Mandatory, Parts: parts,
		Priority: marks.priority, TTL: marks.ttl, Body: marks.body}
	for _, id := range m.routes {
		p.Routes = append(p.Routes, uint64(id))
	}
	if m.marked {
		p.Token = token{Digest: clone(m.token.Digest), Publisher: clone(m.token.Publisher), Sequence: m.token.Sequence}
	}
	if p.Wait = wait; wait > 0 {
		p.Exchange = string(m.record.Exchange)
	}
	if v := h.session.vhost; wait > 0 || m.needsLetter(v, marks) {
		p.Lettered, p.Letter = true, m.newLetter(v, marks)
	}
	m.live.add(uint64(p.Loc), p.Size)
	h.Pending = append(h.Pending, p)
	m.touch(h)
}

// settleLater marks deliveries for a settlement that waits for its commit. It is kept as ranges without those in between that it does not
// mean: they may be sent again, and settled in another way, before the commit.
func (m *Machine) settleLater(h *channel, x *settlement, said entry.Outcome) {
	open := false
	for tag := h.flight.Next(x.First); tag != 0 && tag <= x.Last; tag = h.flight.Next(tag + 1) {
		switch {
		case !x.covers(h, tag, 0):
			open = open && !h.unsettled(tag)
			continue
		case !open:
			h.Settled = append(h.Settled, settled{Outcome: x.Outcome, First: tag})
			open = true
		}
		h.Settled[len(h.Settled)-1].Last = tag
		m.mark(h, tag, flagGathered, 0)
	}
	if m.touch(h); len(h.Settled) > txMost {
		m.refuseSettle(h, said, "transaction is too large")
	}
}

// mark changes the flags of a delivery.
func (m *Machine) mark(h *channel, tag uint64, set, clear uint32) {
	r := h.flight.Get(tag)
	m.fingerprint -= flightHash(h, tag, r)
	h.flight.Mark(tag, set, clear)
	m.fingerprint += flightHash(h, tag, r)
	m.touch(h)
}

// unmark makes the deliveries of a settlement the client's again.
func (m *Machine) unmark(h *channel, x *settled) {
	for tag := h.flight.Next(x.First); tag != 0 && tag <= x.Last; tag = h.flight.Next(tag + 1) {
		if h.flight.Get(tag).Flags&flagGathered != 0 {
			m.mark(h, tag, 0, flagGathered)
		}
	}
}

// takeTransaction empties a channel's transaction for the caller to carry out.
func (m *Machine) takeTransaction(h *channel) ([]pending, []settled) {
	p, s := h.Pending, h.Settled
	h.Pending, h.Settled = nil, nil
	m.touch(h)
	return p, s
}

func (m *Machine) applyTxCommit(x *entry.TxCommit) {
	h := m.transaction(&x.Ref, entry.KindTxCommit)
	if h == nil {
		return
	}
	if m.tooOld(h) {
		m.refuse(h, entry.KindTxCommit, CodePreconditionFailed, tooOldText)
		return
	}
	published, settlements := m.takeTransaction(h)
	m.freshen(h.session.vhost)
	for i := range published {
		m.commitPublish(h, &published[i])
	}
	for i := range settlements {
		m.settleRange(h, &settlement{settled: settlements[i]}, flagGathered)
	}
	m.reply(h, entry.KindTxCommit, false)
}

// commitPublish enters a gathered message into those of its queues that are still there.
func (m *Machine) commitPublish(h *channel, p *pending) {
	v := h.session.vhost
	if !p.Token.none() && m.recognise(h.session, &p.Token) == isRepeated {
		m.counts.Duplicates++
		m.live.remove(uint64(p.Loc), p.Size)
		m.live.removeParts(p.Parts)
		return
	}
	if p.Wait > 0 {
		m.remember(h.session, &p.Token)
		m.hold(v, heldRow{Until: m.header.Stamp + p.Wait, Loc: p.Loc, Size: p.Size, Exchange: p.Exchange, TTL: p.TTL, Body: p.Body,
			Parts: p.Parts, Letter: p.Letter})
		return
	}
	m.routes = m.routes[:0]
	for _, id := range p.Routes {
		if v.queueByID(uint32(id)) != nil {
			m.routes = append(m.routes, uint32(id))
		}
	}
	v.Messages++
	m.touch(v)
	r := ready.Ref{Number: v.Messages, Loc: uint64(p.Loc), Size: p.Size}
	x := marks{priority: p.Priority, ttl: p.TTL, body: p.Body}
	var letter *letterRow
	if p.Lettered {
		letter = &p.Letter
	}
	switch {
	case v.rejecting > 0 && m.refused(v, x.body):
		m.turnAway(v, r, &x, letter, p.Parts)
	case len(m.routes) > 0:
		m.enqueueAll(v, r, &x, letter, p.Parts)
		m.remember(h.session, &p.Token)
	default:
		if !p.Mandatory {
			h.session.counters().Dropped++
		} else {
			m.giveReturn(h, m.contentOf(v, &r), p.Parts)
		}
		m.live.removeParts(p.Parts)
	}
	m.live.remove(r.Loc, r.Size)
}

func (m *Machine) applyTxRollback(x *entry.TxRollback) {
	h := m.transaction(&x.Ref, entry.KindTxRollback)
	if h == nil {
		return
	}
	m.rollback(h)
	m.reply(h, entry.KindTxRollback, false)
}

// rollback forgets what a channel has gathered: its settlements are the client's to make again.
func (m *Machine) rollback(h *channel) {
	published, settlements := m.takeTransaction(h)
	for i := range published {
		m.live.remove(uint64(published[i].Loc), published[i].Size)
		m.live.removeParts(published[i].Parts)
	}
	for i := range settlements {
		m.unmark(h, &settlements[i])
	}
	if h.Owed > 0 { // some of what they had may be sent now
		for _, c := range h.consumers {
			c.Cursor = 0
			m.touch(c)
		}
		m.regainAll(h)
	}
}
