package v091

import (
	"bytes"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core/message"
)

func TestMessageIsPublishedAsItCame(t *testing.T) {
	g := opened(t, 1)
	properties := []byte{0x80, 0x00, 4, 't', 'e', 'x', 't'}
	g.in(frame(1, &wire.BasicPublish{Exchange: []byte("amq.topic"), RoutingKey: []byte("a.b"), Mandatory: true}),
		wire.AppendHeader(nil, 1, 60, 5, properties), bodyOf(1, "hello"))
	want(t, "commands", g.commands(), `Publish 1 mandatory=true fragmented=false "amq.topic" "a.b" "\x80\x00\x04text" "hello" of 5`)
}

func TestMessageInPiecesIsPutTogether(t *testing.T) {
	all := publish(1, "ex", "key", "")
	all = append(all[:len(all)-len(header(1, 0))], header(1, 10)...)
	all = append(append(all, bodyOf(1, "01234")...), bodyOf(1, "56789")...)
	const published = `Publish 1 mandatory=false fragmented=false "ex" "key" "\x00\x00" "0123456789" of 10`
	for cut := 1; cut < len(all); cut += 7 { // read bursts that end anywhere
		g := opened(t, 1)
		n := g.recv.input(bytes.Clone(all[:cut]))
		rest := bytes.Clone(all[n:])
		if m := g.recv.input(rest); m != len(rest) {
			t.Fatalf("cut at %d: %d of %d octets taken", cut, m, len(rest))
		}
		want(t, "commands", g.commands(), published)
	}
}

func TestB1_EmptyBodyIsCompleteWithItsHeader(t *testing.T) {
	g := opened(t, 1)
	g.in(publish(1, "", "q", ""), publish(1, "", "q", "next"))
	want(t, "commands", g.commands(), `Publish 1 mandatory=false fragmented=false "" "q" "\x00\x00" "" of 0`,
		`Publish 1 mandatory=false fragmented=false "" "q" "\x00\x00" "next" of 4`)
}

func TestMessagesOfSeveralChannelsInterleave(t *testing.T) {
	g := opened(t, 1, 2)
	a, b := publish(1, "", "a", "AAAA"), publish(2, "", "b", "BB")
	method := len(frame(1, &wire.BasicPublish{RoutingKey: []byte("a")}))
	g.in(a[:method], b[:method], a[method:], b[method:])
	want(t, "commands", g.commands(), `Publish 1 mandatory=false fragmented=false "" "a" "\x00\x00" "AAAA" of 4`,
		`Publish 2 mandatory=false fragmented=false "" "b" "\x00\x00" "BB" of 2`)
}

func TestBigBodyTravelsInFragments(t *testing.T) {
	g := opened(t, 1)
	size := 2*fragmentBytes + 10
	g.in(frame(1, &wire.BasicPublish{RoutingKey: []byte("q")}), header(1, uint64(size)))
	body := bytes.Repeat([]byte{7}, size)
	for len(body) > 0 {
		n := min(len(body), 100000)
		g.in(wire.AppendBody(nil, 1, body[:n]))
		body = body[n:]
	}
	want(t, "commands", g.commands(),
		`Fragment 1 "\a\a\a\a\a\a\a\a" and 524280 more`, `Fragment 1 "\a\a\a\a\a\a\a\a" and 524280 more`,
		`Publish 1 mandatory=false fragmented=true "" "q" "\x00\x00" "\a\a\a\a\a\a\a\a\a\a" of 1048586`)
	if g.recv.content.held != 0 {
		t.Errorf("%d bytes are still counted", g.recv.content.held)
	}
}

