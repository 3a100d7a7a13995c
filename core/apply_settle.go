package core

import (
	"fmt"

	"github.com/understudy-mq/understudy/core/entry"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
)

// applySettle gives deliveries their fate. One unknown tag refuses the whole command and settles nothing.
func (m *Machine) applySettle(x *entry.Settle) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	what := settlement{settled: settled{Outcome: uint8(x.Outcome.Fate()), First: x.First, Last: x.Last}}
	if !h.session.named() {
		if !h.reach(&what, x.Multiple) {
			m.refuseSettle(h, x.Outcome, fmt.Sprintf("unknown delivery tag %d", what.Last))
			return
		}
	} else if !h.reachNamed(&what, x.Multiple) {
		m.refuseSettle(h, x.Outcome, fmt.Sprintf("unknown delivery tag %d", max(x.First, x.Last)))
		return
	}
	if h.Tx {
		m.settleLater(h, &what, x.Outcome)
		return
	}
	m.settleRange(h, &what, 0)
}

// reach finds what a settlement means; false, and the tag in Last, if one is not there.
func (h *channel) reach(x *settlement, multiple bool) bool {
	if multiple {
		x.First = 0
		if x.Last == 0 {
			x.Last = h.LastTag
			return true
		}
		return h.unsettled(x.Last)
	}
	last := x.Last
	for x.Last = x.First; x.Last < last && h.unsettled(x.Last); {
		x.Last++
	}
	return h.unsettled(x.Last)
}

// reachNamed is reach for a named session: what is settled is no error, and a multiple settlement means what was sent on
// one attachment.
func (h *channel) reachNamed(x *settlement, multiple bool) bool {
	if !multiple {
		x.Last = max(x.First, x.Last)
		return x.First > 0 && x.Last <= h.LastTag
	}
	x.First = 0
	if h.Resumed {
		if x.Epoch = h.session.Epoch; x.Last != 0 {
			x.Epoch = h.sentUnder(x.Last)
		}
		if x.Epoch == 0 {
			x.Epoch = noAttachment
		}
	}
	if x.Last == 0 {
		x.Last = h.LastTag
	}
	return x.Last <= h.LastTag
}

// settleRange settles what the client may settle of a range of tags; of those with the flag gathered, if it is given.
func (m *Machine) settleRange(h *channel, x *settlement, gathered uint32) {
	outcome := entry.Outcome(x.Outcome)
	if outcome == entry.Released || outcome == entry.Modified {
		for tag := h.flight.Next(x.First); tag != 0 && tag <= x.Last; tag = h.flight.Next(tag + 1) {
			if x.covers(h, tag, gathered) && h.failsAgain(tag, outcome) {
				m.settleTag(h, tag, outcome, gathered)
			}
		}
		// Newest first: each then goes in front of the one before it.
		for tag := h.flight.Before(x.Last); tag >= max(x.First, 1); tag = h.flight.Before(tag - 1) {
			if x.covers(h, tag, gathered) {
				m.settleTag(h, tag, outcome, gathered)
			}
		}
		return
	}
	for tag := h.flight.Next(x.First); tag != 0 && tag <= x.Last; tag = h.flight.Next(tag + 1) {
		if x.covers(h, tag, gathered) {
			m.settleTag(h, tag, outcome, gathered)
		}
	}
}

// covers says whether a settlement means a delivery in its range.
func (x *settlement) covers(h *channel, tag uint64, gathered uint32) bool {
	r := h.flight.Get(tag)
	return r.Flags&(flagNoAck|flagGathered) == gathered && (x.Epoch == 0 || h.sentUnder(tag) == x.Epoch)
}

func (m *Machine) refuseSettle(h *channel, said entry.Outcome, text string) {
	at := len(m.fx.List)
	m.refuse(h, entry.KindSettle, CodePreconditionFailed, text)
	if at < len(m.fx.List) && m.fx.List[at].Kind == EffectRefused { // not where the client is another node's
		m.fx.List[at].Outcome = said
	}
}

// unsettled says whether a tag awaits a settlement by the client; no-ack deliveries do not, nor those that a transaction
// has one for.
func (h *channel) unsettled(tag uint64) bool {
	r := h.flight.Get(tag)
	return r != nil && r.Flags&(flagNoAck|flagGathered) == 0
}

func (m *Machine) settleTag(h *channel, tag uint64, outcome entry.Outcome, gathered uint32) {
	if gathered != 0 {
		m.mark(h, tag, 0, gathered)
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
	if outcome == entry.Modified {
		countFailure(&r.Ref)
	}
	if q.failedTooOften(&r.Ref) {
		m.bury(q, &r.Ref, reasonDeliveryLimit)
		return
	}
	if wait := q.retryAfter(r.Flags, outcome); wait > 0 {
		m.retryLater(q, r.Ref, wait)
		return
	}
	m.enqueue(q, r.Ref)
}

// countFailure counts one more failed delivery of a message.
func countFailure(r *ready.Ref) {
	if r.Flags>>countShift < 1<<(32-countShift)-1 {
		r.Flags += countOne
	}
}

// failsAgain says whether a delivery has failed too often once it is given back. Such die in order, before the others go back.
func (h *channel) failsAgain(tag uint64, outcome entry.Outcome) bool {
	r := h.flight.Get(tag)
	q := h.session.vhost.queueByID(r.Queue)
	if q == nil || q.set.deliveryLimit == none {
		return false
	}
	x := r.Ref
	if outcome == entry.Modified {
		countFailure(&x)
	}
	return q.failedTooOften(&x)
}

// failedTooOften says whether a message has failed more often than the queue allows.
func (q *queue) failedTooOften(r *ready.Ref) bool {
	return q.set.deliveryLimit != none && int64(r.Flags>>countShift) > q.set.deliveryLimit
}

// applyRecover returns everything that is unsettled to its queue, or has it sent again.
func (m *Machine) applyRecover(x *entry.Recover) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	if !x.Requeue && !h.session.KeepInFlight {
		m.refuse(h, entry.KindRecover, CodeNotImplemented, "requeue=false")
		return
	}
	m.reply(h, entry.KindRecover, x.NoWait)
	if !x.Requeue {
		m.askAgain(h)
		return
	}
	m.settleRange(h, &settlement{settled: settled{Outcome: uint8(entry.Released), Last: h.LastTag}}, 0)
}

// applyWritten renews windows for what has reached the socket, and settles its no-ack deliveries.
func (m *Machine) applyWritten(x *entry.Written) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	last := min(x.Tag, h.LastTag)
	if len(h.Resent) > 0 {
		last = m.writtenAgain(h, last)
	}
	if last <= h.Written {
		return
	}
	v := h.session.vhost
	for tag := h.flight.Next(h.Written + 1); tag != 0 && tag <= last; tag = h.flight.Next(tag + 1) {
		r := h.flight.Get(tag)
		if r.Flags&flagAgain != 0 {
			continue
		}
		if r.Flags&flagNoAck != 0 {
			m.drop(h, tag)
		} else if c := v.consumerByNumber(r.Consumer); c != nil && c.windowed() {
			m.renew(c, r)
		}
	}
	h.Written = last
	m.touch(h)
}
