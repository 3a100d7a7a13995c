package v091

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/amqp/v091/wire/wiretest"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session"
)

func reply(channel uint16, k entry.Kind) session.Event {
	return session.Event{Kind: core.EffectReply, Command: k, Channel: channel}
}

func refused404(channel uint16) session.Event {
	return session.Event{Kind: core.EffectRefused, Command: entry.KindQueueDeclare, Code: core.CodeNotFound, Text: "no queue 'q' in vhost '/'", Channel: channel}
}

// each case feeds frames to a connection with channel 1 open.
func TestAClientThatHasUsedUpItsChannelsIsTold(t *testing.T) {
	g := newRig(t)
	g.recv.start()
	g.in(startOk("guest", "guest"), tuneOk(2, 131072, 0), connectionOpen("/"))
	for _, c := range []uint16{1, 2} {
		g.in(frame(c, &wire.ChannelOpen{}))
		g.tell(reply(c, entry.KindChannelOpen))
	}
	want(t, "a third", g.in(frame(3, &wire.ChannelOpen{})),
		`0 ConnectionClose ReplyCode=530 ReplyText="NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"`)
}

func TestMethodsBecomeCommands(t *testing.T) {
	table := []byte{1, 'k', 't', 1}
	for _, c := range []struct {
		in   wire.Method
		want string
	}{
		{&wire.ConfirmSelect{NoWait: true}, "ConfirmSelect Channel=1 NoWait=true"},
		{&wire.BasicQos{PrefetchCount: 65535, Global: true}, "Qos Channel=1 Prefetch=65535 Global=true"},
		{&wire.ExchangeDeclare{Exchange: "e", Type: "topic", Passive: true, Durable: true, AutoDelete: true, Internal: true, NoWait: true, Arguments: table},
			`ExchangeDeclare Channel=1 Name="e" Type="topic" Passive=true Durable=true AutoDelete=true Internal=true NoWait=true Arguments="\x01kt\x01"`},
		{&wire.ExchangeDelete{Exchange: "e", IfUnused: true, NoWait: true}, `ExchangeDelete Channel=1 Name="e" IfUnused=true NoWait=true`},
		{&wire.ExchangeBind{Destination: "d", Source: "s", RoutingKey: "k", NoWait: true, Arguments: table},
			`ExchangeBind Channel=1 Destination="d" Source="s" Key="k" NoWait=true Arguments="\x01kt\x01"`},
		{&wire.ExchangeUnbind{Destination: "d", Source: "s", RoutingKey: "k"}, `ExchangeUnbind Channel=1 Destination="d" Source="s" Key="k"`},
		{&wire.QueueDeclare{Queue: "q", Passive: true, Durable: true, Exclusive: true, AutoDelete: true, NoWait: true, Arguments: table},
			`QueueDeclare Channel=1 Name="q" Passive=true Durable=true Exclusive=true AutoDelete=true NoWait=true Arguments="\x01kt\x01"`},
		{&wire.QueueDeclare{}, `QueueDeclare Channel=1 Name="amq.gen-name1" Generated=true`},
		{&wire.QueueDeclare{Passive: true}, `QueueDeclare Channel=1 Passive=true`},
		{&wire.QueueDelete{Queue: "q", IfUnused: true, IfEmpty: true, NoWait: true}, `QueueDelete Channel=1 Name="q" IfUnused=true IfEmpty=true NoWait=true`},
		{&wire.QueuePurge{Queue: "q", NoWait: true}, `QueuePurge Channel=1 Name="q" NoWait=true`},
		{&wire.QueueBind{Queue: "q", Exchange: "e", RoutingKey: "k", NoWait: true}, `QueueBind Channel=1 Destination="q" Source="e" Key="k" NoWait=true`},
		{&wire.QueueUnbind{Queue: "q", Exchange: "e", RoutingKey: "k"}, `QueueUnbind Channel=1 Destination="q" Source="e" Key="k"`},
		{&wire.BasicConsume{Queue: "q", ConsumerTag: "t", NoLocal: true, NoAck: true, Exclusive: true, NoWait: true},
			`Consume Channel=1 Queue="q" Tag="t" NoLocal=true NoAck=true Exclusive=true NoWait=true`},
		{&wire.BasicConsume{Queue: "q", NoWait: true}, `Consume Channel=1 Queue="q" Tag="amq.ctag-name1" NoWait=true`},
		{&wire.BasicCancel{ConsumerTag: "t", NoWait: true}, `Cancel Channel=1 Tag="t" NoWait=true`},
		{&wire.BasicGet{Queue: "q", NoAck: true}, `Get Channel=1 Queue="q" NoAck=true`},
		{&wire.BasicRecover{Requeue: true}, "Recover Channel=1 Requeue=true"},
		{&wire.BasicRecoverAsync{Requeue: true}, "Recover Channel=1 Requeue=true NoWait=true"},
		{&wire.BasicAck{DeliveryTag: 7, Multiple: true}, "Settle 1 outcome=0 multiple=true 0..7"},
		{&wire.BasicNack{DeliveryTag: 7}, "Settle 1 outcome=129 multiple=false 7..7"},
		{&wire.BasicNack{DeliveryTag: 7, Multiple: true, Requeue: true}, "Settle 1 outcome=2 multiple=true 0..7"},
		{&wire.BasicReject{DeliveryTag: 7}, "Settle 1 outcome=1 multiple=false 7..7"},
		{&wire.BasicReject{DeliveryTag: 7, Requeue: true}, "Settle 1 outcome=3 multiple=false 7..7"},
		{&wire.ChannelClose{ReplyCode: 200}, "ChannelClose Channel=1 Reply=true"},
	} {
		g := opened(t, 1)
		want(t, "frames back for "+wiretest.Show(c.in), g.in(frame(1, c.in)))
		want(t, wiretest.Show(c.in), g.commands(), c.want)
	}
}

