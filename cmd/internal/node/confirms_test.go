package node

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// home is the group of the first vhost.
func home(n *Node) uint64 {
	at, _ := n.vhostHome(firstVhost)
	return at.Group
}

// confirmPolicy sets what the first vhost's confirms wait for.
func confirmPolicy(t *testing.T, n *Node, fields ...message.Field) {
	t.Helper()
	definition := message.AppendTable(nil, message.Table(fields))
	eventually(t, "the vhost is there", func() bool { _, ok := n.vhostHome(firstVhost); return ok })
	cmd := &entry.PolicySet{Vhost: firstVhost, Name: "confirms", Pattern: ".*", ApplyTo: "vhost", Definition: definition}
	if err := n.setPolicy(t.Context(), "", cmd); err != nil { // once: each time the gate is named anew
		t.Fatal(err)
	}
}

// confirming is a client's channel with confirms and a queue.
func confirming(t *testing.T, n *Node) *amqp.Channel {
	t.Helper()
	return channelWithConfirms(t, dial(t, n))
}

func channelWithConfirms(t *testing.T, c *amqp.Connection) *amqp.Channel {
	t.Helper()
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return ch
}

func publish(t *testing.T, ch *amqp.Channel) *amqp.DeferredConfirmation {
	t.Helper()
	c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", "q", false, false, amqp.Publishing{Body: []byte("body")})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mustConfirm waits for a confirm.
func mustConfirm(t *testing.T, c *amqp.DeferredConfirmation) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if ok, err := c.WaitContext(ctx); err != nil || !ok {
		t.Fatalf("confirmed %v, %v", ok, err)
	}
}

func (n *Node) gateState() entry.GateState { return n.linkState(home(n)).Confirms }

func TestASyncConfirmIsAPromiseOfTheStandbyToo(t *testing.T) {
	from, to := pair(t)
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	confirmPolicy(t, source, message.Field{Key: "link-confirm", Value: "sync"})
	eventually(t, "the standby holds the gate", func() bool { return source.gateState() == entry.GateUp })
	ch := confirming(t, source)
	mustConfirm(t, publish(t, ch))
	stop(t, standby)
	c := publish(t, ch)
	eventually(t, "the confirm waits", func() bool { return source.gate.Held(home(source)) > 0 })
	if c.Acked() {
		t.Error("a message that the standby has not is confirmed")
	}
	standby = start(t, to)
	mustConfirm(t, c)
	follows(t, source, standby)
	stop(t, source)
	if _, err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	ch = confirming(t, standby) // it has the policy, and no standby: it must not block
	mustConfirm(t, publish(t, ch))
}

func TestAnAbsentStandbyDegradesWhatThePolicySays(t *testing.T) {
	t.Parallel() // it waits for the most part
	from, to := pair(t)
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	confirmPolicy(t, source, message.Field{Key: "link-confirm", Value: "sync"}, message.Field{Key: "link-on-loss", Value: "degrade(300ms)"})
	eventually(t, "the standby holds the gate", func() bool { return source.gateState() == entry.GateUp })
	ch := confirming(t, source)
	stop(t, standby)
	if mustConfirm(t, publish(t, ch)); source.gateState() != entry.GateDegraded {
		t.Fatalf("the gate is %d", source.gateState())
	}
	start(t, to)
	eventually(t, "the standby holds the gate again", func() bool { return source.gateState() == entry.GateUp })
}
