package cases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

// filled is a queue with the bodies in it.
func (c *client) filled(bodies ...string) string {
	c.t.Helper()
	q := c.queue(nil)
	for _, b := range bodies {
		c.publish("", q, b)
	}
	c.routed()
	return q
}

func numbers(from, to int) (bodies []string) {
	for i := from; i <= to; i++ {
		bodies = append(bodies, fmt.Sprint(i))
	}
	return bodies
}

func TestC1AckOfTagZero(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	c.send(1, "basic.ack", 0, true)
	c.ready(q)
	c.call(1, "tx.select-ok", "tx.select")
	c.send(1, "basic.ack", 0, true)
	c.call(1, "tx.commit-ok", "tx.commit")
	c.refused("406 PRECONDITION_FAILED - unknown delivery tag 0", "basic.ack", 0, false)
}

func TestC2NackTellsMultipleFromRequeue(t *testing.T) {
	c := connect(t)
	q := c.filled("1", "2", "3", "4")
	for range 3 {
		c.get(q, false)
	}
	c.send(1, "basic.nack", 2, false, true)
	c.awaitReady(q, 2)
	c.send(1, "basic.nack", 3, true, false)
	c.awaitReady(q, 2)
	c.call(1, "channel.close-ok", "channel.close", 200)
	c.open(1)
	c.wantBodies(q, "2", "4")
}

func TestC3RequeuedMessagesReturnToTheirPlaces(t *testing.T) {
	c := connect(t)
	q := c.filled("a", "b", "c")
	c.send(1, "basic.nack", tag(c.get(q, false)), false, true)
	c.awaitReady(q, 3)
	if e := c.get(q, true); string(e.Body) != "a" || !redelivered(e) {
		t.Fatalf("got %s, redelivered %v", e, redelivered(e))
	}
	c.wantBodies(q, "b", "c")
}

func TestC3MessagesThatComeBackOneByOneInAnyOrderAreInOrderAgain(t *testing.T) {
	c := connect(t)
	q := c.filled(numbers(1, 6)...)
	for range 5 {
		c.get(q, false)
	}
	for _, tag := range []int{4, 2, 5, 1, 3} {
		c.send(1, "basic.nack", tag, false, true)
	}
	c.awaitReady(q, 6)
	c.wantBodies(q, numbers(1, 6)...)
}

func TestC3UnackedMessagesOfALostConnectionReturnInOrder(t *testing.T) {
	c, lost := connect(t), connect(t)
	q := c.filled(numbers(1, 8)...)
	lost.call(1, "basic.qos-ok", "basic.qos", 0, 5)
	lost.consume(q, "t")
	for _, body := range numbers(1, 5) {
		lost.delivery(body)
	}
	must(t, lost.Close())
	c.awaitReady(q, 8)
	for i, body := range numbers(1, 8) {
		if e := c.get(q, true); string(e.Body) != body || redelivered(e) != (i < 5) {
			t.Fatalf("message %d: got %s, redelivered %v", i, e, redelivered(e))
		}
	}
}

func TestC4RecoverTakesBackWhateverIsUnacked(t *testing.T) {
	c := connect(t)
	q := c.filled("1", "2", "3", "4")
	c.call(1, "basic.qos-ok", "basic.qos", 0, 1)
	c.consume(q, "cancelled")
	c.delivery("1")
	c.call(1, "basic.cancel-ok", "basic.cancel", "cancelled")
	c.get(q, false)
	c.consume(q, "live")
	c.delivery("3")
	c.send(1, "basic.recover", true)
	c.wantSet("basic.recover-ok", `basic.deliver live 4 true  `+q+` "1"`)
	c.awaitReady(q, 3)
	c.refused("406 PRECONDITION_FAILED - unknown delivery tag 2", "basic.ack", 2)
	c.awaitReady(q, 4)
	for i, body := range numbers(1, 4) {
		if e := c.get(q, true); string(e.Body) != body || redelivered(e) != (i < 3) {
			t.Fatalf("got %s, redelivered %v", e, redelivered(e))
		}
	}
}

func TestC5UnackedMessagesOutliveTheirConsumer(t *testing.T) {
	c := connect(t)
	q := c.filled("1", "2", "3")
	c.call(1, "basic.qos-ok", "basic.qos", 0, 2)
	c.consume(q, "t")
	c.delivery("1")
	c.delivery("2")
	c.call(1, "basic.cancel-ok t", "basic.cancel", "t")
	c.awaitReady(q, 1)
	c.send(1, "basic.ack", 1, false)
	c.call(1, "channel.close-ok", "channel.close", 200)
	c.open(1)
	c.wantBodies(q, "2", "3")
}

