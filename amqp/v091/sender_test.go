package v091

import (
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
)

func record(exchange, key, body string) []byte {
	r := message.Record{Form: message.FormAMQP091, Exchange: []byte(exchange), RoutingKey: []byte(key), Properties: []byte{0, 0}, BodySize: uint64(len(body))}
	return append(message.AppendRecord(nil, &r), body...)
}

func delivery(channel uint16, tag uint64, body string) session.Event {
	r := record("ex", "key", body)
	return session.Event{Kind: core.EffectDelivered, Channel: channel, Tag: tag, Name: "ctag", Content: core.Content{Number: tag, Record: r, Size: uint32(len(r))}}
}

func confirmed(channel uint16, n uint32) session.Event {
	return session.Event{Kind: core.EffectConfirmed, Channel: channel, Count: n}
}

func nacked(channel uint16, n uint32) session.Event {
	return session.Event{Kind: core.EffectNacked, Channel: channel, Count: n}
}

func returned(channel uint16, body string) session.Event {
	return session.Event{Kind: core.EffectReturned, Channel: channel, Content: core.Content{Record: record("ex", "key", body)}}
}

func TestDeliveryBecomesFrames(t *testing.T) {
	g := opened(t, 1)
	e := delivery(1, 7, "hello")
	e.Redelivered = true
	want(t, "frames", g.tell(e), `1 BasicDeliver ConsumerTag="ctag" DeliveryTag=7 Redelivered=true Exchange="ex" RoutingKey="key"`,
		`1 header 5 "\x00\x00"`, `1 body "hello"`)
}

func TestEmptyBodyHasNoBodyFrame(t *testing.T) {
	g := opened(t, 1)
	want(t, "frames", g.tell(delivery(1, 1, "")), `1 BasicDeliver ConsumerTag="ctag" DeliveryTag=1 Exchange="ex" RoutingKey="key"`, `1 header 0 "\x00\x00"`)
}

func TestGetIsAnswered(t *testing.T) {
	g := opened(t, 1)
	e := delivery(1, 3, "x")
	e.Kind, e.Messages = core.EffectGot, 9
	want(t, "frames", g.tell(e), `1 BasicGetOk DeliveryTag=3 Exchange="ex" RoutingKey="key" MessageCount=9`, `1 header 1 "\x00\x00"`, `1 body "x"`)
}

func TestB4_BodiesAreSplitAtFrameMax(t *testing.T) {
	for size, frames := range map[int][]int{4087: {4087}, 4088: {4088}, 4089: {4088, 1}, 8176: {4088, 4088}, 8177: {4088, 4088, 1}} {
		g := opened(t, 1)
		g.send.frameMax = 4096
		got := g.tell(delivery(1, 1, strings.Repeat("b", size)))[2:]
		if len(got) != len(frames) {
			t.Errorf("%d octets went in %d body frames, want %d", size, len(got), len(frames))
		}
	}
}

func TestFragmentedBodyIsSentWhole(t *testing.T) {
	g := opened(t, 1)
	r := message.Record{Form: message.FormAMQP091, Properties: []byte{0, 0}, BodySize: 9}
	g.session.parts = [][]byte{[]byte("abc"), []byte("def")}
	e := session.Event{Kind: core.EffectDelivered, Channel: 1, Tag: 1, Content: core.Content{
		Record: append(message.AppendRecord(nil, &r), "ghi"...), Parts: make([]message.Part, 2),
	}}
	want(t, "frames", g.tell(e)[1:], `1 header 9 "\x00\x00"`, `1 body "abc"`, `1 body "def"`, `1 body "ghi"`)
}

func TestConfirmsAreCountedFromOneOnEachChannel(t *testing.T) {
	g := opened(t, 1, 2)
	want(t, "one", g.tell(confirmed(1, 1)), "1 BasicAck DeliveryTag=1")
	want(t, "a run", g.tell(confirmed(1, 3), confirmed(2, 1), confirmed(1, 2)), "1 BasicAck DeliveryTag=6 Multiple=true", "2 BasicAck DeliveryTag=1")
	want(t, "nacks", g.tell(confirmed(1, 1), nacked(1, 1), confirmed(1, 1), nacked(1, 3)),
		"1 BasicAck DeliveryTag=7", "1 BasicNack DeliveryTag=8", "1 BasicAck DeliveryTag=9", "1 BasicNack DeliveryTag=12 Multiple=true")
	g.tell(reply(1, entry.KindChannelClose))
	want(t, "anew", g.tell(reply(1, entry.KindChannelOpen), confirmed(1, 1)), "1 ChannelOpenOk", "1 BasicAck DeliveryTag=1")
}

