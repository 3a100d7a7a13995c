package cases

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/rawclient"
)

// deaths is a message's x-death, each as "queue reason count".
func deaths(e *event) (lines []string) {
	list, _ := e.Properties.Headers["x-death"].([]any)
	for _, item := range list {
		d, _ := item.(table)
		lines = append(lines, fmt.Sprint(d["queue"], " ", d["reason"], " ", d["count"]))
	}
	return lines
}

func (c *client) wantDeaths(e *event, want ...string) {
	c.t.Helper()
	if got := deaths(e); !slices.Equal(got, want) {
		c.t.Fatalf("x-death: got %q, want %q", got, want)
	}
}

// toQueue are the arguments of a queue whose dead letters go to another queue.
func toQueue(queue string, more table) table {
	a := table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
	for k, v := range more {
		a[k] = v
	}
	return a
}

// pass returns when the broker has let a message die that was given so many milliseconds.
func (c *client) pass(milliseconds int) {
	c.t.Helper()
	dead := c.queue(nil)
	c.publish("", c.queue(toQueue(dead, table{"x-message-ttl": milliseconds})), "clock")
	c.awaitReady(dead, 1)
}

func TestE1DeathsAreCountedOnWhenAClientPublishesThemAgain(t *testing.T) {
	c := connect(t)
	dead := c.queue(nil)
	q := c.queue(toQueue(dead, table{"x-message-ttl": 20}))
	c.publish("", q, "m")
	c.consume(dead, "t")
	first := c.delivery("m")
	c.wantDeaths(first, q+" expired 1")
	c.publishWith("", q, props{Headers: first.Properties.Headers}, "again")
	second := c.delivery("again")
	c.wantDeaths(second, q+" expired 2")
}

func TestE2CycleEndsForItsQueueAndTheOtherStillReceives(t *testing.T) {
	c := connect(t)
	x := c.exchange("fanout", nil)
	q := c.queue(table{"x-dead-letter-exchange": x, "x-message-ttl": 20})
	out := c.queue(nil)
	c.bind(q, x, "", nil)
	c.bind(out, x, "", nil)
	c.publish("", q, "m")
	c.consume(out, "t")
	c.wantDeaths(c.delivery("m"), q+" expired 1")
	c.wantBodies(q)
}

func TestE2CycleOfTwoQueuesEndsWhereItsDeathsAreOfOneKindOrTwo(t *testing.T) {
	for what, full := range map[string]table{"expiry": {"x-message-ttl": 20}, "expiry and length": {"x-max-length": 0}} {
		t.Run(what, func(t *testing.T) {
			c := connect(t)
			a, b := name(t, "a"), name(t, "b")
			x, out := c.exchange("fanout", nil), c.queue(nil)
			c.queueNamed(a, toQueue(b, full))
			c.queueNamed(b, table{"x-dead-letter-exchange": x, "x-message-ttl": 20})
			c.bind(a, x, "", nil)
			c.bind(out, x, "", nil)
			c.consume(out, "t")
			c.publish("", a, "m")
			c.delivery("m")
			c.pass(100)
			for _, q := range []string{a, b, out} { // and there is no other copy
				if n := c.ready(q); n != 0 {
					t.Errorf("queue %s has %d", q, n)
				}
			}
		})
	}
}

func TestE2CycleOfThreeQueuesEnds(t *testing.T) {
	c := connect(t)
	a, b, d := name(t, "a"), name(t, "b"), name(t, "c")
	c.queueNamed(a, toQueue(b, table{"x-message-ttl": 20}))
	c.queueNamed(b, toQueue(d, table{"x-max-length": 0}))
	x, out := c.exchange("fanout", nil), c.queue(nil)
	c.queueNamed(d, table{"x-dead-letter-exchange": x, "x-message-ttl": 20})
	c.bind(a, x, "", nil)
	c.bind(out, x, "", nil)
	c.publish("", a, "m")
	c.consume(out, "t")
	short := strings.NewReplacer(a, "a", b, "b", d, "c")
	if got, want := short.Replace(strings.Join(deaths(c.delivery("m")), ", ")), differs(t, "E2 order of three deaths"); got != want {
		t.Fatalf("x-death: got %s, want %s", got, want)
	}
	c.pass(100)
	c.ready(a) // and no second copy is delivered
}

