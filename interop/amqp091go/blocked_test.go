package amqp091go

import (
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// Nodes that want more free disk than there is, and less memory than they use: their publishers are told, and wait; what
// makes room goes on. (That they go on after the alarm is a test of the node's, which has its gauges in hand.)
func TestPublishersAreToldOfAlarmsAndAllElseGoesOn(t *testing.T) {
	if os.Getenv(otherBroker) != "" {
		t.Log("the limits of another broker are not ours to set")
		return
	}
	for name, c := range map[string]struct {
		args   []string
		reason string
	}{
		"disk":   {[]string{"--disk-free-min", "1000000TiB"}, "low on disk"},
		"memory": {[]string{"--memory-high", "0.00001"}, "low on memory"},
	} {
		t.Run(name, func(t *testing.T) {
			b := broker{harness.Start(t, harness.Options{Args: c.args}).Node(1).URL()}
			conn := b.connect(t)
			told := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
			ch := open(t, conn)
			if err := ch.Confirm(false); err != nil {
				t.Fatal(err)
			}
			queue := b.queue(t, open(t, b.connect(t)))
			confirm := b.publishUntilBlocked(t, ch, queue, told, c.reason)
			other := open(t, conn)
			if _, err := other.QueueDeclarePassive(queue, true, false, false, false, nil); err != nil {
				t.Errorf("another channel of the connection: %v", err)
			}
			if _, err := other.QueuePurge(queue, false); err != nil {
				t.Errorf("purge: %v", err)
			}
			if confirm.Acked() {
				t.Error("what is held back was confirmed")
			}
		})
	}
}

// publishUntilBlocked publishes until the client is told to wait: a node looks at its gauges now and then. The answer is the
// publish that waits.
func (b broker) publishUntilBlocked(t *testing.T, ch *amqp.Channel, queue string, told <-chan amqp.Blocking, reason string) *amqp.DeferredConfirmation {
	t.Helper()
	end := time.After(patience)
	for {
		confirm, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-told:
			if !got.Active || got.Reason != reason {
				t.Fatalf("told %+v, want %q", got, reason)
			}
			return confirm
		case <-confirm.Done():
		case <-end:
			t.Fatalf("neither told nor confirmed within %v", patience)
		}
	}
}
