package core_test

import (
	"fmt"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// table makes arguments.
func table(fields ...any) []byte {
	var t message.Table
	for i := 0; i < len(fields); i += 2 {
		t = append(t, message.Field{Key: fields[i].(string), Value: fields[i+1]})
	}
	return message.AppendTable(nil, t)
}

// seen is what a client sees of a delivery.
func seen(t *testing.T, e *core.Effect, record []byte) (message.Record, message.Properties, message.Table) {
	t.Helper()
	var r message.Record
	if err := message.ParseRecord(record, &r); err != nil {
		t.Fatal(err)
	}
	core.Render(&r, e.Extra)
	p, err := message.ParseProperties(r.Properties)
	if err != nil {
		t.Fatal(err)
	}
	headers, err := message.ParseTable(p.Headers)
	if err != nil {
		t.Fatal(err)
	}
	return r, p, headers
}

// dieOnce publishes a record to queue q, which dead-letters to dlq, and answers the delivery after its TTL has passed.
func dieOnce(t *testing.T, d *coretest.Driver, record []byte) core.Effect {
	t.Helper()
	d.Batch(1, &entry.Publish{Ref: ref, Record: record})
	d.Stamp += 1000
	d.Control(&entry.Tick{})
	got := d.Batch(1, &entry.Get{Ref: ref, Queue: "dlq", NoAck: true})
	if len(got) != 1 || got[0].Kind != core.EffectGot {
		t.Fatalf("nothing was dead-lettered: %v", got)
	}
	return got[0]
}

func mortal(t *testing.T, more ...any) *coretest.Driver {
	d := coretest.New(t)
	d.Stamp = 1_700_000_000_500
	d.Control(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "v1", Name: "/"})
	d.Batch(1, &entry.Attach{Vhost: "/", User: "guest"})
	d.Batch(1, &entry.ChannelOpen{Ref: ref}, &entry.ExchangeDeclare{Ref: ref, Name: "dlx", Type: "fanout"},
		&entry.QueueDeclare{Ref: ref, Name: "dlq"}, &entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: "dlx", Destination: "dlq"}},
		&entry.QueueDeclare{Ref: ref, Name: "q", Arguments: table(append([]any{"x-message-ttl", int32(1000), "x-dead-letter-exchange", "dlx"}, more...)...)},
		&entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: "amq.topic", Destination: "q", Key: "#"}})
	return d
}

func expectText(t *testing.T, what string, got any, want string) {
	t.Helper()
	if s := fmt.Sprintf("%v", got); s != want {
		t.Errorf("%s:\n got %s\nwant %s", what, s, want)
	}
}

func TestDeadLetterShowsItsDeaths(t *testing.T) {
	d := mortal(t)
	record := coretest.RecordWith(&message.Properties{Set: message.PropHeaders | message.PropExpiration | message.PropMessageID,
		Headers: table("a", "b", "CC", []any{"c1"}, "BCC", []any{"c2"}), Expiration: "900", MessageID: "id"}, "amq.topic", "k", "body")
	e := dieOnce(t, d, record)
	r, p, headers := seen(t, &e, record)
	expectText(t, "exchange, key and body", fmt.Sprintf("%s %s %s", r.Exchange, r.RoutingKey, r.Body), "dlx k body")
	expectText(t, "properties", fmt.Sprintf("%v %s", p.Has(message.PropExpiration), p.MessageID), "false id")
	expectText(t, "headers", headers, "[{a b} {CC [c1]} {x-first-death-reason expired} {x-first-death-queue q} {x-first-death-exchange amq.topic}"+
		" {x-last-death-reason expired} {x-last-death-queue q} {x-last-death-exchange amq.topic}"+
		" {x-death [[{count 1} {reason expired} {queue q} {time 1700000001} {exchange amq.topic} {routing-keys [k c1]} {original-expiration 900}]]}]")
}

func TestNewKeyOfADeadLetterReplacesCC(t *testing.T) {
	d := mortal(t, "x-dead-letter-routing-key", "new")
	record := coretest.Record("amq.topic", "k", table("CC", []any{"c1"}), "body")
	e := dieOnce(t, d, record)
	r, _, headers := seen(t, &e, record)
	_, hasCC := headers.Get("CC")
	expectText(t, "key, and is there a CC", fmt.Sprintf("%s %v", r.RoutingKey, hasCC), "new false")
}

func TestE1_RepublishedDeadLetterGoesOnCounting(t *testing.T) {
	d := mortal(t)
	record := coretest.Record("amq.topic", "k", nil, "body")
	for n := 1; n <= 3; n++ {
		e := dieOnce(t, d, record)
		_, p, headers := seen(t, &e, record)
		deaths, _ := headers.Get("x-death")
		list := deaths.([]any)
		count, _ := list[0].(message.Table).Get("count")
		first, _ := headers.Get("x-first-death-exchange")
		if len(list) != 1 || count != int64(n) || first != "amq.topic" {
			t.Fatalf("after %d deaths: %v, first by %v", n, list, first)
		}
		record = coretest.RecordWith(&p, "amq.topic", "k", "body")
	}
}