func TestE2LongChainIsWalked(t *testing.T) {
	c := connect(t)
	links := 1000
	if node.cluster == nil {
		links = 100 // RabbitMQ's walk takes time that grows with the square
	}
	chain := name(t, "chain")
	link := func(i int) string { return fmt.Sprintf("%s.%d", chain, i) }
	var b []byte
	for i := range links {
		a := toQueue(link(i+1), table{"x-max-length": 0})
		if i == links-1 {
			a = nil
		}
		b = rawclient.AppendCall(b, 1, "queue.declare", link(i), false, false, true, false, false, a) // exclusive: gone with c
	}
	sent := make(chan error, 1)
	go func() { sent <- c.Write(b) }()
	for range links {
		c.want("queue.declare-ok")
	}
	must(t, <-sent)
	c.publish("", link(0), "m")
	c.consume(link(links-1), "t")
	e := c.delivery("m") // in frames of the agreed size, for all its deaths
	if got := len(deaths(e)); got == 0 || e.Properties.Headers["x-first-death-queue"] != link(0) {
		t.Fatalf("%d deaths, first in %v", got, e.Properties.Headers["x-first-death-queue"])
	}
}

func TestE2RejectAllowsTheCycle(t *testing.T) {
	c := connect(t)
	q, wait := name(t, "q"), name(t, "wait")
	c.queueNamed(q, toQueue(wait, nil))
	c.queueNamed(wait, toQueue(q, table{"x-message-ttl": 20}))
	c.publish("", q, "m")
	c.consume(q, "t")
	for i := 1; i <= 4; i++ {
		e := c.delivery("m")
		if i > 1 {
			c.wantDeaths(e, fmt.Sprintf("%s expired %d", wait, i-1), fmt.Sprintf("%s rejected %d", q, i-1))
		}
		c.send(1, "basic.reject", tag(e), false)
	}
}

func TestE3DeadLetterHasNoExpirationOfItsOwn(t *testing.T) {
	c := connect(t)
	dead := c.queue(nil)
	q := c.queue(toQueue(dead, nil))
	c.publishWith("", q, props{Expiration: "20"}, "m")
	c.awaitReady(dead, 1)
	e := c.get(dead, true)
	if e.Properties.HasExpiration {
		t.Fatalf("expiration %q", e.Properties.Expiration)
	}
	c.wantDeaths(e, q+" expired 1")
	death := e.Properties.Headers["x-death"].([]any)[0].(table)
	if death["original-expiration"] != "20" {
		t.Fatalf("x-death: %v", death)
	}
}

func TestE4TimeBeginsAnewInEachQueue(t *testing.T) {
	c := connect(t)
	last := c.queue(nil)
	second := c.queue(toQueue(last, table{"x-message-ttl": 1000}))
	first := c.queue(toQueue(second, table{"x-message-ttl": 1000}))
	clock := c.queue(toQueue(last, table{"x-message-ttl": 1500}))
	c.consume(last, "t")
	c.publish("", first, "m")
	c.publish("", clock, "clock")
	c.delivery("clock")
	c.wantDeaths(c.delivery("m"), second+" expired 1", first+" expired 1")
}

func TestE5ExpiredMessageBehindALivingOneIsNeverDelivered(t *testing.T) {
	c := connect(t)
	dead := c.queue(nil)
	q := c.queue(toQueue(dead, nil))
	c.publishWith("", q, props{Expiration: "60000"}, "long")
	c.publishWith("", q, props{Expiration: "20"}, "short")
	c.pass(60)
	c.consume(q, "t")
	c.delivery("long")
	c.awaitReady(dead, 1)
	c.ready(q) // and nothing else is delivered
}

func TestE6MessageThatExpiredUnackedIsNotDeliveredAgain(t *testing.T) {
	c := connect(t)
	dead := c.queue(nil)
	q := c.queue(toQueue(dead, nil))
	c.consume(q, "t") // before it comes: it does not live for long
	c.publishWith("", q, props{Expiration: "30"}, "m")
	e := c.delivery("m")
	c.pass(60)
	c.send(1, "basic.reject", tag(e), true)
	c.awaitReady(dead, 1)
	c.wantDeaths(c.get(dead, true), q+" expired 1")
}

func TestE8TimeOfZeroIsForThoseWhoWait(t *testing.T) {
	c := connect(t)
	dead := c.queue(nil)
	for what, r := range map[string]struct {
		queue   table
		message props
	}{
		"of the queue":   {table{"x-message-ttl": 0}, props{}},
		"of the message": {nil, props{Expiration: "0"}},
	} {
		q := c.queue(toQueue(dead, r.queue))
		c.publishWith("", q, r.message, what)
		c.awaitReady(dead, 1)
		c.wantBodies(dead, what)
		c.call(1, "basic.consume-ok", "basic.consume", q, what, false, true)
		c.publishWith("", q, r.message, what)
		c.delivery(what)
	}
}

func TestE9BadExpirationIsRefused(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	for _, bad := range []string{"later", "12.5", "-1", "", " 1", "1s"} {
		c.publishWith("", q, props{Expiration: bad, HasExpiration: true}, "m")
		c.want("channel.close 406 PRECONDITION_FAILED - invalid expiration '" + bad + "'")
		c.reopen(1)
	}
	c.wantBodies(q)
}

