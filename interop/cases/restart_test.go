package cases

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

// TestWhatMustSurviveKill9 restarts the node once between the first and the second half of each row. Another broker is
// not restarted: there each row asks only that its halves fit together.
func TestWhatMustSurviveKill9(t *testing.T) {
	rows := map[string]func(c *client) (after func(c *client)){
		"A11 bindings between exchanges":             boundExchanges,
		"A28 an exchange":                            declaredExchange,
		"A29 a queue stays deleted":                  deletedQueue,
		"A17 names of 255 octets":                    longNames,
		"C17 redelivery and its count":               redeliveryCount,
		"D4 what a transaction did and what not":     transaction,
		"E7 a message dies while the node is down":   expiresWhileDown,
		"E14 priorities":                             priorities,
		"E19 the deaths of a message":                rememberedDeath,
		"C3 unacknowledged messages and their order": unackedInOrder,
	}
	after := map[string]func(c *client){}
	c := connect(t)
	for row, before := range rows {
		after[row] = before(c)
	}
	restart(t)
	for row, check := range after {
		t.Run(row, func(t *testing.T) { check(connect(t)) })
	}
}

// restart kills the node, leaves it dead for longer than the messages live that are to expire, and starts it again.
func restart(t *testing.T) {
	t.Helper()
	if node.cluster == nil {
		return
	}
	n := node.cluster.Node(1)
	n.Kill9()
	<-time.After(expiryDown)
	must(t, n.Start())
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	must(t, n.WaitReady(ctx))
}

// expiryDown is how long the node is down.
const expiryDown = 300 * time.Millisecond

func boundExchanges(c *client) func(c *client) {
	q := c.queue(nil)
	source, dead, live := c.exchange("direct", nil), c.exchange("fanout", nil), c.exchange("fanout", nil)
	c.bindExchange(dead, source, "k")
	c.bindExchange(live, source, "k")
	c.bind(q, live, "", nil)
	return func(c *client) {
		c.publish(source, "k", "m")
		c.routed()
		c.wantBodies(q, "m")
	}
}

func declaredExchange(c *client) func(c *client) {
	x := c.exchange("topic", table{"alternate-exchange": "amq.fanout", "own": int64(1)})
	return func(c *client) {
		c.call(1, "exchange.declare-ok", "exchange.declare", x, "topic", false, true, false, false, false, table{"alternate-exchange": "amq.fanout", "own": int64(1)})
		c.refused("406 PRECONDITION_FAILED - inequivalent arg 'type'", "exchange.declare", x, "fanout", false, true)
	}
}

func deletedQueue(c *client) func(c *client) {
	q := c.filled("m")
	c.call(1, "queue.delete-ok 1", "queue.delete", q)
	return func(c *client) { c.refused("404 NOT_FOUND - no queue", "queue.declare", q, true) }
}

func longNames(c *client) func(c *client) {
	q := c.queueNamed(name(c.t, strings.Repeat("q", 150)), nil)
	key := strings.Repeat("k", 255)
	c.bind(q, "amq.topic", key, nil)
	c.publishWith("amq.topic", key, props{DeliveryMode: 2}, "m")
	c.routed()
	return func(c *client) {
		if e := c.get(q, true); e.Text(3) != key {
			c.t.Fatalf("got %s", e)
		}
	}
}

func redeliveryCount(c *client) func(c *client) {
	q := c.queue(table{"x-queue-type": "quorum"})
	c.publishWith("", q, props{DeliveryMode: 2}, "m")
	c.routed()
	c.send(1, "basic.reject", tag(c.get(q, false)), true)
	c.awaitReady(q, 1)
	return func(c *client) {
		e := c.get(q, true)
		if !redelivered(e) || e.Properties.Headers["x-delivery-count"] != int64(1) {
			c.t.Fatalf("got %s, headers %v", e, e.Properties.Headers)
		}
	}
}

func transaction(c *client) func(c *client) {
	q := c.queue(nil)
	c.call(1, "tx.select-ok", "tx.select")
	c.publishWith("", q, props{DeliveryMode: 2}, "committed")
	c.call(1, "tx.commit-ok", "tx.commit")
	c.publishWith("", q, props{DeliveryMode: 2}, "not")
	c.call(1, "channel.close-ok", "channel.close", 200)
	c.open(1)
	return func(c *client) { c.wantBodies(q, "committed") }
}

func expiresWhileDown(c *client) func(c *client) {
	dead := c.queue(nil)
	q := c.queue(toQueue(dead, table{"x-message-ttl": int(expiryDown.Milliseconds())}))
	c.publishWith("", q, props{DeliveryMode: 2}, "m")
	c.routed()
	return func(c *client) {
		c.awaitReady(dead, 1)
		c.wantDeaths(c.get(dead, true), q+" expired 1")
	}
}

func priorities(c *client) func(c *client) {
	q := c.queue(table{"x-max-priority": 10})
	put := func(c *client, p byte, body string) {
		c.publishWith("", q, props{DeliveryMode: 2, Priority: &p}, body)
		c.routed()
	}
	put(c, 1, "low")
	put(c, 5, "middle")
	return func(c *client) {
		put(c, 9, "high")
		put(c, 5, "middle too")
		c.wantBodies(q, "high", "middle", "middle too", "low")
	}
}

func rememberedDeath(c *client) func(c *client) {
	dead := c.queue(nil)
	q := c.queue(toQueue(dead, table{"x-max-length": 0}))
	c.publishWith("", q, props{DeliveryMode: 2, Expiration: "60000"}, "m")
	c.awaitReady(dead, 1)
	return func(c *client) {
		e := c.get(dead, true)
		c.wantDeaths(e, q+" maxlen 1")
		if e.Properties.Headers["x-first-death-queue"] != q || e.Properties.HasExpiration {
			c.t.Fatalf("properties %+v", e.Properties)
		}
	}
}

func unackedInOrder(c *client) func(c *client) {
	q := c.queue(nil)
	for _, body := range numbers(1, 5) {
		c.publishWith("", q, props{DeliveryMode: 2}, body)
	}
	c.routed()
	holder, err := rawclient.DialFrames(node.url, rawclient.Handshake{})
	must(c.t, err)
	held := &client{holder, c.t}
	held.open(1)
	held.get(q, false)
	held.send(1, "basic.ack", tag(held.get(q, false)))
	held.get(q, false)
	held.ready(q) // the ack is committed
	if node.cluster == nil {
		must(c.t, holder.Close())
	}
	return func(c *client) {
		c.awaitReady(q, 4)
		c.wantBodies(q, "1", "3", "4", "5")
	}
}
