package long

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// crowd is many clients that come back as soon as they have lost their connection, to the next node, each with a queue that it consumes
// from and a message that it publishes there whenever it has come.
type crowd struct {
	urls     []string
	wait     sync.WaitGroup
	ctx      context.Context
	up       atomic.Int64
	received atomic.Int64
	refused  atomic.Int64 // right logins
	mu       sync.Mutex
	last     error
}

func (c *crowd) live(i int) {
	for at := i; c.ctx.Err() == nil; at++ {
		if err := c.session(i, c.urls[at%len(c.urls)]); err != nil {
			c.mu.Lock()
			c.last = err
			c.mu.Unlock()
			if errors.Is(err, amqp.ErrCredentials) {
				c.refused.Add(1)
			}
			time.Sleep(100 * time.Millisecond) // as libraries do; nothing waits for it
		}
	}
}

// session is one connection's life. The error says why it never came to be.
func (c *crowd) session(i int, url string) error {
	conn, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	q, err := ch.QueueDeclare(fmt.Sprint("client-", i), true, false, false, false, nil)
	if err != nil {
		return err
	}
	messages, err := ch.Consume(q.Name, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	if err := ch.Publish("", q.Name, false, false, amqp.Publishing{Body: []byte("here")}); err != nil {
		return err
	}
	c.up.Add(1)
	defer c.up.Add(-1)
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				return nil
			}
			if err := m.Ack(false); err == nil {
				c.received.Add(1)
			}
		case <-c.ctx.Done():
			return nil
		}
	}
}

// all waits until n are there and have received n messages in all since before.
func (c *crowd) all(t *testing.T, n int64, before int64, what string) {
	t.Helper()
	begin := time.Now()
	must(t, harness.Await(patience, func(context.Context) error {
		if up, got := c.up.Load(), c.received.Load()-before; up < n || got < n {
			c.mu.Lock()
			defer c.mu.Unlock()
			return fmt.Errorf("%s: %d of %d clients are there, %d messages came (last error: %w)", what, up, n, got, c.last)
		}
		return nil
	}))
	t.Logf("%s: %d clients are there after %.1f s", what, n, time.Since(begin).Seconds())
}

// Clients of a node that is gone come back all at once. Their logins are right: not one is refused, however many wait for theirs to be
// checked.
func TestThousandsOfClientsComeBackAtOnce(t *testing.T) {
	clients := int64(scaled(6000))
	cluster := harness.Start(t, harness.Options{Nodes: 3, Direct: true})
	ctx, stop := context.WithCancel(t.Context())
	c := &crowd{urls: cluster.URLs(), ctx: ctx}
	for i := range clients {
		c.wait.Go(func() { c.live(int(i)) })
	}
	defer c.wait.Wait()
	defer stop()
	c.all(t, clients, 0, "at first")

	// What is counted is what comes to those that had lost their connection: a third of them.
	before := c.received.Load() - clients + clients/3
	cluster.Node(1).Kill9()
	c.all(t, clients, before, "a node was killed")
	must(t, cluster.Node(1).Start())
	must(t, cluster.WaitReady(patience))

	before = c.received.Load() - clients + clients/3
	drain, done := context.WithTimeout(t.Context(), patience)
	defer done()
	if code, err := cluster.Node(2).Terminate(drain); err != nil || code != 0 {
		t.Errorf("a node with clients was stopped: exit code %d, %v", code, err)
	}
	c.all(t, clients, before, "a node was stopped")
	if n := c.refused.Load(); n > 0 {
		t.Errorf("%d right logins were refused", n)
	}
}
