package cases

import (
	"fmt"
	"strings"
	"testing"
)

func TestA1TopicHashMatchesNoWords(t *testing.T) {
	topic(t, "a.*.c.#", []string{"a.b.c", "a.b.c.d"}, []string{"a.c", "a.b.d"})
}

func TestA2TopicHashInTheMiddleIsGreedyAndAnEmptyWordIsAWord(t *testing.T) {
	topic(t, "a.#.b", []string{"a.b", "a.x.b", "a..b", "a.b.b"}, []string{"ab", "a.b.c"})
}

func TestA3TopicStarDoesNotCrossDots(t *testing.T) {
	topic(t, "a.*.c", []string{"a.b.c", "a..c"}, []string{"a.b.x.c", "a.c"})
}

func TestA4TopicHashMatchesAnEmptyKey(t *testing.T) {
	topic(t, "#", []string{"", ".", "a.b"}, nil)
	topic(t, "x.#", []string{"x", "x.", "x.y"}, []string{"", "xy"})
}

// topic publishes all keys through a pattern; those of routed must arrive.
func topic(t *testing.T, pattern string, routed, not []string) {
	t.Helper()
	c := connect(t)
	q := c.queue(nil)
	c.bind(q, "amq.topic", pattern, nil)
	for _, key := range append(append([]string{}, routed...), not...) {
		c.publish("amq.topic", key, "key "+key)
	}
	var want []string
	for _, key := range routed {
		want = append(want, "key "+key)
	}
	c.routed()
	c.wantBodies(q, want...)
}

func TestA5HeadersMatchRules(t *testing.T) {
	for what, r := range map[string]struct {
		binding, headers table
		matches          bool
	}{
		"any ignores keys that begin with x-":     {table{"x-match": "any", "x-a": 1}, table{"x-a": 1}, false},
		"all ignores keys that begin with x-":     {table{"x-match": "all", "x-a": 1, "a": 1}, table{"a": 1}, true},
		"all without usable keys matches all":     {table{"x-match": "all", "x-a": 1}, table{}, true},
		"any without usable keys matches nothing": {table{"x-match": "any"}, table{"a": 1}, false},
		"any-with-x uses them":                    {table{"x-match": "any-with-x", "x-a": 1}, table{"x-a": 1}, true},
		"all-with-x uses them":                    {table{"x-match": "all-with-x", "x-a": 1, "a": 1}, table{"a": 1}, false},
		"all-with-x with both":                    {table{"x-match": "all-with-x", "x-a": 1, "a": 1}, table{"a": 1, "x-a": 1}, true},
		"void asks for the key alone":             {table{"x-match": "all", "a": nil}, table{"a": "anything"}, true},
		"void and no key":                         {table{"x-match": "all", "a": nil}, table{"b": 1}, false},
		"type differs":                            {table{"x-match": "all", "a": "1"}, table{"a": 1}, false},
		"no x-match is all":                       {table{"a": 1, "b": 2}, table{"a": 1}, false},
	} {
		t.Run(what, func(t *testing.T) { headersMatch(t, r.binding, r.headers, r.matches) })
	}
}

func headersMatch(t *testing.T, binding, headers table, matches bool) {
	t.Helper()
	c := connect(t)
	q := c.queue(nil)
	c.bind(q, "amq.headers", "", binding)
	c.publishWith("amq.headers", "", props{Headers: headers}, "m")
	c.routed()
	if got := len(c.bodies(q)) == 1; got != matches {
		t.Fatalf("binding %v, headers %v: routed %v, want %v", binding, headers, got, matches)
	}
}

func TestA6HeadersWithTablesAndArraysMatch(t *testing.T) {
	nested := table{"t": table{"k": "v", "n": int64(7)}, "a": list{"x", int32(1)}}
	headersMatch(t, table{"x-match": "all", "v": nested, "l": list{nested}}, table{"v": nested, "l": list{nested}}, true)
	headersMatch(t, table{"x-match": "all", "v": nested}, table{"v": table{"t": table{"k": "w"}}}, false)
}

