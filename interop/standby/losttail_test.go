package standby

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// publishRouted declares queue "routed", bound to amq.topic, and publishes messages through it that only their routing finds.
func publishRouted(t *testing.T, n *harness.Node, messages ...amqp.Publishing) {
	t.Helper()
	ch := channelTo(t, n, "/")
	if _, err := ch.QueueDeclare("routed", true, false, false, false, amqp.Table{"x-message-ttl": 1}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind("routed", "orders.#", "amq.topic", false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		c, err := ch.PublishWithDeferredConfirm("amq.topic", "orders.new", false, false, m)
		if err != nil || !c.Wait() {
			t.Fatal(err, "not confirmed")
		}
	}
}

func channelTo(t *testing.T, n *harness.Node, vhost string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.DialConfig(n.URL(), amqp.Config{Vhost: vhost})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// all takes what a queue has.
func all(t *testing.T, ch *amqp.Channel, queue string) (list []amqp.Delivery) {
	t.Helper()
	for {
		d, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return list
		}
		list = append(list, d)
	}
}

// Whatever the tail's queues would do with the messages, in quarantine they stay as they were, and are there once.
func TestTheLostTailGoesIntoAQuarantineOnceHoweverOftenItIsPutThere(t *testing.T) {
	p := harness.StartPair(t, harness.PairOptions{Args: []string{"--groups", "2"}})
	old, next := p.Source.Node(1), p.Standby.Node(1)
	put(t, old, "a", "b")
	if err := p.WaitCaughtUp(harness.Patience); err != nil {
		t.Fatal(err)
	}
	p.CutLinks()
	put(t, old, "c", "d", "e")
	large := bytes.Repeat([]byte("large "), 500_000)
	publishRouted(t, old, amqp.Publishing{
		MessageId: "f", Expiration: "1", CorrelationId: "7", Headers: amqp.Table{"kept": int32(5), "CC": []any{"elsewhere"}, "x-dedup-id": "one"}, Body: large,
	}, amqp.Publishing{MessageId: "g", Headers: amqp.Table{"x-dedup-id": "one"}, Body: []byte("g")})
	old.Kill9()
	if _, err := next.Promote(t.Context(), "promote"); err != nil {
		t.Fatal(err)
	}
	args := []string{"link", "lost-tail", "--data", old.Data, "--admin-url", "http://" + next.Admin, "--amqp-url", next.URL(), "--into"}
	for _, want := range []string{"put 5 messages into vhost lost; 0 were", "put 0 messages into vhost lost; 5 were"} {
		if out := understudy(t, append(args, "lost")...); !strings.Contains(string(out), want) {
			t.Errorf("lost-tail says %q, want %q", out, want)
		}
	}
	ch := channelTo(t, next, "lost")
	var got []string
	for _, d := range all(t, ch, "work") {
		got = append(got, fmt.Sprintf("%s %s %v %v", d.MessageId, d.Body, d.Headers["x-lost-vhost"], d.Headers["x-lost-routing-key"]))
	}
	if strings.Join(got, ", ") != "c c / work, d d / work, e e / work" {
		t.Errorf("queue work has %v", got)
	}
	routed := all(t, ch, "routed")
	if len(routed) != 2 {
		t.Fatalf("queue routed has %d messages", len(routed))
	}
	d := routed[0]
	if d.MessageId != "f" || d.CorrelationId != "7" || d.Expiration != "" || !bytes.Equal(d.Body, large) || d.Exchange != "" {
		t.Errorf("message %q of %d bytes, expiration %q, exchange %q", d.MessageId, len(d.Body), d.Expiration, d.Exchange)
	}
	for name, want := range map[string]any{
		"kept": int32(5), "x-lost-expiration": "1", "x-lost-exchange": "amq.topic", "x-lost-routing-key": "orders.new", "x-lost-CC": []any{"elsewhere"},
		"x-lost-x-dedup-id": "one",
	} {
		if fmt.Sprint(d.Headers[name]) != fmt.Sprint(want) {
			t.Errorf("header %s is %v, want %v", name, d.Headers[name], want)
		}
	}
	if n := len(all(t, channelTo(t, next, "/"), "work")); n != 2 {
		t.Errorf("the vhost that serves has %d messages, want the 2 from before the cut", n)
	}
}

func TestTheTailsMessagesTellTheVhostsOfOneGroupApart(t *testing.T) {
	p := harness.StartPair(t, harness.PairOptions{Args: []string{"--groups", "1"}})
	old, next := p.Source.Node(1), p.Standby.Node(1)
	understudy(t, "vhosts", "add", "orders", "--admin-url", "http://"+old.Admin)
	if err := p.WaitCaughtUp(harness.Patience); err != nil {
		t.Fatal(err)
	}
	p.CutLinks()
	want := map[string]string{"a": "/", "b": "orders", "c": "/"}
	for _, id := range []string{"a", "b", "c"} { // their connections stay
		ch := channelTo(t, old, want[id])
		if _, err := ch.QueueDeclare("work", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		c, err := ch.PublishWithDeferredConfirm("", "work", false, false, amqp.Publishing{MessageId: id})
		if err != nil || !c.Wait() {
			t.Fatal(err, "not confirmed")
		}
	}
	old.Kill9()
	if _, err := next.Promote(t.Context(), "promote"); err != nil {
		t.Fatal(err)
	}
	args := []string{"link", "lost-tail", "--data", old.Data, "--admin-url", "http://" + next.Admin, "--amqp-url", next.URL(), "--into"}
	understudy(t, append(args, "lost")...)
	got := map[string]string{}
	for _, d := range all(t, channelTo(t, next, "lost"), "work") {
		got[d.MessageId], _ = d.Headers["x-lost-vhost"].(string)
	}
	if !maps.Equal(got, want) {
		t.Errorf("vhosts by message %v, want %v", got, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, harness.Binary(t), append(args, "orders")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is there for something else") {
		t.Errorf("into a vhost that is in use: %v, %s", err, out)
	}
}
