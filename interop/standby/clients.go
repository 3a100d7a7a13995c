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
	// answerPatience bounds the wait for the confirm of an answer; it is sent again then.
	answerPatience = 5 * time.Second
)

// place is an address and whose it is.
type place struct {
	address string
	node    int
	source  bool
}

// client is a session that comes back, to whichever cluster lets it in.
type client struct {
	places  []place
	vhost   string
	session string
	at      int
}

// try connects to one place.
func (c *client) try(p place) (*amqp.Connection, *amqp.Channel, error) {
	conn, err := amqp.DialConfig("amqp://guest:guest@"+p.address+"/"+c.vhost, amqp.Config{
		Vhost: c.vhost, Heartbeat: 2 * time.Second, Dial: amqp.DefaultDial(2 * time.Second),
		Properties: amqp.Table{"x-session-id": c.session, "x-session-expiry": "300", "x-session-on-close": "keep"},
	})
	if err != nil {
		return nil, nil, err
	}
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	ch, err := conn.Channel()
	if err == nil {
		return conn, ch, nil
	}
	_ = conn.CloseDeadline(time.Now().Add(time.Second))
	select {
	case why := <-closed: // a refusal comes behind open-ok
		if why != nil {
			err = why
		}
	default:
	}
	return nil, nil, err
}

// dial connects to one place after the other until one lets the session in.
func (c *client) dial(ctx context.Context) (*amqp.Connection, *amqp.Channel, place, error) {
	for {
		p := c.places[c.at%len(c.places)]
		conn, ch, err := c.try(p)
		if err == nil {
			return conn, ch, p, nil // and here first the next time
		}
		c.at++
		select {
		case <-ctx.Done():
			return nil, nil, p, errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// drop ends a connection without a word, so that the session stays.
func drop(conn *amqp.Connection) { _ = conn.CloseDeadline(time.Now()) }

// attached is a session's channel at the place that has let it in, and who takes deliveries there.
type attached struct {
	*amqp.Channel
	conn *amqp.Connection
	at   place
	busy *sync.WaitGroup
}

// visit has the session work wherever it is let in, again and again, until ctx ends.
func (c *client) visit(ctx context.Context, work func(attached)) {
	for ctx.Err() == nil {
		conn, ch, at, err := c.dial(ctx)
		if err != nil {
			return
		}
		a := attached{ch, conn, at, new(sync.WaitGroup)}
		work(a)
		drop(conn)
		a.busy.Wait()
	}
}

// letter is what a publisher sends.
type letter struct {
	route    route
	exchange string
	key      string
	replyTo  string
	delay    time.Duration
}

// outgoing is a message on its way.
type outgoing struct {
	*message
	letter
}

// publisher publishes numbered messages and never sends one again that was confirmed. When its time is over it waits for what
// is unconfirmed, and stays for as long as stay says (nil: no longer).
type publisher struct {
	client
	h       *history
	number  int // of the vhost
	rate    int // a second
	write   func(n int) letter
	ready   func(attached) error // on each connection, before anything is sent; may be nil
	stay    context.Context
	next    int
	waiting []*outgoing // unconfirmed, in the order of their first sending
}

func (p *publisher) run(ctx context.Context) {
	life := ctx
	if p.stay != nil {
		life = p.stay
	}
	p.visit(life, func(a attached) {
		if a.Confirm(false) == nil && (p.ready == nil || p.ready(a) == nil) {
			p.publish(ctx, a)
		}
	})
}

func (p *publisher) publish(ctx context.Context, a attached) {
	acks := a.NotifyPublish(make(chan amqp.Confirmation, 2*window))
	var sent []*outgoing // on this channel, by delivery tag
	for _, m := range p.waiting {
		p.h.repeat(m.message)
		if p.send(a.Channel, m) != nil {
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
			m := p.make(a.at)
			sent = append(sent, m)
			if p.send(a.Channel, m) != nil {
				return
			}
		}
		select {
		case c, ok := <-acks:
			if !ok {
				return
			}
			if c.Ack {
				p.settle(sent[c.DeliveryTag-1], a.at)
			}
			done++
		case <-tick.C:
		}
		if ctx.Err() != nil && done == len(sent) && (p.stay == nil || p.stay.Err() != nil) {
			return
		}
	}
}

func (p *publisher) make(at place) *outgoing {
	p.next++
	l := p.write(p.next)
	m := &outgoing{letter: l}
	m.message = p.h.begin(message{id: fmt.Sprintf("%s-%06d", p.session, p.next), route: l.route, vhost: p.number, by: at, delay: l.delay})
	p.waiting = append(p.waiting, m)
	return m
}

func (p *publisher) send(ch *amqp.Channel, m *outgoing) error {
	headers := amqp.Table{"x-dedup-id": m.id}
	if m.letter.delay > 0 {
		headers["x-delay"] = m.letter.delay.Milliseconds()
	}
	return ch.PublishWithContext(context.Background(), m.exchange, m.key, false, false, amqp.Publishing{
		MessageId: m.id, Headers: headers, Body: append([]byte(m.id), make([]byte, 200)...), DeliveryMode: amqp.Persistent, ReplyTo: m.replyTo,
	})
}

func (p *publisher) settle(m *outgoing, at place) {
	p.h.settle(at, m.message)
	for i, w := range p.waiting {
		if w == m {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			return
		}
	}
}

// handler does something with a delivery; an error ends the connection.
type handler func(attached, amqp.Delivery) error

func accept(_ attached, d amqp.Delivery) error { return d.Ack(false) }
func reject(_ attached, d amqp.Delivery) error { return d.Reject(false) }
func ignore(attached, amqp.Delivery) error     { return nil }

// consumer takes what comes to its queues.
type consumer struct {
	client
	h      *history
	queues map[string]handler
	keep   time.Duration
}

func (c *consumer) run(ctx context.Context) {
	c.visit(ctx, func(a attached) {
		if a.Confirm(false) != nil || a.Qos(prefetch, 0, false) != nil {
			return
		}
		end := context.AfterFunc(ctx, func() { drop(a.conn) })
		defer end()
		for queue, handle := range c.queues {
			in, err := a.Consume(queue, queue, false, false, false, false, nil)
			if err != nil {
				drop(a.conn)
				break
			}
			a.busy.Go(func() { c.h.take(in, queue, a, c.keep, handle) })
		}
		a.busy.Wait()
	})
}

// linger is how long some consumers keep what they have: over a switch, some of it.
const linger = 150 * time.Millisecond

// take notes deliveries until the channel ends, and has each handled when it has been kept for so long.
func (h *history) take(in <-chan amqp.Delivery, queue string, a attached, keep time.Duration, handle handler) {
	type kept struct {
		amqp.Delivery
		until time.Time
	}
	hand := make(chan kept, 4*prefetch)
	a.busy.Go(func() {
		for d := range hand {
			time.Sleep(time.Until(d.until))
			if handle(a, d.Delivery) != nil {
				drop(a.conn)
			}
		}
	})
	defer close(hand)
	for d := range in {
		h.deliver(seen{id: d.MessageId, queue: queue, by: a.at, redelivered: d.Redelivered, death: deathOf(d)})
		hand <- kept{d, time.Now().Add(keep)}
	}
}

// deathOf reads a dead letter's newest death, nil if it is none.
func deathOf(d amqp.Delivery) *death {
	deaths, _ := d.Headers["x-death"].([]any)
	if len(deaths) == 0 {
		return nil
	}
	newest, _ := deaths[0].(amqp.Table)
	var x death
	x.queue, _ = newest["queue"].(string)
	x.reason, _ = newest["reason"].(string)
	return &x
}