func TestA7BadXMatchIsRefusedWhenBound(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	c.refused(differs(t, "A7 bad x-match value"), "queue.bind", q, "amq.headers", "", false, table{"x-match": "foo"})
	c.refused(differs(t, "A7 bad x-match type"), "queue.bind", q, "amq.headers", "", false, table{"x-match": 1})
}

func TestA8DeadLetterWithAKeyOfItsOwnHasNoCC(t *testing.T) {
	c := connect(t)
	foo, own := c.queue(nil), c.queue(nil)
	x := c.exchange("direct", nil)
	q := c.queue(table{"x-dead-letter-exchange": x, "x-dead-letter-routing-key": "own", "x-max-length": 0})
	c.bind(foo, x, "foo", nil)
	c.bind(own, x, "own", nil)
	c.publishWith("", q, props{Headers: table{"CC": list{"foo"}, "BCC": list{"foo"}, "k": "v"}}, "m")
	c.awaitReady(own, 1)
	e := c.get(own, true)
	if h := e.Properties.Headers; h["CC"] != nil || h["BCC"] != nil || h["k"] != "v" {
		t.Fatalf("headers %v", h)
	}
	c.wantBodies(foo)
}

func TestA9BCCCountsForDeadLettersAndIsNeverSeen(t *testing.T) {
	c := connect(t)
	k2 := c.queue(nil)
	x := c.exchange("direct", nil)
	q := c.queue(table{"x-dead-letter-exchange": x})
	c.bind(k2, x, "k2", nil)
	c.publishWith("", q, props{Headers: table{"BCC": list{"k2"}, "k": "v"}}, "m")
	c.routed()
	e := c.get(q, false)
	if _, is := e.Properties.Headers["BCC"]; is {
		t.Fatal("the consumer sees BCC")
	}
	c.send(1, "basic.reject", tag(e), false)
	c.awaitReady(k2, 1)
	e = c.get(k2, true)
	if _, is := e.Properties.Headers["BCC"]; is || e.Properties.Headers["k"] != "v" {
		t.Fatalf("headers %v", e.Properties.Headers)
	}
}

func TestA10QueueGetsOneCopyHoweverManyWaysLeadToIt(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	direct, fanout := c.exchange("direct", nil), c.exchange("fanout", nil)
	c.bind(q, direct, "k1", nil)
	c.bind(q, direct, "k1", table{"a": 1})
	c.bind(q, direct, "k2", nil)
	c.bind(q, fanout, "", nil)
	c.bindExchange(fanout, direct, "k1")
	c.publishWith(direct, "k1", props{Headers: table{"CC": list{"k2", q}, "BCC": list{"k1"}}}, "once")
	c.routed()
	c.wantBodies(q, "once")
}

func TestA11AllBindingsBetweenExchangesAreFollowed(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	source, dead, live := c.exchange("direct", nil), c.exchange("fanout", nil), c.exchange("fanout", nil)
	c.bindExchange(dead, source, "k")
	c.bindExchange(live, source, "k")
	c.bind(q, live, "", nil)
	c.publish(source, "k", "m")
	c.routed()
	c.wantBodies(q, "m")
}

func TestA12ArgumentsTellBindingsApart(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	x := c.exchange("headers", nil)
	c.bind(q, x, "k", table{"x-match": "all", "a": 1})
	c.bind(q, x, "k", table{"x-match": "all", "b": 1})
	c.call(1, "queue.unbind-ok", "queue.unbind", q, x, "k", table{"x-match": "all", "a": 1})
	c.call(1, "queue.unbind-ok", "queue.unbind", q, x, "k", table{"never": "bound"})
	c.publishWith(x, "", props{Headers: table{"a": 1}}, "a")
	c.publishWith(x, "", props{Headers: table{"b": 1}}, "b")
	c.routed()
	c.wantBodies(q, "b")
}

