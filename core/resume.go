package core

import (
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/internal/ledger"
)

// A channel of a named session is parked when its connection is lost: its transaction and pieces go, what it held without
// acknowledgement too, and its deliveries, consumers and prefetch wait. At the next attachment deliveries are owed: they
// are to be sent again under their tags, to the consumer that adopts them (adopt.go), before anything new. With
// KeepInFlight they are not owed, the client still has them.

// again is what a channel of a named session has beside one of an anonymous session.
type again struct {
	Resumed  bool   // it was parked at least once: what follows counts
	Parked   bool   // no client has it open
	Owed     uint32 // deliveries to consumers that are to be sent again; InFlight counts them
	OwedGets uint32
	Resent   []resent // what was sent again to consumers without prefetch and is not known to be written
}

// resent is a delivery that was sent again.
type resent struct {
	Tag   uint64
	After uint64 // the highest tag when it was
}

func (a *again) code(c *rowCoder) {
	if c.boolean(&a.Resumed); !a.Resumed {
		return
	}
	c.boolean(&a.Parked)
	c.u32(&a.Owed)
	c.u32(&a.OwedGets)
	n := uint64(len(a.Resent))
	if c.count(&n); !c.encoding && n > 0 {
		a.Resent = make([]resent, n)
	}
	for i := range a.Resent {
		c.u64(&a.Resent[i].Tag)
		c.u64(&a.Resent[i].After)
	}
}

func (m *Machine) parkAll(s *session) {
	kept := s.channels[:0]
	for _, h := range s.channels {
		m.park(h)
		if h.empty() {
			h.gone = true
			continue
		}
		kept = append(kept, h)
	}
	clear(s.channels[len(kept):])
	s.channels, s.lastUsed = kept, nil
}

// empty says whether nothing of a parked channel needs to be remembered.
func (h *channel) empty() bool {
	return h.LastTag <= h.session.Tags && len(h.consumers) == 0 && h.Prefetch == 0 && h.Limit == 0
}

// park has a channel wait for its client.
func (m *Machine) park(h *channel) {
	m.rollback(h)
	m.dropParts(h)
	for tag := h.flight.Next(1); tag != 0; tag = h.flight.Next(tag + 1) {
		if h.flight.Get(tag).Flags&flagNoAck != 0 {
			m.drop(h, tag)
		}
	}
	for _, c := range h.consumers {
		c.queue.leave(c)
		c.Claim = true
		m.touch(c)
	}
	h.Tx, h.Confirm, h.Dead, h.Parked, h.Resumed, h.Resent = false, false, true, true, true, nil
	m.touch(h)
}

// resume attaches a session that is there.
func (m *Machine) resume(s *session, x *entry.Attach) {
	s.State = StateResumed
	changed := s.Process != x.Process
	if s.attached() {
		s.State = StateTakenOver
		if !changed {
			s.noteTakeover(m.header.Stamp)
		}
		m.tellTaken(s)
		m.parkAll(s)
		m.counts.TakenOver++
	} else {
		m.counts.Resumed++
	}
	if changed {
		s.follow(s.Process)
		s.Process = x.Process
	}
	m.agree(s, x)
	s.Epoch++
	s.Node, s.Incarnation, s.Failed, s.Left, s.Adopt, s.Released = m.batch.Node, m.batch.Incarnation, false, 0, 0, 0
	for _, h := range s.channels {
		m.reclaim(h, s.KeepInFlight && !changed, changed)
		if h.flight.Len() > 0 || len(h.consumers) > 0 {
			s.Adopt = m.header.Stamp + adoptWait
		}
	}
}

// reclaim makes of what a parked channel holds what it is on a new attachment: its deliveries are owed unless they are kept,
// and have failed once if their process is gone.
func (m *Machine) reclaim(h *channel, keep, failed bool) {
	h.Owed, h.OwedGets = 0, 0
	for _, c := range h.consumers {
		c.Owed, c.Cursor = 0, 0
		m.touch(c)
	}
	h.restartRuns(m.header.Stamp)
	for tag := h.flight.Next(1); tag != 0; tag = h.flight.Next(tag + 1) {
		m.reclaimOne(h, tag, keep, failed)
	}
	h.Checked = 0
	m.touch(h)
}

