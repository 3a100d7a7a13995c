package v091

import (
	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session"
)

// plainReplies are the answers that say nothing but that it is done.
var plainReplies = map[entry.Kind]wire.Method{
	entry.KindChannelOpen:     &wire.ChannelOpenOk{},
	entry.KindChannelClose:    &wire.ChannelCloseOk{},
	entry.KindConfirmSelect:   &wire.ConfirmSelectOk{},
	entry.KindQos:             &wire.BasicQosOk{},
	entry.KindExchangeDeclare: &wire.ExchangeDeclareOk{},
	entry.KindExchangeDelete:  &wire.ExchangeDeleteOk{},
	entry.KindExchangeBind:    &wire.ExchangeBindOk{},
	entry.KindExchangeUnbind:  &wire.ExchangeUnbindOk{},
	entry.KindQueueBind:       &wire.QueueBindOk{},
	entry.KindQueueUnbind:     &wire.QueueUnbindOk{},
	entry.KindRecover:         &wire.BasicRecoverOk{},
	entry.KindTxSelect:        &wire.TxSelectOk{},
	entry.KindTxCommit:        &wire.TxCommitOk{},
	entry.KindTxRollback:      &wire.TxRollbackOk{},
}

// opens says whether an event is for a channel that channel.close was sent on: the answers to the client's own open
// and close are.
func opens(e *session.Event) bool {
	return e.Kind == core.EffectReply && (e.Command == entry.KindChannelOpen || e.Command == entry.KindChannelClose) ||
		e.Kind == core.EffectRefused && e.Code.Hard()
}

func (s *sender) reply(e *session.Event, c *outChannel) {
	m := plainReplies[e.Command]
	switch e.Command {
	case entry.KindChannelOpen:
		s.confirm(e.Channel)
		*c = outChannel{}
		s.advance(e.Channel, c, 0)
		s.shared.failed.remove(e.Channel)
	case entry.KindQueueDeclare:
		if s.grant != nil { // of a named session
			if w, ok := s.shared.answers.take(e.Channel, e.Name); ok && w.what == wantNameQuietly {
				return
			}
		}
		m = &wire.QueueDeclareOk{Queue: e.Name, MessageCount: e.Messages, ConsumerCount: e.Consumers}
	case entry.KindQueueBind:
		if w, ok := s.shared.answers.take(e.Channel, ""); ok && w.what >= wantHosts {
			s.bound(w, e)
			if w.quietly {
				return
			}
		}
	case entry.KindChannelClose:
		if f := s.shared.closes.take(e.Channel); f != nil {
			s.closeChannel(e.Channel, channelClose(f))
			return
		}
	case entry.KindQueueDelete:
		m = &wire.QueueDeleteOk{MessageCount: e.Messages}
	case entry.KindQueuePurge:
		m = &wire.QueuePurgeOk{MessageCount: e.Messages}
	case entry.KindConsume:
		m = &wire.BasicConsumeOk{ConsumerTag: e.Name}
	case entry.KindCancel:
		m = &wire.BasicCancelOk{ConsumerTag: e.Name}
	}
	if m == nil {
		return
	}
	s.method(e.Channel, m)
	if e.Command == entry.KindChannelClose {
		c.muted, c.written = true, unreported{}
	}
}
