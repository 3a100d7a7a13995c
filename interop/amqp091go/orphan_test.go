package amqp091go

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// A client that lost its node declares its exclusive queue again at another one, at once. The queue is the lost connection's until
// the cluster has given the node up; to hear 405 meanwhile would be the end of many programs. What the client does on another
// channel does not wait for that.
func TestAnExclusiveQueueOfADeadNodesClientIsDeclaredAgainWithoutARefusal(t *testing.T) {
	cluster := harness.Start(t, harness.Options{Nodes: 3})
	dying, surviving := broker{cluster.Node(1).URL()}, broker{cluster.Node(2).URL()}
	must(t, declareMine(dying.channel(t)))
	if err := declareMine(surviving.channel(t)); err == nil || err.(*amqp.Error).Code != amqp.ResourceLocked {
		t.Fatalf("while its owner lives: %v, want 405", err)
	}
	cluster.Node(1).Kill9()
	killed := time.Now()
	conn := surviving.connect(t)
	ch, declared := open(t, conn), make(chan error, 1)
	go func() { declared <- declareMine(ch) }()
	for published := 0; ; published++ {
		publishConfirmed(t, conn, "", "nowhere", "x")
		select {
		case err := <-declared:
			if err != nil || published == 0 {
				t.Errorf("after its owner's node died: %v; %d publishes were confirmed meanwhile", err, published)
			}
			t.Logf("declared %v after the kill, %d publishes meanwhile", time.Since(killed).Round(time.Millisecond), published)
			return
		default:
		}
	}
}

func declareMine(ch *amqp.Channel) error {
	_, err := ch.QueueDeclare("mine", false, true, true, false, nil)
	return err
}