func TestA13AutoDeleteExchangeGoesWithItsLastBindingAsASource(t *testing.T) {
	c := connect(t)
	other := c.exchange("fanout", nil)
	x := name(t, "auto")
	c.call(1, "exchange.declare-ok", "exchange.declare", x, "fanout", false, true, true)
	t.Cleanup(func() { afterwards("exchange.delete-ok", "exchange.delete", x) })
	c.bindExchange(x, other, "")
	c.call(1, "exchange.unbind-ok", "exchange.unbind", x, other, "")
	c.call(1, "exchange.declare-ok", "exchange.declare", x, "fanout", true) // only its own bindings count
	c.bindExchange(x, other, "")
	c.bindExchange(other, x, "")
	c.call(1, "exchange.unbind-ok", "exchange.unbind", other, x, "")
	c.refused("404 NOT_FOUND - no exchange '"+x+"' in vhost '/'", "exchange.declare", x, "fanout", true)
	c.call(1, "exchange.unbind-ok", "exchange.unbind", x, other, "")
}

func TestA14DeletedDestinationLeavesNoBinding(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	source, x := c.exchange("fanout", nil), name(t, "destination")
	declare := func() {
		c.call(1, "exchange.declare-ok", "exchange.declare", x, "fanout", false, true)
		c.bind(q, x, "", nil)
	}
	declare()
	c.bindExchange(x, source, "")
	c.call(1, "exchange.delete-ok", "exchange.delete", x)
	declare()
	t.Cleanup(func() { afterwards("exchange.delete-ok", "exchange.delete", x) })
	c.publish(source, "", "stale")
	c.publish(x, "", "direct")
	c.routed()
	c.wantBodies(q, "direct")
}

func TestA15DefaultExchangeIsNotToBeTouched(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	const text = "403 ACCESS_REFUSED - operation not permitted on the default exchange"
	c.refused(text, "queue.bind", q, "", "k")
	c.refused(text, "queue.unbind", q, "", q)
	c.refused(text, "exchange.declare", "", "direct", false, true)
	c.refused(text, "exchange.delete", "")
	c.refused(text, "exchange.bind", "amq.fanout", "", "k")
	c.refused(text, "exchange.bind", "", "amq.fanout", "k")
	c.refused(text, "exchange.unbind", "amq.fanout", "", "k")
	c.refused(text, "exchange.declare", "", "direct", true)
	c.publish("", q, "m")
	c.routed()
	c.wantBodies(q, "m")
}

func TestA16DeletedQueueIsNotRoutedTo(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	c.call(1, "queue.delete-ok 0", "queue.delete", q)
	c.write(c.message("", q, true, props{}, "m"))
	c.want("basic.return 312 NO_ROUTE  " + q + ` "m"`)
}

func TestA17NamesAndKeysOf255Octets(t *testing.T) {
	c := connect(t)
	long := func(s string) string { return s + strings.Repeat("n", 255-len(s)) }
	x, key := long(name(t, "x")), long("key")
	c.call(1, "exchange.declare-ok", "exchange.declare", x, "direct", false, true)
	t.Cleanup(func() { afterwards("exchange.delete-ok", "exchange.delete", x) })
	dead := c.queueNamed(long(name(t, "dead")), nil)
	q := c.queueNamed(long(name(t, "q")), table{"x-dead-letter-exchange": x})
	c.bind(dead, x, key, nil)
	c.call(1, "queue.bind-ok", "queue.bind", q, "amq.direct", key)
	c.publish("amq.direct", key, "m")
	c.routed()
	e := c.get(q, false)
	if e.Text(3) != key {
		t.Fatalf("got %s", e)
	}
	c.send(1, "basic.reject", tag(e), false)
	c.awaitReady(dead, 1)
	if e = c.get(dead, true); e.Text(2) != x || e.Text(3) != key {
		t.Fatalf("got %s", e)
	}
}

func TestA18TooLongRoutingKeyIsAFrameOrSyntaxError(t *testing.T) {
	c := connect(t)
	payload := []byte{0, 60, 0, 40, 0, 0, 0, byte(10000 & 0xff)} // its length is one octet, whatever a client meant
	payload = append(payload, strings.Repeat("k", 10000)...)
	b := []byte{1, 0, 1, 0, 0, 0, byte(len(payload) & 0xff)} // and so the frame ends elsewhere
	c.write(append(append(b, payload...), 0xCE))
	c.want("connection.close " + "501 FRAME_ERROR")
}

