package sessions

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

// The tests of this file are those reports of cases/ that need three nodes or a named session.

// harmed is a cluster of three nodes that tests may harm, if they leave all of them up, started on first use.
var harmed = sync.OnceValue(func() *harness.Cluster { return harness.Start(everyone, harness.Options{Nodes: 3}) })

// again starts the nodes that are dead and waits until all are ready.
func again(t *testing.T, c *harness.Cluster) {
	t.Helper()
	for _, n := range c.Members() {
		if n.Running() {
			continue
		}
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitReady(harness.Patience); err != nil {
		t.Fatal(err)
	}
}

// await polls until there is no error.
func await(t *testing.T, condition func() error) {
	t.Helper()
	if err := harness.Await(harness.Patience, func(context.Context) error { return condition() }); err != nil {
		t.Fatal(err)
	}
}

// leaderAndOthers are the nodes by what they are to the vhost / now.
func leaderAndOthers(t *testing.T, c *harness.Cluster) (leader *harness.Node, others []*harness.Node) {
	t.Helper()
	var vhosts []struct {
		Name  string `json:"name"`
		Group uint64 `json:"group"`
	}
	if err := c.Node(1).Get(t.Context(), "/api/vhosts", &vhosts); err != nil {
		t.Fatal(err)
	}
	for _, v := range vhosts {
		if v.Name != "/" {
			continue
		}
		id, _, err := c.WaitLeader(v.Group, harness.Patience)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range c.Members() {
			if n.ID != id {
				others = append(others, n)
			}
		}
		return c.Node(id), others
	}
	t.Fatalf("no vhost / among %v", vhosts)
	return nil, nil
}

// sendMessage writes a publish to a queue and waits for nothing.
func (c *client) sendMessage(queue, body string, mandatory bool, p props) {
	c.t.Helper()
	b := rawclient.AppendCall(nil, 1, "basic.publish", "", queue, mandatory)
	if err := c.Write(rawclient.AppendContent(b, 1, c.FrameMax, &p, []byte(body))); err != nil {
		c.t.Fatal(err)
	}
}

func numbered(i int) props { return dedup(table{"x-dedup-id": fmt.Sprint("number ", i)}) }

func TestS1PublishCutBetweenStoredAndConfirmedIsKnownAfterFailoverAndRestart(t *testing.T) {
	c := harmed()
	id, q := unique("s"), unique("q")
	leader, others := leaderAndOthers(t, c)
	watch := connect(t, others[0].URL(), nil)
	a := connect(t, leader.URL(), session(id))
	a.declare(q, false)
	a.call("confirm.select-ok", 1, "confirm.select")
	a.sendMessage(q, "m", false, numbered(1))
	await(t, func() error { // stored, and the confirm is read by nobody
		if n := watch.count(q); n != 1 {
			return fmt.Errorf("%d messages", n)
		}
		return nil
	})
	leader.Kill9()
	b := connect(t, others[0].URL(), session(id))
	b.call("confirm.select-ok", 1, "confirm.select")
	b.publish(1, q, "m", numbered(1))
	want(t, "messages after the failover", b.count(q), 1)
	c.KillAll()
	again(t, c)
	d := connect(t, others[1].URL(), session(id))
	d.call("confirm.select-ok", 1, "confirm.select")
	d.publish(1, q, "m", numbered(1))
	d.publish(1, q, "another", numbered(2))
	want(t, "messages after the restart", d.count(q), 2)
}

func TestS2CloseOfTheOldConnectionDoesNotTouchTheSessionThatWasTakenOver(t *testing.T) {
	c := shared()
	for how, ends := range map[string]func(old *client){
		"in good order": func(old *client) {
			old.send(1, "channel.close", 200, "done")
			old.send(0, "connection.close", 200, "done")
		},
		"as it is asked to": func(*client) {},
		"by its socket":     (*client).cut,
	} {
		t.Run(how, func(t *testing.T) {
			id, q := unique("s"), unique("q")
			a := connect(t, c.Node(1).URL(), session(id))
			a.declare(q, true)
			a.call("confirm.select-ok", 1, "confirm.select")
			a.publish(1, q, "m", props{})
			a.consume(q, "c")
			a.deliver("m")

			b := connect(t, c.Node(2).URL(), session(id))
			b.consume(q, "c")
			tag, _ := b.deliver("m")
			ends(a)
			a.readToTheEnd()
			other := connect(t, c.Node(3).URL(), nil)
			other.send(1, "queue.declare", q, false, false, true)
			want(t, "somebody else's declare of the session's queue", other.next("channel.close").Number(0), 405)
			b.send(1, "basic.ack", tag, false)
			b.quiet()
			want(t, "in flight", b.call("queue.declare-ok", 1, "queue.declare", "amq.session", true).Number(1), 0)
			b.sendMessage(q, "next", false, props{})
			b.deliver("next") // its channel, its consumer and its queue are there
			r, err := listed(t.Context(), c.Node(3), id)
			if err != nil || r.State != "attached" {
				t.Errorf("the session is %q, %v", r.State, err)
			}
		})
	}
}

// TestS2CloseThatANodeReadsAfterTheTakeoverDoesNotEndTheSession: the old connection's node stands still while the client says that
// it closes, which would end the session, and another connection takes the session over; then the node goes on, and tells the
// others of the close before it hears of the takeover.
func TestS2CloseThatANodeReadsAfterTheTakeoverDoesNotEndTheSession(t *testing.T) {
	c := harmed()
	again(t, c)
	_, others := leaderAndOthers(t, c)
	slow, other := others[0], others[1]
	const sessions = 20 // any of them may happen to be read later
	ids, queues, olds := make([]string, sessions), make([]string, sessions), make([]*client, sessions)
	for i := range sessions {
		ids[i], queues[i] = unique("s"), unique("q")
		olds[i] = connect(t, slow.URL(), session(ids[i]))
		olds[i].declare(queues[i], true)
	}
	if err := slow.Pause(); err != nil {
		t.Fatal(err)
	}
	news := make([]*client, sessions)
	for i, id := range ids {
		olds[i].send(0, "connection.close", 200, "done")
		news[i] = connect(t, other.URL(), session(id))
	}
	if err := slow.Resume(); err != nil {
		t.Fatal(err)
	}
	for _, old := range olds {
		old.readToTheEnd()
	}
	for i, b := range news {
		want(t, "state", b.status()["x-session-state"], "taken-over")
		b.declare(queues[i], true) // its own still
	}
}

// readToTheEnd reads what the broker still says, and answers its close.
func (c *client) readToTheEnd() {
	for e, err := c.Next(); err == nil && e.Name != "end"; e, err = c.Next() {
		if e.Name == "connection.close" {
			_ = c.Send(0, "connection.close-ok")
		}
	}
}

func TestS3AckOfSeveralAfterTheLeaderDiedSettlesThoseAlone(t *testing.T) {
	for name, properties := range map[string]table{"plain client": nil, "session": session(unique("s"))} {
		t.Run(name, func(t *testing.T) {
			c := harmed()
			again(t, c)
			q := unique("q")
			leader, others := leaderAndOthers(t, c)
			a := connect(t, others[0].URL(), properties)
			publisher := confirming(t, c, others[1].ID, q, nil)
			a.consume(q, "c")
			put := func(from int) {
				for i := from; i < from+5; i++ {
					publisher.publish(1, q, fmt.Sprint(i), props{DeliveryMode: 2})
					if tag, redelivered := a.deliver(fmt.Sprint(i)); tag != uint64(i) || redelivered {
						t.Errorf("%d has tag %d, redelivered %t", i, tag, redelivered)
					}
				}
			}
			put(1)
			leader.Kill9()
			put(6)
			a.send(1, "basic.ack", 5, true)
			a.quiet()
			a.call("channel.close-ok", 1, "channel.close", 200)
			for i := 6; i <= 10; i++ {
				e := publisher.call("basic.get-ok", 1, "basic.get", q, true)
				want(t, "what was not acknowledged", string(e.Body), fmt.Sprint(i))
			}
			want(t, "left", publisher.count(q), 0)
			again(t, c)
		})
	}
}

func TestS4DuplicateThatMustBeRoutedIsConfirmedAndNotReturned(t *testing.T) {
	c := shared()
	q := unique("q")
	a := confirming(t, c, 1, q, session(unique("s")))
	for range 3 {
		a.sendMessage(q, "m", true, numbered(1))
		a.next("basic.ack")
	}
	want(t, "messages", a.count(q), 1)
	a.call("queue.delete-ok", 1, "queue.delete", q)
	a.sendMessage(q, "m", true, numbered(1)) // it was routed when it was new
	a.next("basic.ack")
	a.sendMessage(q, "m", true, numbered(2))
	want(t, "code of a new one that has no queue", a.next("basic.return").Number(0), 312)
	a.next("basic.ack")
}

func TestS6WhatWasConfirmedSurvivesItsLeaderWhenAFollowerWasJustLost(t *testing.T) {
	c := harmed()
	again(t, c)
	q, x := unique("q"), unique("x")
	leader, others := leaderAndOthers(t, c)
	lost, witness := others[0], others[1]
	a := connect(t, leader.URL(), nil)
	a.call("confirm.select-ok", 1, "confirm.select")
	lost.Kill9()
	a.call("exchange.declare-ok", 1, "exchange.declare", x, "fanout", false, true)
	a.call("queue.declare-ok", 1, "queue.declare", q, false, true)
	a.call("queue.bind-ok", 1, "queue.bind", q, x)
	a.publish(1, q, "m", props{DeliveryMode: 2})
	leader.Kill9()
	if err := lost.Start(); err != nil { // with the witness it is a majority; it had heard of nothing
		t.Fatal(err)
	}
	for _, n := range []*harness.Node{lost, witness} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := n.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
		b := connect(t, n.URL(), nil)
		want(t, "the confirmed message", b.count(q), 1)
		b.call("exchange.declare-ok", 1, "exchange.declare", x, "fanout", true)
	}
	b := connect(t, lost.URL(), nil)
	b.call("confirm.select-ok", 1, "confirm.select")
	bound := rawclient.AppendCall(nil, 1, "basic.publish", x, "", true)
	if err := b.Write(rawclient.AppendContent(bound, 1, b.FrameMax, &props{}, []byte("bound"))); err != nil {
		t.Fatal(err)
	}
	b.next("basic.ack") // and no return: the binding is there
	want(t, "messages", b.count(q), 2)
	again(t, c)
}