func TestRepliesBecomeMethods(t *testing.T) {
	for _, c := range []struct {
		in   session.Event
		want string
	}{
		{reply(1, entry.KindChannelClose), "1 ChannelCloseOk"},
		{reply(1, entry.KindConfirmSelect), "1 ConfirmSelectOk"},
		{reply(1, entry.KindQos), "1 BasicQosOk"},
		{reply(1, entry.KindExchangeDeclare), "1 ExchangeDeclareOk"},
		{reply(1, entry.KindExchangeDelete), "1 ExchangeDeleteOk"},
		{reply(1, entry.KindExchangeBind), "1 ExchangeBindOk"},
		{reply(1, entry.KindExchangeUnbind), "1 ExchangeUnbindOk"},
		{reply(1, entry.KindQueueBind), "1 QueueBindOk"},
		{reply(1, entry.KindQueueUnbind), "1 QueueUnbindOk"},
		{reply(1, entry.KindRecover), "1 BasicRecoverOk"},
		{session.Event{Kind: core.EffectReply, Command: entry.KindQueueDeclare, Channel: 1, Name: "q", Messages: 3, Consumers: 4}, `1 QueueDeclareOk Queue="q" MessageCount=3 ConsumerCount=4`},
		{session.Event{Kind: core.EffectReply, Command: entry.KindQueueDelete, Channel: 1, Messages: 3}, "1 QueueDeleteOk MessageCount=3"},
		{session.Event{Kind: core.EffectReply, Command: entry.KindQueuePurge, Channel: 1, Messages: 3}, "1 QueuePurgeOk MessageCount=3"},
		{session.Event{Kind: core.EffectReply, Command: entry.KindConsume, Channel: 1, Name: "t"}, `1 BasicConsumeOk ConsumerTag="t"`},
		{session.Event{Kind: core.EffectReply, Command: entry.KindCancel, Channel: 1, Name: "t"}, `1 BasicCancelOk ConsumerTag="t"`},
		{session.Event{Kind: core.EffectGetEmpty, Channel: 1}, "1 BasicGetEmpty"},
	} {
		want(t, c.want, opened(t, 1).tell(c.in), c.want)
	}
}