func TestE10DeadLettersKeepTheirOrder(t *testing.T) {
	c := connect(t)
	dead := c.queue(nil)
	q := c.queue(toQueue(dead, nil))
	for _, body := range numbers(1, 10) {
		c.publish("", q, body)
	}
	c.routed()
	var last uint64
	for range 10 {
		last = tag(c.get(q, false))
	}
	c.send(1, "basic.nack", last, true, false)
	c.awaitReady(dead, 10)
	c.wantBodies(dead, numbers(1, 10)...)

	full := c.queue(toQueue(dead, table{"x-max-length": 5}))
	for _, body := range numbers(1, 15) {
		c.publish("", full, body)
	}
	c.awaitReady(dead, 10)
	c.wantBodies(dead, numbers(1, 10)...)
	c.wantBodies(full, numbers(11, 15)...)
}

func TestE11RejectedMessageMayReturnToItsQueueAmongOthers(t *testing.T) {
	c := connect(t)
	x := c.exchange("fanout", nil)
	q, other := c.queue(table{"x-dead-letter-exchange": x}), c.queue(nil)
	c.bind(q, x, "", nil)
	c.bind(other, x, "", nil)
	c.publish("", q, "m")
	c.consume(q, "t")
	c.send(1, "basic.reject", tag(c.delivery("m")), false)
	e := c.delivery("m")
	c.wantDeaths(e, q+" rejected 1")
	c.send(1, "basic.ack", tag(e))
	c.awaitReady(other, 1)
}

func TestE12ManyDeathsStayTwoEntries(t *testing.T) {
	c := connect(t)
	a, b := name(t, "a"), name(t, "b")
	c.queueNamed(a, toQueue(b, nil))
	c.queueNamed(b, toQueue(a, nil))
	c.consume(a, "a")
	c.consume(b, "b")
	c.publish("", a, "m")
	const bounces = 300
	for range bounces {
		c.send(1, "basic.reject", tag(c.delivery("m")), false)
	}
	half := bounces / 2
	c.wantDeaths(c.delivery("m"), fmt.Sprintf("%s rejected %d", b, half), fmt.Sprintf("%s rejected %d", a, half))
}

func TestE13DeadLetterKeepsItsOtherHeaders(t *testing.T) {
	c := connect(t)
	dead := c.queue(nil)
	q := c.queue(toQueue(dead, table{"x-max-length": 0}))
	headers := table{"s": "text", "n": int64(7), "t": table{"k": list{"v", nil}}, "b": true, "x-own": "kept"}
	c.publishWith("", q, props{Headers: headers, ContentType: "text/plain", MessageID: "id", DeliveryMode: 2}, "m")
	c.awaitReady(dead, 1)
	e := c.get(dead, true)
	for k, v := range headers {
		if fmt.Sprint(e.Properties.Headers[k]) != fmt.Sprint(v) {
			t.Errorf("header %s: got %v, want %v", k, e.Properties.Headers[k], v)
		}
	}
	if p := e.Properties; p.ContentType != "text/plain" || p.MessageID != "id" || p.DeliveryMode != 2 {
		t.Errorf("properties %+v", p)
	}
}

func TestE13FieldsOfEveryTypeOutliveWhatTheBrokerWritesBesideThem(t *testing.T) {
	c := connect(t)
	dead := c.queue(nil)
	q := c.queue(toQueue(dead, nil))
	hidden := everyType("\x03BCCA\x00\x00\x00\x06S\x00\x00\x00\x01k")
	c.publishWith("", q, props{Raw: append([]byte{0x20, 0}, hidden...)}, "m")
	e := c.get(q, false)
	if all := everyType(""); len(e.Properties.Raw) != 2+len(all) {
		t.Fatalf("without BCC: %q", e.Properties.Raw)
	}
	wantFields(t, e)
	c.send(1, "basic.reject", tag(e), false)
	c.awaitReady(dead, 1)
	e = c.get(dead, true)
	c.wantDeaths(e, q+" rejected 1")
	wantFields(t, e)
}

// wantFields checks that each field is as it was, in whatever order.
func wantFields(t *testing.T, e *event) {
	t.Helper()
	for _, field := range fieldOfEachType {
		if !bytes.Contains(e.Properties.Raw, []byte(field)) {
			t.Errorf("%q is not in %q", field, e.Properties.Raw)
		}
	}
}

func priority(p byte) props { return props{Priority: &p} }

func TestE15PrioritiesAreClampedAndLimitsChecked(t *testing.T) {
	c := connect(t)
	q := c.queue(table{"x-max-priority": 10})
	c.publish("", q, "none")
	c.publishWith("", q, priority(0), "0")
	c.publishWith("", q, priority(10), "10")
	c.publishWith("", q, priority(255), "255")
	c.publishWith("", q, priority(9), "9")
	c.routed()
	c.wantBodies(q, "10", "255", "9", "none", "0")
	for _, bad := range []int{-1, 256} {
		c.refused("406 PRECONDITION_FAILED - invalid arg 'x-max-priority'", "queue.declare", name(t, "q"), false, true, false, false, false, table{"x-max-priority": bad})
	}
}

