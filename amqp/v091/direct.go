package v091

import (
	"bytes"
	"fmt"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// Direct reply-to is RabbitMQ's: who consumes from the queue called directQueue may publish requests with that as their
// reply-to, and gets the answers. Here it stands for an exclusive queue under a name that nobody can guess, which goes with
// its consumer; the requests carry that name, with which others can publish to it and do nothing else. A named session's has the
// same name on every connection, and keeps replies while the session is detached.

const directQueue = "amq.rabbitmq.reply-to"

// directExpiry is how long such a queue stays, in milliseconds, if its consumer never came to be.
const directExpiry = 60_000

// Bounds of the replies that wait for a named session, which may be away for a while; the oldest go first.
const (
	directLength = 10_000
	directBytes  = 16 << 20
)

// replies is a channel's direct reply-to.
type replies struct {
	queue string // "" for none
	tag   string // of its consumer
}

// consumeReplies begins direct reply-to on a channel.
func (r *receiver) consumeReplies(ch *channel, m *wire.BasicConsume) *fault {
	switch {
	case !m.NoAck:
		return refuse(core.CodePreconditionFailed, m.ID(), "reply consumer cannot acknowledge")
	case ch.replies.queue != "":
		return refuse(core.CodePreconditionFailed, m.ID(), "reply consumer already set")
	}
	ch.replies = replies{queue: directQueue + "." + r.opts.random(), tag: m.ConsumerTag}
	arguments := message.Table{{Key: "x-expires", Value: int32(directExpiry)}}
	if r.grant.Named {
		// The name that it had on the connection before: requests under way carry it.
		ch.replies.queue = fmt.Sprintf("%s.%s.%d", directQueue, r.grant.Address, ch.number)
		arguments = message.Table{{Key: "x-max-length", Value: int32(directLength)}, {Key: "x-max-length-bytes", Value: int32(directBytes)}}
	}
	ref := entry.Ref{Channel: ch.number}
	r.do(&entry.QueueDeclare{Ref: ref, Name: ch.replies.queue, Exclusive: true, AutoDelete: true, NoWait: true, Generated: true,
		Arguments: message.AppendTable(nil, arguments)})
	r.do(&entry.Consume{Ref: ref, Queue: ch.replies.queue, Tag: m.ConsumerTag, NoAck: true, NoWait: m.NoWait})
	return nil
}

// direct says whether a property list's reply-to may be directQueue: a look for its bytes.
func direct(properties []byte) bool {
	return message.HasAny(properties, message.PropReplyTo) && bytes.Contains(properties, []byte("\x15"+directQueue))
}

// nameReplies puts the name of the channel's reply queue into a request's properties, and answers those.
func (ch *channel) nameReplies(properties []byte) ([]byte, *fault) {
	p, err := message.ParseProperties(properties)
	if err != nil || p.ReplyTo != directQueue {
		return properties, nil
	}
	if ch.replies.queue == "" {
		return nil, refuse(core.CodePreconditionFailed, wire.IDBasicPublish, "fast reply consumer does not exist")
	}
	p.ReplyTo = ch.replies.queue
	return message.AppendProperties(nil, &p), nil
}