func TestFaultsOfMethodsCloseTheConnection(t *testing.T) {
	deep := []byte{}
	for range 10000 {
		deep = append(append([]byte{1, 'k', 'F'}, be32(len(deep))...), deep...)
		if len(deep) > 60000 {
			break
		}
	}
	voids := append(append([]byte{1, 'k', 'A'}, be32(100000)...), bytes.Repeat([]byte{'V'}, 100000)...)
	long := append([]byte{0, 60, 0, 40, 0, 0, 0, 10000 % 256}, strings.Repeat("k", 10000)...)
	for _, c := range []struct {
		name string
		in   []byte
		want string
	}{
		{"06 frame length of 4 GiB", []byte{1, 0, 1, 0xff, 0xff, 0xff, 0xff}, `ReplyCode=501 ReplyText="FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,4294967295,131072}"`},
		{"07 wrong end octet", append(raw(8, 0, nil)[:7], 0), `ReplyCode=501 ReplyText="FRAME_ERROR - type 8, all octets = <<>>: {invalid_frame_end_marker,0}"`},
		{"08 unknown frame type", raw(7, 1, nil), "ReplyCode=501"},
		{"B6 heartbeat on channel 1", raw(8, 1, nil), "ReplyCode=505"},
		{"11 method on a channel never opened", frame(2, &wire.QueueDeclare{}), `ReplyCode=504 ReplyText="CHANNEL_ERROR - expected 'channel.open'" ClassID=50 MethodID=10`},
		{"11 content on a channel never opened", bodyOf(2, "x"), "ReplyCode=504"},
		{"11 close-ok on a channel never opened", frame(2, &wire.ChannelCloseOk{}), "ReplyCode=504"},
		{"12 channel above channel_max", frame(2048, &wire.ChannelOpen{}), `ReplyCode=504 ReplyText="CHANNEL_ERROR - channel number 2048 is higher than the negotiated channel_max (2047)" ClassID=20 MethodID=10`},
		{"B14 channel.open twice", frame(1, &wire.ChannelOpen{}), `ReplyCode=504 ReplyText="CHANNEL_ERROR - second 'channel.open' seen" ClassID=20 MethodID=10`},
		{"19 field table longer than the frame", raw(1, 1, []byte{0, 50, 0, 10, 0, 0, 1, 'q', 0, 0xff, 0xff, 0xff, 0xff}), "SYNTAX_ERROR - queue.declare: arguments are cut short"},
		{"19 value longer than the field table", frame(1, &wire.QueueDeclare{Queue: "q", Arguments: []byte{1, 'k', 'S', 0x7f, 0xff, 0xff, 0xff}}), "ReplyCode=502"},
		{"20 table nested without end", frame(1, &wire.QueueDeclare{Queue: "q", Arguments: deep}), "ReplyCode=502"},
		{"21 table of ever so many voids", frame(1, &wire.QueueDeclare{Queue: "q", Arguments: voids}), "ReplyCode=502"},
		{"A18 routing key whose length wrapped", raw(1, 1, long), `ReplyCode=501 ReplyText="FRAME_ERROR - basic.publish: octets follow the last argument" ClassID=60 MethodID=40`},
		{"unknown method", raw(1, 1, []byte{0, 99, 0, 99}), `ReplyCode=503 ReplyText="COMMAND_INVALID - unimplemented method" ClassID=99 MethodID=99`},
		{"unknown method of the connection", raw(1, 0, []byte{0, 99, 0, 99}), "COMMAND_INVALID - unimplemented method"},
		{"server's own method", frame(1, &wire.BasicDeliver{}), "COMMAND_INVALID - unimplemented method"},
		{"connection method on a channel", frame(1, &wire.ConnectionOpen{}), "COMMAND_INVALID - unimplemented method"},
		{"channel method on channel 0", frame(0, &wire.QueueDeclare{}), `ReplyCode=504 ReplyText="CHANNEL_ERROR - unexpected method in connection state running"`},
		{"channel.open on channel 0", frame(0, &wire.ChannelOpen{}), "ReplyCode=504"},
		{"content on channel 0", bodyOf(0, "x"), "ReplyCode=505"},
		{"method frame of nothing", raw(1, 1, nil), "ReplyCode=501"},
		{"close-ok without a close", frame(1, &wire.ChannelCloseOk{}), "ReplyCode=503"},
		{"connection.close-ok without a close", frame(0, &wire.ConnectionCloseOk{}), "ReplyCode=503"},
		{"prefetch_size", frame(1, &wire.BasicQos{PrefetchSize: 9}), `ReplyCode=540 ReplyText="NOT_IMPLEMENTED - prefetch_size!=0 (9)" ClassID=60 MethodID=10`},
		{"immediate", frame(1, &wire.BasicPublish{Immediate: true}), `NOT_IMPLEMENTED - immediate=true`},
		{"flow off", frame(1, &wire.ChannelFlow{}), `NOT_IMPLEMENTED - active=false`},
		{"recover without requeue", frame(1, &wire.BasicRecover{}), `NOT_IMPLEMENTED - requeue=false`},
		{"recover-async without requeue", frame(1, &wire.BasicRecoverAsync{}), `NOT_IMPLEMENTED - requeue=false`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := opened(t, 1)
			g.recv.input(c.in)
			got := g.frames()
			if len(got) != 1 || !strings.HasPrefix(got[0], "0 ConnectionClose ") || !strings.Contains(got[0], c.want) {
				t.Errorf("got %q, want %s", got, c.want)
			}
			want(t, "commands", g.commands())
			want(t, "what follows is discarded", g.in(publish(1, "", "q", "x"), frame(0, &wire.ConnectionCloseOk{})))
			want(t, "commands of what follows", g.commands())
			if g.recv.phase != finished {
				t.Errorf("after close-ok the connection is %s", g.recv.phase)
			}
		})
	}
}

