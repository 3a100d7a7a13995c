package v091

import (
	"slices"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
)

// heldBytesMax is how much one connection may publish, in bytes of frames, after publishers were told to wait, before it
// is not read any more: what a client sends until it has heard of it. One that goes on regardless stops itself.
const heldBytesMax = 1 << 20

// hold is what a connection keeps back while publishers have to wait. From its first publish on a channel's frames wait in
// their order, but for acknowledgements outside of a transaction: they go ahead, for they make room, and nothing that a
// client can see depends on their place. Channels on which nothing is published are not touched.
type hold struct {
	channels []*channel // with frames held back
	bytes    int
	crowded  bool                  // all connections together hold too much
	told     bool                  // the client has heard connection.blocked
	closing  *wire.ConnectionClose // it came, and waits for what was sent before it
}

// full says that nothing more is to be read for now.
func (h *hold) full() bool { return h.bytes > 0 && (h.crowded || h.bytes > heldBytesMax) }

// holdBack keeps a frame of an open channel back, if it has to wait.
func (r *receiver) holdBack(ch *channel, f *wire.Frame) bool {
	if len(ch.held) == 0 {
		reason, blocked := r.opts.Flow.Blocked(r.vhost)
		if !blocked || frameMethod(f) != wire.IDBasicPublish || ch.content.state != idle {
			return false
		}
		if !slices.Contains(r.hold.channels, ch) {
			r.hold.channels = append(r.hold.channels, ch)
		}
		r.tellBlocked(reason)
	} else if !ch.transacted && settles(frameMethod(f)) {
		return false
	}
	before := len(ch.held)
	ch.held = wire.End(append(wire.Begin(ch.held, f.Type, f.Channel), f.Payload...), before)
	r.hold.bytes += len(ch.held) - before
	r.hold.crowded = !r.opts.Flow.Hold(len(ch.held) - before)
	return true
}

func settles(id wire.ID) bool {
	return id == wire.IDBasicAck || id == wire.IDBasicNack || id == wire.IDBasicReject
}

func (r *receiver) tellBlocked(reason string) {
	r.shared.blocked.Store(true)
	if r.client.connectionBlocked && !r.hold.told {
		r.hold.told = true
		r.out.notify(&wire.ConnectionBlocked{Reason: reason})
	}
}

// flowChanged is called when publishers have to wait, or need not any more: then what was held back is taken, as if it had
// come now.
func (r *receiver) flowChanged() {
	if _, blocked := r.opts.Flow.Blocked(r.vhost); blocked {
		return
	}
	if r.hold.told {
		r.out.notify(&wire.ConnectionUnblocked{})
	}
	channels, closing := r.hold.channels, r.hold.closing
	r.hold.channels, r.hold.told, r.hold.closing = nil, false, nil
	r.shared.blocked.Store(false)
	for _, ch := range channels {
		frames := ch.held
		r.letGo(ch)
		for len(frames) > 0 && r.phase == running {
			var f wire.Frame
			n, err := wire.Parse(frames, r.payloadMax(), &f)
			if err != nil || n == 0 {
				break // cannot be: they were whole
			}
			frames = frames[n:]
			if fault := r.frame(&f); fault != nil {
				r.refused(f.Channel, fault)
			}
		}
	}
	if closing != nil && r.phase == running {
		r.closedByClient(closing)
	}
}

// letGo forgets what a channel holds back.
func (r *receiver) letGo(ch *channel) {
	r.hold.bytes -= len(ch.held)
	r.opts.Flow.Hold(-len(ch.held))
	ch.held = nil
}

// dropHeld forgets all that is held back: the connection is over.
func (r *receiver) dropHeld() {
	for _, ch := range r.hold.channels {
		r.letGo(ch)
	}
	r.hold.channels = nil
}
