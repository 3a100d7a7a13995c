package core

import (
	"fmt"
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

// tableOf reads arguments that were checked when they came in.
func tableOf(arguments []byte) message.Table {
	t, _ := message.ParseTable(arguments)
	return t
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

func (v *vhost) queueByID(id uint32) *queue {
	if q := v.lastQueue; q != nil && q.ID == id {
		return q
	}
	q := v.queue[id]
	if q != nil {
		v.lastQueue = q
	}
	return q
}

func (v *vhost) addQueue(row queueRow) *queue {
	q := &queue{queueRow: row, vhost: v}
	q.ready.open(settingsOf(tableOf(row.Arguments)).maxPriority)
	v.configure(q)
	q.timer = timer{table: tableQueue, vhost: q.Vhost, id: uint64(q.ID), owner: q}
	v.queues = append(v.queues, q)
	v.queue[q.ID] = q
	v.queueByName[q.Name] = q
	v.router.Name(q.Name, q.ID)
	return q
}

// rejects says whether the queue may refuse messages.
func (q *queue) rejects() bool {
	return q.set.overflow != dropHead && (q.set.maxLength != none || q.set.maxBytes != none)
}

// countQueue counts a queue in or out among those of its kind.
func (v *vhost) countQueue(q *queue, n int) {
	if q.rejects() {
		v.rejecting += n
	}
	if q.set.deadLetters {
		v.deadLettering += n
	}
}

// check answers the refusal for a session that may not use the queue, which belongs to another.
func (q *queue) check(s *session) (Code, string) {
	if q.Owner == 0 || q.Owner == s.ID {
		return CodeOK, ""
	}
	return q.locked()
}

func (q *queue) locked() (Code, string) {
	return CodeResourceLocked, "cannot obtain exclusive access to locked " + q.vhost.named("queue", q.Name) +
		". It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."
}

// find answers a queue that a channel may use, or the refusal.
func (h *channel) find(name string) (*queue, Code, string) {
	v := h.session.vhost
	q := v.queueByName[name]
	if q == nil {
		return nil, CodeNotFound, "no " + v.named("queue", name)
	}
	code, text := q.check(h.session)
	return q, code, text
}

func (m *Machine) applyQueueDeclare(x *entry.QueueDeclare) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	x.Name = cleanName(x.Name)
	v := h.session.vhost
	v.giveType(x)
	if x.Generated && h.session.named() {
		if q := h.declaredBefore(x); q != nil {
			x.Name = q.Name
		}
	}
	q := v.queueByName[x.Name]
	var code Code
	var text string
	switch {
	case x.Passive:
		q, code, text = h.find(x.Name)
	case q != nil:
		code, text = q.checkDeclare(x, h.session)
	default:
		if code, text = v.checkNewQueue(x); code == CodeOK {
			code, text = m.checkQueues(v, x.Name)
		}
	}
	if code != CodeOK {
		m.refuse(h, entry.KindQueueDeclare, code, text)
		return
	}
	if q == nil {
		q = m.newQueue(h.session, x)
		h.session.counters().QueuesCreated++
	}
	m.use(q)
	if !x.Passive {
		h.session.counters().QueuesDeclared++
		m.claimName(h, q)
	}
	m.expire(q)
	m.wait(q) // for what was behind the expired ones
	m.replyNamed(h, entry.KindQueueDeclare, x.NoWait, q.Name, q.ready.len(), len(q.consumers))
}

func (m *Machine) newQueue(s *session, x *entry.QueueDeclare) *queue {
	v := s.vhost
	v.Queues++
	m.touch(v)
	row := queueRow{Vhost: v.Vhost, ID: v.Queues, Name: x.Name, Durable: x.Durable, AutoDelete: x.AutoDelete,
		Generated: x.Generated, Arguments: clone(x.Arguments)}
	if x.Exclusive {
		row.Owner = s.ID
	}
	q := v.addQueue(row)
	if x.Exclusive {
		s.exclusive = append(s.exclusive, q)
	}
	m.touch(q)
	return q
}

func (v *vhost) checkNewQueue(x *entry.QueueDeclare) (Code, string) {
	if reserved(x.Name) && !x.Generated {
		return CodeAccessRefused, fmt.Sprintf("queue name '%s' contains reserved prefix 'amq.*'", x.Name)
	}
	if code, text := v.checkQueueLimit(x.Name); code != CodeOK {
		return code, text
	}
	return v.checkQueueArguments(x.Name, x.Arguments)
}

// checkDeclare judges a declare of a queue that exists.
func (q *queue) checkDeclare(x *entry.QueueDeclare, s *session) (Code, string) {
	owner := uint64(0)
	if x.Exclusive {
		owner = s.ID
	}
	if q.Owner != owner {
		return q.locked()
	}
	what := q.vhost.named("queue", q.Name)
	if x.Durable != q.Durable {
		return inequivalent("durable", what, fmt.Sprint(x.Durable), fmt.Sprint(q.Durable))
	}
	if x.AutoDelete != q.AutoDelete {
		return inequivalent("auto_delete", what, fmt.Sprint(x.AutoDelete), fmt.Sprint(q.AutoDelete))
	}
	return compareArguments(what, q.Arguments, x.Arguments, queueArguments)
}

func (m *Machine) applyQueueDelete(x *entry.QueueDelete) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	x.Name = cleanName(x.Name)
	q, code, text := h.find(x.Name)
	switch {
	case q == nil: // deleting what is not there is fine
		code = CodeOK
	case code != CodeOK:
	case x.IfEmpty && q.ready.len() > 0:
		code, text = CodePreconditionFailed, q.vhost.named("queue", q.Name)+" not empty"
	case x.IfUnused && len(q.consumers) > 0:
		code, text = CodePreconditionFailed, q.vhost.named("queue", q.Name)+" in use"
	}
	if code != CodeOK {
		m.refuse(h, entry.KindQueueDelete, code, text)
		return
	}
	if q == nil {
		m.replyNamed(h, entry.KindQueueDelete, x.NoWait, x.Name, 0, 0)
		return
	}
	// The reply first, as RabbitMQ has it: a client that awaits it may take a cancel before it for somebody else's doing.
	m.replyNamed(h, entry.KindQueueDelete, x.NoWait, x.Name, q.ready.len(), 0)
	m.deleteQueue(q)
}