func TestD1_ConfirmDoesNotOvertakeItsReturn(t *testing.T) {
	g := opened(t, 1)
	got := g.tell(confirmed(1, 1), returned(1, "lost"), confirmed(1, 1), returned(1, "lost too"), confirmed(1, 1))
	want(t, "frames", got,
		`1 BasicReturn ReplyCode=312 ReplyText="NO_ROUTE" Exchange="ex" RoutingKey="key"`, `1 header 4 "\x00\x00"`, `1 body "lost"`,
		`1 BasicReturn ReplyCode=312 ReplyText="NO_ROUTE" Exchange="ex" RoutingKey="key"`, `1 header 8 "\x00\x00"`, `1 body "lost too"`,
		"1 BasicAck DeliveryTag=3 Multiple=true")
}

func TestRepliesDoNotOvertakeConfirms(t *testing.T) {
	g := opened(t, 1)
	want(t, "frames", g.tell(confirmed(1, 2), reply(1, entry.KindChannelClose)), "1 BasicAck DeliveryTag=2 Multiple=true", "1 ChannelCloseOk")
}

func TestConfirmsPrecedeTheChannelCloseOfALaterRefusal(t *testing.T) {
	g := opened(t, 1)
	got := g.tell(confirmed(1, 2), refused404(1), confirmed(1, 1), delivery(1, 1, "x"), returned(1, "x"), nacked(1, 1))
	if len(got) != 2 || got[0] != "1 BasicAck DeliveryTag=2 Multiple=true" || !strings.HasPrefix(got[1], "1 ChannelClose ") {
		t.Errorf("%q", got)
	}
}

func TestConsumerCancelIsToldOnlyToClientsThatAskedForIt(t *testing.T) {
	e := session.Event{Kind: core.EffectConsumerCancelled, Channel: 1, Name: "t"}
	g := opened(t, 1)
	want(t, "capable client", g.tell(e), `1 BasicCancel ConsumerTag="t" NoWait=true`)
	g.recv.describe(clientProperties(false))
	want(t, "other client", g.tell(e))
}

func TestNothingFollowsConnectionClose(t *testing.T) {
	g := opened(t, 1)
	e := refused404(1)
	e.Code = core.CodeNotAllowed
	if got := g.tell(confirmed(1, 1), e, confirmed(1, 1), reply(1, entry.KindQos), delivery(1, 1, "x"), e); len(got) != 2 {
		t.Errorf("%q", got)
	}
	if err := g.send.heartbeat(); err != nil || g.wrote.Len() > 0 {
		t.Errorf("a heartbeat followed: %d octets, %v", g.wrote.Len(), err)
	}
}

func TestWrittenIsReportedForManyDeliveriesAtOnce(t *testing.T) {
	g := opened(t, 1, 2)
	g.session.forget()
	var events []session.Event
	for i := range uint64(reportCount - 1) {
		e := delivery(1, i+1, "x")
		e.NoAck = true
		events = append(events, e)
	}
	g.tell(events...)
	want(t, "below the bound", g.commands())
	last := delivery(1, reportCount, "x")
	last.Windowed = true
	g.tell(last, delivery(2, 1, "not reported"))
	want(t, "at the bound", g.commands(), "Written 1 500")
	big := delivery(1, 501, strings.Repeat("x", reportBytes))
	big.NoAck = true
	g.tell(big)
	want(t, "one big delivery", g.commands(), "Written 1 501")
}

