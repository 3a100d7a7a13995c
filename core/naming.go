package core

import (
	"bytes"
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
)

// argumentSessionName names a server-named queue for its session: the client that declares one with that name again has
// it back for certain.
const argumentSessionName = "x-session-name"

// naming is what a queue that a named session had the server name has beside others.
type naming struct {
	Maker   uint64 // the session
	MadeOn  uint16 // channel
	Claimed uint64 // epoch in which it was last declared
}

func (n *naming) code(c *rowCoder) {
	c.u64(&n.Maker)
	c.u16(&n.MadeOn)
	c.u64(&n.Claimed)
}

// claimName notes that a channel has declared a server-named queue.
func (m *Machine) claimName(h *channel, q *queue) {
	s := h.session
	switch {
	case !s.named() || !q.Generated || q.Maker != 0 && q.Maker != s.ID:
		return
	case q.Maker == 0:
		q.Maker, q.MadeOn = s.ID, h.Number
		at, _ := slices.BinarySearchFunc(s.generated, q.ID, func(q *queue, id uint32) int { return compare(q.ID, id) })
		s.generated = slices.Insert(s.generated, at, q)
	}
	q.Claimed = s.Epoch
	m.touch(q)
}

// unnamed forgets who had a queue named.
func (m *Machine) unnamed(q *queue) {
	if s := m.session[q.Maker]; s != nil {
		at := slices.Index(s.generated, q)
		s.generated = slices.Delete(s.generated, at, at+1)
	}
	q.naming = naming{}
	m.touch(q)
}

// declaredBefore finds the queue that a client means by declaring one without a name: of its session's the one with the
// same x-session-name, or else the only one that it has not declared on this attachment and that is the same in all. Nil if
// there is none.
func (h *channel) declaredBefore(x *entry.QueueDeclare) *queue {
	if h.session.vhost.queueByName[x.Name] != nil {
		return nil
	}
	name, _ := tableOf(x.Arguments).Get(argumentSessionName)
	var found *queue
	for _, q := range h.session.generated {
		if name != nil {
			if has, _ := tableOf(q.Arguments).Get(argumentSessionName); has != nil && sameValue(has, name) {
				return q
			}
			continue
		}
		if q.Claimed == h.session.Epoch || !q.sameAs(h, x) {
			continue
		}
		if found != nil {
			return nil
		}
		found = q
	}
	return found
}

func (q *queue) sameAs(h *channel, x *entry.QueueDeclare) bool {
	return q.MadeOn == h.Number && q.Durable == x.Durable && q.AutoDelete == x.AutoDelete && (q.Owner != 0) == x.Exclusive &&
		bytes.Equal(q.Arguments, x.Arguments)
}