func TestB18_MalformedDeathsOfAPublisherAreReplaced(t *testing.T) {
	for _, bad := range []any{"text", int32(1), []any{"text", int32(7)}, []any{message.Table{{Key: "count", Value: int32(3)}}}, message.Table{}} {
		d := mortal(t)
		record := coretest.Record("amq.topic", "k", table("x-death", bad), "body")
		e := dieOnce(t, d, record)
		_, _, headers := seen(t, &e, record)
		deaths, _ := headers.Get("x-death")
		if list, ok := deaths.([]any); !ok || len(list) != 1 {
			t.Errorf("x-death %v became %v", bad, deaths)
		}
	}
	d := mortal(t)
	narrow := message.Table{{Key: "queue", Value: "q"}, {Key: "reason", Value: "expired"}, {Key: "count", Value: int32(3)}}
	record := coretest.Record("amq.topic", "k", table("x-death", []any{narrow}), "body")
	e := dieOnce(t, d, record)
	_, _, headers := seen(t, &e, record)
	deaths, _ := headers.Get("x-death")
	expectText(t, "a count of another width", deaths, "[[{queue q} {reason expired} {count 4}]]")
}

func TestOfManyDeathsTheLatestAreShown(t *testing.T) {
	const died, shown = 1000, 64
	extra := &core.Extra{Moved: true, FirstQueue: "c999", FirstReason: "maxlen"}
	for i := range died {
		extra.Deaths = append(extra.Deaths, core.Death{Queue: fmt.Sprint("c", i), Reason: "maxlen", Count: 1})
	}
	record := coretest.Record("", "c999", nil, "body")
	var e core.Effect
	e.Extra = extra
	_, p, headers := seen(t, &e, record)
	deaths, _ := headers.Get("x-death")
	list := deaths.([]any)
	if len(list) != shown || len(p.Headers) > 64<<10 {
		t.Fatalf("%d deaths in %d octets of headers", len(list), len(p.Headers))
	}
	for i, d := range list {
		if queue, _ := d.(message.Table).Get("queue"); queue != fmt.Sprint("c", i) {
			t.Fatalf("death %d is of %v", i, queue)
		}
	}
	first, _ := headers.Get("x-first-death-queue")
	expectText(t, "the first death", first, "c999")
}

func TestClientsNeverSeeBCC(t *testing.T) {
	record := coretest.Record("", "q", table("BCC", []any{"x"}, "a", "b"), "body")
	_, _, headers := seen(t, &core.Effect{}, record)
	expectText(t, "headers", headers, "[{a b}]")
}

func TestPlainRecordIsRenderedAsItIs(t *testing.T) {
	record := coretest.Record("ex", "k", table("a", "b"), "body")
	var r message.Record
	if err := message.ParseRecord(record, &r); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { core.Render(&r, nil) }); n != 0 {
		t.Errorf("%.0f allocations", n)
	}
	if string(append(message.AppendRecord(nil, &r), r.Body...)) != string(record) {
		t.Error("the record was changed")
	}
}

func TestE2_ChainOfManyQueuesIsWalkedWithoutRecursion(t *testing.T) {
	d := started(t)
	const n = 2000
	var cmds []entry.Command
	for i := range n {
		cmds = append(cmds, &entry.QueueDeclare{Ref: ref, Name: fmt.Sprint("c", i), NoWait: true, Arguments: table("x-max-length", int32(0),
			"x-dead-letter-exchange", "", "x-dead-letter-routing-key", fmt.Sprint("c", i+1))})
	}
	d.Batch(1, append(cmds, &entry.QueueDeclare{Ref: ref, Name: fmt.Sprint("c", n)})...)
	d.Batch(1, &entry.Publish{Ref: ref, Record: coretest.Record("", "c0", nil, "x")})
	got := d.Batch(1, &entry.Get{Ref: ref, Queue: fmt.Sprint("c", n)})
	if len(got) != 1 || got[0].Kind != core.EffectGot || len(got[0].Extra.Deaths) != n {
		t.Errorf("the end of the chain has %v", got)
	}
}

func TestQueuesThatOverflowIntoEachOtherInEveryOrderComeToAnEnd(t *testing.T) {
	d := started(t)
	d.Batch(1, &entry.ExchangeDeclare{Ref: ref, Name: "all", Type: "fanout"})
	for i := range 12 { // 12! ways
		name := fmt.Sprint("o", i)
		d.Batch(1, &entry.QueueDeclare{Ref: ref, Name: name, Arguments: table("x-max-length", int32(0), "x-dead-letter-exchange", "all")},
			&entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: "all", Destination: name}})
	}
	d.Batch(1, &entry.Publish{Ref: ref, Record: coretest.Record("", "o0", nil, "x")})
	if live := d.Live(); live != 0 {
		t.Errorf("%d references are left", live)
	}
}

func TestAMillionMessagesThatExpireTogetherGoInPieces(t *testing.T) {
	d := mortal(t)
	var cmds []entry.Command
	for range 12_000 {
		cmds = append(cmds, &entry.Publish{Ref: ref, Record: coretest.Record("", "q", nil, "x")})
	}
	d.Batch(1, cmds...)
	d.Stamp += 1000
	for ticks, left := 0, len(cmds); left != 0; ticks++ {
		if ticks > 5 || d.Machine.NextDeadline() > d.Stamp {
			t.Fatalf("after %d ticks %d messages are left", ticks, left)
		}
		d.Control(&entry.Tick{})
		for _, q := range d.Machine.Queues("/") {
			if q.Name == "q" {
				if left-q.Ready > 6000 {
					t.Fatalf("one tick dropped %d messages", left-q.Ready)
				}
				left = q.Ready
			}
		}
	}
}
