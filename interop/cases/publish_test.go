package cases

import (
	"fmt"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/rawclient"
)

func TestD1ReturnComesBeforeItsConfirm(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	c.confirming()
	const n = 1000
	body := func(i int) string { return fmt.Sprint("body ", i) }
	sent := make(chan error, 1)
	go func() {
		var b []byte
		for i := 1; i <= n; i++ {
			key := q
			if i%3 == 0 {
				key = "none.such"
			}
			b = append(b, c.message("", key, true, props{MessageID: fmt.Sprint(i)}, body(i))...)
		}
		sent <- c.Write(b)
	}()
	returned, confirmed := map[int]bool{}, map[int]bool{}
	for last := 0; len(confirmed) < n; {
		e := c.next()
		switch e.Name {
		case "basic.return":
			var i int
			_, _ = fmt.Sscan(e.Properties.MessageID, &i)
			if string(e.Body) != body(i) || e.Number(0) != 312 || confirmed[i] {
				t.Fatalf("got %s for %d, confirmed %v", e, i, confirmed[i])
			}
			returned[i] = true
		case "basic.ack":
			first, upTo := int(e.Number(0)), int(e.Number(0))
			if multiple, _ := e.Arguments[1].(bool); multiple {
				first = last + 1
			}
			for i := first; i <= upTo; i++ {
				if i%3 == 0 && !returned[i] {
					t.Fatalf("%s covers %d, which was not returned yet", e, i)
				}
				confirmed[i] = true
			}
			for confirmed[last+1] {
				last++
			}
		default:
			t.Fatalf("got %s", e)
		}
	}
	must(t, <-sent)
	if len(returned) != n/3 {
		t.Fatalf("%d returned", len(returned))
	}
}

func TestD2PublishesBehindARefusedOneDoNotCount(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	c.confirming()
	c.publish("", q, "good")
	c.want("basic.ack 1 ")
	c.write(append(append(c.message("none.such", "k", false, props{}, "bad"), c.message("", q, false, props{}, "late")...), c.message("", q, false, props{}, "late")...))
	c.want("channel.close 404 NOT_FOUND - no exchange 'none.such' in vhost '/' 60 40")
	c.reopen(1)
	c.wantBodies(q, "good")
}

func TestD3ConfirmsAndTransactionsExcludeEachOther(t *testing.T) {
	c := connect(t)
	c.confirming()
	c.refused("406 PRECONDITION_FAILED - cannot switch from confirm to tx mode", "tx.select")
	c.call(1, "tx.select-ok", "tx.select")
	c.refused("406 PRECONDITION_FAILED - cannot switch from tx to confirm mode", "confirm.select")
	c.refused("406 PRECONDITION_FAILED - channel is not transactional", "tx.commit")
	c.refused("406 PRECONDITION_FAILED - channel is not transactional", "tx.rollback")
}

func TestD4AcksInATransaction(t *testing.T) {
	c := connect(t)
	q := c.filled("m")
	c.call(1, "tx.select-ok", "tx.select")
	c.get(q, false)
	c.send(1, "basic.ack", 1)
	c.refused("406 PRECONDITION_FAILED - unknown delivery tag 1", "basic.ack", 1)
	c.call(1, "tx.select-ok", "tx.select")
	c.awaitReady(q, 1)
	c.get(q, false)
	c.send(1, "basic.ack", 1)
	c.call(1, "tx.rollback-ok", "tx.rollback")
	c.awaitReady(q, 0)
	c.send(1, "basic.ack", 1)
	c.call(1, "tx.commit-ok", "tx.commit")
	c.call(1, "channel.close-ok", "channel.close", 200)
	c.open(1)
	c.wantBodies(q)
}

func TestD5ReturnComesWithTheCommit(t *testing.T) {
	c := connect(t)
	c.call(1, "tx.select-ok", "tx.select")
	c.write(c.message("", "none.such", true, props{}, "dropped"))
	c.call(1, "tx.rollback-ok", "tx.rollback")
	c.write(c.message("", "none.such", true, props{}, "m"))
	c.ready(c.queue(nil))
	c.send(1, "tx.commit")
	c.want(`basic.return 312 NO_ROUTE  none.such "m"`, "tx.commit-ok")
}

func TestD6FullQueueRefusesAndUnackedMessagesDoNotCount(t *testing.T) {
	c := connect(t)
	x := c.exchange("fanout", nil)
	full, other := c.queue(table{"x-max-length": 1, "x-overflow": "reject-publish"}), c.queue(nil)
	c.bind(full, x, "", nil)
	c.bind(other, x, "", nil)
	c.confirming()
	c.publish(x, "", "1")
	c.want("basic.ack 1 ")
	c.publish(x, "", "2")
	c.want("basic.nack 2 ")
	if e := c.get(full, false); string(e.Body) != "1" { // an unacknowledged message does not count
		t.Fatalf("got %s", e)
	}
	c.publish(x, "", "3")
	c.want("basic.ack 3 ")
	c.wantBodies(other, strings.Fields(differs(t, "D6 other queues of a refused message"))...)
	plain := connect(t)
	plain.publish("", full, "dropped")
	plain.routed()
	plain.wantBodies(full, "3")
}

func TestD7ConfirmedMessageIsThere(t *testing.T) {
	c, reader := connect(t), connect(t)
	q := c.queue(nil)
	c.confirming()
	for i, body := range numbers(1, 50) {
		c.publish("", q, body)
		c.want(fmt.Sprintf("basic.ack %d ", i+1))
		if e := reader.get(q, true); string(e.Body) != body {
			t.Fatalf("confirmed %s, then got %s", body, e)
		}
	}
}

func TestD8MessagesForADeletedQueueAreConfirmed(t *testing.T) {
	c, deletes := connect(t), connect(t)
	q := c.queue(nil)
	c.confirming()
	const n = 200
	var b []byte
	for range n {
		b = append(b, c.message("", q, false, props{}, strings.Repeat("b", 1000))...)
	}
	c.write(b)
	deletes.call(1, "queue.delete-ok", "queue.delete", q)
	c.confirmed(1, n)
}

func TestD9WhatIsNotImplementedIsRefused(t *testing.T) {
	c := connect(t)
	b := rawclient.AppendCall(nil, 1, "basic.publish", "", "k", false, true)
	c.write(rawclient.AppendContent(b, 1, c.FrameMax, &props{}, []byte("m")))
	c.want("connection.close 540 NOT_IMPLEMENTED - immediate=true 60 40")
	connect(t).call(1, "connection.close 540 NOT_IMPLEMENTED - requeue=false 60 110", "basic.recover", false)
}
