package sessions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

type (
	table = rawclient.Table
	props = rawclient.Properties
	event = rawclient.Event
)

// patience bounds each wait of a talk.
const patience = harness.Patience

// errCut says that the connection is lost; what was under way is to be done again on the next one.
var errCut = errors.New("the connection is lost")

// talk is a conversation on one session, and a client that keeps it up: after a lost connection it makes another one to the
// next address, opens its channels, consumes again, publishes again what was not confirmed, and repeats the call that was
// interrupted. What the application sees is written to trace.
type talk struct {
	urls       []string // the first one is dialled first, then the others in turn
	dials      int
	dialled    func()         // called once the first connection was tried; may be nil
	before     func(step int) // called ahead of each step; may be nil
	step       int
	properties table
	prefix     string // of this talk's names, which the trace leaves out
	frameMax   int

	f        *rawclient.Frames
	channels []*lane
	replies  uint16 // channel of direct replies, 0 for none
	replyTo  string // the address that the last request had
	trace    []string
	resumed  int // connections after the first
}

// lane is a channel and what is to be restored on it.
type lane struct {
	number    uint16
	confirms  bool
	prefetch  int
	consumers []*reader
	pending   []*parcel // published and not confirmed, in order
	sent      []*parcel // on this connection, and not answered
	got       map[uint64]string
}

// reader is a consumer: its queue, and the messages that it has received, each once.
type reader struct {
	tag, queue string
	arguments  table
	count      int
}

// parcel is a publish.
type parcel struct {
	exchange, key string
	mandatory     bool
	properties    props
	body          []byte
	confirmed     bool
}

func (t *talk) say(format string, arguments ...any) {
	t.trace = append(t.trace, strings.ReplaceAll(fmt.Sprintf(format, arguments...), t.prefix, "~"))
}

// told is the trace in an order that does not depend on what overtook what: what each consumer received, and all else. Confirms
// and deliveries have no order between them.
func (t *talk) told() []string {
	lines := slices.Clone(t.trace)
	class := func(line string) string {
		if before, _, ok := strings.Cut(line, " received "); ok {
			return before
		}
		return ""
	}
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(class(a), class(b)) })
	return lines
}

// node is the place among urls of the node that the talk is connected to.
func (t *talk) node() int { return (t.dials - 1) % len(t.urls) }

// attach makes a connection and restores what the conversation had. An error other than errCut ends the talk.
func (t *talk) attach() error {
	if t.f != nil {
		_ = t.f.Close()
		t.resumed++
	}
	url := t.urls[t.dials%len(t.urls)]
	t.dials++
	var err error
	if t.dials == 1 && t.dialled != nil {
		defer t.dialled()
	}
	t.f, err = rawclient.DialFrames(url, rawclient.Handshake{Properties: t.properties, FrameMax: t.frameMax})
	if err != nil {
		t.f = nil
		return errors.Join(errCut, err)
	}
	t.f.Patience = patience
	for _, l := range t.channels {
		if err := t.restore(l); err != nil {
			return err
		}
	}
	return nil
}

func (t *talk) restore(l *lane) error {
	l.sent = nil
	if _, err := t.call(l, "channel.open-ok", "channel.open"); err != nil {
		return err
	}
	if l.confirms {
		if _, err := t.call(l, "confirm.select-ok", "confirm.select"); err != nil {
			return err
		}
	}
	if _, err := t.call(l, "basic.qos-ok", "basic.qos", 0, l.prefetch); err != nil {
		return err
	}
	for _, r := range l.consumers {
		if _, err := t.call(l, "basic.consume-ok", "basic.consume", r.queue, r.tag, false, false, false, false, r.arguments); err != nil {
			return err
		}
	}
	if l.number == t.replies {
		if err := t.restoreReplies(); err != nil {
			return err
		}
	}
	for _, p := range l.pending {
		if err := t.send(l, p); err != nil {
			return err
		}
	}
	return nil
}

// do carries out a step, again after every lost connection.
func (t *talk) do(step func() error) error {
	if t.step++; t.before != nil {
		t.before(t.step)
	}
	end := time.Now().Add(2 * patience)
	err := errCut
	if t.f != nil {
		err = step()
	}
	for errors.Is(err, errCut) {
		if time.Now().After(end) {
			return fmt.Errorf("still cut after %v: %w", 2*patience, err)
		}
		if err = t.attach(); err == nil {
			err = step()
		}
	}
	return err
}

// call sends a method and waits for its reply; what comes before is taken note of.
func (t *talk) call(l *lane, reply, name string, arguments ...any) (*event, error) {
	if err := t.f.Send(l.number, name, arguments...); err != nil {
		return nil, errors.Join(errCut, err)
	}
	return t.until(func(e *event) bool { return e.Channel == l.number && e.Name == reply })
}

