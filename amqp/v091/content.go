package v091

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/message"
)

const (
	classBasic = 60
	// fragmentBytes is the largest body, or piece of one, that goes in one command.
	fragmentBytes = 512 << 10
	// emptyFramesMax is how many body frames without a body one message may have: they make no headway.
	emptyFramesMax = 16
	// namesKeptBytes is how much scratch a channel keeps between messages.
	namesKeptBytes = 4 << 10
)

// assemblyState is what a message under way waits for.
type assemblyState uint8

const (
	idle assemblyState = iota
	awaitHeader
	awaitBody
)

// assembly is a message under way on one channel.
type assembly struct {
	state      assemblyState
	mandatory  bool
	fragmented bool
	empties    uint8
	exchange   uint8  // octets of names
	key        uint8  // octets of names behind the exchange
	names      []byte // exchange, routing key and properties: they outlive the socket's buffer
	size       uint64 // of the whole body
	received   uint64 // of it
	body       []byte // what was received and not handed on
}

// expects refuses a frame for which the message should be in another state; the texts are RabbitMQ's.
func (a *assembly) expects(due assemblyState) *fault {
	if a.state == due {
		return nil
	}
	text := [...]string{
		idle:        "expected method frame, got non method frame instead",
		awaitHeader: "expected content header for class 60, got non content header frame instead",
		awaitBody:   "expected content body, got non content body frame instead",
	}[a.state]
	f := refuse(core.CodeUnexpectedFrame, 0, "%s", text)
	if a.state != idle {
		f.id = wire.IDBasicPublish
	}
	return f
}

// budget bounds what the unfinished messages of one connection hold, in bytes received (not announced).
type budget struct {
	held  uint64
	spare []byte // a body buffer for the next message in pieces
}

// drop lets go of a message under way.
func (b *budget) drop(a *assembly) {
	b.held -= a.received
	if cap(a.body) > cap(b.spare) {
		b.spare = a.body[:0]
	}
	names := a.names[:0]
	if cap(names) > namesKeptBytes {
		names = nil
	}
	*a = assembly{names: names}
}

func (r *receiver) beginPublish(ch *channel, args []byte) *fault {
	m := &r.publish
	if m.Decode(args) != nil {
		return decode(m, args)
	}
	if m.Immediate {
		return refuse(core.CodeNotImplemented, m.ID(), "immediate=true")
	}
	a := &ch.content
	a.state, a.mandatory = awaitHeader, m.Mandatory
	a.exchange, a.key = uint8(len(m.Exchange)), uint8(len(m.RoutingKey))
	a.names = append(append(a.names[:0], m.Exchange...), m.RoutingKey...)
	return nil
}

// headerFrame takes a content header: everything about the message is judged before its body is taken.
func (r *receiver) headerFrame(ch *channel, payload []byte) *fault {
	const id = wire.IDBasicPublish
	a := &ch.content
	if fault := a.expects(awaitHeader); fault != nil {
		return fault
	}
	var h wire.ContentHeader
	if err := h.Decode(payload); err != nil {
		return refuse(core.CodeSyntaxError, id, "content header: %v", err)
	}
	if h.Class != classBasic {
		return refuse(core.CodeUnexpectedFrame, id, "expected content header for class %d, got one for class %d instead", classBasic, h.Class)
	}
	if h.Weight != 0 {
		return refuse(core.CodeFrameError, id, "content header with weight %d, wanted 0", h.Weight)
	}
	if err := message.CheckProperties(h.Properties); err != nil {
		return refuse(core.CodeSyntaxError, id, "content header: %v", err)
	}
	if h.BodySize > r.opts.MaxMessageBytes {
		return refuse(core.CodePreconditionFailed, id, "message size %d is larger than configured max size %d", h.BodySize, r.opts.MaxMessageBytes)
	}
	if fault := r.checkProperties(h.Properties); fault != nil {
		return fault
	}
	if direct(h.Properties) {
		var fault *fault
		if h.Properties, fault = ch.nameReplies(h.Properties); fault != nil {
			return fault
		}
	}
	a.state, a.size = awaitBody, h.BodySize
	a.names = append(a.names, h.Properties...)
	if a.size == 0 {
		r.finishPublish(ch, nil)
	}
	return nil
}