func TestWhatCameBeforeAFaultCounts(t *testing.T) {
	for name, bad := range map[string][]byte{"broken stream": raw(7, 1, nil), "method": frame(9, &wire.BasicGet{})} {
		g := opened(t, 1)
		g.recv.input(slices.Concat(publish(1, "", "q", "x"), frame(1, &wire.BasicAck{DeliveryTag: 1}), bad))
		want(t, name, g.commands(), `Publish 1 mandatory=false fragmented=false "" "q" "\x00\x00" "x" of 1`, "Settle 1 outcome=0 multiple=false 1..1")
	}
}

func be32(n int) []byte { return []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)} }

func TestMethodsThatAreAnsweredOnTheSpot(t *testing.T) {
	g := opened(t, 1)
	want(t, "B20 update-secret", g.in(frame(0, &wire.ConnectionUpdateSecret{NewSecret: []byte("s")})), "0 ConnectionUpdateSecretOk")
	want(t, "cancel-ok of a notified client", g.in(frame(1, &wire.BasicCancelOk{ConsumerTag: "t"})))
	want(t, "heartbeat", g.in(raw(8, 0, nil)))
	want(t, "commands", g.commands())
}

func TestWhatTheEndpointAnswersKeepsItsPlaceAmongTheMachinesAnswers(t *testing.T) {
	g := opened(t, 1)
	g.in(frame(1, &wire.ChannelFlow{Active: true}), frame(1, &wire.BasicQos{}), frame(1, &wire.AccessRequest{Realm: "/data"}))
	want(t, "answers", g.tell(status(1), reply(1, entry.KindQos), status(1)), "1 ChannelFlowOk Active=true", "1 BasicQosOk", "1 AccessRequestOk Ticket=1")
	g.in(frame(1, &wire.QueueDeclare{Queue: "q"}), frame(1, &wire.QueueBind{Queue: "q", Exchange: "e"}), frame(1, &wire.ChannelFlow{Active: true}))
	want(t, "answers of every kind", g.tell(reply(1, entry.KindQueueDeclare), reply(1, entry.KindQueueBind), status(1)),
		"1 QueueDeclareOk", "1 QueueBindOk", "1 ChannelFlowOk Active=true")
	g.out.push([]session.Event{refused404(1)}) // not sent yet
	want(t, "none behind a channel.close", g.in(frame(1, &wire.ChannelFlow{Active: true})),
		`1 ChannelClose ReplyCode=404 ReplyText="NOT_FOUND - no queue 'q' in vhost '/'" ClassID=50 MethodID=10`)
}

