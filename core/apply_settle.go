package core

import (
	"fmt"

	"github.com/understudy-mq/understudy/core/entry"
)

// applySettle gives deliveries their fate. One unknown tag refuses the whole command and settles nothing.
func (m *Machine) applySettle(x *entry.Settle) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	first, last := x.First, x.Last
	if x.Multiple {
		first = 0
		if last == 0 {
			last = h.LastTag
		} else if !h.unsettled(last) {
			m.refuseTag(h, last)
			return
		}
	} else {
		last = max(first, last)
		for tag := first; tag <= last; tag++ {
			if !h.unsettled(tag) {
				m.refuseTag(h, tag)
				return
			}
		}
	}
	if h.Tx {
		m.settleLater(h, first, last, x.Outcome)
		return
	}
	m.settleRange(h, first, last, x.Outcome)
}

// settleRange settles what the client may settle of a range of tags.
func (m *Machine) settleRange(h *channel, first, last uint64, outcome entry.Outcome) {
	if outcome == entry.Released || outcome == entry.Modified {
		// Newest first: each then goes in front of the one before it.
		for tag := h.flight.Before(last); tag >= max(first, 1); tag = h.flight.Before(tag - 1) {
			m.settleTag(h, tag, outcome)
		}
		return
	}
	for tag := h.flight.Next(first); tag != 0 && tag <= last; tag = h.flight.Next(tag + 1) {
		m.settleTag(h, tag, outcome)
	}
}

func (m *Machine) refuseTag(h *channel, tag uint64) {
	m.refuse(h, entry.KindSettle, CodePreconditionFailed, fmt.Sprintf("unknown delivery tag %d", tag))
}

// unsettled says whether a tag awaits a settlement by the client; no-ack deliveries do not, nor those that a transaction
// has one for.
func (h *channel) unsettled(tag uint64) bool {
	r := h.flight.Get(tag)
	return r != nil && r.Flags&(flagNoAck|flagGathered) == 0
}

func (m *Machine) settleTag(h *channel, tag uint64, outcome entry.Outcome) {
	if !h.unsettled(tag) {
		return
	}
	switch outcome {
	case entry.Released, entry.Modified:
		m.giveBack(h, tag, outcome)
	case entry.Rejected:
		m.discard(h, tag)
	default:
		m.drop(h, tag)
	}
}

// discard ends a delivery that the client has rejected for good.
func (m *Machine) discard(h *channel, tag uint64) {
	r, q := m.takeFlight(h, tag)
	if q == nil {
		m.dispose(h.session.vhost, nil, &r.Ref)
		return
	}
	m.bury(q, &r.Ref, reasonRejected)
}

// drop ends a delivery and its message.
func (m *Machine) drop(h *channel, tag uint64) {
	r, q := m.takeFlight(h, tag)
	if r.Flags&flagNoAck == 0 {
		h.session.counters().Acknowledged++
		if q != nil {
			q.counters.Acknowledged++
		}
	}
	m.dispose(h.session.vhost, q, &r.Ref)
}

// giveBack returns a delivery to its original place in its queue; a no-ack one, or one of a queue that is gone, is dropped.
func (m *Machine) giveBack(h *channel, tag uint64, outcome entry.Outcome) {
	r, q := m.takeFlight(h, tag)
	if q == nil || r.Flags&flagNoAck != 0 {
		m.dispose(h.session.vhost, q, &r.Ref)
		return
	}
	r.Flags |= flagRedelivered
	if outcome == entry.Modified && r.Flags>>countShift < 1<<(32-countShift)-1 {
		r.Flags += countOne
	}
	if limit := q.set.deliveryLimit; limit != none && int64(r.Flags>>countShift) > limit {
		m.bury(q, &r.Ref, reasonDeliveryLimit)
		return
	}
	if wait := q.retryAfter(r.Flags, outcome); wait > 0 {
		m.retryLater(q, r.Ref, wait)
		return
	}
	m.enqueue(q, r.Ref)
}

// applyRecover returns everything that is unsettled to its queue.
func (m *Machine) applyRecover(x *entry.Recover) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	if !x.Requeue {
		m.refuse(h, entry.KindRecover, CodeNotImplemented, "requeue=false")
		return
	}
	for tag := h.flight.Before(h.LastTag); tag != 0; tag = h.flight.Before(tag - 1) {
		m.settleTag(h, tag, entry.Released)
	}
	m.reply(h, entry.KindRecover, x.NoWait)
}

// applyWritten renews windows for what has reached the socket, and settles its no-ack deliveries.
func (m *Machine) applyWritten(x *entry.Written) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	last := min(x.Tag, h.LastTag)
	if last <= h.Written {
		return
	}
	v := h.session.vhost
	for tag := h.flight.Next(h.Written + 1); tag != 0 && tag <= last; tag = h.flight.Next(tag + 1) {
		r := h.flight.Get(tag)
		if r.Flags&flagNoAck != 0 {
			m.drop(h, tag)
		} else if c := v.consumerByNumber(r.Consumer); c != nil && c.windowed() {
			m.renew(c, r)
		}
	}
	h.Written = last
	m.touch(h)
}
