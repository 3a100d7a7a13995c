package sessions

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

func TestADeliveryMadeOnALostConnectionComesAgainUnderItsTagAndIsSettled(t *testing.T) {
	c := shared()
	id, q := unique("s"), unique("q")
	a := connect(t, c.Node(1).URL(), session(id))
	want(t, "state", a.status()["x-session-state"], "new")
	a.declare(q, true)
	a.call("confirm.select-ok", 1, "confirm.select")
	for _, body := range []string{"1", "2", "3"} {
		a.publish(1, q, body, props{})
	}
	a.consume(q, "c")
	for i, body := range []string{"1", "2", "3"} {
		if tag, redelivered := a.deliver(body); tag != uint64(i+1) || redelivered {
			t.Errorf("%s has tag %d, redelivered %t", body, tag, redelivered)
		}
	}
	a.send(1, "basic.ack", 2, false)
	a.quiet()
	a.cut()

	b := connect(t, c.Node(2).URL(), session(id))
	status := b.status()
	want(t, "state", status["x-session-state"], "resumed")
	want(t, "in flight", b.call("queue.declare-ok", 1, "queue.declare", "amq.session", true).Number(1), 2)
	b.quiet() // nothing comes before the client's own consume
	b.declare(q, true)
	b.consume(q, "c")
	for _, d := range []struct {
		body string
		tag  uint64
	}{{"1", 1}, {"3", 3}} {
		if tag, redelivered := b.deliver(d.body); tag != d.tag || !redelivered {
			t.Errorf("%s has tag %d, redelivered %t", d.body, tag, redelivered)
		}
	}
	b.call("confirm.select-ok", 1, "confirm.select")
	b.send(1, "basic.ack", 2, false) // settled already: no fault
	b.send(1, "basic.ack", 3, true)
	b.send(1, "basic.cancel", "c", true)
	b.publish(1, q, "4", props{})
	got := b.call("basic.get-ok", 1, "basic.get", q)
	want(t, "the next tag", got.Number(0), 4)
	b.send(1, "basic.ack", 9, false) // never sent
	hasText(t, "an ack of a tag that was never sent", b.next("channel.close").Text(1), "PRECONDITION_FAILED", "unknown delivery tag 9")
}

func TestAResumeHearsOfTheClustersNodes(t *testing.T) {
	c := shared()
	id := unique("s")
	err := harness.Await(harness.Patience, func(context.Context) error {
		a := connect(t, c.Node(1).URL(), session(id))
		hosts, _ := a.status()["x-session-hosts"].(string)
		a.cut()
		for _, n := range c.Members() {
			if !strings.Contains(hosts, n.AMQP) {
				return errNoSession
			}
		}
		return nil
	})
	if err != nil {
		t.Error("the hosts are not all known", err)
	}
}

func TestATakeoverClosesTheOldConnectionAtOnce(t *testing.T) {
	c := shared()
	id, q := unique("s"), unique("q")
	a := connect(t, c.Node(1).URL(), session(id, "x-session-incarnation", "one"))
	a.declare(q, true)
	b := connect(t, c.Node(2).URL(), session(id, "x-session-incarnation", "two"))
	want(t, "state", b.status()["x-session-state"], "taken-over")
	b.declare(q, true)
	closed := a.next("connection.close")
	want(t, "code", closed.Number(0), 320)
	hasText(t, "text", closed.Text(1), "session taken over")

	code, text := refusal(t, c.Node(1).URL(), session(id, "x-session-incarnation", "one"))
	want(t, "the code for the process that was followed", code, 320)
	hasText(t, "its text", text, "session taken over")
	b.quiet() // the one that has it keeps it
}

