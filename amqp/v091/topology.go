package v091

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session"
)

// topology takes the methods that declare, bind and consume.
func (r *receiver) topology(ch *channel, m wire.Method) *fault {
	ref := entry.Ref{Channel: ch.number}
	switch m := m.(type) {
	case *wire.ExchangeDeclare:
		if fault := checkName(m.ID(), "exchange name", m.Exchange); fault != nil {
			return fault
		}
		return r.checked(m.ID(), m.Arguments, &entry.ExchangeDeclare{
			Ref: ref, Name: m.Exchange, Type: m.Type, Passive: m.Passive, Durable: m.Durable, AutoDelete: m.AutoDelete,
			Internal: m.Internal, NoWait: m.NoWait, Arguments: m.Arguments,
		})
	case *wire.ExchangeDelete:
		r.do(&entry.ExchangeDelete{Ref: ref, Name: m.Exchange, IfUnused: m.IfUnused, NoWait: m.NoWait})
		return nil
	case *wire.ExchangeBind:
		return r.checked(m.ID(), m.Arguments, &entry.ExchangeBind{Binding: entry.Binding{
			Ref: ref, Destination: m.Destination, Source: m.Source, Key: m.RoutingKey, NoWait: m.NoWait, Arguments: m.Arguments,
		}})
	case *wire.ExchangeUnbind:
		return r.checked(m.ID(), m.Arguments, &entry.ExchangeUnbind{Binding: entry.Binding{
			Ref: ref, Destination: m.Destination, Source: m.Source, Key: m.RoutingKey, NoWait: m.NoWait, Arguments: m.Arguments,
		}})
	case *wire.QueueDeclare:
		return r.queueDeclare(ch, m)
	}
	return r.ofQueue(ch, m)
}

// checked encodes a command once its arguments are seen to be a field table.
func (r *receiver) checked(id wire.ID, arguments []byte, cmd entry.Addressed) *fault {
	if fault := checkTable(id, arguments); fault != nil {
		return fault
	}
	r.do(cmd)
	return nil
}

// checkName refuses names that people could not read or write: listings, logs and the HTTP API show them. CR and LF pass:
// RabbitMQ takes them out of names, and so does the machine.
func checkName(id wire.ID, what, name string) *fault {
	hidden := func(r rune) bool { return unicode.IsControl(r) && r != '\r' && r != '\n' }
	if utf8.ValidString(name) && !strings.ContainsFunc(name, hidden) {
		return nil
	}
	return refuse(core.CodePreconditionFailed, id, "invalid %s %q: control characters and invalid UTF-8 are not allowed", what, name)
}

// queueDeclare makes the name of a server-named queue before it is proposed: the machine has no randomness.
func (r *receiver) queueDeclare(ch *channel, m *wire.QueueDeclare) *fault {
	if m.Queue == directQueue { // it is there, whatever a client makes of it
		if !m.NoWait {
			r.answer(ch, &wire.QueueDeclareOk{Queue: directQueue, ConsumerCount: 1})
		}
		return nil
	}
	if m.Queue == sessionQueue && m.Passive {
		if !m.NoWait {
			r.askStatus(ch, wanted{what: wantCounts})
		}
		return nil
	}
	if fault := checkName(m.ID(), "queue name", m.Queue); fault != nil {
		return fault
	}
	if r.awaits(ch, m) {
		return nil
	}
	generated := m.Queue == "" && !m.Passive
	if generated {
		m.Queue = "amq.gen-" + r.opts.random()
	}
	cmd := &entry.QueueDeclare{
		Ref: entry.Ref{Channel: ch.number}, Name: m.Queue, Passive: m.Passive, Durable: m.Durable, Exclusive: m.Exclusive,
		AutoDelete: m.AutoDelete, NoWait: m.NoWait, Generated: generated, Arguments: m.Arguments,
	}
	if fault := checkTable(m.ID(), m.Arguments); fault != nil {
		return fault
	}
	ch.lastQueue, ch.unnamed = m.Queue, generated
	if r.grant.Named {
		r.expectName(cmd)
	}
	r.do(cmd)
	return nil
}

// expectName has the name read of the queue that a named session declares: one without a name may be there already, under the
// name that it had.
func (r *receiver) expectName(cmd *entry.QueueDeclare) {
	want := wantNothing
	switch {
	case cmd.Generated && cmd.NoWait:
		want, cmd.NoWait = wantNameQuietly, false
	case cmd.Generated:
		want = wantName
	case cmd.NoWait:
		return
	}
	r.shared.answers.expect(cmd.Channel, wanted{what: want})
}

