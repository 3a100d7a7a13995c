package v091

import (
	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// channelState is how the client must see a channel, from what it and the endpoint have sent.
type channelState uint8

const (
	closed  channelState = iota
	open                 // since the client's channel.open; the machine may have failed it (shared.failed)
	refused              // the endpoint itself sent channel.close, and has closed the channel in the machine
)

// channel is the endpoint's own part of a channel.
type channel struct {
	number     uint16
	state      channelState
	lastQueue  string // the queue declared last, which an empty name stands for
	unnamed    bool   // it was declared without a name: the machine may know it under another one
	replies    replies
	acked      uint64 // highest tag settled
	content    assembly
	transacted bool     // tx.select was sent
	held       []byte   // frames that wait
	waits      *waiting // what for; nil: until publishers may go on
	waited     bool     // the next method is a declaration that has waited
}

func (r *receiver) channel(number uint16) *channel {
	if int(number) >= len(r.channels) {
		r.channels = append(r.channels, make([]*channel, int(number)+1-len(r.channels))...)
	}
	if r.channels[number] == nil {
		r.channels[number] = &channel{number: number}
	}
	return r.channels[number]
}

// refuseChannel closes a channel for a fault that the endpoint found. What the client has sent since is discarded, in
// the machine too: the channel is closed there at once.
func (r *receiver) refuseChannel(number uint16, f *fault) {
	r.log.Debug("closing a channel for its client's fault", "channel", number, "error", f)
	ch := r.channels[number]
	r.content.drop(&ch.content)
	r.closeChannel(number, f)
	r.shared.gone.add(number)
	ch.state, ch.lastQueue = refused, ""
}

// closeChannel closes a channel in the machine, whose answer has its place behind those to what came before: the client hears
// close-ok then, or of the fault why the endpoint closes it.
func (r *receiver) closeChannel(number uint16, f *fault) {
	r.shared.closes.expect(number, f)
	r.do(&entry.ChannelClose{Ref: entry.Ref{Channel: number}, Reply: true})
}

// channelFrame takes a frame of an open connection's channel.
func (r *receiver) channelFrame(f *wire.Frame) *fault {
	var ch *channel
	if int(f.Channel) < len(r.channels) {
		ch = r.channels[f.Channel]
	}
	if ch == nil || ch.state == closed {
		return r.closedChannelFrame(f)
	}
	if ch.state == refused || r.shared.failed.has(f.Channel) {
		return r.refusedChannelFrame(ch, f)
	}
	if r.holdBack(ch, f) {
		return nil
	}
	switch f.Type {
	case wire.FrameMethod:
		return r.methodFrame(ch, f.Payload)
	case wire.FrameHeader:
		return r.headerFrame(ch, f.Payload)
	default:
		return r.bodyFrame(ch, f.Payload)
	}
}

// closedChannelFrame takes a frame of a channel that is not open: the one that opens it. A late close-ok may follow a
// close that crossed ours.
func (r *receiver) closedChannelFrame(f *wire.Frame) *fault {
	id, args, ok := wire.SplitMethod(f.Payload)
	if f.Type == wire.FrameMethod && !ok {
		return noMethod(f)
	}
	switch frameMethod(f) {
	case wire.IDChannelOpen:
	case wire.IDChannelCloseOk:
		if int(f.Channel) < len(r.channels) && r.channels[f.Channel] != nil {
			return nil
		}
		fallthrough
	default:
		return refuse(core.CodeChannelError, frameMethod(f), "expected 'channel.open'")
	}
	if fault := decode(wire.New(id), args); fault != nil {
		return fault
	}
	ch := r.channel(f.Channel)
	r.shared.failed.remove(f.Channel)
	r.shared.gone.remove(f.Channel)
	ch.state, ch.lastQueue, ch.replies, ch.transacted, ch.waited = open, "", replies{}, false, false
	r.shared.open.Add(1)
	r.do(&entry.ChannelOpen{Ref: entry.Ref{Channel: f.Channel}})
	return nil
}

// refusedChannelFrame discards all but the client's answer to channel.close, or its own close that crossed it.
func (r *receiver) refusedChannelFrame(ch *channel, f *wire.Frame) *fault {
	id := frameMethod(f)
	if id == wire.IDChannelOpen {
		return refuse(core.CodeChannelError, id, "second 'channel.open' seen")
	}
	if id != wire.IDChannelCloseOk && id != wire.IDChannelClose {
		return nil
	}
	switch {
	case id == wire.IDChannelClose:
		r.closeChannel(ch.number, nil)
	case ch.state != refused: // the machine holds the failed channel until it hears of the client
		r.do(&entry.ChannelClose{Ref: entry.Ref{Channel: ch.number}})
	}
	r.shut(ch)
	return nil
}

func (r *receiver) shut(ch *channel) {
	r.content.drop(&ch.content)
	r.letGo(ch)
	r.shared.failed.remove(ch.number)
	r.shared.gone.add(ch.number)
	ch.state, ch.lastQueue, ch.acked = closed, "", 0
	r.shared.answers.drop(ch.number)
	r.shared.open.Add(-1)
}

// methodFrame takes a method of an open channel. Publishes and acknowledgements have a path of their own: through the
// Method interface they would be allocated.
func (r *receiver) methodFrame(ch *channel, payload []byte) *fault {
	id, args, ok := wire.SplitMethod(payload)
	if !ok {
		return noMethod(&wire.Frame{Type: wire.FrameMethod, Payload: payload})
	}
	if fault := ch.content.expects(idle); fault != nil {
		return fault
	}
	switch id {
	case wire.IDBasicPublish:
		return r.beginPublish(ch, args)
	case wire.IDBasicAck:
		var m wire.BasicAck
		if m.Decode(args) != nil {
			return decode(&wire.BasicAck{}, args)
		}
		r.settle(ch, entry.Accepted, m.Multiple, m.DeliveryTag)
		return nil
	}
	m := wire.New(id)
	if m == nil {
		return refuse(core.CodeCommandInvalid, id, "unimplemented method")
	}
	if fault := decode(m, args); fault != nil {
		return fault
	}
	return r.method(ch, m)
}

// method takes the methods that a command, or a word of the endpoint's, answers.
func (r *receiver) method(ch *channel, m wire.Method) *fault {
	ref := entry.Ref{Channel: ch.number}
	switch m := m.(type) {
	case *wire.BasicNack:
		r.settle(ch, outcome(m.Requeue, entry.Released, entry.Rejected|entry.ByNack), m.Multiple, m.DeliveryTag)
	case *wire.BasicReject:
		r.settle(ch, outcome(m.Requeue, entry.Modified, entry.Rejected), false, m.DeliveryTag)
	case *wire.BasicQos:
		return r.qos(ref, m)
	case *wire.BasicRecover:
		return r.recover(ref, m.ID(), m.Requeue, false)
	case *wire.BasicRecoverAsync:
		return r.recover(ref, m.ID(), m.Requeue, true)
	case *wire.ConfirmSelect:
		r.do(&entry.ConfirmSelect{Ref: ref, NoWait: m.NoWait})
	case *wire.ChannelOpen:
		return refuse(core.CodeChannelError, m.ID(), "second 'channel.open' seen")
	case *wire.ChannelClose:
		r.closeChannel(ch.number, nil)
		r.shut(ch)
	case *wire.ChannelCloseOk:
		if !r.shared.failed.has(ch.number) {
			return refuse(core.CodeCommandInvalid, m.ID(), "channel.close-ok without a channel.close")
		}
	case *wire.ChannelFlow:
		if !m.Active {
			return refuse(core.CodeNotImplemented, m.ID(), "active=false")
		}
		r.answer(ch, &wire.ChannelFlowOk{Active: true})
	case *wire.ChannelFlowOk, *wire.BasicCancelOk: // answers that need none
	case *wire.AccessRequest:
		r.answer(ch, &wire.AccessRequestOk{Ticket: 1})
	case *wire.TxSelect:
		ch.transacted = true
		r.do(&entry.TxSelect{Ref: ref})
	case *wire.TxCommit:
		r.do(&entry.TxCommit{Ref: ref})
	case *wire.TxRollback:
		r.do(&entry.TxRollback{Ref: ref})
	default:
		return r.topology(ch, m)
	}
	return nil
}

func (r *receiver) settle(ch *channel, o entry.Outcome, multiple bool, tag uint64) {
	if multiple && tag == 0 && r.grant.Named {
		// What was sent on a connection before, and not again on this one, is not meant.
		if tag = r.shared.tags.highest(ch.number); tag == 0 {
			return
		}
	}
	ch.acked = r.patience.judge(o, multiple, tag, ch.acked, r.shared.delivered.Load())
	r.settles.add(r.session, ch.number, o, multiple, tag)
}

func outcome(requeue bool, requeued, discarded entry.Outcome) entry.Outcome {
	if requeue {
		return requeued
	}
	return discarded
}

func (r *receiver) qos(ref entry.Ref, m *wire.BasicQos) *fault {
	if m.PrefetchSize != 0 {
		return refuse(core.CodeNotImplemented, m.ID(), "prefetch_size!=0 (%d)", m.PrefetchSize)
	}
	r.patience.asked(m.PrefetchCount)
	r.do(&entry.Qos{Ref: ref, Prefetch: uint32(m.PrefetchCount), Global: m.Global})
	return nil
}

func (r *receiver) recover(ref entry.Ref, id wire.ID, requeue, noWait bool) *fault {
	if !requeue && !r.grant.KeepInFlight {
		return refuse(core.CodeNotImplemented, id, "requeue=false")
	}
	r.do(&entry.Recover{Ref: ref, Requeue: requeue, NoWait: noWait})
	return nil
}
