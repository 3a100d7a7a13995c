package resume

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The headers by which the broker tells a message from its repetition. It takes them out at delivery.
const (
	headerName = "x-pub-name"
	headerSeq  = "x-pub-seq"
)

// publishing is what a Publisher needs of a channel; *amqp.Channel is one.
type publishing interface {
	PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp.Publishing) error
}

// Publisher publishes messages in order, each once.
type Publisher struct {
	numbered
	s     *Session
	name  string
	slots chan struct{} // one for each message that is not confirmed

	mu     sync.Mutex
	ch     publishing // nil while there is none
	seq    int64
	outbox []*Receipt // not confirmed, in order
	sent   []*Receipt // published on ch and not answered, in order
	recent []*Receipt // confirmed not long ago, in order
	bytes  int        // of bodies in recent
	err    error
}

// Receipt is the fate of one message.
type Receipt struct {
	exchange, key string
	mandatory     bool
	msg           amqp.Publishing
	at            time.Time // of its confirm
	returned      bool
	done          chan struct{}
	err           error
}

// Done is closed when the fate is known.
func (r *Receipt) Done() <-chan struct{} { return r.done }

// Err answers why the message is not in, once Done is closed: ErrNacked, ErrReturned, the broker's error for its channel, or why
// the session is over, when it may be in or not. nil: it is in.
func (r *Receipt) Err() error { return r.err }

// Wait waits for the fate and answers Err, or ctx's error.
func (r *Receipt) Wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Publisher opens a publisher.
func (s *Session) Publisher(ctx context.Context) (*Publisher, error) {
	p := &Publisher{s: s, name: random(), slots: make(chan struct{}, s.o.Outbox)}
	if err := s.enter(ctx, p); err != nil {
		return nil, err
	}
	return p, nil
}

// Publish takes a message over. It blocks while Options.Outbox of them are unconfirmed; it does not wait for the connection.
// The message and its body must not be changed until the receipt is done.
func (p *Publisher) Publish(ctx context.Context, exchange, key string, mandatory bool, msg amqp.Publishing) (*Receipt, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.s.ctx.Done():
		return nil, p.over()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	p.seq++
	r := &Receipt{exchange: exchange, key: key, mandatory: mandatory, msg: msg, done: make(chan struct{})}
	r.msg.Headers = make(amqp.Table, len(msg.Headers)+3)
	maps.Copy(r.msg.Headers, msg.Headers)
	r.msg.Headers[headerName], r.msg.Headers[headerSeq] = p.name, p.seq
	if p.s.o.Replay > 0 {
		r.msg.Headers[headerMark] = p.name + "/" + strconv.FormatInt(p.seq, 10)
	}
	p.outbox = append(p.outbox, r)
	p.send(r)
	return r, nil
}

// PublishWait publishes and waits until the message is in.
func (p *Publisher) PublishWait(ctx context.Context, exchange, key string, mandatory bool, msg amqp.Publishing) error {
	r, err := p.Publish(ctx, exchange, key, mandatory, msg)
	if err != nil {
		return err
	}
	return r.Wait(ctx)
}

func (p *Publisher) over() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	return ErrClosed
}

// send publishes on the channel of the moment. What is not sent, or not confirmed, is sent again on the next one.
func (p *Publisher) send(r *Receipt) {
	if p.ch == nil {
		return
	}
	r.returned = false
	p.sent = append(p.sent, r)
	if p.ch.PublishWithContext(context.Background(), r.exchange, r.key, r.mandatory, false, r.msg) != nil {
		p.ch = nil
	}
}

// attach sends all that is unconfirmed, and after a promotion also what was confirmed in the last moments: the promoted
// cluster may not have heard of it.
func (p *Publisher) attach(ch *amqp.Channel, how EventKind) error {
	if err := ch.Confirm(false); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// Room for every answer that may come: the library blocks the connection on a listener that is full.
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, cap(p.slots)+len(p.recent)))
	returns := ch.NotifyReturn(make(chan amqp.Return))
	failures := ch.NotifyClose(make(chan *amqp.Error, 1))
	go p.follow(ch, confirms, returns, failures)
	p.begin(ch, how)
	return nil
}

func (p *Publisher) begin(ch publishing, how EventKind) {
	p.ch, p.sent = ch, nil
	if how == Promoted {
		for _, r := range p.recent {
			p.send(r)
		}
	}
	for _, r := range p.outbox {
		p.send(r)
	}
}

