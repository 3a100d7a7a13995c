package v091

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/understudy-mq/understudy/amqp/sasl"
	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
)

// phase is how far a connection is.
type phase uint8

const (
	awaitStartOk phase = iota
	awaitTuneOk
	awaitOpen
	running
	closing // this side sent connection.close: everything but the answer is discarded
	finished
)

func (p phase) String() string {
	return [...]string{"starting", "tuning", "opening", "running", "closing", "closed"}[p]
}

// earlyFrameMax bounds a frame before tune: 8 KiB and what a frame has around it, as clients count both ways.
const earlyFrameMax = 8192

// world is what the receiver needs done outside of itself.
type world interface {
	// certified says whether the client has shown a certificate that was found good.
	certified() bool
	// login checks credentials; it takes its time over a refusal. A *session.Error is as in Options.Authenticate.
	login(sasl.Credentials) (name string, err error)
	attach(session.Attach) (Session, error)
	// await has receiver.resume called with w once wait has come back, which takes Options.OccupiedWait at most, and only a
	// moment after stop.
	await(w *waiting, wait func(context.Context)) (stop func())
	// tuned tells what was agreed, before the client can know of it.
	tuned(frameMax uint32, heartbeatSeconds uint16)
}

// shared is what receiver and sender tell each other.
type shared struct {
	// failed has a bit for each channel that the machine refused something on: set by the sender ahead of channel.close,
	// cleared by the receiver at its answer.
	failed bits
	// gone has a bit for each channel that the client has closed: deliveries that wait for it need not be read.
	gone         bits
	open         atomic.Int32
	delivered    atomic.Uint64 // deliveries sent that the client is to settle
	cancelNotify atomic.Bool   // the client declared consumer_cancel_notify
	closing      atomic.Bool   // the sender has sent connection.close
	blocked      atomic.Bool   // publishes are held back

	grant   atomic.Pointer[session.Grant] // of a named session, once it is attached
	answers answers
	closes  closes
	tags    tags
}

// close says that the connection is closing.
func (s *shared) close() {
	s.closing.Store(true)
	s.answers.abandon()
}

func newShared(channelMax uint16) *shared {
	n := int(channelMax)/64 + 1
	s := &shared{failed: make(bits, n), gone: make(bits, n)}
	s.answers.answered.L = &s.answers.mu
	return s
}

// bits is a set of channels.
type bits []atomic.Uint64

func (b bits) has(channel uint16) bool { return b[channel/64].Load()&(1<<(channel%64)) != 0 }
func (b bits) add(channel uint16)      { b[channel/64].Or(1 << (channel % 64)) }
func (b bits) remove(channel uint16)   { b[channel/64].And(^uint64(1 << (channel % 64))) }

// receiver is the machine that frames come into. It belongs to one goroutine.
type receiver struct {
	opts   *Options
	log    *slog.Logger
	world  world
	out    *outbox
	shared *shared

	phase      phase
	user       string
	unjudged   *session.Error // why the login could not be judged, nil if it was
	vhost      string
	client     clientInfo
	session    Session
	grant      session.Grant
	frameMax   uint32
	channelMax uint16

	channels []*channel // by number; nil was never opened
	settles  settlement
	patience patience
	content  budget
	hold     hold
	record   message.Record // scratch: a local one would escape
	publish  wire.BasicPublish
}

func newReceiver(opts *Options, log *slog.Logger, w world, out *outbox, sh *shared) *receiver {
	return &receiver{opts: opts, log: log, world: w, out: out, shared: sh, frameMax: earlyFrameMax, channelMax: opts.ChannelMax}
}

// payloadMax is the largest payload of the next frame. Frames may exceed frame_max by their own overhead, as RabbitMQ
// allows clients that count the payload alone.
func (r *receiver) payloadMax() uint32 { return r.frameMax }

