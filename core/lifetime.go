package core

import (
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

// marks is what of a message's properties a queue asks for.
type marks struct {
	priority uint8
	ttl      int64 // none where the message says nothing
	body     uint64
}

// marksOf reads the properties of the publish at hand. Most messages have none of them.
func (m *Machine) marksOf() marks {
	x := marks{ttl: none, body: m.record.BodySize}
	if props := m.record.Properties; message.HasAny(props, message.PropPriority|message.PropExpiration) {
		var expiration []byte
		x.priority, expiration = message.Marks(props)
		x.ttl = milliseconds(expiration)
	}
	return x
}

// milliseconds reads an expiration property; the endpoint that took it in has refused what is no number.
func milliseconds(text []byte) int64 {
	if len(text) == 0 || len(text) > 15 {
		return none
	}
	n := int64(0)
	for _, c := range text {
		if c < '0' || c > '9' {
			return none
		}
		n = n*10 + int64(c-'0')
	}
	return min(n, expiryMax)
}

// enter adds a message that is new to a queue, with the lane and the note that it needs.
func (m *Machine) enter(q *queue, r ready.Ref, x *marks) {
	q.counters.Published++
	if q.plain && x.ttl == none {
		m.enqueue(q, r)
		return
	}
	r.Flags |= uint32(min(x.priority, q.set.maxPriority)) << priorityShift
	ttl := x.ttl
	if q.set.ttl != none && (ttl == none || q.set.ttl < ttl) {
		ttl = q.set.ttl
	}
	if ttl != none || q.set.maxBytes != none {
		note := ready.Note{Number: r.Number, Body: x.body}
		if ttl != none {
			note.Expires = max(m.header.Stamp+ttl, 1)
		}
		r.Flags |= flagNoted
		q.notes.Add(&m.queuePool, note)
		m.fingerprint += noteHash(q, &note)
	}
	m.enqueue(q, r)
	if ttl == 0 {
		m.await(q) // to be delivered at once or not at all
	}
}

// dispose ends one reference to a message: the queue forgets it, and its content loses a holder. q is nil where the queue
// is gone.
func (m *Machine) dispose(v *vhost, q *queue, r *ready.Ref) {
	if r.Flags&flagNoted != 0 && q != nil {
		if note, ok := q.notes.Remove(&m.queuePool, r.Number); ok {
			m.fingerprint -= noteHash(q, &note)
			m.touch(q)
		}
	}
	m.dropContent(v, r)
}

// bodyOf is what a message counts for its queue's limit of bytes: its body, where the queue has noted it.
func (q *queue) bodyOf(r *ready.Ref) uint64 {
	if r.Flags&flagNoted != 0 {
		if note, ok := q.notes.Get(r.Number); ok {
			return note.Body
		}
	}
	return uint64(r.Size)
}

// expiresAt is when a message's time is up, 0 for never.
func (q *queue) expiresAt(r *ready.Ref) int64 {
	if r.Flags&flagNoted == 0 {
		return 0
	}
	note, _ := q.notes.Get(r.Number)
	return note.Expires
}

// freshen notes that messages which the vhost gets from now on came with the command at hand.
func (m *Machine) freshen(v *vhost) {
	if v.freshIn != m.commands {
		v.freshIn, v.fresh = m.commands, v.Messages
	}
}

// isFresh says whether a message came with the command at hand.
func (m *Machine) isFresh(v *vhost, r *ready.Ref) bool {
	return v.freshIn == m.commands && r.Number > v.fresh
}

// isExpired judges a message. Where spare is set, one that came in this very command with a TTL of 0 may still be delivered.
func (m *Machine) isExpired(q *queue, r *ready.Ref, spare bool) bool {
	at := q.expiresAt(r)
	return at != 0 && (at < m.header.Stamp || at == m.header.Stamp && !(spare && m.isFresh(q.vhost, r)))
}

// expireLane drops expired messages from the head of a lane, as far as the entry's budget goes: false if it did not
// suffice. Those behind one that lives stay until they are at the head, but are never delivered.
func (m *Machine) expireLane(q *queue, lane *ready.List, spare bool) bool {
	for q.notes.Len() > 0 && lane.Len() > 0 {
		r := lane.Head()
		if !m.isExpired(q, &r, spare) {
			return true
		}
		if m.dueLeft <= 0 {
			return false
		}
		m.dueLeft--
		m.takeFrom(q, lane)
		m.bury(q, &r, reasonExpired)
	}
	return true
}

// expire is expireLane for every lane.
func (m *Machine) expire(q *queue) {
	if q.notes.Len() == 0 {
		return
	}
	m.expireLane(q, &q.ready.zero, false)
	for i := range q.ready.more {
		m.expireLane(q, &q.ready.more[i], false)
	}
}

// over says whether the queue holds more than it may.
func (q *queue) over() bool {
	return q.set.maxLength != none && int64(q.ready.len()) > q.set.maxLength ||
		q.set.maxBytes != none && q.bodies > uint64(q.set.maxBytes)
}

// trim drops the oldest messages of the lowest priority until the queue is within its limits. It mostly drops as many as
// were let in, but a limit may be new.
func (m *Machine) trim(q *queue) {
	for old := 0; old < m.bounds.trims && q.over() && q.ready.len() > 0; {
		r := m.takeFrom(q, q.ready.bottom())
		if !m.isFresh(q.vhost, &r) {
			old++
		}
		m.bury(q, &r, reasonMaxLength)
	}
}

// refuses says whether a queue has no room for a message and would rather not have it than drop another.
func (q *queue) refuses(body uint64) bool {
	if q.set.overflow == dropHead {
		return false
	}
	return q.set.maxLength != none && int64(q.ready.len()) >= q.set.maxLength ||
		q.set.maxBytes != none && q.bodies+body > uint64(q.set.maxBytes)
}

// use notes that somebody uses a queue that would be deleted otherwise.
func (m *Machine) use(q *queue) {
	if q.set.expires != none {
		q.Used = m.header.Stamp
		m.touch(q)
	}
}

// deadline is when the queue has something to do: messages to drop, or to be deleted itself.
func (q *queue) deadline() int64 {
	if q.trims && q.over() {
		return 1
	}
	at := int64(0)
	sooner := func(x int64) {
		if x != 0 && (at == 0 || x < at) {
			at = x
		}
	}
	if q.notes.Len() > 0 {
		q.ready.heads(func(r ready.Ref) { sooner(q.expiresAt(&r)) })
	}
	if q.set.expires != none && len(q.consumers) == 0 {
		sooner(max(q.Used+q.set.expires, 1))
	}
	return at
}

// due drops what is over or expired, and the queue itself where nobody has used it for long enough.
func (q *queue) due(m *Machine) {
	switch {
	case q.gone:
	case q.set.expires != none && len(q.consumers) == 0 && q.Used+q.set.expires <= m.header.Stamp:
		m.deleteQueue(q)
	default:
		if q.trims {
			m.trim(q)
		}
		m.expire(q)
		m.wait(q)
	}
}

// reason is why a message left its queue without being accepted.
type reason uint8

// The reasons, under the names that x-death has for them.
const (
	reasonRejected reason = iota
	reasonExpired
	reasonMaxLength
	reasonDeliveryLimit
)

// expireHead sees to it that the message to hand out next is not expired; false if there is none, or not yet.
func (m *Machine) expireHead(q *queue) bool {
	for q.ready.len() > 0 {
		lane := q.ready.top()
		if !m.expireLane(q, lane, true) {
			return false
		}
		if lane.Len() > 0 {
			return true
		}
	}
	return false
}