// checkProperties judges the properties that make promises: who published, and for how long.
func (r *receiver) checkProperties(b []byte) *fault {
	flags := message.Property(uint16(b[0])<<8 | uint16(b[1]))
	if flags&(message.PropUserID|message.PropExpiration) == 0 {
		return nil
	}
	p, err := message.ParseProperties(b)
	if err != nil {
		return refuse(core.CodeSyntaxError, wire.IDBasicPublish, "content header: %v", err)
	}
	if p.Has(message.PropUserID) && p.UserID != r.user && !r.session.Impersonates() {
		return refuse(core.CodePreconditionFailed, wire.IDBasicPublish, "user_id property set to '%s' but authenticated user was '%s'", p.UserID, r.user)
	}
	if p.Has(message.PropExpiration) {
		if wrong := checkExpiration(p.Expiration); wrong != "" {
			return refuse(core.CodePreconditionFailed, wire.IDBasicPublish, "invalid expiration '%s': %s", p.Expiration, wrong)
		}
	}
	return nil
}

// expirationMax is the longest expiration that is accepted: ten years, as RabbitMQ has it, in milliseconds.
const expirationMax = 10 * 365 * 24 * 3600 * 1000

// checkExpiration judges an expiration, milliseconds from 0 to expirationMax; what is wrong is said in RabbitMQ's words.
func checkExpiration(text string) string {
	digits := strings.TrimPrefix(text, "-")
	rest := strings.TrimLeft(digits, "0123456789")
	switch number := text[:len(text)-len(rest)]; {
	case digits == rest:
		return "no_integer"
	case rest != "":
		return fmt.Sprintf("{leftover_string,%q}", rest)
	case strings.HasPrefix(text, "-"):
		return fmt.Sprintf("{value_negative,%s}", number)
	default:
		if n, err := strconv.ParseUint(number, 10, 64); err != nil || n > expirationMax {
			return fmt.Sprintf("{value_too_large,%s}", number)
		}
	}
	return ""
}

// bodyFrame takes a piece of a body. One that completes a message is used where it lies.
func (r *receiver) bodyFrame(ch *channel, piece []byte) *fault {
	const id = wire.IDBasicPublish
	a := &ch.content
	if fault := a.expects(awaitBody); fault != nil {
		return fault
	}
	n := uint64(len(piece))
	if n > a.size-a.received {
		return refuse(core.CodeFrameError, id, "body of %d octets where the content header announced %d", a.received+n, a.size)
	}
	if n == 0 {
		if a.empties++; a.empties > emptyFramesMax {
			return refuse(core.CodeFrameError, id, "more than %d empty body frames in one message", emptyFramesMax)
		}
		return nil
	}
	if a.received == 0 && n == a.size && n <= fragmentBytes {
		r.finishPublish(ch, piece)
		return nil
	}
	return r.gather(ch, piece)
}

// gather keeps a piece of a body until the message is complete or the pieces fill a fragment.
func (r *receiver) gather(ch *channel, piece []byte) *fault {
	a := &ch.content
	n := uint64(len(piece))
	if r.content.held+n > r.opts.AssemblyBytes {
		return refuse(core.CodeResourceError, wire.IDBasicPublish, "unfinished messages of this connection exceed %d bytes", r.opts.AssemblyBytes)
	}
	r.content.held += n
	a.received += n
	if a.body == nil {
		a.body, r.content.spare = r.content.spare[:0], nil
	}
	for len(piece) > 0 {
		if len(a.body) == fragmentBytes {
			r.settles.flush(r.session)
			r.patience.urgent = true
			r.session.Fragment(ch.number, a.body)
			a.fragmented, a.body = true, a.body[:0]
		}
		k := min(len(piece), fragmentBytes-len(a.body))
		a.body = append(a.body, piece[:k]...)
		piece = piece[k:]
	}
	if a.received == a.size {
		r.finishPublish(ch, a.body)
	}
	return nil
}

func (r *receiver) finishPublish(ch *channel, body []byte) {
	a := &ch.content
	r.settles.flush(r.session)
	r.patience.urgent = true
	key := int(a.exchange) + int(a.key)
	r.record = message.Record{
		Form:       message.FormAMQP091,
		Exchange:   a.names[:a.exchange],
		RoutingKey: a.names[a.exchange:key],
		Properties: a.names[key:],
		BodySize:   a.size,
		Body:       body,
	}
	r.session.Publish(ch.number, a.mandatory, a.fragmented, &r.record)
	r.record = message.Record{}
	r.content.drop(a)
}