// ofQueue takes the methods that name a queue, or leave it empty for the one declared last on the channel.
func (r *receiver) ofQueue(ch *channel, m wire.Method) *fault {
	ref := entry.Ref{Channel: ch.number}
	switch m := m.(type) {
	case *wire.QueueBind:
		if fault := r.expand(ch, m.ID(), &m.Queue, &m.RoutingKey); fault != nil {
			return fault
		}
		if m.Queue == directQueue {
			return refuse(core.CodeAccessRefused, m.ID(), "cannot bind or unbind to a volatile (direct reply-to) queue")
		}
		if session.Announces(m.Exchange) {
			return r.bindAnnouncements(ch, m)
		}
		if !m.NoWait {
			r.shared.answers.expect(ch.number, wanted{what: wantBound})
		}
		return r.checked(m.ID(), m.Arguments, &entry.QueueBind{Binding: entry.Binding{
			Ref: ref, Destination: m.Queue, Source: m.Exchange, Key: m.RoutingKey, NoWait: m.NoWait, Arguments: m.Arguments,
		}})
	case *wire.QueueUnbind:
		if fault := r.expand(ch, m.ID(), &m.Queue, &m.RoutingKey); fault != nil {
			return fault
		}
		if m.Queue == directQueue {
			return refuse(core.CodeAccessRefused, m.ID(), "cannot bind or unbind to a volatile (direct reply-to) queue")
		}
		return r.checked(m.ID(), m.Arguments, &entry.QueueUnbind{Binding: entry.Binding{
			Ref: ref, Destination: m.Queue, Source: m.Exchange, Key: m.RoutingKey, Arguments: m.Arguments,
		}})
	case *wire.QueuePurge:
		return r.named(ch, m.ID(), &m.Queue, func() entry.Addressed {
			return &entry.QueuePurge{Ref: ref, Name: m.Queue, NoWait: m.NoWait}
		})
	case *wire.QueueDelete:
		return r.named(ch, m.ID(), &m.Queue, func() entry.Addressed {
			return &entry.QueueDelete{Ref: ref, Name: m.Queue, IfUnused: m.IfUnused, IfEmpty: m.IfEmpty, NoWait: m.NoWait}
		})
	case *wire.BasicGet:
		if m.Queue == sessionQueue {
			return r.getStatus(ch, m)
		}
		return r.named(ch, m.ID(), &m.Queue, func() entry.Addressed {
			return &entry.Get{Ref: ref, Queue: m.Queue, NoAck: m.NoAck}
		})
	case *wire.BasicConsume:
		return r.consume(ch, m)
	case *wire.BasicCancel:
		if m.ConsumerTag == ch.replies.tag {
			ch.replies = replies{}
		}
		r.do(&entry.Cancel{Ref: ref, Tag: m.ConsumerTag, NoWait: m.NoWait})
		return nil
	}
	return refuse(core.CodeCommandInvalid, m.ID(), "unimplemented method")
}

func (r *receiver) consume(ch *channel, m *wire.BasicConsume) *fault {
	if fault := checkTable(m.ID(), m.Arguments); fault != nil {
		return fault
	}
	if fault := checkName(m.ID(), "consumer tag", m.ConsumerTag); fault != nil {
		return fault
	}
	if m.ConsumerTag == "" {
		m.ConsumerTag = "amq.ctag-" + r.opts.random()
	}
	if m.Queue == directQueue {
		return r.consumeReplies(ch, m)
	}
	return r.named(ch, m.ID(), &m.Queue, func() entry.Addressed {
		return &entry.Consume{
			Ref: entry.Ref{Channel: ch.number}, Queue: m.Queue, Tag: m.ConsumerTag, NoLocal: m.NoLocal, NoAck: m.NoAck,
			Exclusive: m.Exclusive, NoWait: m.NoWait, Arguments: m.Arguments,
		}
	})
}

func (r *receiver) named(ch *channel, id wire.ID, queue *string, command func() entry.Addressed) *fault {
	if fault := r.expand(ch, id, queue, nil); fault != nil {
		return fault
	}
	r.do(command())
	return nil
}

// expand puts the queue declared last in place of an empty name, and in place of an empty routing key beside it.
func (r *receiver) expand(ch *channel, id wire.ID, queue, key *string) *fault {
	if *queue != "" {
		return nil
	}
	if ch.lastQueue == "" {
		return refuse(core.CodeNotFound, id, "no previously declared queue")
	}
	if ch.unnamed && r.grant.Named {
		r.learnName(ch)
	}
	*queue = ch.lastQueue
	if key != nil && *key == "" {
		*key = ch.lastQueue
	}
	return nil
}

// learnName waits until the machine has said which queue the last declare without a name came to.
func (r *receiver) learnName(ch *channel) {
	if r.flush() != nil {
		return // the session is gone, and with it all that follows
	}
	if name := r.shared.answers.name(ch.number); name != "" {
		ch.lastQueue, ch.unnamed = name, false
	}
}