func TestWrittenOfFewDeliveriesIsReportedOnTheTick(t *testing.T) {
	g := opened(t, 1, 2)
	e := delivery(1, 1, "x")
	e.NoAck = true
	other := delivery(2, 5, "x")
	other.Kind, other.NoAck = core.EffectGot, true
	g.tell(e, other)
	if err := g.send.reported(true); err != nil {
		t.Fatal(err)
	}
	want(t, "tick", g.commands(), "Written 1 1", "Written 2 5")
	if err := g.send.reported(true); err != nil || len(g.send.reports) > 0 {
		t.Errorf("still to report: %v, %v", g.send.reports, err)
	}
	want(t, "second tick", g.commands())
}

func TestClosedChannelReportsNothing(t *testing.T) {
	g := opened(t, 1)
	e := delivery(1, 1, "x")
	e.NoAck = true
	g.tell(e, reply(1, entry.KindChannelClose))
	if err := g.send.reported(true); err != nil {
		t.Fatal(err)
	}
	want(t, "commands", g.commands())
}

func TestRecordsBeyondTheBoundAreReadWhenTheirTurnComes(t *testing.T) {
	g := opened(t, 1)
	body := strings.Repeat("x", 1<<20)
	var events []session.Event
	g.session.content = map[uint64][]byte{}
	for i := range uint64(6) {
		events = append(events, delivery(1, i+1, body))
		g.session.content[i+1] = events[i].Record
	}
	g.out.push(events)
	kept := 0
	for i := range g.out.events {
		kept += len(g.out.events[i].Record)
	}
	if kept > recordsKeptBytes || kept < recordsKeptBytes/2 {
		t.Errorf("%d bytes of records are kept, bound %d", kept, recordsKeptBytes)
	}
	delivered := 0
	for _, f := range g.frames() {
		if strings.HasPrefix(f, "1 BasicDeliver") {
			delivered++
		}
	}
	if delivered != 6 {
		t.Errorf("%d of 6 were delivered", delivered)
	}
}

func TestUnreadableMessageClosesTheConnection(t *testing.T) {
	g := opened(t, 1)
	e := delivery(1, 1, "x")
	e.Record = nil
	want(t, "frames", g.tell(e, confirmed(1, 1)), `0 ConnectionClose ReplyCode=541 ReplyText="INTERNAL_ERROR - cannot read message 1"`)
}

func TestUnreadableMessageOfAChannelThatTheClientClosedIsLeftOut(t *testing.T) {
	g := opened(t, 1, 2)
	g.in(frame1Close())
	e := delivery(1, 1, "x")
	e.Record = nil
	want(t, "frames", g.tell(e, confirmed(2, 1)), "2 BasicAck DeliveryTag=1")
}

func frame1Close() []byte { return frame(1, &wire.ChannelClose{ReplyCode: 200}) }

func TestDeadLetterIsRenderedAndBCCIsHidden(t *testing.T) {
	g := opened(t, 1)
	p := message.Properties{Set: message.PropHeaders | message.PropExpiration, Expiration: "5", Headers: message.AppendTable(nil, message.Table{{Key: "BCC", Value: []any{"x"}}})}
	r := message.Record{Form: message.FormAMQP091, Exchange: []byte("ex"), RoutingKey: []byte("key"), Properties: message.AppendProperties(nil, &p)}
	record := message.AppendRecord(nil, &r)
	e := session.Event{Kind: core.EffectDelivered, Channel: 1, Tag: 1, Name: "ctag", Content: core.Content{Record: record}}
	want(t, "a plain one", g.tell(e), `1 BasicDeliver ConsumerTag="ctag" DeliveryTag=1 Exchange="ex" RoutingKey="key"`,
		`1 header 0 "!\x00\x00\x00\x00\x00\x015"`)
	e.Extra = &core.Extra{Moved: true, Exchange: "dlx", RoutingKey: "new", NewKey: true, FirstQueue: "q", FirstReason: "expired",
		Deaths: []core.Death{{Queue: "q", Reason: "expired", Count: 1, Published: true}}}
	got := g.tell(e)
	want(t, "the method of a dead letter", got[:1], `1 BasicDeliver ConsumerTag="ctag" DeliveryTag=1 Exchange="dlx" RoutingKey="new"`)
	for _, field := range []string{"x-first-death-reason", "x-last-death-queue", "x-death", "original-expiration"} {
		if !strings.Contains(got[1], field) {
			t.Errorf("no %s in %s", field, got[1])
		}
	}
}