// input takes the frames at the start of b, and answers how many octets they were. The rest is an incomplete frame.
// Once the connection is finished all of it is taken and discarded.
func (r *receiver) input(b []byte) (n int) {
	for n < len(b) && r.phase != finished {
		if r.shared.closing.Load() {
			r.phase = closing
		}
		var f wire.Frame
		w, err := wire.Parse(b[n:], r.payloadMax(), &f)
		if err != nil {
			r.broken(err)
			return len(b)
		}
		if w == 0 {
			return n
		}
		n += w
		if fault := r.frame(&f); fault != nil {
			r.refused(f.Channel, fault)
		}
	}
	if r.phase == finished {
		return len(b)
	}
	return n
}

// flush hands on the commands of a read burst; it blocks where the broker has too much under way. An error means that
// the session is gone.
func (r *receiver) flush() error {
	if r.session == nil {
		return nil
	}
	r.settles.flush(r.session)
	if r.patience.take() {
		return r.session.Flush()
	}
	return r.session.FlushLater()
}

// broken answers octets that are no frame; nothing behind them can be read.
func (r *receiver) broken(err error) {
	if r.phase == closing {
		r.phase = finished
		return
	}
	r.refused(0, &fault{code: core.CodeFrameError, text: err.Error(), hard: true, broken: true})
}

// refused closes what a fault ends: the channel or the connection. What came before the fault counts.
func (r *receiver) refused(channel uint16, f *fault) {
	if !f.hard {
		r.refuseChannel(channel, f)
		return
	}
	if r.session != nil {
		r.settles.flush(r.session)
		r.log.Info("closing a connection for its client's fault", "user", r.user, "error", f)
	}
	r.out.notify(connectionClose(f))
	r.phase = closing
	if f.broken {
		r.phase = finished
	}
}

// frame takes one frame.
func (r *receiver) frame(f *wire.Frame) *fault {
	switch {
	case r.phase == closing:
		return r.closingFrame(f)
	case f.Type == wire.FrameHeartbeat:
		return heartbeat(f)
	case r.phase < running:
		return r.handshake(f)
	case f.Channel == 0:
		return r.connectionFrame(f)
	case f.Channel > r.channelMax:
		return r.beyond(f)
	}
	return r.channelFrame(f)
}

// beyond refuses a channel above channel_max, which is the highest number; RabbitMQ counts open channels, and clients know its word for
// a client that has used them all up.
func (r *receiver) beyond(f *wire.Frame) *fault {
	id, n := frameMethod(f), r.shared.open.Load()
	if id == wire.IDChannelOpen && n >= int32(r.channelMax) {
		return refuse(core.CodeNotAllowed, 0, "number of channels opened (%d) has reached the negotiated channel_max (%d)", n, r.channelMax)
	}
	return refuse(core.CodeChannelError, id, "channel number %d is higher than the negotiated channel_max (%d)", f.Channel, r.channelMax)
}

// heartbeat checks one; that octets came is all that it says.
func heartbeat(f *wire.Frame) *fault {
	if f.Channel != 0 {
		return refuse(core.CodeUnexpectedFrame, 0, "heartbeat on channel %d", f.Channel)
	}
	if len(f.Payload) > 0 {
		return refuse(core.CodeFrameError, 0, "heartbeat with a payload of %d octets", len(f.Payload))
	}
	return nil
}

func (r *receiver) closingFrame(f *wire.Frame) *fault {
	if f.Type != wire.FrameMethod || f.Channel != 0 {
		return nil
	}
	switch frameMethod(f) {
	case wire.IDConnectionCloseOk:
		r.phase = finished
	case wire.IDConnectionClose:
		// The closes have crossed. Ours is the last method that we send: the client has its answer in it.
		r.phase = finished
	}
	if r.phase == finished && r.session != nil {
		r.session.Answered()
	}
	return nil
}

func frameMethod(f *wire.Frame) wire.ID {
	if f.Type != wire.FrameMethod {
		return 0
	}
	id, _, _ := wire.SplitMethod(f.Payload)
	return id
}