func (p *Publisher) detach() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ch = nil
}

// follow takes the answers of one channel, until it is closed.
func (p *Publisher) follow(ch publishing, confirms <-chan amqp.Confirmation, returns <-chan amqp.Return, failures <-chan *amqp.Error) {
	for confirms != nil {
		select {
		case r, ok := <-returns:
			if !ok {
				returns = nil
				continue
			}
			p.returned(ch, &r)
		case c, ok := <-confirms:
			if !ok {
				confirms = nil
				continue
			}
			p.answered(ch, c.Ack)
		}
	}
	if e := <-failures; e != nil && p.failed(ch, e) {
		if err := p.s.reopen(p); err != nil && fatal(err) != nil {
			p.fail(err)
			p.s.leave(p)
		}
	}
}

// answered takes the answer to the next publish of the channel.
func (p *Publisher) answered(ch publishing, ack bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ch != ch || len(p.sent) == 0 {
		return
	}
	r := p.sent[0]
	p.sent = p.sent[1:]
	if len(p.outbox) == 0 || p.outbox[0] != r {
		return // sent again after a promotion: its fate is known
	}
	switch {
	case !ack:
		p.resolve(ErrNacked)
	case r.returned:
		p.resolve(ErrReturned)
	default:
		p.remember(r)
		p.resolve(nil)
	}
}

// resolve ends the oldest message that is unconfirmed.
func (p *Publisher) resolve(err error) {
	r := p.outbox[0]
	p.outbox[0] = nil
	p.outbox = p.outbox[1:]
	r.err = err
	close(r.done)
	<-p.slots
}

// remember keeps a confirmed message for a promotion.
func (p *Publisher) remember(r *Receipt) {
	r.at = time.Now()
	if p.s.o.Replay < 0 {
		return
	}
	p.recent = append(p.recent, r)
	p.bytes += len(r.msg.Body)
	p.prune(r.at)
}

// replayMax bounds how many confirmed messages are kept: the broker remembers as many of a publisher's.
const replayMax = 10_000

func (p *Publisher) prune(now time.Time) {
	for len(p.recent) > 0 && (now.Sub(p.recent[0].at) > p.s.o.Replay || p.bytes > p.s.o.ReplayBytes || len(p.recent) > replayMax) {
		p.bytes -= len(p.recent[0].msg.Body)
		p.recent[0] = nil
		p.recent = p.recent[1:]
	}
}

// returned takes note of a message that found no queue; its confirm follows. Its number was taken out of it, so it is known
// by what it is: of equal messages, returned in order, the first.
func (p *Publisher) returned(ch publishing, back *amqp.Return) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ch != ch {
		return
	}
	for _, r := range p.sent {
		if r.mandatory && !r.returned && r.exchange == back.Exchange && r.key == back.RoutingKey && bytes.Equal(r.msg.Body, back.Body) {
			r.returned = true
			return
		}
	}
}

// failed takes a fault for which the broker closed the channel: it is the oldest unanswered message's, as those before it were
// answered and those behind it are dead. It answers whether the channel is to be opened anew.
func (p *Publisher) failed(ch publishing, e *amqp.Error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ch != ch || !e.Server || hard(e) {
		return false
	}
	p.ch = nil
	if len(p.sent) > 0 && len(p.outbox) > 0 && p.sent[0] == p.outbox[0] {
		p.resolve(e)
	}
	return true
}

// hard says whether an error closed the connection rather than one channel.
func hard(e *amqp.Error) bool {
	switch e.Code {
	case amqp.ContentTooLarge, amqp.NoRoute, amqp.NoConsumers, amqp.AccessRefused, amqp.NotFound, amqp.ResourceLocked, amqp.PreconditionFailed:
		return false
	}
	return true
}

func (p *Publisher) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return
	}
	p.err, p.ch = err, nil
	for len(p.outbox) > 0 {
		p.resolve(err)
	}
}

// drained waits until nothing is unconfirmed.
func (p *Publisher) drained(ctx context.Context) error {
	p.mu.Lock()
	var last *Receipt
	if n := len(p.outbox); n > 0 {
		last = p.outbox[n-1]
	}
	p.mu.Unlock()
	if last == nil {
		return nil
	}
	if err := last.Wait(ctx); err != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return nil
}
