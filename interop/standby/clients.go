package standby

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	window   = 300 // unconfirmed publishes of a publisher
	prefetch = 100
	held     = 10 // deliveries that a holder keeps over the switch
)

// message is one publish and what became of it. Times are wall clock.
type message struct {
	id        string
	vhost     int
	sent      time.Time // first
	bySource  bool      // first sent to the source, and confirmed by it
	confirmed time.Time // zero: never
}

// seen is one delivery.
type seen struct {
	id          string
	bySource    bool
	redelivered bool
	at          time.Time
}

// history is what all clients of a round did.
type history struct {
	mu        sync.Mutex
	messages  map[string]*message
	seen      []seen
	confirmed int
}

func (h *history) confirms() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.confirmed
}

func (h *history) deliveries() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.seen)
}

// place is an address and whose it is.
type place struct {
	address string
	source  bool
}

// client is a session that comes back, to whichever cluster lets it in.
type client struct {
	places  []place
	vhost   string
	session string
	at      int
}

// dial connects to one place after the other until one lets the session in.
func (c *client) dial(ctx context.Context) (*amqp.Connection, *amqp.Channel, place, error) {
	for {
		p := c.places[c.at%len(c.places)]
		c.at++
		conn, err := amqp.DialConfig("amqp://guest:guest@"+p.address+"/"+c.vhost, amqp.Config{
			Vhost: c.vhost, Heartbeat: 2 * time.Second, Dial: amqp.DefaultDial(2 * time.Second),
			Properties: amqp.Table{"x-session-id": c.session, "x-session-expiry": "300", "x-session-on-close": "keep"},
		})
		if err == nil {
			ch, err := conn.Channel()
			if err == nil {
				c.at-- // come back here first
				return conn, ch, p, nil
			}
			_ = conn.CloseDeadline(time.Now().Add(time.Second))
		}
		select {
		case <-ctx.Done():
			return nil, nil, p, errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// drop ends a connection without a word, so that the session stays.
func drop(conn *amqp.Connection) { _ = conn.CloseDeadline(time.Now()) }

// publisher publishes numbered messages and never sends one again that was confirmed.
type publisher struct {
	client
	h       *history
	number  int // of the vhost
	rate    int // a second
	next    int
	waiting []*message // unconfirmed, in the order of their first sending
}

func (p *publisher) run(ctx context.Context) {
	for ctx.Err() == nil {
		conn, ch, at, err := p.dial(ctx)
		if err != nil {
			return
		}
		if ch.Confirm(false) == nil {
			p.publish(ctx, ch, at)
		}
		drop(conn)
	}
}

func (p *publisher) publish(ctx context.Context, ch *amqp.Channel, at place) {
	acks := ch.NotifyPublish(make(chan amqp.Confirmation, 2*window))
	var sent []*message // on this channel, by delivery tag
	for _, m := range p.waiting {
		if p.send(ch, m) != nil {
			return
		}
		sent = append(sent, m)
	}
	done := 0
	begin, count := time.Now(), 0
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		for due := int(time.Since(begin).Seconds() * float64(p.rate)); ctx.Err() == nil && count < due && len(p.waiting) < window; count++ {
			m := p.make(at)
			sent = append(sent, m)
			if p.send(ch, m) != nil {
				return
			}
		}
		select {
		case a, ok := <-acks:
			if !ok {
				return
			}
			if a.Ack {
				p.settle(sent[a.DeliveryTag-1], at)
			}
			done++
		case <-tick.C:
		}
		if ctx.Err() != nil && done == len(sent) {
			return
		}
	}
}

func (p *publisher) make(at place) *message {
	p.next++
	m := &message{id: fmt.Sprintf("v%d-%06d", p.number, p.next), vhost: p.number, sent: time.Now(), bySource: at.source}
	p.h.mu.Lock()
	p.h.messages[m.id] = m
	p.h.mu.Unlock()
	p.waiting = append(p.waiting, m)
	return m
}

func (p *publisher) send(ch *amqp.Channel, m *message) error {
	return ch.PublishWithContext(context.Background(), "", "work", false, false, amqp.Publishing{
		MessageId: m.id, Headers: amqp.Table{"x-dedup-id": m.id}, Body: append([]byte(m.id), make([]byte, 200)...), DeliveryMode: amqp.Persistent,
	})
}

func (p *publisher) settle(m *message, at place) {
	p.h.mu.Lock()
	m.confirmed = time.Now()
	m.bySource = at.source
	p.h.confirmed++
	p.h.mu.Unlock()
	for i, w := range p.waiting {
		if w == m {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			return
		}
	}
}

// consumer takes what comes and acknowledges it.
type consumer struct {
	client
	h *history
}

func (c *consumer) run(ctx context.Context) {
	for ctx.Err() == nil {
		conn, ch, at, err := c.dial(ctx)
		if err != nil {
			return
		}
		c.consume(ctx, ch, at)
		drop(conn)
	}
}

func (c *consumer) consume(ctx context.Context, ch *amqp.Channel, at place) {
	if ch.Qos(prefetch, 0, false) != nil {
		return
	}
	in, err := ch.Consume("work", "worker", false, false, false, false, nil)
	if err != nil {
		return
	}
	for {
		select {
		case d, ok := <-in:
			if !ok {
				return
			}
			c.h.mu.Lock()
			c.h.seen = append(c.h.seen, seen{d.MessageId, at.source, d.Redelivered, time.Now()})
			c.h.mu.Unlock()
			if d.Ack(false) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// holder keeps deliveries unsettled over the switch, and has an exclusive queue.
type holder struct {
	client
	ids []string
}

const exclusiveMessages = 5

// begin publishes to a queue, takes some deliveries of it and keeps them.
func (h *holder) begin(ctx context.Context) error {
	conn, ch, _, err := h.dial(ctx)
	if err != nil {
		return err
	}
	defer drop(conn)
	if _, err := ch.QueueDeclare("held", true, false, false, false, nil); err != nil {
		return err
	}
	if _, err := ch.QueueDeclare("mine", false, false, true, false, nil); err != nil {
		return err
	}
	for i := range 2 * held {
		m := amqp.Publishing{MessageId: fmt.Sprint("held-", i), Body: []byte("x")}
		if err := ch.PublishWithContext(ctx, "", "held", true, false, m); err != nil {
			return err
		}
	}
	for range exclusiveMessages {
		if err := ch.PublishWithContext(ctx, "", "mine", true, false, amqp.Publishing{Body: []byte("y")}); err != nil {
			return err
		}
	}
	for _, d := range h.take(ch, held) {
		h.ids = append(h.ids, d.MessageId)
	}
	if len(h.ids) != held {
		return fmt.Errorf("%d of %d deliveries came to be held", len(h.ids), held)
	}
	return nil
}

// take consumes n deliveries of the held queue.
func (h *holder) take(ch *amqp.Channel, n int) (got []amqp.Delivery) {
	if ch.Qos(held, 0, false) != nil {
		return nil
	}
	in, err := ch.Consume("held", "holder", false, false, false, false, nil)
	if err != nil {
		return nil
	}
	for end := time.After(10 * time.Second); len(got) < n; {
		select {
		case d, ok := <-in:
			if !ok {
				return got
			}
			got = append(got, d)
		case <-end:
			return got
		}
	}
	return got
}

// finish says whether what was held is still the session's own, and can be settled.
func (h *holder) finish(ctx context.Context) error {
	conn, ch, at, err := h.dial(ctx)
	if err != nil {
		return err
	}
	defer drop(conn)
	if at.source {
		return errors.New("a holder was let in by the source after the switch")
	}
	got := h.take(ch, held)
	if len(got) != held {
		return fmt.Errorf("%d of %d held deliveries came again", len(got), held)
	}
	for i, d := range got {
		if d.MessageId != h.ids[i] || !d.Redelivered {
			return fmt.Errorf("instead of %s, redelivered, %s came (redelivered %v)", h.ids[i], d.MessageId, d.Redelivered)
		}
		if err := d.Ack(false); err != nil {
			return err
		}
	}
	q, err := ch.QueueDeclarePassive("mine", false, false, true, false, nil)
	if err != nil || q.Messages != exclusiveMessages {
		return fmt.Errorf("the exclusive queue has %d of %d messages: %w", q.Messages, exclusiveMessages, err)
	}
	q, err = ch.QueueDeclarePassive("held", true, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("the held queue: %w", err)
	}
	_ = q
	return nil
}