// until reads events, taking note of them, up to the one that is looked for.
func (t *talk) until(is func(*event) bool) (*event, error) {
	for {
		e, err := t.f.Next()
		if err != nil {
			return nil, errors.Join(errCut, err)
		}
		switch e.Name {
		case "end":
			return nil, errCut
		case "connection.close":
			if e.Number(0) == 320 {
				return nil, fmt.Errorf("%w: %s", errCut, e)
			}
			return nil, fmt.Errorf("connection closed: %s", e)
		case "channel.close":
			return nil, fmt.Errorf("channel %d closed: %s", e.Channel, e)
		}
		if err := t.note(e); err != nil {
			return nil, err
		}
		if is(e) {
			return e, nil
		}
	}
}

// note takes in what may come at any time: confirms, returns and deliveries.
func (t *talk) note(e *event) error {
	if e.Channel == 0 {
		return nil
	}
	l := t.channels[slices.IndexFunc(t.channels, func(l *lane) bool { return l.number == e.Channel })]
	switch e.Name {
	case "basic.ack":
		multiple, _ := e.Arguments[1].(bool)
		return l.answered(e.Number(0), multiple)
	case "basic.nack":
		return fmt.Errorf("nacked: %s", e)
	case "basic.return":
		return fmt.Errorf("returned: %s", e)
	case "basic.deliver":
		if e.Text(0) == repliesTag {
			return nil // at most once, and so no part of the trace
		}
		if to := e.Properties.ReplyTo; to != "" {
			if t.replyTo != "" && t.replyTo != to {
				return fmt.Errorf("the reply address was %s and is now %s", t.replyTo, to)
			}
			t.replyTo = to
		}
		i := slices.IndexFunc(l.consumers, func(r *reader) bool { return r.tag == e.Text(0) })
		if i < 0 {
			return fmt.Errorf("a delivery for nobody: %s", e)
		}
		r := l.consumers[i]
		fresh, err := l.first(e.Number(1), r.tag+" "+content(e))
		if fresh {
			r.count++
			t.say("channel %d: %s received tag %d %s", l.number, r.tag, e.Number(1), content(e))
		}
		return err
	}
	return nil
}

// first says whether a tag is seen for the first time. The same tag always means the same message.
func (l *lane) first(tag uint64, what string) (bool, error) {
	before, seen := l.got[tag]
	if seen && before != what {
		return false, fmt.Errorf("tag %d was %s and is now %s", tag, before, what)
	}
	l.got[tag] = what
	return !seen, nil
}

// content is a message as the trace shows it.
func content(e *event) string {
	n := len(e.Arguments)
	exchange, key := e.Arguments[n-2], e.Arguments[n-1]
	if e.Name == "basic.get-ok" {
		exchange, key = e.Arguments[n-3], e.Arguments[n-2]
	}
	return fmt.Sprintf("%s/%s %d:%.24s %v", exchange, key, len(e.Body), e.Body, e.Properties.Headers)
}

// answered takes a confirm of the connection's n-th publish on the channel, with multiple of all up to it.
func (l *lane) answered(n uint64, multiple bool) error {
	if n == 0 || n > uint64(len(l.sent)) {
		return fmt.Errorf("channel %d: a confirm for publish %d of %d", l.number, n, len(l.sent))
	}
	first := n - 1
	if multiple {
		first = 0
	}
	for _, p := range l.sent[first:n] {
		p.confirmed = true
	}
	l.pending = slices.DeleteFunc(l.pending, func(p *parcel) bool { return p.confirmed })
	return nil
}

func (t *talk) send(l *lane, p *parcel) error {
	l.sent = append(l.sent, p)
	b := rawclient.AppendCall(nil, l.number, "basic.publish", p.exchange, p.key, p.mandatory, false)
	if err := t.f.Write(rawclient.AppendContent(b, l.number, t.f.FrameMax, &p.properties, p.body)); err != nil {
		return errors.Join(errCut, err)
	}
	return nil
}

// The steps of a conversation.

func (t *talk) openChannel(number uint16, prefetch int) error {
	l := &lane{number: number, prefetch: prefetch, got: map[uint64]string{}}
	t.channels = append(t.channels, l)
	fresh := true
	return t.do(func() error {
		if !fresh && t.resumed > 0 {
			return nil // opened by attach
		}
		fresh = false
		return t.restore(l)
	})
}

func (t *talk) lane(number uint16) *lane {
	return t.channels[slices.IndexFunc(t.channels, func(l *lane) bool { return l.number == number })]
}

// ask makes a call that may be repeated, and shows its reply.
func (t *talk) ask(channel uint16, reply, name string, arguments ...any) (e *event, err error) {
	err = t.do(func() error {
		e, err = t.call(t.lane(channel), reply, name, arguments...)
		return err
	})
	return e, err
}

func (t *talk) confirmSelect(channel uint16) error {
	l := t.lane(channel)
	return t.do(func() error {
		if l.confirms {
			return nil
		}
		_, err := t.call(l, "confirm.select-ok", "confirm.select")
		l.confirms = l.confirms || err == nil
		return err
	})
}

