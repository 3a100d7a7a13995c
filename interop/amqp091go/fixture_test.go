package amqp091go

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// patience bounds every wait for something that must come.
const patience = harness.Patience

// broker is what a test talks to.
type broker struct{ url string }

// otherBroker names an environment variable with the URL of another broker to run the tests against, to compare with.
const otherBroker = "INTEROP_AMQP_URL"

// startBroker starts a node.
func startBroker(t *testing.T) broker {
	t.Helper()
	if url := os.Getenv(otherBroker); url != "" {
		return broker{url}
	}
	return broker{harness.Start(t, harness.Options{}).Node(1).URL()}
}

type behaviour struct {
	name string
	test func(t *testing.T, b broker)
}

func run(t *testing.T, list []behaviour) {
	t.Helper()
	b := startBroker(t)
	for _, l := range list {
		t.Run(l.name, func(t *testing.T) { l.test(t, b) })
	}
}

func (b broker) connect(t *testing.T) *amqp.Connection {
	t.Helper()
	conn, err := amqp.Dial(b.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseDeadline(time.Now().Add(5 * time.Second)) })
	return conn
}

func (b broker) channel(t *testing.T) *amqp.Channel {
	t.Helper()
	return open(t, b.connect(t))
}

func open(t *testing.T, conn *amqp.Connection) *amqp.Channel {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// queue declares a durable queue named after the test and deletes it at the end.
func (b broker) queue(t *testing.T, ch *amqp.Channel) string {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), "/", ".")
	if _, err := ch.QueueDeclare(name, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if conn, err := amqp.Dial(b.url); err == nil {
			if ch, err := conn.Channel(); err == nil {
				_, _ = ch.QueueDelete(name, false, false, false)
			}
			_ = conn.Close()
		}
	})
	return name
}

func publish(t *testing.T, ch *amqp.Channel, exchange, key string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		must(t, ch.PublishWithContext(context.Background(), exchange, key, false, false, amqp.Publishing{Body: []byte(body)}))
	}
}

// publishConfirmed publishes on a channel of its own and waits for the confirms.
func publishConfirmed(t *testing.T, conn *amqp.Connection, exchange, key string, bodies ...string) {
	t.Helper()
	ch := open(t, conn)
	must(t, ch.Confirm(false))
	var last *amqp.DeferredConfirmation
	for _, body := range bodies {
		var err error
		last, err = ch.PublishWithDeferredConfirm(exchange, key, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
		must(t, err)
	}
	confirmed(t, last)
	must(t, ch.Close())
}

func confirmed(t *testing.T, c *amqp.DeferredConfirmation) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if ok, err := c.WaitContext(ctx); err != nil || !ok {
		t.Fatalf("publish %d: acked %v, %v", c.DeliveryTag, ok, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, in <-chan amqp.Delivery) amqp.Delivery {
	t.Helper()
	select {
	case d, ok := <-in:
		if !ok {
			t.Fatal("the consumer ended")
		}
		return d
	case <-time.After(patience):
		t.Fatal("no delivery came")
	}
	panic("unreachable")
}

func expect(t *testing.T, in <-chan amqp.Delivery, bodies ...string) (last amqp.Delivery) {
	t.Helper()
	for _, want := range bodies {
		last = next(t, in)
		if string(last.Body) != want {
			t.Fatalf("got %.40q, want %.40q", last.Body, want)
		}
	}
	return last
}

func consume(t *testing.T, ch *amqp.Channel, queue string, autoAck bool) <-chan amqp.Delivery {
	t.Helper()
	in, err := ch.Consume(queue, "", autoAck, false, false, false, nil)
	must(t, err)
	return in
}

func get(t *testing.T, ch *amqp.Channel, queue, want string) amqp.Delivery {
	t.Helper()
	d, ok, err := ch.Get(queue, false)
	must(t, err)
	if !ok || string(d.Body) != want {
		t.Fatalf("got %q (%v), want %q", d.Body, ok, want)
	}
	return d
}

// refused checks that err is the broker's refusal with the code and a text that holds the words.
func refused(t *testing.T, err error, code int, words string) {
	t.Helper()
	var e *amqp.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Reason, words) {
		t.Fatalf("got %v, want %d %s", err, code, words)
	}
}

func ready(t *testing.T, ch *amqp.Channel, queue string) amqp.Queue {
	t.Helper()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	must(t, err)
	return q
}
