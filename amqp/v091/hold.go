package v091

import (
	"slices"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
)

// heldBytesMax is how much one connection may send, in bytes of frames, that has to wait before it is not read any more: what a
// client publishes until it has heard that publishers have to wait. One that goes on regardless stops itself.
const heldBytesMax = 1 << 20

// hold is what a connection keeps back: frames of channels that wait for one of two things, in their order.
//
// While publishers have to wait a channel does from its first publish on, but for acknowledgements outside of a transaction:
// they go ahead, for they make room, and nothing that a client can see depends on their place. A channel whose declaration
// waits for its queue waits with all that comes behind it. Other channels are not touched.
type hold struct {
	channels []*channel // with frames held back
	bytes    int
	crowded  bool                  // all connections together hold too much
	told     bool                  // the client has heard connection.blocked
	closing  *wire.ConnectionClose // it came, and waits for what was sent before it
}

// full says that nothing more is to be read for now.
func (h *hold) full() bool { return h.bytes > 0 && (h.crowded || h.bytes > heldBytesMax) }

// waiting is a channel whose declaration waits.
type waiting struct {
	channel   *channel
	stop      func() // has it resume at once
	published bool   // behind the declaration
}

// hurry ends the wait of a client that closes: what becomes of its queue is of no interest any more, unless it has published
// what is to follow the declaration.
func (w *waiting) hurry() {
	if w != nil && !w.published {
		w.stop()
	}
}

// follow takes note of a method that comes behind the declaration.
func (w *waiting) follow(id wire.ID) {
	switch id {
	case wire.IDBasicPublish:
		w.published = true
	case wire.IDChannelClose:
		w.hurry()
	}
}

// holdBack keeps a frame of an open channel back, if it has to wait.
func (r *receiver) holdBack(ch *channel, f *wire.Frame) bool {
	switch {
	case ch.waits != nil:
		ch.waits.follow(frameMethod(f))
	case len(ch.held) > 0:
		if !ch.transacted && settles(frameMethod(f)) {
			return false
		}
	default:
		reason, blocked := r.opts.Flow.Blocked(r.vhost)
		if !blocked || frameMethod(f) != wire.IDBasicPublish || ch.content.state != idle {
			return false
		}
		r.tellBlocked(reason)
	}
	r.keep(ch, wire.End(append(wire.Begin(ch.held, f.Type, f.Channel), f.Payload...), len(ch.held)))
	return true
}

func settles(id wire.ID) bool {
	return id == wire.IDBasicAck || id == wire.IDBasicNack || id == wire.IDBasicReject
}

// awaits has a declaration wait, and its channel with it, if the queue is another connection's of which it is not known whether
// it lives: a client that comes back at once would take a refusal for the last word.
func (r *receiver) awaits(ch *channel, m *wire.QueueDeclare) bool {
	if ch.waited {
		ch.waited = false
		return false
	}
	wait := r.opts.Occupied(r.vhost, m.Queue)
	if wait == nil {
		return false
	}
	ch.waits = &waiting{channel: ch}
	ch.waits.stop = r.world.await(ch.waits, wait)
	r.keep(ch, wire.AppendMethod(ch.held, ch.number, m))
	return true
}

// keep takes a channel's frames that are to be held back, longer by one than they were.
func (r *receiver) keep(ch *channel, held []byte) {
	if len(ch.held) == 0 {
		r.hold.channels = append(r.hold.channels, ch)
	}
	more := len(held) - len(ch.held)
	ch.held = held
	r.hold.bytes += more
	r.hold.crowded = !r.opts.Flow.Hold(more)
}

func (r *receiver) tellBlocked(reason string) {
	r.shared.blocked.Store(true)
	if r.client.connectionBlocked && !r.hold.told {
		r.hold.told = true
		r.out.notify(&wire.ConnectionBlocked{Reason: reason})
	}
}

// flowChanged is called when publishers have to wait, or need not any more.
func (r *receiver) flowChanged() {
	if _, blocked := r.opts.Flow.Blocked(r.vhost); blocked {
		return
	}
	if r.hold.told {
		r.out.notify(&wire.ConnectionUnblocked{})
	}
	r.hold.told = false
	r.shared.blocked.Store(false)
	for _, ch := range slices.Clone(r.hold.channels) {
		if ch.waits == nil {
			r.release(ch)
		}
	}
	r.closeLate()
}

// resume is called when a declaration has waited long enough: it is made now, whatever comes of it.
func (r *receiver) resume(w *waiting) {
	ch := w.channel
	if ch.waits != w {
		return // the channel was closed
	}
	ch.waited = true
	r.release(ch)
	r.closeLate()
}

// release takes what a channel holds back, as if it had come now.
func (r *receiver) release(ch *channel) {
	frames := ch.held
	r.letGo(ch)
	for len(frames) > 0 && r.phase == running {
		var f wire.Frame
		n, err := wire.Parse(frames, r.payloadMax(), &f)
		if err != nil || n == 0 {
			return // cannot be: they were whole
		}
		frames = frames[n:]
		if fault := r.frame(&f); fault != nil {
			r.refused(f.Channel, fault)
		}
	}
}

// closeLate does what a connection.close asks for that waited until nothing is held back.
func (r *receiver) closeLate() {
	if m := r.hold.closing; m != nil && r.hold.bytes == 0 && r.phase == running {
		r.closedByClient(m)
	}
}

// letGo forgets what a channel holds back.
func (r *receiver) letGo(ch *channel) {
	if len(ch.held) == 0 {
		return
	}
	if ch.waits != nil {
		ch.waits.stop()
	}
	r.hold.channels = slices.DeleteFunc(r.hold.channels, func(x *channel) bool { return x == ch })
	r.hold.bytes -= len(ch.held)
	r.hold.crowded = !r.opts.Flow.Hold(-len(ch.held))
	ch.held, ch.waits = nil, nil
}

// dropHeld forgets all that is held back: the connection is over.
func (r *receiver) dropHeld() {
	for _, ch := range slices.Clone(r.hold.channels) {
		r.letGo(ch)
	}
}
