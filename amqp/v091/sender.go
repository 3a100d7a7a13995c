package v091

import (
	"io"
	"log/slog"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
)

// outChannel is what the sender keeps of a channel.
type outChannel struct {
	// muted says that channel.close was sent: all that follows belongs to the channel before it, until the machine has
	// opened it anew.
	muted     bool
	confirmed uint64 // the number of the last publish confirmed since the channel was opened
	highest   uint64 // tag sent to a named session
	pending   uint32 // confirms not encoded yet: one basic.ack for a run of them
	written   unreported
}

// unreported is the deliveries of a channel that the machine wants to hear of when they have reached the socket.
type unreported struct {
	count, bytes int
	tag          uint64
}

// sender is the machine that frames come out of. It belongs to one goroutine.
type sender struct {
	log     *slog.Logger
	shared  *shared
	session func() Session
	hosts   func() []string
	told    func(queue string, properties, body []byte) // announces to a queue
	w       io.Writer

	frameMax int // as tuned
	buf      []byte
	err      error // of the writer

	channels []outChannel // by number
	dirty    []uint16     // channels with pending confirms
	reports  []uint16     // channels with unreported deliveries
	advanced []uint16     // channels of a named session whose highest tag was not told to the receiver
	grant    *session.Grant
	toSettle uint64 // deliveries encoded that the client is to settle
	closed   bool   // connection.close or close-ok was the last frame

	record message.Record // scratch
	head   wire.BasicDeliver
	got    wire.BasicGetOk
	ack    wire.BasicAck
}

// writeBytes is how much is encoded before it is written out, within one wake.
const writeBytes = 256 << 10

func newSender(opts *Options, log *slog.Logger, sh *shared, s func() Session, told func(string, []byte, []byte), w io.Writer) *sender {
	return &sender{log: log, shared: sh, session: s, hosts: opts.Hosts, told: told, w: w, frameMax: wire.FrameMaxMin}
}

func (s *sender) channel(number uint16) *outChannel {
	if int(number) >= len(s.channels) {
		s.channels = append(s.channels, make([]outChannel, int(number)+1-len(s.channels))...)
	}
	return &s.channels[number]
}

// send encodes what an outbox held, in order, and writes it out.
func (s *sender) send(events []session.Event, notices []notice) error {
	if s.grant == nil {
		s.grant = s.shared.grant.Load()
	}
	for i := range events {
		for len(notices) > 0 && notices[0].at <= i {
			s.notice(&notices[0])
			notices = notices[1:]
		}
		s.event(&events[i])
	}
	for i := range notices {
		s.notice(&notices[i])
	}
	s.confirmAll()
	s.shared.delivered.Store(s.toSettle) // before the client can settle them
	s.write()
	return s.err
}

// write hands what is encoded to the socket.
func (s *sender) write() {
	if len(s.advanced) > 0 { // before the client can settle them
		s.shared.tags.advance(s.channels, s.advanced)
		s.advanced = s.advanced[:0]
	}
	if len(s.buf) > 0 && s.err == nil {
		_, s.err = s.w.Write(s.buf)
	}
	s.buf = s.buf[:0]
	if cap(s.buf) > 4*writeBytes {
		s.buf = nil
	}
}

func (s *sender) room() {
	if len(s.buf) >= writeBytes {
		s.write()
	}
}

func (s *sender) heartbeat() error {
	if !s.closed {
		s.buf = wire.AppendHeartbeat(s.buf)
		s.write()
	}
	return s.err
}

// method appends a method frame, behind the confirms of its channel that came before it.
func (s *sender) method(channel uint16, m wire.Method) {
	s.confirm(channel)
	s.buf = wire.AppendMethod(s.buf, channel, m)
	s.room()
}

// notice sends a frame of the endpoint's own.
func (s *sender) notice(n *notice) {
	if s.closed {
		return
	}
	switch n.method.(type) {
	case *wire.ConnectionClose, *wire.ConnectionCloseOk:
		s.confirmAll()
		s.buf = wire.AppendMethod(s.buf, 0, n.method)
		s.closed = true
		return
	}
	s.method(0, n.method)
}

func (s *sender) closeChannel(number uint16, m wire.Method) {
	c := s.channel(number)
	if c.muted {
		return
	}
	s.method(number, m)
	c.muted, c.written = true, unreported{}
}

// event sends what the machine told.
func (s *sender) event(e *session.Event) {
	if s.closed {
		return
	}
	c := s.channel(e.Channel)
	if c.muted && !opens(e) {
		return
	}
	switch e.Kind {
	case core.EffectDelivered:
		s.delivered(e, c)
	case core.EffectConfirmed:
		if c.pending == 0 {
			s.dirty = append(s.dirty, e.Channel)
		}
		c.pending += e.Count
	case core.EffectNacked:
		s.confirm(e.Channel)
		c.confirmed += uint64(e.Count)
		s.method(e.Channel, &wire.BasicNack{DeliveryTag: c.confirmed, Multiple: e.Count > 1})
	case core.EffectReturned:
		s.returned(e)
	case core.EffectGot:
		s.gotten(e, c)
	case core.EffectGetEmpty:
		s.method(e.Channel, &wire.BasicGetEmpty{})
	case core.EffectReply:
		s.reply(e, c)
	case core.EffectStatus:
		s.status(e)
	case core.EffectRefused:
		s.refused(e)
	case core.EffectConsumerCancelled:
		if s.shared.cancelNotify.Load() {
			s.method(e.Channel, &wire.BasicCancel{ConsumerTag: e.Name, NoWait: true})
		}
	}
}

// confirm encodes the pending confirms of a channel. Callers go on to encode something that must not overtake them.
func (s *sender) confirm(number uint16) {
	if int(number) >= len(s.channels) {
		return
	}
	c := &s.channels[number]
	if c.pending == 0 {
		return
	}
	c.confirmed += uint64(c.pending)
	s.ack = wire.BasicAck{DeliveryTag: c.confirmed, Multiple: c.pending > 1}
	c.pending = 0
	s.buf = wire.AppendMethod(s.buf, number, &s.ack)
}

func (s *sender) confirmAll() {
	for _, number := range s.dirty {
		s.confirm(number)
	}
	s.dirty = s.dirty[:0]
}

// refused closes the channel, or with a hard code the connection.
func (s *sender) refused(e *session.Event) {
	f := &fault{code: e.Code, text: e.Text, id: methodOf[e.Command]}
	if e.Command == entry.KindSettle {
		f.id = settledBy(e.Outcome)
	}
	if e.Code.Hard() || e.Channel == 0 {
		s.shared.closing.Store(true)
		s.notice(&notice{method: connectionClose(f)})
		return
	}
	s.shared.failed.add(e.Channel)
	s.closeChannel(e.Channel, channelClose(f))
}