// publish sends messages and waits until all are confirmed.
func (t *talk) publish(channel uint16, parcels ...*parcel) error {
	l := t.lane(channel)
	sent := false
	err := t.do(func() error {
		if !sent {
			sent = true // by restore, if this connection is lost
			l.pending = append(l.pending, parcels...)
			for _, p := range parcels {
				if err := t.send(l, p); err != nil {
					return err
				}
			}
		}
		for len(l.pending) > 0 {
			if _, err := t.until(func(*event) bool { return true }); err != nil {
				return err
			}
		}
		return nil
	})
	t.say("channel %d: %d confirmed", channel, len(parcels))
	return err
}

func (t *talk) consume(channel uint16, queue, tag string, arguments table) error {
	l := t.lane(channel)
	r := &reader{tag: tag, queue: queue, arguments: arguments}
	l.consumers = append(l.consumers, r)
	first := t.resumed
	return t.do(func() error {
		if t.resumed > first {
			return nil // by restore
		}
		_, err := t.call(l, "basic.consume-ok", "basic.consume", queue, tag, false, false, false, false, arguments)
		return err
	})
}

// receive waits until a consumer has had so many messages in all.
func (t *talk) receive(channel uint16, tag string, n int) error {
	l := t.lane(channel)
	r := l.consumers[slices.IndexFunc(l.consumers, func(r *reader) bool { return r.tag == tag })]
	return t.do(func() error {
		for r.count < n {
			if _, err := t.until(func(*event) bool { return true }); err != nil {
				return fmt.Errorf("%s has %d of %d: %w", tag, r.count, n, err)
			}
		}
		return nil
	})
}

// settle sends what has no reply, and then a call that has one: with its reply all before it is in.
func (t *talk) settle(channel uint16, send func(l *lane) error) error {
	l := t.lane(channel)
	return t.do(func() error {
		if err := send(l); err != nil {
			return errors.Join(errCut, err)
		}
		_, err := t.call(l, "basic.qos-ok", "basic.qos", 0, l.prefetch)
		return err
	})
}

func (t *talk) ack(channel uint16, tag uint64, multiple bool) error {
	t.say("channel %d: ack %d %t", channel, tag, multiple)
	return t.settle(channel, func(l *lane) error { return t.f.Send(l.number, "basic.ack", tag, multiple) })
}

// ackAll acknowledges all that the channel has received: with tag 0, and when that has to be said again with the highest tag,
// as 0 means what has come on this connection.
func (t *talk) ackAll(channel uint16) error {
	t.say("channel %d: ack all", channel)
	var tag, highest uint64
	for have := range t.lane(channel).got {
		highest = max(highest, have)
	}
	return t.settle(channel, func(l *lane) error {
		err := t.f.Send(l.number, "basic.ack", tag, true)
		tag = highest
		return err
	})
}

func (t *talk) nack(channel uint16, tag uint64, requeue bool) error {
	t.say("channel %d: nack %d %t", channel, tag, requeue)
	return t.settle(channel, func(l *lane) error { return t.f.Send(l.number, "basic.nack", tag, false, requeue) })
}

// get takes one message from a queue; one that it has already, sent once more, does not count.
func (t *talk) get(channel uint16, queue string) (tag uint64, err error) {
	l := t.lane(channel)
	err = t.do(func() error {
		for {
			if err := t.f.Send(channel, "basic.get", queue, false); err != nil {
				return errors.Join(errCut, err)
			}
			e, err := t.until(func(e *event) bool { return e.Channel == channel && strings.HasPrefix(e.Name, "basic.get-") })
			if err != nil {
				return err
			}
			if e.Name == "basic.get-empty" {
				t.say("channel %d: %s is empty", channel, queue)
				return nil
			}
			fresh, err := l.first(e.Number(0), "get "+content(e))
			if err != nil {
				return err
			}
			if fresh {
				tag = e.Number(0)
				t.say("channel %d: got tag %d %s", channel, tag, content(e))
				return nil
			}
		}
	})
	return tag, err
}

func (t *talk) cancel(channel uint16, tag string) error {
	l := t.lane(channel)
	err := t.do(func() error {
		_, err := t.call(l, "basic.cancel-ok", "basic.cancel", tag)
		return err
	})
	l.consumers = slices.DeleteFunc(l.consumers, func(r *reader) bool { return r.tag == tag })
	t.say("channel %d: %s cancelled", channel, tag)
	return err
}

// close ends the session in good order. One that is interrupted is done again, on a session made anew if it had ended.
func (t *talk) close() error {
	for _, l := range t.channels {
		l.consumers, l.pending = nil, nil
	}
	return t.do(func() error {
		if err := t.f.Send(0, "connection.close", 200, "done"); err != nil {
			return errors.Join(errCut, err)
		}
		_, err := t.until(func(e *event) bool { return e.Name == "connection.close-ok" })
		return err
	})
}
