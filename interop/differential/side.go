package differential

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/understudy-mq/understudy/interop/rawclient"
)

// Channels of a connection: the conversation's are below barrierChannel, which asks for nothing in particular; each above it asks for a queue.
const (
	barrierChannel = 10
	probeChannel   = 11
)

// side is a broker in a conversation: what the client has to know of it, and what it has said since the last move.
type side struct {
	Broker
	vhost string
	mark  string // in this conversation's names
	conns [2]*conn
	named string          // the last name that the broker gave
	maybe map[string]bool // queues that were declared, and there when last asked for
	tidy  []string        // all queues that were declared, in order

	said  map[string][]string // by what keeps an order of its own
	turns map[string][]string // by connection and channel: the queues whose deliveries came, in order
}

// conn is a connection with its channels.
type conn struct {
	*rawclient.Frames
	number   int
	channels map[uint16]*channel
}

// channel is what the client knows of one.
type channel struct {
	open       bool
	committing bool                // RabbitMQ takes nothing else then
	awaiting   int                 // answers that settle waits for
	next       uint64              // delivery tag
	held       []held              // unsettled deliveries
	asked      []consumer          // get and consume that wait for an answer, in order
	consumers  map[string]consumer // by tag
	confirmed  map[uint64]bool     // publishes
}

type held struct {
	tag  uint64
	name string // queue and body: the same with both brokers
}

type consumer struct {
	queue string
	noAck bool
}

func newChannel(open bool) *channel {
	return &channel{open: open, next: 1, consumers: map[string]consumer{}, confirmed: map[uint64]bool{}}
}

func newSide(b Broker, mark string) (*side, error) {
	u, err := url.Parse(b.URL)
	if err != nil {
		return nil, err
	}
	s := &side{Broker: b, vhost: strings.TrimPrefix(u.Path, "/"), mark: mark, named: "amq.gen-none", maybe: map[string]bool{}}
	s.forget()
	for i := range s.conns {
		if err := s.connect(i); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *side) close() (err error) {
	for _, c := range s.conns {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// forget begins a move.
func (s *side) forget() { s.said, s.turns = map[string][]string{}, map[string][]string{} }

// connect opens a connection and its channels. The first one wants to be told of cancels by the broker.
func (s *side) connect(i int) error {
	capabilities := table{"consumer_cancel_notify": i == 0, "basic.nack": true, "publisher_confirms": true}
	f, err := rawclient.DialFrames(s.URL, rawclient.Handshake{Properties: table{"capabilities": capabilities}})
	if err != nil {
		return err
	}
	f.Patience = 30 * time.Second // a disk may stall
	s.conns[i] = &conn{Frames: f, number: i, channels: map[uint16]*channel{}}
	for n := range uint16(probeChannel + len(queueNames)) {
		if n == 1 || n == 2 || n >= barrierChannel {
			if _, err := f.Call("channel.open-ok", n, "channel.open"); err != nil {
				return err
			}
			s.conns[i].channels[n] = newChannel(true)
		}
	}
	return nil
}

// do sends the steps of a move in one write.
func (s *side) do(m move) error {
	s.forget()
	var b []byte
	c := s.conns[m.conn]
	for _, step := range m.steps {
		ch := c.channels[m.channel]
		arguments, _ := s.resolve(ch, step.arguments).(list)
		if ch.open || step.method == "channel.open" {
			s.expect(ch, step.method, arguments)
		}
		b = rawclient.AppendCall(b, m.channel, step.method, arguments...)
		if step.method == "basic.publish" {
			p := step.properties
			p.Headers, _ = s.resolve(ch, p.Headers).(table)
			b = rawclient.AppendContent(b, m.channel, c.FrameMax, &p, []byte(step.body))
		}
	}
	return c.Write(b)
}

// name puts the conversation's mark and the broker's last name into a text.
func (s *side) name(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, markPlace, s.mark), namedPlace, s.named)
}

// resolve puts what only the conversation knows into an argument.
func (s *side) resolve(ch *channel, a any) any {
	switch a := a.(type) {
	case string:
		return s.name(a)
	case table:
		t := table{}
		for k, v := range a {
			t[k] = s.resolve(ch, v)
		}
		if a == nil {
			t = nil
		}
		return t
	case list:
		l := list{}
		for _, v := range a {
			l = append(l, s.resolve(ch, v))
		}
		return l
	case tagOf:
		if int(a) >= len(ch.held) {
			return 1000 + int(a) // of nothing
		}
		return slices.SortedFunc(slices.Values(ch.held), func(a, b held) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.tag, b.tag)) })[a].tag
	}
	return a
}

// expect notes what a request means for the answers and deliveries to come and for those that are held.
func (s *side) expect(ch *channel, method string, arguments list) {
	is := func(i int) bool { v, _ := arguments[i].(bool); return v }
	switch method {
	case "basic.get":
		ch.asked = append(ch.asked, consumer{s.plain(arguments[0].(string)), is(1)})
	case "basic.consume":
		ch.asked = append(ch.asked, consumer{s.plain(arguments[0].(string)), is(3)})
	case "basic.ack", "basic.nack":
		ch.settle(arguments[0], is(1))
	case "basic.reject":
		ch.settle(arguments[0], false)
	case "basic.recover":
		ch.held = nil
	case "channel.close":
		ch.open = false // for settle
	case "tx.commit":
		ch.committing = true
		ch.awaiting++
	}
}

func (c *channel) settle(tag any, multiple bool) {
	t, ok := tag.(uint64)
	if i, isInt := tag.(int); isInt {
		t, ok = uint64(i), true
	}
	c.held = slices.DeleteFunc(c.held, func(h held) bool { return ok && (h.tag == t || multiple && (h.tag < t || t == 0)) })
}

// given are names that a broker makes.
var given = regexp.MustCompile(`amq\.(gen|ctag)-[-_A-Za-z0-9]{22}`)

// plain takes out of a text what only this conversation with this broker has.
func (s *side) plain(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, s.mark, ""), "vhost '"+s.vhost+"'", "vhost")
	return given.ReplaceAllString(text, "amq.$1")
}

// settle is a round of questions whose answers stand behind what a move has caused, as far as a client can tell: first the channels that
// walk, then the queues, then the channels again.
func (s *side) settle() error {
	for _, probe := range []bool{false, true, false} {
		for _, c := range s.conns {
			if err := s.ask(c, probe); err != nil {
				return err
			}
		}
		for i := range s.conns {
			if err := s.answers(i); err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
		}
	}
	return nil
}

func (s *side) ask(c *conn, probe bool) error {
	var b []byte
	for n, ch := range c.channels {
		if n < barrierChannel && ch.open && !ch.committing && !probe {
			ch.awaiting++
			b = rawclient.AppendCall(b, n, "channel.flow", true)
		}
	}
	c.channels[barrierChannel].awaiting++
	b = rawclient.AppendCall(b, barrierChannel, "exchange.declare", "amq.direct", "", true)
	for i, name := range queueNames {
		n := uint16(probeChannel + i)
		if name = s.name(name); probe && s.maybe[name] {
			c.channels[n].awaiting++
			b = rawclient.AppendCall(b, n, "queue.declare", name, true)
		}
	}
	return c.Write(b)
}

// answers reads until all that was asked on a connection has its answer.
func (s *side) answers(i int) error {
	for {
		c := s.conns[i] // which may be another one after an answer
		waiting := 0
		for _, ch := range c.channels {
			waiting += ch.awaiting
		}
		if waiting == 0 {
			return nil
		}
		e, err := c.Next()
		if err != nil {
			return err
		}
		if err := s.take(c, e); err != nil {
			return err
		}
	}
}
