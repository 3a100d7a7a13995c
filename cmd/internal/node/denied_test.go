package node

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A user who may read another queue only tries every way to read one that is kept busy, from several connections at once,
// while what it may do otherwise changes all the time: each change has every decision made anew.
func TestADeniedUserNeverReadsAMessage(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	newUser(t, n, "app", "", "", "^other$")
	publisher, err := dial(t, n).Channel()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"q", "other"} {
		if _, err := publisher.QueueDeclare(q, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	const attempts, connections = 40, 3
	var over atomic.Bool
	var busy, trying sync.WaitGroup
	busy.Go(func() {
		for !over.Load() {
			_ = publisher.Publish("", "q", false, false, amqp.Publishing{Body: []byte("secret")})
		}
	})
	busy.Go(func() {
		for i := 0; !over.Load(); i++ {
			permit(t, n, "app", fmt.Sprintf("^mine%d$", i), "", "^other$", 204)
		}
	})
	for range connections {
		trying.Go(func() { readDenied(t, n, attempts) })
	}
	trying.Wait()
	over.Store(true)
	busy.Wait()
}

// readDenied tries to read queue q, and what was pipelined behind a refused consume too.
func readDenied(t *testing.T, n *Node, attempts int) {
	c, err := dialAs(n, "app", "secret")
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for i := range attempts {
		ch, err := c.Channel()
		if err != nil {
			t.Error(err)
			return
		}
		if i%2 == 0 {
			if d, ok, err := ch.Get("q", true); ok || err == nil {
				t.Errorf("got %q, %v", d.Body, err)
			}
			continue
		}
		deliveries, err := ch.Consume("q", "", true, false, false, false, nil)
		if err != nil {
			continue // a delivery on the closed channel would end the connection, and with it the next attempt
		}
		t.Error("may consume")
		for d := range deliveries {
			t.Errorf("delivered %q", d.Body)
		}
	}
}