func TestContentFaultsCloseTheConnection(t *testing.T) {
	method := frame(1, &wire.BasicPublish{RoutingKey: []byte("q")})
	for _, c := range []struct {
		name string
		in   [][]byte
		want string
	}{
		{"13 body before header", [][]byte{method, bodyOf(1, "x")}, `ReplyCode=505 ReplyText="UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead" ClassID=60 MethodID=40`},
		{"13 body without a method", [][]byte{bodyOf(1, "x")}, `UNEXPECTED_FRAME - expected method frame, got non method frame instead`},
		{"13 header without a method", [][]byte{header(1, 1)}, `UNEXPECTED_FRAME - expected method frame, got non method frame instead`},
		{"13 two headers", [][]byte{method, header(1, 1), header(1, 1)}, `UNEXPECTED_FRAME - expected content body, got non content body frame instead`},
		{"13 header of another class", [][]byte{method, wire.AppendHeader(nil, 1, 50, 1, []byte{0, 0})}, "ReplyCode=505"},
		{"13 weight", [][]byte{method, raw(2, 1, []byte{0, 60, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0})}, "ReplyCode=501"},
		{"cut header", [][]byte{method, raw(2, 1, []byte{0, 60, 0, 0})}, "ReplyCode=502"},
		{"15 body beyond the announced size", [][]byte{method, header(1, 3), bodyOf(1, "xxxx")}, `ReplyCode=501 ReplyText="FRAME_ERROR - body of 4 octets where the content header announced 3"`},
		{"15 second body frame beyond the announced size", [][]byte{method, header(1, 3), bodyOf(1, "xx"), bodyOf(1, "xx")}, "ReplyCode=501"},
		{"17 empty body frames for ever", append([][]byte{method, header(1, 3)}, slicesRepeat(bodyOf(1, ""), 17)...), "ReplyCode=501"},
		{"18 method that interrupts content, before the header", [][]byte{method, frame(1, &wire.BasicGet{Queue: "q"})}, "ReplyCode=505"},
		{"18 method that interrupts content, in the body", [][]byte{method, header(1, 3), bodyOf(1, "x"), frame(1, &wire.BasicAck{DeliveryTag: 1})}, "ReplyCode=505"},
		{"B17 second publish before the header", [][]byte{method, method}, "ReplyCode=505"},
		{"19 headers table longer than the properties", [][]byte{method, wire.AppendHeader(nil, 1, 60, 1, []byte{0x20, 0, 0xff, 0xff, 0xff, 0xff})}, "ReplyCode=502"},
		{"unknown property flags", [][]byte{method, wire.AppendHeader(nil, 1, 60, 1, []byte{0, 1, 0, 0})}, "ReplyCode=502"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := opened(t, 1)
			got := g.in(c.in...)
			if len(got) != 1 || !strings.HasPrefix(got[0], "0 ConnectionClose ") || !strings.Contains(got[0], c.want) {
				t.Errorf("got %q, want %s", got, c.want)
			}
			want(t, "commands", g.commands())
		})
	}
}

func slicesRepeat(b []byte, n int) (all [][]byte) {
	for range n {
		all = append(all, b)
	}
	return all
}

func TestFewEmptyBodyFramesAreTaken(t *testing.T) {
	g := opened(t, 1)
	g.in(append([][]byte{frame(1, &wire.BasicPublish{}), header(1, 1)}, append(slicesRepeat(bodyOf(1, ""), 16), bodyOf(1, "x"))...)...)
	want(t, "commands", g.commands(), `Publish 1 mandatory=false fragmented=false "" "" "\x00\x00" "x" of 1`)
}

func TestContentFaultsThatCloseTheChannel(t *testing.T) {
	properties := func(p message.Properties) []byte { return message.AppendProperties(nil, &p) }
	for _, c := range []struct {
		name       string
		size       uint64
		properties []byte
		want       string
	}{
		{"14 size of 2^63", 1 << 63, []byte{0, 0}, `ReplyCode=406 ReplyText="PRECONDITION_FAILED - message size 9223372036854775808 is larger than configured max size 16777216" ClassID=60 MethodID=40`},
		{"14 one octet above max-message-bytes", 16<<20 + 1, []byte{0, 0}, "message size 16777217 is larger than configured max size 16777216"},
		{"33 expiration that is no number", 1, properties(message.Properties{Set: message.PropExpiration, Expiration: "soon"}), "PRECONDITION_FAILED - invalid expiration 'soon'"},
		{"33 huge expiration", 1, properties(message.Properties{Set: message.PropExpiration, Expiration: "99999999999999999999"}), "PRECONDITION_FAILED - invalid expiration"},
		{"33 expiration of more than ten years", 1, properties(message.Properties{Set: message.PropExpiration, Expiration: "315360000001"}), "PRECONDITION_FAILED - invalid expiration '315360000001': {value_too_large,315360000001}"},
		{"33 negative expiration", 1, properties(message.Properties{Set: message.PropExpiration, Expiration: "-1"}), "PRECONDITION_FAILED - invalid expiration '-1'"},
		{"another's user id", 1, properties(message.Properties{Set: message.PropUserID, UserID: "root"}), "PRECONDITION_FAILED - user_id property set to 'root' but authenticated user was 'guest'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := opened(t, 1, 2)
			got := g.in(frame(1, &wire.BasicPublish{RoutingKey: []byte("q")}), wire.AppendHeader(nil, 1, 60, c.size, c.properties),
				bodyOf(1, "discarded"), publish(2, "", "q", "other channel"))
			if len(got) != 1 || !strings.HasPrefix(got[0], "1 ChannelClose ") || !strings.Contains(got[0], c.want) {
				t.Errorf("got %q, want %s", got, c.want)
			}
			want(t, "commands", g.commands(), "ChannelClose Channel=1 Reply=true", `Publish 2 mandatory=false fragmented=false "" "q" "\x00\x00" "other channel" of 13`)
		})
	}
}