func TestEmptyQueueNameIsTheOneDeclaredLast(t *testing.T) {
	g := opened(t, 1, 2)
	g.in(frame(1, &wire.QueueDeclare{}), frame(2, &wire.QueueDeclare{Queue: "other"}),
		frame(1, &wire.QueueBind{Exchange: "e"}), frame(1, &wire.QueueBind{Exchange: "e", RoutingKey: "k"}),
		frame(1, &wire.QueueUnbind{Exchange: "e"}), frame(1, &wire.BasicConsume{ConsumerTag: "t"}), frame(1, &wire.BasicGet{}),
		frame(1, &wire.QueuePurge{}), frame(1, &wire.QueueDelete{}))
	want(t, "commands", g.commands(),
		`QueueDeclare Channel=1 Name="amq.gen-name1" Generated=true`,
		`QueueDeclare Channel=2 Name="other"`,
		`QueueBind Channel=1 Destination="amq.gen-name1" Source="e" Key="amq.gen-name1"`,
		`QueueBind Channel=1 Destination="amq.gen-name1" Source="e" Key="k"`,
		`QueueUnbind Channel=1 Destination="amq.gen-name1" Source="e" Key="amq.gen-name1"`,
		`Consume Channel=1 Queue="amq.gen-name1" Tag="t"`,
		`Get Channel=1 Queue="amq.gen-name1"`,
		`QueuePurge Channel=1 Name="amq.gen-name1"`,
		`QueueDelete Channel=1 Name="amq.gen-name1"`)
}

func TestEmptyQueueNameWithoutADeclaredQueueIsNotFound(t *testing.T) {
	for _, m := range []wire.Method{
		&wire.QueueBind{Exchange: "e"}, &wire.QueueUnbind{Exchange: "e"}, &wire.QueuePurge{}, &wire.QueueDelete{}, &wire.BasicGet{}, &wire.BasicConsume{},
	} {
		g := opened(t, 1)
		got := g.in(frame(1, m))
		if len(got) != 1 || !strings.HasPrefix(got[0], `1 ChannelClose ReplyCode=404 ReplyText="NOT_FOUND - no previously declared queue"`) {
			t.Errorf("%s: %q", m.ID(), got)
		}
		want(t, "the channel is closed in the machine", g.commands(), "ChannelClose Channel=1 Reply=true")
	}
}

func Test22_NamesThatNobodyCouldReadAreRefused(t *testing.T) {
	for _, name := range []string{"a\x00b", "bell\a", "\xff\xfe", "tab\t"} {
		for _, m := range []wire.Method{
			&wire.QueueDeclare{Queue: name}, &wire.ExchangeDeclare{Exchange: name, Type: "direct"}, &wire.BasicConsume{Queue: "q", ConsumerTag: name},
		} {
			g := opened(t, 1)
			got := g.in(frame(1, m))
			if len(got) != 1 || !strings.HasPrefix(got[0], `1 ChannelClose ReplyCode=406 ReplyText="PRECONDITION_FAILED - invalid `) {
				t.Errorf("%s %q: %q", m.ID(), name, got)
			}
		}
	}
}

func Test22_NamesOfAnyScriptAndOpaqueRoutingKeysAreTaken(t *testing.T) {
	g := opened(t, 1)
	name := strings.Repeat("\U0001F430", 63) + "\r\n"
	want(t, "frames", g.in(frame(1, &wire.QueueDeclare{Queue: name}), frame(1, &wire.QueueBind{Queue: name, Exchange: "e", RoutingKey: "\x00\xff"}),
		publish(1, "e", "\x00\xff", "")))
	if n := len(g.commands()); n != 3 {
		t.Errorf("%d commands", n)
	}
}

func TestRefusalOfTheMachineClosesTheChannel(t *testing.T) {
	g := opened(t, 1)
	want(t, "close", g.tell(refused404(1), session.Event{Kind: core.EffectConfirmed, Channel: 1, Count: 1}, reply(1, entry.KindQos)),
		`1 ChannelClose ReplyCode=404 ReplyText="NOT_FOUND - no queue 'q' in vhost '/'" ClassID=50 MethodID=10`)
}