// deleteQueue removes a queue with its bindings and ready messages. Deliveries in flight stay with their channels and
// settle as no-ops; consumers are told.
func (m *Machine) deleteQueue(q *queue) {
	v := q.vhost
	v.countersOf(0).QueuesDeleted++
	for len(q.consumers) > 0 {
		c := q.consumers[0]
		if !c.Claim {
			if e := m.emit(c.channel.session, EffectConsumerCancelled, c.Channel); e != nil {
				e.Name = c.Tag
			}
		}
		m.removeConsumer(c)
	}
	m.clearQueue(q)
	m.dropHeld(q)
	q.notes.Each(func(x ready.Note) { m.fingerprint -= noteHash(q, &x) }) // of deliveries in flight
	q.notes.Clear()
	for len(q.bindings) > 0 {
		m.removeBinding(v, q.bindings[len(q.bindings)-1])
	}
	m.deleteDoomed(v)
	at, _ := slices.BinarySearchFunc(v.queues, q.ID, func(q *queue, id uint32) int { return compare(q.ID, id) })
	v.queues = slices.Delete(v.queues, at, at+1)
	delete(v.queue, q.ID)
	delete(v.queueByName, q.Name)
	v.router.Unname(q.Name)
	v.countQueue(q, -1)
	v.lastQueue = nil
	if s := m.session[q.Owner]; s != nil {
		at := slices.Index(s.exclusive, q)
		s.exclusive = slices.Delete(s.exclusive, at, at+1)
	}
	if q.Maker != 0 {
		m.unnamed(q)
	}
	q.gone = true
	m.touch(q)
}

func (m *Machine) applyQueuePurge(x *entry.QueuePurge) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	q, code, text := h.find(x.Name)
	if code != CodeOK {
		m.refuse(h, entry.KindQueuePurge, code, text)
		return
	}
	n := q.ready.len()
	m.clearQueue(q)
	m.replyNamed(h, entry.KindQueuePurge, x.NoWait, x.Name, n, 0)
}

// autoDelete deletes an auto-delete queue that has lost its last consumer. It is called when one has gone: a queue that
// never had any stays.
func (m *Machine) autoDelete(q *queue) {
	if q.AutoDelete && len(q.consumers) == 0 && !q.gone {
		m.deleteQueue(q)
	}
}