func TestC6PrefetchHoldsForConsumersToCome(t *testing.T) {
	c := connect(t)
	a, b := c.filled(numbers(1, 9)...), c.filled(numbers(1, 9)...)
	c.call(1, "basic.qos-ok", "basic.qos", 0, 2)
	c.consume(a, "A")
	c.delivery("1")
	c.delivery("2")
	c.call(1, "basic.qos-ok", "basic.qos", 0, 5)
	c.consume(b, "B")
	for _, body := range numbers(1, 5) {
		c.delivery(body)
	}
	c.awaitReady(a, 7)
	c.awaitReady(b, 4)
	c.call(1, "basic.cancel-ok A", "basic.cancel", "A")
	c.consume(a, "again")
	for _, body := range numbers(3, 7) {
		c.delivery(body)
	}
	c.awaitReady(a, 2)
}

func TestC7WindowOfAChannelIsSharedAndMayShrink(t *testing.T) {
	c := connect(t)
	q := c.filled(numbers(1, 9)...)
	c.call(1, "basic.qos-ok", "basic.qos", 0, 3, true)
	c.consume(q, "a")
	for _, body := range numbers(1, 3) {
		c.delivery(body)
	}
	c.consume(q, "b")
	c.awaitReady(q, 6)
	if e := c.get(q, false); string(e.Body) != "4" {
		t.Fatalf("got %s", e)
	}
	c.call(1, "basic.qos-ok", "basic.qos", 0, 1, true)
	c.send(1, "basic.ack", 2, true)
	c.awaitReady(q, 5)
	c.send(1, "basic.ack", 3)
	c.delivery("5")
	c.awaitReady(q, 4)
}

func TestC8DeletedQueueCancelsItsConsumers(t *testing.T) {
	asks := connectAs(t, rawclient.Handshake{Properties: table{"capabilities": table{"consumer_cancel_notify": true}}})
	silent := connect(t)
	q := asks.queue(nil)
	asks.consume(q, "told")
	silent.consume(q, "untold")
	asks.open(2)
	asks.send(2, "queue.delete", q)
	asks.wantSet("queue.delete-ok 0", "basic.cancel told true")
	silent.call(1, "basic.cancel-ok untold", "basic.cancel", "untold")
	asks.call(1, "basic.cancel-ok told", "basic.cancel", "told")
}

func TestC9ExclusiveConsumptionEndsWithItsConnection(t *testing.T) {
	c, first := connect(t), connect(t)
	q := c.queue(nil)
	first.call(1, "basic.consume-ok t", "basic.consume", q, "t", false, false, true)
	c.refused("403 ACCESS_REFUSED - queue '"+q+"' in vhost '/' in exclusive use", "basic.consume", q, "u", false, false, true)
	must(t, first.Close())
	c.awaitConsumers(q, 0)
	c.call(1, "basic.consume-ok u", "basic.consume", q, "u", false, false, true)
}

// awaitConsumers waits until a queue has so many consumers.
func (c *client) awaitConsumers(queue string, n uint64) {
	c.t.Helper()
	c.awaitThat(func() error {
		if got := c.call(1, "queue.declare-ok", "queue.declare", queue, true).Number(2); got != n {
			return fmt.Errorf("queue %s has %d consumers, want %d", queue, got, n)
		}
		return nil
	})
}

func TestC10SingleActiveConsumerIsReplacedWhenItGoes(t *testing.T) {
	c, other := connect(t), connect(t)
	q := c.queue(table{"x-single-active-consumer": true})
	c.consume(q, "a")
	other.consume(q, "b")
	c.publish("", q, "1")
	c.send(1, "basic.nack", tag(c.delivery("1")), false, true)
	held := c.delivery("1")
	c.call(1, "basic.cancel-ok a", "basic.cancel", "a")
	c.send(1, "basic.nack", tag(held), false, true)
	if e := other.delivery("1"); !redelivered(e) {
		t.Fatalf("got %s", e)
	}
	c.consume(q, "a")
	c.publish("", q, "2")
	other.delivery("2")
	must(t, other.Close())
	c.delivery("1")
	c.delivery("2")
}

func TestC10ConsumerOfHigherPriorityMakesNoSecondActiveOne(t *testing.T) {
	c, other := connect(t), connect(t)
	q := c.queue(table{"x-single-active-consumer": true})
	c.consume(q, "first")
	other.call(1, "basic.consume-ok higher", "basic.consume", q, "higher", false, false, false, false, table{"x-priority": 10})
	c.publish("", q, "1")
	c.publish("", q, "2")
	c.delivery("1")
	c.delivery("2")
	other.ready(q) // nothing came to it
	c.call(1, "basic.cancel-ok first", "basic.cancel", "first")
	c.publish("", q, "3")
	other.delivery("3")
}