func (m *Machine) reclaimOne(h *channel, tag uint64, keep, failed bool) {
	r := *h.flight.Get(tag)
	r.Flags &^= flagOwed
	r.Flags |= flagAgain
	q := h.session.vhost.queueByID(r.Queue)
	if failed && q != nil {
		if countFailure(&r.Ref); q.failedTooOften(&r.Ref) {
			m.mark(h, tag, 0, flagOwed)
			m.takeFlight(h, tag)
			m.bury(q, &r.Ref, reasonDeliveryLimit)
			h.session.Released++
			return
		}
	}
	if !keep {
		r.Flags |= flagOwed | flagRedelivered
		m.owe(h, &r)
	}
	m.mark(h, tag, r.Flags, ^uint32(0))
}

// owe counts a delivery that is to be sent again.
func (m *Machine) owe(h *channel, r *ledger.Record) {
	m.touch(h)
	if r.Consumer == 0 {
		h.OwedGets++
		return
	}
	h.Owed++
	if c := m.holder(h, r); c != nil {
		c.Owed++
		m.touch(c)
	}
}

// owedOne counts one of them as sent or settled.
func (m *Machine) owedOne(h *channel, r *ledger.Record) {
	m.touch(h)
	if r.Consumer == 0 {
		h.OwedGets--
		return
	}
	h.Owed--
	if c := m.holder(h, r); c != nil {
		c.Owed--
		m.touch(c)
	}
}

// holder is the consumer of the channel that a delivery was made to; nil if it is not there any more.
func (m *Machine) holder(h *channel, r *ledger.Record) *consumer {
	if c := h.session.vhost.consumerByNumber(r.Consumer); c != nil && c.channel == h {
		return c
	}
	return nil
}

// settleAgain ends a delivery of an earlier attachment, or one that was sent again.
func (m *Machine) settleAgain(h *channel, r *ledger.Record, tag uint64) {
	if r.Flags&flagOwed != 0 {
		m.owedOne(h, r)
	}
	for _, x := range h.Resent {
		if x.Tag == tag {
			m.unwritten(h, r)
		}
	}
	r.Flags &^= flagOwed | flagAgain
}

// unwritten gives back window for a delivery that was sent again.
func (m *Machine) unwritten(h *channel, r *ledger.Record) {
	if c := m.holder(h, r); c != nil && c.Unwritten > 0 {
		c.Unwritten--
		c.UnwrittenBytes -= uint64(r.Size)
		m.touch(c)
	}
}

// writtenAgain renews windows for what was sent again and has reached the socket with delivery tag. It answers the highest
// of the new tags that have.
func (m *Machine) writtenAgain(h *channel, tag uint64) uint64 {
	n, last := 0, tag
	for i := range h.Resent {
		if h.Resent[i].Tag == tag {
			n, last = i+1, h.Resent[i].After
		}
	}
	if n == 0 {
		for n < len(h.Resent) && h.Resent[n].After < tag {
			n++
		}
	}
	for _, x := range h.Resent[:n] {
		if r := h.flight.Get(x.Tag); r != nil {
			m.unwritten(h, r)
			if c := m.holder(h, r); c != nil {
				m.regain(c)
			}
		}
	}
	h.Resent = slices.Delete(h.Resent, 0, n)
	m.touch(h)
	return last
}

// giveUp ends the wait for a client to adopt what was left for it: claims end, and deliveries that nobody has adopted
// return to their places.
func (m *Machine) giveUp(s *session) {
	s.Adopt = 0
	m.touch(s)
	for _, h := range s.channels {
		var left []*queue
		for _, c := range slices.Clone(h.consumers) {
			if c.Claim {
				m.removeConsumer(c)
				left = append(left, c.queue)
			}
		}
		for tag := h.flight.Before(h.LastTag); tag != 0; tag = h.flight.Before(tag - 1) {
			r := h.flight.Get(tag)
			if h.Parked || r.Flags&flagOwed != 0 && r.Flags&flagGathered == 0 && m.holder(h, r) == nil {
				m.giveBack(h, tag, entry.Released)
			}
		}
		for _, q := range left {
			m.autoDelete(q)
		}
	}
}
