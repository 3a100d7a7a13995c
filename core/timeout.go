package core

import (
	"fmt"
	"sort"

	"github.com/understudy-mq/understudy/core/internal/ledger"
)

// A consumer that does not settle a delivery in time loses its channel, as with RabbitMQ. When a delivery was made is kept
// to within a second, in runs of tags, so that a channel with very many deliveries in flight keeps few times.

// consumerTimeout is how long a delivery may await its settlement unless its consumer or queue says otherwise, in
// milliseconds.
const consumerTimeout = 30 * 60 * 1000

// runMillis is how long a run of deliveries is.
const runMillis = 1000

// run says that the deliveries from Tag on were made at Stamp or less than runMillis later, up to the next run.
type run struct {
	Tag   uint64
	Stamp int64
	Epoch uint64 // of the attachment that they were last sent on; of a channel that was resumed
}

// runs codes runs, with their epochs or without.
func (c *rowCoder) runs(v *[]run, epochs bool) {
	n := uint64(len(*v))
	if c.count(&n); !c.encoding {
		*v = make([]run, n)
	}
	for i := range *v {
		c.u64(&(*v)[i].Tag)
		c.i64(&(*v)[i].Stamp)
		if epochs {
			c.u64(&(*v)[i].Epoch)
		}
	}
	if n == 0 {
		*v = nil
	}
}

// flown notes when a delivery is made that awaits a settlement. c is nil for a get.
func (m *Machine) flown(h *channel, q *queue, c *consumer, tag uint64) {
	if n := len(h.Runs); n == 0 || m.header.Stamp-h.Runs[n-1].Stamp >= runMillis {
		h.beginRun(tag, m.header.Stamp)
	}
	m.allow(h, timeoutOf(q, c))
}

// allow notes that there is a delivery which is to be settled within a limit from now on.
func (m *Machine) allow(h *channel, limit int64) {
	if limit != consumerTimeout && (h.Shortest == 0 || limit < h.Shortest) {
		h.Shortest = limit
	}
	if h.Checked != 0 {
		h.Checked = min(h.Checked, m.header.Stamp+limit)
	}
}

// lookAgain has all channels judge what they have in flight: it may have less time, and no less than limit, than when it was made.
func (m *Machine) lookAgain(v *vhost, limit int64) {
	m.sessions.each(func(s *session) {
		for _, h := range s.channels {
			if s.vhost == v && h.flight.Len() > 0 {
				h.Checked = 0
				m.allow(h, limit)
				m.touch(h)
			}
		}
	})
}

// beginRun begins a run, and forgets those that no delivery is of any more.
func (h *channel) beginRun(tag uint64, stamp int64) {
	oldest := h.flight.Next(1)
	past := 0
	for past+1 < len(h.Runs) && h.Runs[past+1].Tag <= oldest {
		past++
	}
	h.Runs = append(h.Runs[:copy(h.Runs, h.Runs[past:])], run{Tag: tag, Stamp: stamp, Epoch: h.session.Epoch})
}

// timeoutOf is how long a delivery may take; q and c may be nil.
func timeoutOf(q *queue, c *consumer) int64 {
	switch {
	case c != nil && c.Timeout != none:
		return c.Timeout
	case q != nil && q.set.consumerExpiry != none:
		return q.set.consumerExpiry
	}
	return consumerTimeout
}

// madeBy is a stamp by which a delivery had been made.
func (h *channel) madeBy(tag uint64) int64 {
	at := sort.Search(len(h.Runs), func(i int) bool { return h.Runs[i].Tag > tag })
	return h.Runs[max(at-1, 0)].Stamp + runMillis
}

func (h *channel) timing() *timer { return &h.timer }

// deadline is when the oldest delivery may be late, if all had the shortest time-out; due looks closer.
func (h *channel) deadline() int64 {
	if h.Dead || len(h.Runs) == 0 || h.flight.Len() == 0 {
		return 0
	}
	shortest := int64(consumerTimeout)
	if h.Shortest != 0 {
		shortest = min(shortest, h.Shortest)
	}
	made := h.madeBy(h.flight.Next(1))
	if h.Resumed { // runs are not in order of time
		for i := range h.Runs {
			made = min(made, h.Runs[i].Stamp+runMillis)
		}
	}
	return max(made+shortest, h.Checked)
}

// due refuses the channel where a delivery is late.
func (h *channel) due(m *Machine) {
	if h.gone || h.Dead || len(h.Runs) == 0 {
		return
	}
	v := h.session.vhost
	next, late := m.header.Stamp+consumerTimeout, int64(0)
	h.flight.Each(func(tag uint64, r *ledger.Record) {
		if r.Flags&(flagNoAck|flagOwed) != 0 || late != 0 {
			return
		}
		limit := timeoutOf(v.queueByID(r.Queue), v.consumerByNumber(r.Consumer))
		if at := h.madeBy(tag) + limit; at > m.header.Stamp {
			next = min(next, at)
		} else {
			late = limit
		}
	})
	if late != 0 {
		m.refuse(h, 0, CodePreconditionFailed, fmt.Sprintf("delivery acknowledgement on channel %d timed out. Timeout value used: %d ms."+
			" This timeout value can be configured, see consumers doc guide to learn more", h.Number, late))
		return
	}
	h.Checked = next
	m.touch(h)
}