func TestExclusiveQueuesAreTheSessionsAtOnceWhenTheOldConnectionIsHalfOpen(t *testing.T) {
	c := shared()
	id, q := unique("s"), unique("q")
	half, err := startCutter(c.Node(1).AMQP, true, -1, endClosed)
	if err != nil {
		t.Fatal(err)
	}
	defer half.close()
	a := connect(t, "amqp://guest:guest@"+half.address()+"/", session(id))
	a.declare(q, true)
	half.hangUp(endHalfOpen) // the broker's side stays open and silent
	began := time.Now()
	other := connect(t, c.Node(2).URL(), nil)
	other.send(1, "queue.declare", q, false, false, true)
	want(t, "somebody else's declare", other.next("channel.close").Number(0), 405)
	b := connect(t, c.Node(2).URL(), session(id))
	b.declare(q, true)
	t.Logf("the session had its queue again after %v", time.Since(began))
}

func TestTwoProcessesThatFightForASessionAreToldToStop(t *testing.T) {
	c := shared()
	id := unique("s")
	holder := connect(t, c.Node(1).URL(), session(id))
	for i := range 3 {
		next := connect(t, c.Node(i%3+1).URL(), session(id))
		next.status()
		want(t, "code", holder.next("connection.close").Number(0), 320)
		holder.send(0, "connection.close-ok") // alive
		holder = next
	}
	err := harness.Await(harness.Patience, func(context.Context) error {
		f := connectBare(t, c.Node(1).URL(), session(id))
		if err := f.Send(1, "channel.open"); err != nil {
			return err
		}
		e, err := f.Next()
		if err == nil && e.Name == "connection.close" && e.Number(0) == 405 {
			hasText(t, "text", e.Text(1), "contended", "x-session-id")
			return nil
		}
		_ = f.Close()
		return errNoSession
	})
	if err != nil {
		t.Error("no attach was refused", err)
	}
}

func TestAResumeOfNothingIsRefusedAndDoesNotTellWhoseItIs(t *testing.T) {
	c := shared()
	mine := unique("s")
	connect(t, c.Node(1).URL(), session(mine)).status()
	user(t, c, "stranger")
	code, text := refusal(t, c.Node(1).URL(), session(unique("s"), "x-session-expect", "resume"))
	want(t, "code", code, 404)
	hasText(t, "text", text, "NOT_FOUND", "session")
	strangers := strings.Replace(c.Node(1).URL(), "guest:guest", "stranger:pass", 1)
	other, otherText := refusal(t, strangers, session(mine, "x-session-expect", "resume"))
	want(t, "the code for another user's session", other, code)
	if strings.ReplaceAll(otherText, mine, "") != strings.ReplaceAll(text, textID(text), "") {
		t.Errorf("another user's session is told from none: %q and %q", otherText, text)
	}
	fresh := connect(t, strangers, session(mine))
	want(t, "the state of another user's session of the same id", fresh.status()["x-session-state"], "new")
}

// textID is the id in a refusal's text: what stands in quotes.
func textID(text string) string {
	_, rest, _ := strings.Cut(text, "'")
	id, _, _ := strings.Cut(rest, "'")
	return id
}

// user makes a user who may do everything in /.
func user(t testing.TB, c *harness.Cluster, name string) {
	t.Helper()
	n := c.Node(1)
	if _, err := n.Do(t.Context(), "PUT", "/api/users/"+name, strings.NewReader(`{"password":"pass","tags":""}`)); err != nil {
		t.Fatal(err)
	}
	_, err := n.Do(t.Context(), "PUT", "/api/permissions/%2F/"+name, strings.NewReader(`{"configure":".*","write":".*","read":".*"}`))
	if err != nil {
		t.Fatal(err)
	}
}

func TestBadSessionsAreRefusedWithAClearText(t *testing.T) {
	c := shared()
	for name, k := range map[string]struct {
		properties table
		text       string
	}{
		"no id":      {table{"x-session-id": ""}, "x-session-id is empty"},
		"129 bytes":  {table{"x-session-id": strings.Repeat("x", 129)}, "129 bytes, at most 128"},
		"binary":     {table{"x-session-id": "\x00\xff"}, "only printable text"},
		"expiry":     {table{"x-session-id": "x", "x-session-expiry": "soon"}, "must be a number of seconds"},
		"a table":    {table{"x-session-id": table{}}, "neither text"},
		"inflight":   {table{"x-session-id": "x", "x-session-inflight": "both"}, "must be one of redeliver, keep"},
		"by no name": {table{"x-session-id": "x", "x-session-scope": "connection-name"}, "connection_name"},
	} {
		code, text := refusal(t, c.Node(1).URL(), k.properties)
		want(t, name, code, 530)
		hasText(t, name, text, "NOT_ALLOWED", k.text)
	}
	longest := connect(t, c.Node(1).URL(), session(unique(strings.Repeat("x", 120))))
	want(t, "an id of 128 bytes or less", longest.status()["x-session-state"], "new")
}

