package session

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session/auth"
)

// The guard is the one authorization layer: every command of every endpoint passes it on its way into the log. What it
// does not let through becomes an entry.Refuse in the command's place, so that the machine fails the channel there and
// what was pipelined behind it is dead.

// replyTo begins the names of the queues that endpoints make for direct replies, which need no permission. They are
// exclusive, and a client cannot declare such a name by itself: it is reserved.
const replyTo = "amq.rabbitmq.reply-to."

// channelOf is the channel that a command is for.
func channelOf(cmd entry.Addressed) uint16 {
	if c, ok := cmd.(interface{ ChannelNumber() uint16 }); ok {
		return c.ChannelNumber()
	}
	return 0
}

// judge answers "", or why the command is refused.
func (s *Session) judge(cmd entry.Addressed) string {
	a := s.access
	switch x := cmd.(type) {
	case *entry.ExchangeDeclare:
		return s.judgeDeclare(auth.Exchange, x.Name, x.Passive, x.Arguments, "alternate-exchange")
	case *entry.QueueDeclare:
		if x.Generated && strings.HasPrefix(x.Name, replyTo) {
			return ""
		}
		return s.judgeDeclare(auth.Queue, x.Name, x.Passive, x.Arguments, "x-dead-letter-exchange")
	case *entry.ExchangeDelete:
		return a.May(auth.Configure, auth.Exchange, plain(x.Name))
	case *entry.QueueDelete:
		return a.May(auth.Configure, auth.Queue, x.Name)
	case *entry.QueuePurge:
		return a.May(auth.Read, auth.Queue, x.Name)
	case *entry.Get:
		return a.May(auth.Read, auth.Queue, x.Queue)
	case *entry.ExchangeBind:
		return s.judgeBinding(auth.Exchange, &x.Binding)
	case *entry.ExchangeUnbind:
		return s.judgeBinding(auth.Exchange, &x.Binding)
	case *entry.QueueBind:
		return s.judgeBinding(auth.Queue, &x.Binding)
	case *entry.QueueUnbind:
		return s.judgeBinding(auth.Queue, &x.Binding)
	}
	return s.judgeConsumer(cmd)
}

// judgeConsumer judges what starts and ends consumers.
func (s *Session) judgeConsumer(cmd entry.Addressed) string {
	switch x := cmd.(type) {
	case *entry.Consume:
		if strings.HasPrefix(x.Queue, replyTo) {
			return ""
		}
		return s.reading.admit(x.Channel, x.Tag, x.Queue, func() string { return s.access.May(auth.Read, auth.Queue, x.Queue) })
	case *entry.Cancel:
		s.reading.remove(x.Channel, x.Tag)
	case *entry.ChannelClose:
		s.reading.removeAll(x.Channel)
	}
	return ""
}

// judgeDeclare judges a declare; what the argument in names it sends messages on to must be writable, as the thing itself
// must be readable then.
func (s *Session) judgeDeclare(kind, name string, passive bool, arguments []byte, onward string) string {
	name = plain(name)
	if passive {
		return s.access.May(auth.Any, kind, name)
	}
	if text := s.access.May(auth.Configure, kind, name); text != "" || len(arguments) == 0 {
		return text
	}
	table, err := message.ParseTable(arguments)
	if err != nil {
		return "" // the machine refuses it
	}
	value, _ := table.Get(onward)
	to, ok := value.(string)
	if !ok {
		return ""
	}
	if text := s.access.May(auth.Read, kind, name); text != "" {
		return text
	}
	return s.access.May(auth.Write, auth.Exchange, to)
}

func (s *Session) judgeBinding(to string, b *entry.Binding) string {
	if text := s.access.May(auth.Write, to, b.Destination); text != "" {
		return text
	}
	if text := s.access.May(auth.Read, auth.Exchange, b.Source); text != "" {
		return text
	}
	return s.access.MayTopic(auth.Read, b.Source, b.Key)
}

// Impersonates says whether the user may publish messages whose user-id is another's, by RabbitMQ's tag for it.
func (s *Session) Impersonates() bool { return s.access != nil && s.access.Tagged("impersonator") }

// Announces says whether an exchange is one by which the broker tells clients of sessions and nodes. Nobody else publishes
// to it.
func Announces[T ~string | ~[]byte](exchange T) bool {
	switch string(exchange) {
	case "amq.session", "amq.failover", "amq.qpid":
		return true
	}
	return false
}

// judgePublish judges a publish, and where topic permissions narrow it the keys in CC and BCC too.
func (s *Session) judgePublish(rec *message.Record) string {
	if Announces(rec.Exchange) {
		return fmt.Sprintf("exchange '%s' is the broker's own: nobody else publishes to it", rec.Exchange)
	}
	text, topics := s.access.MayPublish(rec.Exchange, rec.RoutingKey)
	if text != "" || !topics || !bytes.Contains(rec.Properties, []byte("CC")) {
		return text
	}
	headers, err := message.PropertiesHeaders(rec.Properties)
	if err != nil {
		return ""
	}
	for _, name := range []string{"CC", "BCC"} {
		value, _ := headers.Get(name)
		keys, _ := value.([]any)
		for _, key := range keys {
			k, ok := key.(string)
			if !ok {
				continue
			}
			if text := s.access.MayTopic(auth.Write, string(rec.Exchange), k); text != "" {
				return text
			}
		}
	}
	return ""
}

// plain takes line ends out of a name that is declared, as the machine does.
func plain(name string) string {
	if !strings.ContainsAny(name, "\r\n") {
		return name
	}
	return strings.NewReplacer("\r", "", "\n", "").Replace(name)
}
