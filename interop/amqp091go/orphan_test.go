package amqp091go

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// A client that lost its node declares its exclusive queue again at another one, at once. The queue is the lost connection's until
// the cluster has given the node up; to hear 405 meanwhile would be the end of many programs.
func TestAnExclusiveQueueOfADeadNodesClientIsDeclaredAgainWithoutARefusal(t *testing.T) {
	cluster := harness.Start(t, harness.Options{Nodes: 3})
	declare := func(node int) error {
		c, err := amqp.Dial(cluster.Node(node).URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		ch, err := c.Channel()
		if err != nil {
			t.Fatal(err)
		}
		_, err = ch.QueueDeclare("mine", false, true, true, false, nil)
		return err
	}
	if err := declare(1); err != nil {
		t.Fatal(err)
	}
	if err := declare(2); err == nil || err.(*amqp.Error).Code != amqp.ResourceLocked {
		t.Fatalf("while its owner lives: %v, want 405", err)
	}
	cluster.Node(1).Kill9()
	killed := time.Now()
	if err := declare(2); err != nil {
		t.Errorf("after its owner's node died: %v", err)
	}
	t.Logf("declared %v after the kill", time.Since(killed).Round(time.Millisecond))
}