func TestS5MessagesOfAConsumerThatRequeuesAndCancelsAtOnceAreThere(t *testing.T) {
	c := connect(t)
	for _, kind := range []string{"classic", "quorum"} {
		q := c.queue(table{"x-queue-type": kind})
		for _, body := range numbers(1, 3) {
			c.publishWith("", q, props{DeliveryMode: 2}, body)
		}
		c.call(1, "basic.qos-ok", "basic.qos", 0, 3)
		c.consume(q, kind)
		var last uint64
		for _, body := range numbers(1, 3) {
			last = tag(c.delivery(body))
		}
		requeues := rawclient.AppendCall(nil, 1, "basic.nack", last, true, true)
		c.write(rawclient.AppendCall(requeues, 1, "basic.cancel", kind)) // in one packet
		for e := c.next(); e.Name != "basic.cancel-ok"; e = c.next() {
			if e.Name != "basic.deliver" { // again, before the cancel is heard of
				t.Fatalf("got %s", e)
			}
		}
		c.send(1, "basic.nack", 0, true, true)
		c.awaitReady(q, 3)
		bodies := c.bodies(q)
		slices.Sort(bodies)
		if !slices.Equal(bodies, numbers(1, 3)) {
			t.Fatalf("%s: got %q", kind, bodies)
		}
	}
}

func TestC11AutoDeleteQueueGoesWithItsLastConsumerOnly(t *testing.T) {
	c := connect(t)
	q := name(t, "q")
	c.call(1, "queue.declare-ok", "queue.declare", q, false, false, false, true)
	c.ready(q)
	c.get(q, true)
	c.ready(q)
	c.consume(q, "t")
	c.consume(q, "u")
	c.call(1, "basic.cancel-ok", "basic.cancel", "t")
	c.ready(q)
	c.call(1, "basic.cancel-ok", "basic.cancel", "u")
	c.awaitGone(q)
}

// awaitGone waits until a queue is deleted.
func (c *client) awaitGone(queue string) {
	c.t.Helper()
	c.awaitThat(func() error {
		c.send(1, "queue.declare", queue, true)
		e := c.next()
		if e.Name != "channel.close" || e.Number(0) != 404 {
			return fmt.Errorf("%s came for queue %s", e, queue)
		}
		c.reopen(1)
		return nil
	})
}

func TestC12ExclusiveQueueIsLockedUntilItsConnectionIsGone(t *testing.T) {
	c, owner := connect(t), connect(t)
	q := name(t, "q")
	owner.call(1, "queue.declare-ok", "queue.declare", q, false, false, true)
	text := "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + q + "' in vhost '/'"
	c.refused(text, "queue.declare", q, false, false, true)
	c.refused(text, "basic.consume", q, "t")
	c.refused(text, "queue.delete", q)
	must(t, owner.Close())
	c.awaitThat(func() error {
		c.send(1, "queue.declare", q, false, false, true)
		e := c.next()
		if e.Name == "channel.close" && e.Number(0) == 405 {
			c.reopen(1)
			return fmt.Errorf("still %s", e)
		}
		return nil
	})
}

func TestC12ExclusiveQueueOfAClientThatFellSilentIsFreedByItsHeartbeats(t *testing.T) {
	c, owner := connect(t), connectAs(t, rawclient.Handshake{Heartbeat: 1}) // its socket stays open, and it says nothing
	q := name(t, "q")
	owner.call(1, "queue.declare-ok", "queue.declare", q, false, false, true)
	c.refused("405 RESOURCE_LOCKED", "queue.declare", q, false, false, true)
	must(t, harness.Await(harness.Patience, func(context.Context) error {
		c.send(1, "queue.declare", q, false, false, true)
		e := c.next()
		if e.Name == "queue.declare-ok" {
			return nil
		}
		c.reopen(1)
		return fmt.Errorf("%s came", e)
	}))
}

func TestC13TagsOfAnotherChannelAreUnknown(t *testing.T) {
	c := connect(t)
	q := c.filled("m")
	c.get(q, false)
	must(t, c.Close())
	again := connect(t)
	again.refused("406 PRECONDITION_FAILED - unknown delivery tag 1", "basic.ack", 1)
}

func TestC14ConsumerTags(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	c.open(2)
	c.consume(q, "t")
	c.call(2, "basic.consume-ok t", "basic.consume", q, "t")
	c.call(1, "basic.consume-ok amq.ctag-", "basic.consume", q, "")
	c.send(1, "basic.consume", q, "", false, false, false, true) // no-wait
	c.call(1, "basic.cancel-ok unknown", "basic.cancel", "unknown")
	c.awaitConsumers(q, 4)
	c.call(1, "connection.close 530 NOT_ALLOWED - attempt to reuse consumer tag 't'", "basic.consume", q, "t")
}

