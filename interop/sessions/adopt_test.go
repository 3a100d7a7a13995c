package sessions

import (
	"bytes"
	"testing"

	"github.com/understudy-mq/understudy/interop/rawclient"
)

// holding is a session on node 1 that holds the deliveries 1, 2 and 3 of a queue on channel 1, and whose connection is lost.
func holding(t *testing.T, flags ...any) (id, q string) {
	t.Helper()
	c := shared()
	id, q = unique("s"), unique("q")
	a := confirming(t, c, 1, q, session(id))
	for _, body := range []string{"1", "2", "3"} {
		a.publish(1, q, body, props{})
	}
	a.call("basic.consume-ok", 1, "basic.consume", append([]any{q, "c"}, flags...)...)
	for _, body := range []string{"1", "2", "3"} {
		a.deliver(body)
	}
	a.cut()
	return id, q
}

func TestAConsumerUnderAnotherTagTakesOverWhatIsHeld(t *testing.T) {
	id, q := holding(t)
	b := connect(t, shared().Node(2).URL(), session(id))
	b.consume(q, "another")
	for i, body := range []string{"1", "2", "3"} {
		if tag, redelivered := b.deliver(body); tag != uint64(i+1) || !redelivered {
			t.Errorf("%s has tag %d, redelivered %t", body, tag, redelivered)
		}
	}
	b.send(1, "basic.ack", 3, true)
	b.quiet()
	want(t, "messages", b.count(q), 0)
}

func TestAConsumerOnAnotherChannelTakesOverWhatIsHeldUnderNewTags(t *testing.T) {
	id, q := holding(t)
	b := connect(t, shared().Node(2).URL(), session(id))
	b.call("channel.open-ok", 2, "channel.open")
	b.call("basic.qos-ok", 2, "basic.qos", 0, 5)
	b.call("basic.consume-ok", 2, "basic.consume", q, "c")
	for i, body := range []string{"1", "2", "3"} {
		if tag, redelivered := b.deliver(body); tag != uint64(i+1) || !redelivered {
			t.Errorf("%s has tag %d, redelivered %t", body, tag, redelivered)
		}
	}
	b.send(1, "basic.ack", 2, false) // the old tag: no longer anything
	b.quiet()
	b.send(2, "basic.ack", 1, false)
	b.call("basic.qos-ok", 2, "basic.qos", 0, 5)
	want(t, "in flight", b.call("queue.declare-ok", 1, "queue.declare", "amq.session", true).Number(1), 2)
}

func TestAnExclusiveConsumerIsItsSessionsOwn(t *testing.T) {
	id, q := holding(t, false, false, true)
	other := connect(t, shared().Node(3).URL(), nil)
	other.send(1, "basic.consume", q, "other")
	want(t, "somebody else's consume", other.next("channel.close").Number(0), 403)
	b := connect(t, shared().Node(2).URL(), session(id))
	b.call("basic.consume-ok", 1, "basic.consume", q, "c", false, false, true)
	for _, body := range []string{"1", "2", "3"} {
		b.deliver(body)
	}
}

func TestNobodyElseGetsWhatASessionHolds(t *testing.T) {
	id, q := holding(t)
	other := connect(t, shared().Node(3).URL(), nil)
	other.consume(q, "other")
	other.quiet()
	b := connect(t, shared().Node(2).URL(), session(id))
	b.consume(q, "c")
	for _, body := range []string{"1", "2", "3"} {
		b.deliver(body)
	}
	b.call("connection.close-ok", 0, "connection.close", 200, "done") // unsettled: they return
	for _, body := range []string{"1", "2", "3"} {
		other.deliver(body)
	}
}

func TestABodyInPiecesIsPublishedOnceWhereverItIsCut(t *testing.T) {
	c := shared()
	id, q := unique("s"), unique("q")
	body := bytes.Repeat([]byte("understudy"), 150_000) // three fragments
	p := dedup(table{"x-dedup-id": "big"})
	frames := func(a *client) []byte {
		return rawclient.AppendContent(rawclient.AppendCall(nil, 1, "basic.publish", "", q), 1, a.FrameMax, &p, body)
	}
	for i, part := range []int{700_000, 1_300_000, 1} {
		a := confirming(t, c, i%3+1, q, session(id))
		b := frames(a)
		if err := a.Write(b[:min(part, len(b)-1)]); err != nil {
			t.Fatal(err)
		}
		a.cut()
	}
	for node := 1; node <= 2; node++ {
		a := confirming(t, c, node, q, session(id))
		if err := a.Write(frames(a)); err != nil {
			t.Fatal(err)
		}
		a.next("basic.ack")
		want(t, "messages", a.count(q), 1)
		a.cut()
	}
	a := connect(t, c.Node(3).URL(), session(id))
	if got := a.call("basic.get-ok", 1, "basic.get", q, true); !bytes.Equal(got.Body, body) {
		t.Errorf("%d octets came", len(got.Body))
	}
}