// connectionFrame takes a frame on channel 0 of an open connection.
func (r *receiver) connectionFrame(f *wire.Frame) *fault {
	if f.Type != wire.FrameMethod {
		return refuse(core.CodeUnexpectedFrame, 0, "type %d on channel 0", f.Type)
	}
	id, args, ok := wire.SplitMethod(f.Payload)
	if !ok {
		return noMethod(f)
	}
	m := wire.New(id)
	if m == nil {
		return refuse(core.CodeCommandInvalid, id, "unimplemented method")
	}
	if fault := decode(m, args); fault != nil {
		return fault
	}
	switch m := m.(type) {
	case *wire.ConnectionClose:
		if r.hold.bytes == 0 {
			r.closedByClient(m)
			return nil
		}
		r.hold.closing = m
		for _, ch := range r.hold.channels {
			ch.waits.hurry()
		}
	case *wire.ConnectionUpdateSecret:
		r.out.notify(&wire.ConnectionUpdateSecretOk{})
	case *wire.ConnectionCloseOk:
		return refuse(core.CodeCommandInvalid, id, "connection.close-ok without a connection.close")
	case *wire.AccessRequest:
		r.out.notify(&wire.AccessRequestOk{Ticket: 1})
	default:
		return refuse(core.CodeChannelError, id, "unexpected method in connection state %s", r.phase)
	}
	return nil
}

// closedByClient ends the session in good order. What this connection sent is ahead of the end in the log, and what
// any connection of this node sends from now on is behind it.
func (r *receiver) closedByClient(m *wire.ConnectionClose) {
	r.log.Debug("client closes", "code", m.ReplyCode, "text", m.ReplyText)
	if r.session != nil {
		r.settles.flush(r.session)
		r.session.End()
	}
	r.out.notify(&wire.ConnectionCloseOk{})
	r.phase = finished
}

func noMethod(f *wire.Frame) *fault {
	return refuse(core.CodeFrameError, 0, "type %d, all octets = <<%x>>: unknown_frame", f.Type, f.Payload)
}

// decode reads a method's arguments. Cut ones are a syntax error; octets behind the last one mean that a length within
// was wrong, which is the frame's fault.
func decode(m wire.Method, args []byte) *fault {
	switch err := m.Decode(args); {
	case errors.Is(err, wire.ErrTrailing):
		return refuse(core.CodeFrameError, m.ID(), "%s: %v", m.ID(), err)
	case err != nil:
		return refuse(core.CodeSyntaxError, m.ID(), "%s: %v", m.ID(), err)
	}
	return nil
}

// checkTable validates the field table of a method.
func checkTable(id wire.ID, table []byte) *fault {
	if err := message.Check(table); err != nil {
		return refuse(core.CodeSyntaxError, id, "%s: %v", id, err)
	}
	return nil
}

// do encodes a command behind what is held back.
func (r *receiver) do(cmd entry.Addressed) {
	r.settles.flush(r.session)
	r.patience.urgent = true
	r.session.Do(cmd)
}

// refusal is a session's refusal as a fault of method id.
func refusal(err error, id wire.ID) *fault {
	var e *session.Error
	if errors.As(err, &e) {
		return &fault{code: e.Code, text: e.Text, id: id, hard: true, named: e.Named}
	}
	return &fault{code: core.CodeInternalError, text: err.Error(), id: id, hard: true}
}

// clientInfo is what a client says about itself.
type clientInfo struct {
	properties                 message.Table // until it is attached
	shown                      []byte        // of the properties, for listings
	name                       string
	authenticationFailureClose bool
	consumerCancelNotify       bool
	connectionBlocked          bool
}

// peerOf lets an in-memory connection have no address.
func peerOf(a net.Addr) string {
	if a == nil {
		return "unknown"
	}
	return a.String()
}