func TestAnImpersonatorMayNameAnotherUser(t *testing.T) {
	g := opened(t, 1)
	g.session.tagged = true
	p := message.Properties{Set: message.PropUserID, UserID: "root"}
	want(t, "frames", g.in(frame(1, &wire.BasicPublish{}), wire.AppendHeader(nil, 1, 60, 0, message.AppendProperties(nil, &p))))
	if n := len(g.commands()); n != 1 {
		t.Errorf("%d commands", n)
	}
}

func TestPropertiesThatKeepTheirPromiseAreTaken(t *testing.T) {
	for _, expiration := range []string{"0", "1000", "7776000000", "315360000000"} { // up to ten years
		g := opened(t, 1)
		p := message.Properties{Set: message.PropUserID | message.PropExpiration, UserID: "guest", Expiration: expiration}
		want(t, "frames", g.in(frame(1, &wire.BasicPublish{}), wire.AppendHeader(nil, 1, 60, 0, message.AppendProperties(nil, &p))))
		if n := len(g.commands()); n != 1 {
			t.Errorf("expiration %s: %d commands", expiration, n)
		}
	}
}

func Test16_UnfinishedMessagesHaveABudgetOfBytesReceived(t *testing.T) {
	g := newRig(t)
	g.opts.AssemblyBytes = 1000
	g.recv.start()
	g.in(startOk("guest", "guest"), tuneOk(0, 0, 0), connectionOpen("/"))
	for c := uint16(1); c <= 1000; c++ { // each announces 10 MiB and sends one octet
		if got := g.in(frame(c, &wire.ChannelOpen{}), frame(c, &wire.BasicPublish{}), header(c, 10<<20), bodyOf(c, "x")); len(got) > 0 && c > 1 {
			t.Fatalf("channel %d: %q", c, got)
		}
	}
	g.session.forget()
	got := g.in(bodyOf(1, "y"))
	if len(got) != 1 || !strings.Contains(got[0], `ReplyCode=506 ReplyText="RESOURCE_ERROR - unfinished messages of this connection exceed 1000 bytes"`) {
		t.Errorf("%q", got)
	}
}

func TestBudgetIsGivenBackWhenAChannelCloses(t *testing.T) {
	g := opened(t, 1)
	g.in(frame(1, &wire.BasicPublish{}), header(1, 100), bodyOf(1, "12345"))
	if g.recv.content.held != 5 {
		t.Fatalf("%d bytes counted", g.recv.content.held)
	}
	g.tell(refused404(1))
	g.in(bodyOf(1, "x"), frame(1, &wire.ChannelCloseOk{}))
	if g.recv.content.held != 0 {
		t.Errorf("%d bytes are still counted", g.recv.content.held)
	}
}

func TestConsecutiveAcknowledgementsAreOneSettle(t *testing.T) {
	g := opened(t, 1, 2)
	ack := func(c uint16, tag uint64) []byte { return frame(c, &wire.BasicAck{DeliveryTag: tag}) }
	g.in(ack(1, 5), ack(1, 6), ack(1, 7), ack(1, 9), ack(2, 10), frame(2, &wire.BasicReject{DeliveryTag: 11}),
		frame(2, &wire.BasicReject{DeliveryTag: 12}), ack(2, 13), frame(2, &wire.BasicAck{DeliveryTag: 20, Multiple: true}), ack(2, 0), ack(2, 1))
	want(t, "commands", g.commands(), "Settle 1 outcome=0 multiple=false 5..7", "Settle 1 outcome=0 multiple=false 9..9",
		"Settle 2 outcome=0 multiple=false 10..10", "Settle 2 outcome=1 multiple=false 11..12", "Settle 2 outcome=0 multiple=false 13..13",
		"Settle 2 outcome=0 multiple=true 0..20", "Settle 2 outcome=0 multiple=false 0..0", "Settle 2 outcome=0 multiple=false 1..1")
}

func TestAcknowledgementsKeepTheirPlaceAmongCommands(t *testing.T) {
	g := opened(t, 1)
	g.in(frame(1, &wire.BasicAck{DeliveryTag: 1}), publish(1, "", "q", "x"), frame(1, &wire.BasicAck{DeliveryTag: 2}), frame(1, &wire.BasicGet{Queue: "q"}),
		frame(1, &wire.BasicAck{DeliveryTag: 3}))
	want(t, "commands", g.commands(), "Settle 1 outcome=0 multiple=false 1..1", `Publish 1 mandatory=false fragmented=false "" "q" "\x00\x00" "x" of 1`,
		"Settle 1 outcome=0 multiple=false 2..2", `Get Channel=1 Queue="q"`, "Settle 1 outcome=0 multiple=false 3..3")
}