func TestC15GetRacesWithQueueDelete(t *testing.T) {
	c, deletes := connect(t), connect(t)
	q := c.queue(nil)
	const gets = 50
	var b []byte
	for range gets {
		b = rawclient.AppendCall(b, 1, "basic.get", q)
	}
	c.write(b)
	deletes.call(1, "queue.delete-ok", "queue.delete", q)
	for range gets {
		if e := c.next(); e.Name == "channel.close" && e.Number(0) == 404 {
			return
		} else if e.Name != "basic.get-empty" {
			t.Fatalf("got %s", e)
		}
	}
}

// C18: what counts is stated in the broker's own documentation: a reject and the loss of the connection do, a nack does
// not, and only queues of type quorum or with a limit count.
func TestC18DeliveryCountIsTold(t *testing.T) {
	c := connect(t)
	q := c.queue(table{"x-queue-type": "quorum"})
	c.publish("", q, "m")
	c.routed()
	var counts []string
	see := func(from *client) (tag uint64) {
		e := from.get(q, false)
		counts = append(counts, fmt.Sprint(e.Properties.Headers["x-delivery-count"]))
		return e.Number(0)
	}
	c.send(1, "basic.reject", see(c), true)
	c.awaitReady(q, 1)
	c.send(1, "basic.nack", see(c), false, true)
	c.awaitReady(q, 1)
	lost := connect(t)
	see(lost)
	must(t, lost.Close())
	c.awaitReady(q, 1)
	see(c)
	if got, want := strings.Join(counts, " "), differs(t, "C18 what counts as a failed delivery"); got != want {
		t.Fatalf("x-delivery-count: got %s, want %s", got, want)
	}
}

func TestC18ClosedChannelGivesBackAndBlamesNobody(t *testing.T) {
	c := connect(t)
	q := c.queue(table{"x-queue-type": "quorum"})
	c.publishWith("", q, props{DeliveryMode: 2}, "m")
	c.routed()
	var counts []string
	for i := range 3 {
		e := c.get(q, false)
		if redelivered(e) != (i > 0) {
			t.Fatalf("get %d: %s", i, e)
		}
		counts = append(counts, fmt.Sprint(e.Properties.Headers["x-delivery-count"]))
		c.call(1, "channel.close-ok", "channel.close", 200)
		c.open(1)
		c.awaitReady(q, 1)
	}
	if got, want := strings.Join(counts, " "), differs(t, "C18 closed channels"); got != want {
		t.Fatalf("x-delivery-count: got %s, want %s", got, want)
	}
}

func TestC18QueueWithoutALimitDoesNotCount(t *testing.T) {
	c := connect(t)
	q := c.filled("m")
	c.send(1, "basic.reject", tag(c.get(q, false)), true)
	c.awaitReady(q, 1)
	if e := c.get(q, false); e.Properties.HasHeaders {
		t.Fatalf("headers %v", e.Properties.Headers)
	}
}

func TestC19GetTellsHowManyAreLeft(t *testing.T) {
	c := connect(t)
	q := c.filled("1", "2", "3")
	for left := 2; left >= 0; left-- {
		if e := c.get(q, true); e.Number(4) != uint64(left) {
			t.Fatalf("got %s, want %d left", e, left)
		}
	}
	c.call(1, "basic.get-empty", "basic.get", q)
}

func TestC20NothingIsDeliveredBehindCancelOk(t *testing.T) {
	c, fills := connect(t), connect(t)
	q := c.queue(nil)
	c.consume(q, "t")
	for range 200 {
		fills.publish("", q, "m")
	}
	c.send(1, "basic.cancel", "t")
	for e := c.next(); e.Name != "basic.cancel-ok"; e = c.next() {
		if e.Name != "basic.deliver" {
			t.Fatalf("got %s", e)
		}
	}
	fills.routed()
	c.call(1, "basic.qos-ok", "basic.qos", 0, 1)
	c.ready(q)
}

func TestC21ConsumerOfAClientThatWentAtOnceIsGone(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	for range 5 {
		ghost := connect(t)
		ghost.send(1, "basic.consume", q, "ghost")
		must(t, ghost.Close())
	}
	c.consume(q, "t")
	c.awaitConsumers(q, 1)
	for _, body := range numbers(1, 10) {
		c.publish("", q, body)
	}
	for _, body := range numbers(1, 10) {
		c.delivery(body)
	}
}

func TestC22ReadyConsumersTakeTurns(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	c.call(1, "basic.qos-ok", "basic.qos", 0, 1)
	for _, tag := range []string{"a", "b", "c"} {
		c.consume(q, tag)
	}
	for _, body := range numbers(1, 300) {
		c.publish("", q, body)
	}
	turns := map[string]int{}
	for range 300 {
		e := c.want("basic.deliver")
		turns[e.Text(0)]++
		c.send(1, "basic.ack", tag(e))
	}
	for tag, n := range turns {
		if n < 70 || n > 130 {
			t.Fatalf("consumer %s had %d of 300: %v", tag, n, turns)
		}
	}
}