func TestHardRefusalOfTheMachineClosesTheConnection(t *testing.T) {
	g := opened(t, 1)
	e := session.Event{Kind: core.EffectRefused, Command: entry.KindConsume, Code: core.CodeNotAllowed, Text: "attempt to reuse consumer tag 't'", Channel: 1}
	want(t, "close", g.tell(e, reply(1, entry.KindQos)),
		`0 ConnectionClose ReplyCode=530 ReplyText="NOT_ALLOWED - attempt to reuse consumer tag 't'" ClassID=60 MethodID=20`)
	want(t, "what follows is discarded", g.in(frame(1, &wire.QueueDeclare{Queue: "q"}), frame(0, &wire.ConnectionCloseOk{})))
	want(t, "commands", g.commands())
	if g.recv.phase != finished {
		t.Errorf("the connection is %s", g.recv.phase)
	}
}

func TestB12_FramesInFlightToARefusedChannelAreDiscarded(t *testing.T) {
	g := opened(t, 1, 2)
	g.tell(refused404(1))
	g.in(publish(1, "", "q", "lost"), frame(1, &wire.BasicAck{DeliveryTag: 1}), frame(1, &wire.BasicQos{PrefetchSize: 1}),
		frame(1, &wire.ChannelFlow{}), raw(1, 1, []byte{0, 60, 0, 80}), bodyOf(1, "x"), frame(2, &wire.BasicGet{Queue: "q"}), frame(1, &wire.ChannelCloseOk{}))
	want(t, "commands", g.commands(), `Get Channel=2 Queue="q"`, "ChannelClose Channel=1")
}

func TestB13_ChannelIsOpenedAnewAfterCloseOk(t *testing.T) {
	g := opened(t, 1)
	g.tell(refused404(1))
	want(t, "frames", g.in(frame(1, &wire.ChannelCloseOk{}), frame(1, &wire.ChannelOpen{})))
	want(t, "commands", g.commands(), "ChannelClose Channel=1", "ChannelOpen Channel=1")
	want(t, "events of the channel before are not told", g.tell(reply(1, entry.KindQos), reply(1, entry.KindChannelOpen), reply(1, entry.KindQos)),
		"1 ChannelOpenOk", "1 BasicQosOk")
}

func TestB13_ChannelOpenWithoutCloseOkIsRefused(t *testing.T) {
	for name, refuse := range map[string]func(*rig){
		"by the machine":  func(g *rig) { g.tell(refused404(1)) },
		"by the endpoint": func(g *rig) { g.in(frame(1, &wire.BasicGet{})) },
	} {
		g := opened(t, 1)
		refuse(g)
		want(t, name, g.in(frame(1, &wire.ChannelOpen{})),
			`0 ConnectionClose ReplyCode=504 ReplyText="CHANNEL_ERROR - second 'channel.open' seen" ClassID=20 MethodID=10`)
	}
}

func TestClosesThatCrossAreBothAnswered(t *testing.T) {
	g := opened(t, 1)
	g.tell(refused404(1))
	g.in(frame(1, &wire.ChannelClose{ReplyCode: 200}))
	want(t, "commands", g.commands(), "ChannelClose Channel=1 Reply=true")
	want(t, "answer", g.tell(reply(1, entry.KindChannelClose)), "1 ChannelCloseOk")
	want(t, "late close-ok and a new open", g.in(frame(1, &wire.ChannelCloseOk{}), frame(1, &wire.ChannelOpen{})))
	want(t, "commands", g.commands(), "ChannelOpen Channel=1")
}

func TestCloseThatCrossesARefusalOfTheEndpointIsAnswered(t *testing.T) {
	g := opened(t, 1)
	g.feed(frame(1, &wire.BasicGet{}), frame(1, &wire.ChannelClose{ReplyCode: 200}))
	want(t, "commands", g.commands(), "ChannelClose Channel=1 Reply=true", "ChannelClose Channel=1 Reply=true")
	want(t, "answers", g.tell(reply(1, entry.KindChannelClose), reply(1, entry.KindChannelClose)),
		`1 ChannelClose ReplyCode=404 ReplyText="NOT_FOUND - no previously declared queue" ClassID=60 MethodID=70`, "1 ChannelCloseOk")
	want(t, "late close-ok", g.in(frame(1, &wire.ChannelCloseOk{})))
	want(t, "nothing more for the machine", g.commands())
}

