package v091

import (
	"fmt"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
)

// Bounds of what a channel's deliveries may come to before the machine hears that they were written.
const (
	reportCount = 500
	reportBytes = 1 << 20
)

func (s *sender) delivered(e *session.Event, c *outChannel) {
	parts, ok := s.content(e)
	if !ok {
		return
	}
	s.head = wire.BasicDeliver{
		ConsumerTag: e.Name, DeliveryTag: e.Tag, Redelivered: e.Redelivered,
		Exchange: s.record.Exchange, RoutingKey: s.record.RoutingKey,
	}
	s.advance(e.Channel, c, e.Tag)
	s.buf = wire.AppendMethod(s.buf, e.Channel, &s.head)
	s.body(e.Channel, parts)
	if !e.NoAck {
		s.toSettle++
	}
	if e.NoAck || e.Windowed {
		s.report(e, c)
	}
}

func (s *sender) gotten(e *session.Event, c *outChannel) {
	parts, ok := s.content(e)
	if !ok {
		return
	}
	s.confirm(e.Channel)
	s.got = wire.BasicGetOk{
		DeliveryTag: e.Tag, Redelivered: e.Redelivered, MessageCount: e.Messages,
		Exchange: s.record.Exchange, RoutingKey: s.record.RoutingKey,
	}
	s.advance(e.Channel, c, e.Tag)
	s.buf = wire.AppendMethod(s.buf, e.Channel, &s.got)
	s.body(e.Channel, parts)
	if e.NoAck {
		s.report(e, c)
	} else {
		s.toSettle++
	}
}

// returned sends an unroutable message back. Pending confirms of messages before it may come after it, never its own
// before it: they are of a later event.
func (s *sender) returned(e *session.Event) {
	parts, ok := s.content(e)
	if !ok {
		return
	}
	s.buf = wire.AppendMethod(s.buf, e.Channel, &wire.BasicReturn{
		ReplyCode: wire.ReplyNoRoute, ReplyText: wire.ReplyName(wire.ReplyNoRoute),
		Exchange: s.record.Exchange, RoutingKey: s.record.RoutingKey,
	})
	s.body(e.Channel, parts)
}

// content reads a message into s.record. Where that fails for a channel that the client still has, the connection is
// closed: its deliveries return to their queues, rather than be counted as under way for ever.
func (s *sender) content(e *session.Event) (parts [][]byte, ok bool) {
	record := e.Record
	var err error
	if record == nil || len(e.Parts) > 0 {
		record, parts, err = s.session().Content(e)
	}
	if err == nil {
		err = message.ParseRecord(record, &s.record)
	}
	if err == nil {
		core.Render(&s.record, e.Extra)
		if s.grant != nil && s.grant.KeepNumbers && e.Kind != core.EffectReturned {
			s.record.Properties = message.AddHeader(s.record.Properties, headerNumber, int64(e.Number))
		}
		return parts, true
	}
	if s.shared.gone.has(e.Channel) || s.shared.failed.has(e.Channel) {
		return nil, false
	}
	s.log.Error("cannot read a message", "channel", e.Channel, "number", e.Number, "error", err)
	s.shared.closing.Store(true)
	f := &fault{code: core.CodeInternalError, text: fmt.Sprintf("cannot read message %d", e.Number)}
	s.notice(&notice{method: connectionClose(f)})
	return nil, false
}

// body sends the content header and the body of s.record, in frames that the client takes.
func (s *sender) body(channel uint16, parts [][]byte) {
	s.buf = wire.AppendHeader(s.buf, channel, classBasic, s.record.BodySize, s.record.Properties)
	for _, p := range parts {
		s.pieces(channel, p)
	}
	s.pieces(channel, s.record.Body)
}

func (s *sender) pieces(channel uint16, b []byte) {
	most := s.frameMax - wire.FrameOverhead
	for len(b) > 0 {
		n := min(len(b), most)
		s.buf = wire.AppendBody(s.buf, channel, b[:n])
		b = b[n:]
		s.room()
	}
}

// report counts a delivery that the machine wants to hear of, and tells it of many at once.
func (s *sender) report(e *session.Event, c *outChannel) {
	x := &c.written
	if x.count == 0 {
		s.reports = append(s.reports, e.Channel)
	}
	x.count++
	x.bytes += int(e.Size)
	x.tag = e.Tag
}

// reported tells the machine of what was written: of channels with many deliveries, or with all of every channel.
func (s *sender) reported(all bool) error {
	kept := s.reports[:0]
	var err error
	for _, number := range s.reports {
		x := &s.channels[number].written
		if x.count == 0 {
			continue
		}
		if err != nil || !all && x.count < reportCount && x.bytes < reportBytes {
			kept = append(kept, number)
			continue
		}
		err = s.session().Written(number, x.tag)
		*x = unreported{}
	}
	s.reports = kept
	return err
}
