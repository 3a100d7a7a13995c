package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/checker"
)

// Queue is one queue of a load and who works on it.
type Queue struct {
	Name                 string
	Producers, Consumers int
	Arguments            amqp.Table
	Manner
}

// Options describe a load.
type Options struct {
	URLs     []string
	Queues   []Queue
	Rate     int // publishes per second and producer; 0 is as fast as confirms allow
	Window   int // unconfirmed publishes per producer, 200 if 0
	Prefetch int // 100 if 0
	Bytes    int // largest body, 512 if 0; one in 64 is sixteen times as big, one in 1,024 over 1 MiB
	Seed     uint64
	// Heartbeat of the connections; a dead node is noticed after three. 1 s if 0.
	Heartbeat time.Duration
	// Rules say what may become of the messages of a mixed load; nil for a plain one.
	Rules *checker.Rules
}

// Load is a running load.
type Load struct {
	Options
	History *checker.History
	breaks  atomic.Int64
	drained int // messages that the last turn of the drain found

	producing, consuming       sync.WaitGroup
	stopProducers, stopConsume context.CancelFunc
}

// Start declares the queues and sets everybody to work.
func Start(ctx context.Context, o Options) (*Load, error) {
	o = o.withDefaults()
	l := &Load{Options: o, History: checker.NewHistory()}
	if err := l.declare(ctx); err != nil {
		return nil, err
	}
	var producers, consumers context.Context
	producers, l.stopProducers = context.WithCancel(context.Background())
	consumers, l.stopConsume = context.WithCancel(context.Background())
	n := 0
	for _, q := range o.Queues {
		for range q.Consumers {
			n++
			rng, n := l.rng(n), n
			l.consuming.Go(func() { l.consumeForever(consumers, q, n, rng) })
		}
		for range q.Producers {
			n++
			rec, number := l.History.Producer()
			p := &producer{load: l, record: rec, first: n, number: number, queue: q, rng: l.rng(n)}
			l.producing.Go(func() { p.run(producers) })
		}
	}
	return l, nil
}

func (o Options) withDefaults() Options {
	set := func(v *int, otherwise int) {
		if *v == 0 {
			*v = otherwise
		}
	}
	set(&o.Window, 200)
	set(&o.Prefetch, 100)
	set(&o.Bytes, 512)
	if o.Heartbeat == 0 {
		o.Heartbeat = time.Second
	}
	return o
}

func (l *Load) rng(n int) *rand.Rand { return rand.New(rand.NewPCG(l.Seed, uint64(n))) }

// Single says whether a queue has one consumer at a time, which is what the checker's order rule needs to know.
func (l *Load) Single(queue string) bool {
	for _, q := range l.Queues {
		if q.Name == queue {
			return q.Consumers <= 1
		}
	}
	return false
}

// Breaks counts the connections that ended without being asked to.
func (l *Load) Breaks() int64 { return l.breaks.Load() }

// StopProducers lets every producer wait for its outstanding confirms (until its connection breaks) and end.
func (l *Load) StopProducers() {
	l.stopProducers()
	l.producing.Wait()
}

// StopConsumers ends the consumers, each behind a last barrier.
func (l *Load) StopConsumers() {
	l.stopConsume()
	l.consuming.Wait()
}

// Stop ends everybody at once.
func (l *Load) Stop() {
	l.stopProducers()
	l.StopConsumers()
	l.producing.Wait()
}

// dial opens a connection and a channel to URL i. The whole handshake is bounded: a stopped node accepts and is silent.
func (l *Load) dial(i int) (*amqp.Connection, *amqp.Channel, error) {
	conn, err := amqp.DialConfig(l.URLs[i], amqp.Config{Heartbeat: l.Heartbeat, Dial: amqp.DefaultDial(3 * time.Second)})
	if err != nil {
		return nil, nil, fmt.Errorf("dial %s: %w", l.URLs[i], err)
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("channel at %s: %w", l.URLs[i], err), conn.Close())
	}
	return conn, ch, nil
}

// visit connects to one node after the other until ctx ends, from the given one on and with back-off, and hands each
// connection to work. work answers true if the connection did something; that resets the back-off.
func (l *Load) visit(ctx context.Context, at int, rng *rand.Rand, work func(node int, ch *amqp.Channel) bool) {
	wait := 20 * time.Millisecond
	for ; ctx.Err() == nil; at++ {
		node := at % len(l.URLs)
		conn, ch, err := l.dial(node)
		if err == nil {
			useful := work(node, ch)
			_ = conn.CloseDeadline(time.Now().Add(time.Second))
			if ctx.Err() != nil {
				return
			}
			l.breaks.Add(1)
			if useful {
				wait = 20 * time.Millisecond
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait + time.Duration(rng.Int64N(int64(wait)))):
		}
		wait = min(2*wait, 500*time.Millisecond)
	}
}

// declare makes the queues, trying the nodes until one does it.
func (l *Load) declare(ctx context.Context) error {
	return l.Anywhere(ctx, func(ch *amqp.Channel) error {
		for _, q := range l.Queues {
			if _, err := ch.QueueDeclare(q.Name, true, false, false, false, q.Arguments); err != nil {
				return err
			}
		}
		return nil
	})
}

// Delete removes the load's queues.
func (l *Load) Delete(ctx context.Context) error {
	return l.Anywhere(ctx, func(ch *amqp.Channel) error {
		for _, q := range l.Queues {
			if _, err := ch.QueueDelete(q.Name, false, false, false); err != nil {
				return err
			}
		}
		return nil
	})
}

// Anywhere does something idempotent at any node, again and again until it succeeds or ctx ends.
func (l *Load) Anywhere(ctx context.Context, what func(*amqp.Channel) error) error {
	for at := 0; ; at++ {
		conn, ch, err := l.dial(at % len(l.URLs))
		if err == nil {
			err = what(ch)
			_ = conn.CloseDeadline(time.Now().Add(time.Second))
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