func TestARefusalOfTheEndpointComesBehindTheAnswersToWhatWasSentBefore(t *testing.T) {
	g := opened(t, 1)
	g.feed(frame(1, &wire.ConfirmSelect{}), publish(1, "", "q", "x"), frame(1, &wire.BasicGet{}))
	want(t, "too early", g.frames())
	confirmed := session.Event{Kind: core.EffectConfirmed, Channel: 1, Count: 1}
	want(t, "in order", g.tell(reply(1, entry.KindConfirmSelect), confirmed, reply(1, entry.KindChannelClose)),
		"1 ConfirmSelectOk", "1 BasicAck DeliveryTag=1",
		`1 ChannelClose ReplyCode=404 ReplyText="NOT_FOUND - no previously declared queue" ClassID=60 MethodID=70`)
}

// The client has answered a refusal and opened the channel again, with a fault right behind, before the machine has opened it.
func TestARefusalOnAChannelThatIsBeingOpenedAgainIsTold(t *testing.T) {
	g := opened(t, 1)
	g.tell(refused404(1))
	g.feed(frame(1, &wire.ChannelCloseOk{}), frame(1, &wire.ChannelOpen{}), frame(1, &wire.BasicGet{}))
	want(t, "in order", append(g.frames(), g.tell(reply(1, entry.KindChannelOpen), reply(1, entry.KindChannelClose))...), "1 ChannelOpenOk",
		`1 ChannelClose ReplyCode=404 ReplyText="NOT_FOUND - no previously declared queue" ClassID=60 MethodID=70`)
}

func TestOneChannelCloseForTwoRefusalsThatCross(t *testing.T) {
	g := opened(t, 1)
	g.out.push([]session.Event{refused404(1)}) // not sent yet when the endpoint refuses something too
	got := g.in(frame(1, &wire.BasicGet{}))
	want(t, "frames", got, `1 ChannelClose ReplyCode=404 ReplyText="NOT_FOUND - no queue 'q' in vhost '/'" ClassID=50 MethodID=10`)
}

func TestOneChannelCloseForTwoRefusals(t *testing.T) {
	g := opened(t, 1)
	first := g.in(frame(1, &wire.BasicGet{}))
	want(t, "the machine's comes later", g.tell(refused404(1)))
	if len(first) != 1 {
		t.Errorf("%q", first)
	}
}

func TestClosedChannelTakesOnlyAnOpen(t *testing.T) {
	g := opened(t, 1)
	g.in(frame(1, &wire.ChannelClose{ReplyCode: 200}))
	g.tell(reply(1, entry.KindChannelClose))
	want(t, "publish", g.in(publish(1, "", "q", "x")),
		`0 ConnectionClose ReplyCode=504 ReplyText="CHANNEL_ERROR - expected 'channel.open'" ClassID=60 MethodID=40`)
}

func TestConnectionCloseEndsTheSessionBeforeItIsAnswered(t *testing.T) {
	g := opened(t, 1)
	got := g.in(frame(1, &wire.BasicAck{DeliveryTag: 1}), frame(0, &wire.ConnectionClose{ReplyCode: 200}), frame(1, &wire.BasicAck{DeliveryTag: 2}))
	want(t, "answer", got, "0 ConnectionCloseOk")
	want(t, "commands", g.commands(), "Settle 1 outcome=0 multiple=false 1..1")
	if g.session.ended != "end" || g.recv.phase != finished {
		t.Errorf("session %q, connection %s", g.session.ended, g.recv.phase)
	}
}

func TestReplyTextIsCutTo255OctetsAndSaysSo(t *testing.T) {
	g := opened(t, 1)
	e := refused404(1)
	e.Text = strings.Repeat("x", 300)
	if got := g.tell(e); len(got) != 1 || !strings.Contains(got[0], `"NOT_FOUND - `+strings.Repeat("x", 240)+`..."`) {
		t.Errorf("%q", got)
	}
}