func TestA19VhostAndQueueNameTogetherExceed255Octets(t *testing.T) {
	c := connect(t)
	q := c.queueNamed(strings.Repeat("v", 250)+fmt.Sprintf("%05d", names.Add(1)), nil)
	c.publish("", q, "m")
	c.routed()
	c.wantBodies(q, "m")
	c.call(1, "queue.delete-ok 0", "queue.delete", q)
}

func TestA20NamesCountInOctets(t *testing.T) {
	c := connect(t)
	q := c.queueNamed(strings.Repeat("\U0001F40D", 63)+"abc", nil)
	c.publish("", q, "m")
	c.routed()
	c.wantBodies(q, "m")
	c.call(1, differs(t, "A20 name that is not UTF-8"), "queue.declare", "\xff\xfe", false, false, true)
}

func TestA21RedeclaredArgumentsAreComparedByValue(t *testing.T) {
	c := connect(t)
	q := c.queue(table{"x-expires": int64(60000)})
	c.call(1, "queue.declare-ok", "queue.declare", q, false, true, false, false, false, table{"x-expires": int32(60000)})
	text := "406 PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue '" + q + "' in vhost '/': received "
	c.refused(text+"none but current is the value '60000' of type 'long'", "queue.declare", q, false, true)
	c.refused(text+"'60001' but current is '60000'",
		"queue.declare", q, false, true, false, false, false, table{"x-expires": int32(60001)})
	c.refused("406 PRECONDITION_FAILED - ", "queue.declare", q, false, true, false, false, false, table{"x-expires": "60000"})
}

func TestA22ChannelOfAFailedPassiveDeclareOpensAgain(t *testing.T) {
	c := connect(t)
	for range 3 {
		c.refused("404 NOT_FOUND - no queue 'none.such' in vhost '/'", "queue.declare", "none.such", true)
	}
	c.open(2)
}

func TestA23DirectReplyToIsNoQueue(t *testing.T) {
	const replies = "amq.rabbitmq.reply-to"
	c := connect(t)
	c.call(1, "channel.close 4", "queue.bind", replies, "amq.direct", "k")
	c.reopen(1)
	c.refused("406 PRECONDITION_FAILED - reply consumer cannot acknowledge", "basic.consume", replies, "t")
	c.publishWith("", "anywhere", props{ReplyTo: replies}, "m")
	c.want("channel.close 406 PRECONDITION_FAILED - fast reply consumer does not exist")
	c.reopen(1)
	c.call(1, "basic.consume-ok t", "basic.consume", replies, "t", false, true)
	c.refused("406 PRECONDITION_FAILED - reply consumer already set", "basic.consume", replies, "u", false, true)
}

func TestA24DeletingWhatIsMissingIsFine(t *testing.T) {
	c := connect(t)
	c.call(1, "queue.delete-ok 0", "queue.delete", "none.such")
	c.call(1, "exchange.delete-ok", "exchange.delete", "none.such")
	c.call(1, "queue.delete-ok 0", "queue.delete", "none.such")
}

func TestA27PassiveDeclareCountsReadyMessagesAndConsumers(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	for i := range 100 {
		c.publish("", q, fmt.Sprint(i))
	}
	c.routed()
	c.call(1, "basic.qos-ok", "basic.qos", 0, 50)
	c.consume(q, "t")
	for i := range 50 {
		c.delivery(fmt.Sprint(i))
	}
	c.call(1, "queue.declare-ok "+q+" 50 1", "queue.declare", q, true)
}

func TestA30DeclaringADelayQueueAgainRenewsItsLease(t *testing.T) {
	c := connect(t)
	back := c.queue(nil)
	x := c.exchange("fanout", nil)
	c.consume(back, "t")
	delay, arguments := name(t, "delay"), toQueue(back, table{"x-message-ttl": 450, "x-expires": 2000})
	for _, body := range numbers(1, 5) { // longer in all than the lease
		c.queueNamed(delay, arguments)
		c.bind(delay, x, "", nil)
		c.publish(x, "", body)
		c.delivery(body)
	}
}
