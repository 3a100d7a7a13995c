package v091

import (
	"encoding/json"
	"sync"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
)

// sessionQueue is no queue: what a client gets from it is a message about its session, and a passive declare answers how many
// deliveries that has in flight. Both work with every library.
const sessionQueue = "amq.session"

// headerNumber carries the message's number in its vhost, for sessions that ask for it.
const headerNumber = "x-message-number"

func (r *receiver) getStatus(ch *channel, m *wire.BasicGet) *fault {
	if !m.NoAck {
		return refuse(core.CodePreconditionFailed, m.ID(), "queue '%s' can only be read with no-ack", sessionQueue)
	}
	r.askStatus(ch, wanted{what: wantStatus})
	return nil
}

func (r *receiver) askStatus(ch *channel, w wanted) {
	r.shared.answers.expect(ch.number, w)
	r.do(&entry.SessionStatus{Ref: entry.Ref{Channel: ch.number}})
}

// answer answers a request that the endpoint can answer by itself, behind the machine's answers to those before.
func (r *receiver) answer(ch *channel, m wire.Method) {
	r.askStatus(ch, wanted{what: wantMethod, method: m})
}

// status sends what the machine says of the session, in the form that was asked for.
func (s *sender) status(e *session.Event) {
	switch w, ok := s.shared.answers.take(e.Channel, ""); {
	case !ok || e.Status == nil:
	case w.what == wantMethod:
		s.method(e.Channel, w.method)
	case w.what == wantAnnounced:
		s.told(w.queue, statusProperties(e, s.hosts()), statusBody(e.Status))
	case w.what == wantCounts:
		ok := &wire.QueueDeclareOk{Queue: sessionQueue, MessageCount: uint32(e.Status.InFlight)}
		if e.Status.State != core.StateNew {
			ok.ConsumerCount = 1
		}
		s.method(e.Channel, ok)
	default:
		s.confirm(e.Channel)
		body := statusBody(e.Status)
		// The tag is of no delivery; some libraries take a message without one for none.
		s.buf = wire.AppendMethod(s.buf, e.Channel, &wire.BasicGetOk{DeliveryTag: 1, RoutingKey: []byte(sessionQueue)})
		s.record = message.Record{Properties: statusProperties(e, s.hosts()), BodySize: uint64(len(body)), Body: body}
		s.body(e.Channel, nil)
		s.room()
	}
}

func statusProperties(e *session.Event, hosts []string) []byte {
	x := e.Status
	generation, counter := core.EpochParts(e.Epoch)
	mode := "redeliver"
	if x.KeepInFlight {
		mode = "keep"
	}
	return message.AppendProperties(nil, &message.Properties{
		Set:         message.PropContentType | message.PropHeaders,
		ContentType: "application/json",
		Headers: message.AppendTable(nil, message.Table{
			{Key: "x-session-state", Value: x.State.String()},
			{Key: "x-session-epoch", Value: int64(counter)},
			{Key: "x-session-generation", Value: int64(generation)},
			{Key: "x-session-expiry", Value: int64(x.Expiry)},
			{Key: "x-session-inflight", Value: mode},
			{Key: "x-session-inflight-count", Value: int64(x.InFlight)},
			{Key: "x-session-released", Value: int64(x.Released)},
			{Key: "x-session-hosts", Value: joinHosts(hosts)},
		}),
	})
}

// statusBody is the details: per channel the highest tag and those in flight, per publisher the last sequence.
func statusBody(x *core.SessionStatus) []byte {
	type channelRow struct {
		Number   uint16   `json:"number"`
		Highest  uint64   `json:"highest_tag"`
		InFlight []uint64 `json:"in_flight"`
	}
	type publisherRow struct {
		Name string `json:"name"`
		Last uint64 `json:"last_sequence"`
	}
	body := struct {
		Channels   []channelRow   `json:"channels"`
		Publishers []publisherRow `json:"publishers"`
	}{[]channelRow{}, []publisherRow{}}
	for _, c := range x.Channels {
		row := channelRow{c.Number, c.Highest, c.InFlight}
		if row.InFlight == nil {
			row.InFlight = []uint64{}
		}
		body.Channels = append(body.Channels, row)
	}
	for _, p := range x.Publishers {
		body.Publishers = append(body.Publishers, publisherRow{p.Name, p.Last})
	}
	b, err := json.Marshal(body)
	if err != nil { // of numbers and names: never
		return []byte("{}")
	}
	return b
}

// tags is the highest delivery tag that each channel of a named session was sent on this connection. The sender tells the
// receiver, who has to know what a client means that acknowledges all.
type tags struct {
	mu        sync.Mutex
	byChannel map[uint16]uint64
}

func (t *tags) highest(channel uint16) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byChannel[channel]
}

func (t *tags) advance(channels []outChannel, advanced []uint16) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byChannel == nil {
		t.byChannel = map[uint16]uint64{}
	}
	for _, number := range advanced {
		t.byChannel[number] = channels[number].highest
	}
}

// advance notes a tag that a named session is sent, or with 0 that its channel was opened anew.
func (s *sender) advance(number uint16, c *outChannel, tag uint64) {
	if s.grant == nil || tag != 0 && tag <= c.highest {
		return
	}
	c.highest = tag
	if n := len(s.advanced); n == 0 || s.advanced[n-1] != number {
		s.advanced = append(s.advanced, number)
	}
}
