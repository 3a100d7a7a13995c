package v091

import (
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/amqp/v091/wire/wiretest"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
)

// named is a rig whose connection is attached to a named session with channels open.
func named(t *testing.T, grant session.Grant, channels ...uint16) *rig {
	t.Helper()
	g := newRig(t)
	g.opts.Hosts = func() []string { return []string{"a:1", "b:2"} }
	grant.Named = true
	g.session.grant = grant
	g.recv.start()
	g.in(startOk("guest", "guest"), tuneOk(2047, 131072, 0))
	want(t, "open", g.in(connectionOpen("/")), `0 ConnectionOpenOk KnownHosts="a:1,b:2"`)
	g.send.hosts = g.opts.Hosts
	for _, c := range channels {
		g.in(frame(c, &wire.ChannelOpen{}))
		g.tell(reply(c, entry.KindChannelOpen))
	}
	g.session.forget()
	return g
}

func TestTheClientsPropertiesAreAskedWithAtConnectionOpen(t *testing.T) {
	g := newRig(t)
	g.recv.start()
	g.in(startOk("guest", "guest"), tuneOk(2047, 131072, 0), connectionOpen("/"))
	if name := session.ConnectionName(g.asked.Properties); g.asked.Vhost != "/" || g.asked.User != "guest" || name != "title" {
		t.Errorf("asked %+v", g.asked)
	}
}

func TestOpenOkOfAPlainConnectionSaysNothing(t *testing.T) {
	g := newRig(t)
	g.opts.Hosts = func() []string { return []string{"a:1"} }
	g.recv.start()
	g.in(startOk("guest", "guest"), tuneOk(2047, 131072, 0))
	want(t, "open", g.in(connectionOpen("/")), "0 ConnectionOpenOk")
}

func TestKnownHostsFitAShortString(t *testing.T) {
	host := strings.Repeat("h", 99)
	if got := joinHosts([]string{host, host, host}); got != host+","+host {
		t.Errorf("%d octets", len(got))
	}
}

func TestARefusedSessionIsToldBehindOpenOk(t *testing.T) {
	for _, c := range []struct {
		code core.Code
		want string
	}{
		{core.CodeNotFound, `0 ConnectionClose ReplyCode=404 ReplyText="NOT_FOUND - why" ClassID=10 MethodID=40`},
		{core.CodeResourceLocked, `0 ConnectionClose ReplyCode=405 ReplyText="RESOURCE_LOCKED - why" ClassID=10 MethodID=40`},
		{core.CodeConnectionForced, `0 ConnectionClose ReplyCode=320 ReplyText="CONNECTION_FORCED - why" ClassID=10 MethodID=40`},
	} {
		g := newRig(t)
		g.attachErr = &session.Error{Code: c.code, Text: "why", Named: true}
		g.recv.start()
		g.in(startOk("guest", "guest"), tuneOk(2047, 131072, 0))
		want(t, "open", g.in(connectionOpen("/")), "0 ConnectionOpenOk", c.want)
	}
}

func TestTheAnswerToACloseIsReported(t *testing.T) {
	for _, m := range []wire.Method{&wire.ConnectionCloseOk{}, &wire.ConnectionClose{ReplyCode: 200}} {
		g := named(t, session.Grant{}, 1)
		g.recv.shared.close()
		g.in(frame(0, m))
		want(t, "commands", g.commands(), "Answered")
	}
}

func status(channel uint16) session.Event {
	return session.Event{Kind: core.EffectStatus, Command: entry.KindSessionStatus, Channel: channel, Epoch: 2<<40 | 7, Status: &core.SessionStatus{
		State: core.StateResumed, Expiry: 60, InFlight: 3, Released: 1,
		Channels:   []core.ChannelStatus{{Number: 1, Highest: 9, InFlight: []uint64{7, 8, 9}}, {Number: 2}},
		Publishers: []core.PublisherStatus{{Name: "p", Last: 5}},
	}}
}

func TestTheSessionsStatusIsGotAsAMessage(t *testing.T) {
	g := named(t, session.Grant{}, 1)
	g.in(frame(1, &wire.BasicGet{Queue: sessionQueue, NoAck: true}))
	want(t, "get", g.commands(), "SessionStatus Channel=1")
	got := g.tell(status(1))
	if len(got) != 3 || got[0] != `1 BasicGetOk DeliveryTag=1 RoutingKey="amq.session"` {
		t.Fatalf("got %q", got)
	}
	for _, part := range []string{"x-session-stateS", "resumed", "x-session-epochl", "\\a\"", "x-session-hostsS", "a:1,b:2", "redeliver"} {
		if !strings.Contains(got[1], strings.Trim(part, `"`)) {
			t.Errorf("the headers lack %q: %s", part, got[1])
		}
	}
	body := string(statusBody(status(1).Status))
	if body != `{"channels":[{"number":1,"highest_tag":9,"in_flight":[7,8,9]},{"number":2,"highest_tag":0,"in_flight":[]}],"publishers":[{"name":"p","last_sequence":5}]}` {
		t.Errorf("body %s", body)
	}
}