func TestE16LimitCountsAllPrioritiesTogether(t *testing.T) {
	c := connect(t)
	q := c.queue(table{"x-max-priority": 5, "x-max-length": 10})
	for i := range 15 {
		c.publishWith("", q, priority(byte(i%5)), fmt.Sprintf("%d/%d", i%5, i))
	}
	c.routed()
	c.awaitReady(q, 10)
	got := strings.Join(c.bodies(q), " ")
	if want := differs(t, "E16 what a full priority queue drops"); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

func TestE17RequeuedMessageKeepsItsPlaceInItsPriority(t *testing.T) {
	c := connect(t)
	q := c.queue(table{"x-max-priority": 10})
	c.publishWith("", q, priority(5), "first 5")
	c.publishWith("", q, priority(5), "second 5")
	c.routed()
	e := c.get(q, false)
	c.publishWith("", q, priority(9), "9")
	c.ready(q)
	c.send(1, "basic.reject", tag(e), true)
	c.awaitReady(q, 3)
	c.wantBodies(q, "9", "first 5", "second 5")
}

func TestE18UnusedQueueGoesAfterItsTime(t *testing.T) {
	c, user := connect(t), connect(t)
	q := c.queue(table{"x-expires": 2000}) // long enough for a slow disk between the two
	user.consume(q, "t")
	c.pass(2300)
	c.ready(q)
	left := time.Now()
	user.call(1, "basic.cancel-ok", "basic.cancel", "t")
	c.awaitExpiry(q, left, 2*time.Second)
}

func TestE18GetRenewsTheLease(t *testing.T) {
	c := connect(t)
	q := c.queue(table{"x-expires": 2000})
	c.pass(250)
	used := time.Now()
	c.call(1, "basic.get-empty", "basic.get", q)
	c.awaitExpiry(q, used, 2*time.Second)
}

// awaitExpiry waits until a queue is gone, which must not be sooner than its time after its last use. It looks by
// publishing: that is no use.
func (c *client) awaitExpiry(q string, used time.Time, lease time.Duration) {
	c.t.Helper()
	c.confirming()
	c.awaitThat(func() error {
		c.write(c.message("", q, true, props{}, "m"))
		e := c.next()
		if e.Name == "basic.return" {
			c.want("basic.ack")
			return nil
		}
		return fmt.Errorf("%s came", e)
	})
	if after := time.Since(used); after < lease-20*time.Millisecond {
		c.t.Fatalf("queue %s went after %v, its lease is %v", q, after, lease)
	}
}

func TestE19FirstDeathIsRemembered(t *testing.T) {
	c := connect(t)
	last := c.queue(nil)
	second := c.queue(toQueue(last, table{"x-max-length": 0}))
	x := c.exchange("fanout", nil)
	first := c.queue(toQueue(second, table{"x-message-ttl": 20}))
	c.bind(first, x, "", nil)
	c.publish(x, "key", "m")
	c.consume(last, "t")
	e := c.delivery("m")
	h := e.Properties.Headers
	if h["x-first-death-queue"] != first || h["x-first-death-reason"] != "expired" || h["x-first-death-exchange"] != x {
		t.Fatalf("headers %v", h)
	}
	c.wantDeaths(e, second+" maxlen 1", first+" expired 1")
}

const noTables = "an array of no tables"

func TestB18BadXDeathOfAClientHarmsNothing(t *testing.T) {
	for what, death := range map[string]any{
		"text instead of an array":   "text",
		noTables:                     list{"a", int64(1)},
		"a table without its fields": list{table{"count": int64(3)}},
		"a count of another type":    list{table{"queue": "q", "reason": "maxlen", "count": int32(3)}},
		"nothing":                    nil,
	} {
		t.Run(what, func(t *testing.T) {
			c := connect(t)
			dead := c.queue(nil)
			q := c.queue(toQueue(dead, table{"x-max-length": 0}))
			c.publishWith("", q, props{Headers: table{"x-death": death}}, what)
			c.publish("", q, "behind")
			if what == noTables && differs(t, "B18 x-death of no tables") == "lost" {
				c.pass(300)
				c.awaitReady(dead, 0)
				return
			}
			c.awaitReady(dead, 2)
			e := c.get(dead, true)
			if got := deaths(e); len(got) == 0 || !strings.HasPrefix(got[0], q+" maxlen ") || string(e.Body) != what {
				t.Fatalf("%s: x-death %q", what, got)
			}
		})
	}
}