func TestAnExpiredSessionIsGoneAndWhatItHeldIsBackOnce(t *testing.T) {
	c := shared()
	id, own, q := unique("s"), unique("own"), unique("q")
	watch := connect(t, c.Node(3).URL(), nil)
	watch.declare(q, false)
	a := connect(t, c.Node(1).URL(), session(id, "x-session-expiry", "1"))
	a.declare(own, true)
	a.call("confirm.select-ok", 1, "confirm.select")
	a.publish(1, q, "1", props{})
	a.consume(q, "c")
	a.deliver("1")
	a.cut()
	err := harness.Await(harness.Patience, func(ctx context.Context) error {
		_, err := listed(ctx, c.Node(3), id)
		if err == nil {
			return errNoSession // it is there yet
		}
		return nil
	})
	if err != nil {
		t.Fatal("the session has not expired", err)
	}
	want(t, "messages back", watch.count(q), 1)
	code, _ := refusal(t, c.Node(2).URL(), session(id, "x-session-expect", "resume"))
	want(t, "code", code, 404)
	watch.send(1, "queue.declare", own, true)
	want(t, "its exclusive queue", watch.next("channel.close").Number(0), 404)
}

func TestAnOrderlyCloseEndsASessionUnlessItIsToBeKept(t *testing.T) {
	c := shared()
	ends, kept := unique("s"), unique("s")
	for _, p := range []table{session(ends), session(kept, "x-session-on-close", "keep")} {
		a := connect(t, c.Node(1).URL(), p)
		a.call("connection.close-ok", 0, "connection.close", 200, "done")
	}
	code, _ := refusal(t, c.Node(2).URL(), session(ends, "x-session-expect", "resume"))
	want(t, "the one that ended", code, 404)
	b := connect(t, c.Node(2).URL(), session(kept, "x-session-expect", "resume"))
	want(t, "the one that is kept", b.status()["x-session-state"], "resumed")
	n := connect(t, c.Node(2).URL(), session(kept, "x-session-expect", "new"))
	want(t, "one that is to be new", n.status()["x-session-state"], "new")
}

func TestKeptDeliveriesAreSettledByTheirOldTags(t *testing.T) {
	c := shared()
	id, q := unique("s"), unique("q")
	keep := session(id, "x-session-inflight", "keep", "x-session-incarnation", "i")
	a := connect(t, c.Node(1).URL(), keep)
	a.declare(q, false)
	a.call("confirm.select-ok", 1, "confirm.select")
	for _, body := range []string{"1", "2", "3"} {
		a.publish(1, q, body, props{})
	}
	a.consume(q, "c")
	for _, body := range []string{"1", "2", "3"} {
		a.deliver(body)
	}
	a.cut()
	b := connect(t, c.Node(2).URL(), keep)
	b.consume(q, "c")
	b.send(1, "basic.ack", 1, false)
	b.quiet() // none is sent again
	b.call("basic.recover-ok", 1, "basic.recover", false)
	for _, want := range []struct {
		tag  uint64
		body string
	}{{2, "2"}, {3, "3"}} {
		if tag, redelivered := b.deliver(want.body); tag != want.tag || !redelivered {
			t.Errorf("%s has tag %d, redelivered %t", want.body, tag, redelivered)
		}
	}
	b.send(1, "basic.ack", 3, true)
	b.quiet()
	want(t, "in flight", b.call("queue.declare-ok", 1, "queue.declare", "amq.session", true).Number(1), 0)
}