func TestTheSessionsStatusIsDeclaredAsCounts(t *testing.T) {
	g := named(t, session.Grant{}, 1)
	g.in(frame(1, &wire.QueueDeclare{Queue: sessionQueue, Passive: true}))
	want(t, "declare", g.commands(), "SessionStatus Channel=1")
	want(t, "status", g.tell(status(1)), `1 QueueDeclareOk Queue="amq.session" MessageCount=3 ConsumerCount=1`)
}

func TestTheSessionsStatusCannotBeGotWithAcknowledgement(t *testing.T) {
	g := named(t, session.Grant{}, 1)
	want(t, "get", g.in(frame(1, &wire.BasicGet{Queue: sessionQueue})),
		`1 ChannelClose ReplyCode=406 ReplyText="PRECONDITION_FAILED - queue 'amq.session' can only be read with no-ack" ClassID=60 MethodID=70`)
}

func TestAcknowledgingAllMeansWhatCameOnThisConnection(t *testing.T) {
	g := named(t, session.Grant{}, 1)
	all := frame(1, &wire.BasicAck{Multiple: true})
	g.in(all)
	want(t, "before any delivery", g.commands())
	g.tell(delivery(1, 7, "x"), delivery(1, 5, "x"))
	g.in(all)
	want(t, "after two", g.commands(), "Settle 1 outcome=0 multiple=true 0..7")
	g.tell(reply(1, entry.KindChannelOpen))
	g.in(all)
	want(t, "once the channel was opened anew", g.commands())
}

func TestOnlyASessionThatKeepsItsDeliveriesMayAskForThem(t *testing.T) {
	again := frame(1, &wire.BasicRecover{})
	g := named(t, session.Grant{KeepInFlight: true}, 1)
	g.in(again)
	want(t, "keep", g.commands(), "Recover Channel=1")
	g = named(t, session.Grant{}, 1)
	if got := strings.Join(g.in(again), " "); !strings.Contains(got, "ReplyCode=540") {
		t.Errorf("redeliver: %s", got)
	}
}

func declared(channel uint16, name string) session.Event {
	e := reply(channel, entry.KindQueueDeclare)
	e.Name = name
	return e
}

func TestAQueueWithoutANameIsTheOneThatTheMachineNames(t *testing.T) {
	bind := frame(1, &wire.QueueBind{Exchange: "e"})
	g := named(t, session.Grant{}, 1)
	g.in(frame(1, &wire.QueueDeclare{}))
	want(t, "declared", g.tell(declared(1, "amq.gen-before")), `1 QueueDeclareOk Queue="amq.gen-before"`)
	g.in(bind)
	want(t, "commands", g.commands(), `QueueDeclare Channel=1 Name="amq.gen-name1" Generated=true`,
		`QueueBind Channel=1 Destination="amq.gen-before" Source="e" Key="amq.gen-before"`)
}

func TestAQueueDeclaredWithoutANameAndWithoutWaitingIsStillLearnt(t *testing.T) {
	g := named(t, session.Grant{}, 1)
	g.in(frame(1, &wire.QueueDeclare{NoWait: true}), frame(1, &wire.QueueDeclare{Queue: "other"}))
	want(t, "declared", g.tell(declared(1, "amq.gen-before"), declared(1, "other")), `1 QueueDeclareOk Queue="other"`)
	g.in(frame(1, &wire.QueuePurge{}))
	got := g.commands()
	if last := got[len(got)-1]; last != `QueuePurge Channel=1 Name="other"` {
		t.Errorf("the last command is %s", last)
	}
}