func TestC9ExclusiveConsumptionEndsWithTheNodeOfItsConnection(t *testing.T) {
	c := harmed()
	again(t, c)
	q := unique("q")
	leader, others := leaderAndOthers(t, c)
	b := confirming(t, c, others[0].ID, q, nil)
	a := connect(t, leader.URL(), nil)
	a.call("basic.consume-ok", 1, "basic.consume", q, "first", false, false, true)
	b.publish(1, q, "m", props{})
	a.deliver("m")
	leader.Kill9()
	next := func() error {
		d := connect(t, others[1].URL(), nil)
		d.send(1, "basic.consume", q, "next", false, false, true)
		e, err := d.Next()
		if err != nil {
			return err
		}
		if e.Name == "basic.consume-ok" {
			d.deliver("m")
			return nil
		}
		want(t, "the refusal", e.Number(0), 403)
		return fmt.Errorf("%s came", e)
	}
	await(t, next)
	again(t, c)
}

func TestC17RequeuedMessageIsRedeliveredWithItsCountByTheNextLeader(t *testing.T) {
	c := harmed()
	again(t, c)
	q := unique("q")
	leader, others := leaderAndOthers(t, c)
	a := connect(t, others[0].URL(), nil)
	a.call("queue.declare-ok", 1, "queue.declare", q, false, true, false, false, false, table{"x-queue-type": "quorum"})
	a.call("confirm.select-ok", 1, "confirm.select")
	a.publish(1, q, "m", props{DeliveryMode: 2})
	got := a.call("basic.get-ok", 1, "basic.get", q, false)
	a.send(1, "basic.reject", got.Number(0), true)
	a.quiet()
	leader.Kill9()
	e := a.call("basic.get-ok", 1, "basic.get", q, true)
	want(t, "redelivered", e.Arguments[1], true)
	want(t, "deliveries that failed", e.Properties.Headers["x-delivery-count"], 1)
	again(t, c)
}

func TestD10HundredPublishesSentAgainAfterACutAreThereOnceAndAllConfirmed(t *testing.T) {
	c := shared()
	id, q := unique("s"), unique("q")
	a := confirming(t, c, 1, q, session(id))
	const n = 100
	for i := range n {
		a.sendMessage(q, fmt.Sprint(i), false, numbered(i))
	}
	a.cut()
	b := connect(t, c.Node(2).URL(), session(id))
	b.call("confirm.select-ok", 1, "confirm.select")
	for i := range n {
		b.sendMessage(q, fmt.Sprint(i), false, numbered(i))
	}
	for done := uint64(0); done < n; {
		e := b.next("basic.ack")
		if e.Arguments[1] != true && e.Number(0) != done+1 || e.Number(0) <= done {
			t.Fatalf("%s behind %d", e, done)
		}
		done = e.Number(0)
	}
	want(t, "messages", b.count(q), n)
	for i := range n {
		want(t, "message", string(b.call("basic.get-ok", 1, "basic.get", q, true).Body), fmt.Sprint(i))
	}
}