// TestACommandWaitsForTheNameOfItsQueue: the client has pipelined a bind behind its declare.
func TestACommandWaitsForTheNameOfItsQueue(t *testing.T) {
	g := named(t, session.Grant{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.recv.input(slices.Concat(frame(1, &wire.QueueDeclare{}), frame(1, &wire.QueuePurge{})))
	}()
	for len(g.session.told()) == 0 {
		select {
		case <-done:
			t.Fatal("the purge did not wait")
		default:
		}
	}
	g.tell(declared(1, "amq.gen-before"))
	<-done
	want(t, "commands", g.commands(), `QueueDeclare Channel=1 Name="amq.gen-name1" Generated=true`, `QueuePurge Channel=1 Name="amq.gen-before"`)
}

func TestAWaitForANameEndsWithTheConnection(t *testing.T) {
	g := named(t, session.Grant{}, 1)
	g.in(frame(1, &wire.QueueDeclare{}))
	g.recv.shared.close()
	if name := g.recv.shared.answers.name(1); name != "" {
		t.Errorf("the name is %q", name)
	}
}

func TestANamedSessionsReplyAddressIsTheSameOnEveryConnection(t *testing.T) {
	consume := frame(3, &wire.BasicConsume{Queue: directQueue, ConsumerTag: "ct", NoAck: true})
	var before []string
	for range 2 {
		g := named(t, session.Grant{Address: "ADDRESS"}, 3)
		g.in(consume, request(3, directQueue))
		got := g.commands()
		if len(got) != 3 || !strings.Contains(got[2], "amq.rabbitmq.reply-to.ADDRESS.3") {
			t.Fatalf("commands %q", got)
		}
		if before != nil {
			want(t, "the second connection's", got, before...)
		}
		before = got
	}
	if !strings.Contains(before[0], "x-max-length") || strings.Contains(before[0], "x-expires") {
		t.Errorf("declared %s", before[0])
	}
}

func TestDeliveriesCarryTheirNumberWhereASessionAsksForIt(t *testing.T) {
	g := named(t, session.Grant{KeepNumbers: true}, 1)
	e := delivery(1, 7, "x")
	e.Number = 77
	got := g.tell(e)
	headers := message.AppendTable(nil, message.Table{{Key: headerNumber, Value: int64(77)}})
	p := message.AppendProperties(nil, &message.Properties{Set: message.PropHeaders, Headers: headers})
	if wanted := wiretest.Frames(wire.AppendHeader(nil, 1, classBasic, 1, p)); len(got) != 3 || got[1] != wanted[0] {
		t.Errorf("got %q, want %q", got, wanted)
	}
}

func TestABoundQueueIsToldOnceTheBindingIsThere(t *testing.T) {
	for _, c := range []struct{ exchange, key, parts string }{
		{"amq.session", "hosts", `x-session-hosts a:1,b:2 ["a:1","b:2"]`},
		{"amq.failover", "any", "amq.failover amqp:tcp:a:1 amqp:tcp:b:2"},
		{"amq.qpid", "cluster", "amq.failover amqp:tcp:a:1"},
		{"amq.session", "generation", "x-session-generation 2"},
	} {
		g := named(t, session.Grant{}, 1)
		g.in(frame(1, &wire.QueueBind{Queue: "before", Exchange: "e"}), frame(1, &wire.QueueBind{Queue: "q", Exchange: c.exchange, RoutingKey: c.key}))
		bound := reply(1, entry.KindQueueBind)
		bound.Epoch = 2<<40 | 1
		g.tell(bound)
		want(t, "told after another binding", g.announced)
		want(t, "bound", g.tell(bound), "1 QueueBindOk")
		if len(g.announced) != 1 || !strings.HasPrefix(g.announced[0], "q ") {
			t.Fatalf("%s: told %q", c.exchange, g.announced)
		}
		for _, part := range strings.Fields(c.parts) {
			if !strings.Contains(g.announced[0], part) {
				t.Errorf("%s %s: no %s in %s", c.exchange, c.key, part, g.announced[0])
			}
		}
	}
}

func TestAQueueIsToldOfTheSessionThatBoundIt(t *testing.T) {
	g := named(t, session.Grant{}, 1)
	g.in(frame(1, &wire.QueueBind{Queue: "q", Exchange: "amq.session", RoutingKey: "session", NoWait: true}))
	want(t, "commands", g.commands(), `QueueBind Channel=1 Destination="q" Source="amq.session" Key="session"`, "SessionStatus Channel=1")
	want(t, "back", g.tell(reply(1, entry.KindQueueBind), status(1)))
	if len(g.announced) != 1 || !strings.Contains(g.announced[0], "resumed") || !strings.Contains(g.announced[0], `"in_flight":[7,8,9]`) {
		t.Errorf("told %q", g.announced)
	}
}

func TestABindingThatIsRefusedTellsNobody(t *testing.T) {
	g := named(t, session.Grant{}, 1)
	g.in(frame(1, &wire.QueueBind{Queue: "q", Exchange: "amq.session", RoutingKey: "hosts"}))
	g.tell(refused404(1))
	g.in(frame(1, &wire.ChannelCloseOk{}), frame(1, &wire.ChannelOpen{}), frame(1, &wire.QueueBind{Queue: "mine", Exchange: "e"}))
	g.tell(reply(1, entry.KindChannelOpen), reply(1, entry.KindQueueBind))
	want(t, "told", g.announced)
}
