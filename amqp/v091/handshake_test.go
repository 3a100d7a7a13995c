package v091

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
)

func TestHandshakeOfAClientOpensTheConnection(t *testing.T) {
	g := newRig(t)
	g.recv.start()
	start := strings.Join(g.frames(), "\n")
	for _, part := range []string{"ConnectionStart VersionMinor=9", `Mechanisms="PLAIN AMQPLAIN"`, `Locales="en_US"`, "authentication_failure_close", "Understudy"} {
		if !strings.Contains(start, part) {
			t.Errorf("connection.start lacks %s: %s", part, start)
		}
	}
	want(t, "start-ok", g.in(startOk("guest", "guest")), "0 ConnectionTune ChannelMax=2047 FrameMax=131072 Heartbeat=60")
	want(t, "tune-ok", g.in(tuneOk(100, 8192, 7)))
	want(t, "open", g.in(connectionOpen("/")), "0 ConnectionOpenOk")
	if g.heartbeat != 7 || g.recv.frameMax != 8192 || g.recv.channelMax != 100 || g.recv.user != "guest" || g.recv.client.name != "title" {
		t.Errorf("agreed: %+v, heartbeat %d", g.recv, g.heartbeat)
	}
}

func TestWhatAClientSaysOfItselfIsListedInBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := message.Table{
			{Key: "x-session-id", Value: "secret"}, {Key: "platform", Value: "Atari"}, {Key: "story", Value: strings.Repeat("s", shownMax)},
			{Key: "capabilities", Value: message.Table{{Key: "basic.nack", Value: true}}},
		}
		p := connect(t, nil)
		p.send(frame(0, &wire.ConnectionStartOk{
			ClientProperties: message.AppendTable(nil, said), Mechanism: "PLAIN", Response: []byte("\x00guest\x00guest"), Locale: "en_US",
		}), tuneOk(0, 0, 0), connectionOpen("/"))
		p.taken()
		if got := p.conn.Info().Properties; !bytes.Equal(got, message.AppendTable(nil, message.Table{said[1], said[3]})) {
			t.Errorf("listed: %q", got)
		}
		p.finish()
	})
}

func TestAMQPlainLogsIn(t *testing.T) {
	g := newRig(t)
	response := message.AppendTable(nil, message.Table{{Key: "LOGIN", Value: "bob"}, {Key: "PASSWORD", Value: "x"}})
	want(t, "start-ok", g.in(frame(0, &wire.ConnectionStartOk{Mechanism: "AMQPLAIN", Response: response})),
		"0 ConnectionTune ChannelMax=2047 FrameMax=131072 Heartbeat=60")
	if g.recv.user != "bob" {
		t.Errorf("logged in as %q", g.recv.user)
	}
}

const refusedLogin = `0 ConnectionClose ReplyCode=403 ReplyText="ACCESS_REFUSED - Login was refused using authentication mechanism %s. For details see the broker logfile." ClassID=10 MethodID=11`

func TestRefusedLogins(t *testing.T) {
	for _, c := range []struct {
		name, mechanism, response string
		err                       error
	}{
		{"wrong password", "PLAIN", "\x00guest\x00wrong", errors.New("wrong")},
		{"51 PLAIN without NUL", "PLAIN", "guest", nil},
		{"51 PLAIN with three NULs", "PLAIN", "\x00a\x00b\x00c", nil},
		{"51 PLAIN for another user", "PLAIN", "root\x00guest\x00guest", nil},
		{"51 PLAIN of nothing", "PLAIN", "", nil},
		{"52 AMQPLAIN without keys", "AMQPLAIN", "", nil},
		{"52 AMQPLAIN that is no table", "AMQPLAIN", "\x05LOGINS\xff\xff\xff\xff", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, capable := range []bool{true, false} {
				g := newRig(t)
				g.loginErr = c.err
				got := g.in(frame(0, &wire.ConnectionStartOk{
					ClientProperties: clientProperties(capable), Mechanism: c.mechanism, Response: []byte(c.response),
				}))
				if capable {
					want(t, "told", got, strings.Replace(refusedLogin, "%s", c.mechanism, 1))
					continue
				}
				want(t, "a client that could not hear it is told nothing", got)
				if g.recv.phase != finished {
					t.Errorf("the connection is %s", g.recv.phase)
				}
			}
		})
	}
}

func TestHandshakeFaultsCloseTheConnection(t *testing.T) {
	toTune := startOk("guest", "guest")
	toOpen := slices.Concat(toTune, tuneOk(0, 0, 0))
	badTable := []byte{1, 'k', 'S', 0xff, 0xff, 0xff, 0xff}
	for _, c := range []struct {
		name string
		in   []byte
		want string
	}{
		{"05 frame before tune above 8192", []byte{1, 0, 0, 0, 0, 0x20, 1}, `ReplyCode=501 ReplyText="FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,8193,8192}"`},
		{"06 frame length of 4 GiB", []byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff}, "ReplyCode=501"},
		{"08 unknown frame type", raw(0, 0, nil), "ReplyCode=501"},
		{"09 frame_max 1", slices.Concat(toTune, tuneOk(0, 1, 0)), `ReplyCode=530 ReplyText="NOT_ALLOWED - negotiated frame_max = 1 is lower than the minimum allowed value (4096)" ClassID=10 MethodID=31`},
		{"09 frame_max 4095", slices.Concat(toTune, tuneOk(0, 4095, 0)), "ReplyCode=530"},
		{"09b frame_max above the server's", slices.Concat(toTune, tuneOk(0, 131073, 0)), `NOT_ALLOWED - negotiated frame_max = 131073 is higher than the maximum allowed value (131072)`},
		{"09b channel_max above the server's", slices.Concat(toTune, tuneOk(2048, 0, 0)), `NOT_ALLOWED - negotiated channel_max = 2048 is higher than the maximum allowed value (2047)`},
		{"10 heartbeat with a payload", raw(8, 0, []byte{1}), "ReplyCode=501"},
		{"10 heartbeat on a channel", raw(8, 1, nil), "ReplyCode=505"},
		{"21 client properties that are no table", frame(0, &wire.ConnectionStartOk{ClientProperties: badTable, Mechanism: "PLAIN", Response: []byte("\x00a\x00b")}), "ReplyCode=502"},
		{"53 mechanism that is not offered", frame(0, &wire.ConnectionStartOk{Mechanism: "EXTERNAL"}), `ReplyCode=503 ReplyText="COMMAND_INVALID - unknown authentication mechanism 'EXTERNAL'" ClassID=10 MethodID=11`},
		{"53 second mechanism midway", slices.Concat(toTune, frame(0, &wire.ConnectionStartOk{Mechanism: "AMQPLAIN"})), "COMMAND_INVALID - unexpected method in connection state tuning"},
		{"57 connection.open before login", connectionOpen("/"), `ReplyCode=503 ReplyText="COMMAND_INVALID - unexpected method in connection state starting" ClassID=10 MethodID=40`},
		{"57 queue.declare before login", frame(1, &wire.QueueDeclare{Queue: "q"}), "ReplyCode=503"},
		{"57 queue.declare before open", slices.Concat(toOpen, frame(1, &wire.QueueDeclare{Queue: "q"})), "COMMAND_INVALID - unexpected method in connection state opening"},
		{"57 content before login", bodyOf(1, "x"), "ReplyCode=505"},
		{"method frame of nothing", raw(1, 0, nil), "ReplyCode=501"},
		{"cut arguments", raw(1, 0, []byte{0, 10, 0, 11, 0, 0, 0, 9}), "SYNTAX_ERROR - connection.start-ok: arguments are cut short"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t)
			n := g.recv.input(c.in)
			got := strings.Join(g.frames(), "\n")
			if !strings.Contains(got, "ConnectionClose") || !strings.Contains(got, c.want) {
				t.Errorf("after %d of %d octets got %s, want %s", n, len(c.in), got, c.want)
			}
			if g.recv.phase < closing {
				t.Errorf("the connection is %s", g.recv.phase)
			}
		})
	}
}

func TestFrameMaxAndChannelMaxOfZeroAreOurs(t *testing.T) {
	g := newRig(t)
	g.in(startOk("guest", "guest"), tuneOk(0, 0, 0))
	if g.recv.frameMax != 131072 || g.recv.channelMax != 2047 || g.recv.phase != awaitOpen {
		t.Errorf("frame_max %d, channel_max %d, %s", g.recv.frameMax, g.recv.channelMax, g.recv.phase)
	}
}

func TestStartOkOf8KiBIsTaken(t *testing.T) {
	g := newRig(t)
	properties := message.AppendTable(nil, message.Table{{Key: "session", Value: strings.Repeat("x", 8000)}})
	want(t, "start-ok", g.in(frame(0, &wire.ConnectionStartOk{ClientProperties: properties, Mechanism: "PLAIN", Response: []byte("\x00a\x00b")})),
		"0 ConnectionTune ChannelMax=2047 FrameMax=131072 Heartbeat=60")
}

func TestMissingVhostIsNotAllowed(t *testing.T) {
	g := newRig(t)
	g.attachErr = &session.Error{Code: core.CodeNotAllowed, Text: "vhost nowhere not found"}
	want(t, "open", g.in(startOk("guest", "guest"), tuneOk(0, 0, 0), connectionOpen("nowhere"))[1:],
		`0 ConnectionClose ReplyCode=530 ReplyText="NOT_ALLOWED - vhost nowhere not found" ClassID=10 MethodID=40`)
}

func TestALoginThatCannotBeJudgedIsRefusedAtOpenAndAsksNoSession(t *testing.T) {
	g := newRig(t)
	g.loginErr = &session.Error{Code: core.CodeConnectionForced, Text: "users are not known yet"}
	want(t, "start-ok", g.in(startOk("guest", "wrong")), "0 ConnectionTune ChannelMax=2047 FrameMax=131072 Heartbeat=60")
	want(t, "open", g.in(tuneOk(0, 0, 0), connectionOpen("/")),
		`0 ConnectionClose ReplyCode=320 ReplyText="CONNECTION_FORCED - users are not known yet" ClassID=10 MethodID=40`)
	if g.asked.User != "" || g.asked.Vhost != "" || g.recv.phase < closing {
		t.Errorf("a session was asked for: %+v; the connection is %s", g.asked, g.recv.phase)
	}
}

func TestClientMayCloseBeforeItOpens(t *testing.T) {
	g := newRig(t)
	want(t, "close", g.in(startOk("guest", "guest"), frame(0, &wire.ConnectionClose{ReplyCode: 200}))[1:], "0 ConnectionCloseOk")
}

func TestExternalLogsInWhoTheCertificateNames(t *testing.T) {
	g := newRig(t)
	g.cert = "O=org,CN=bob"
	g.recv.start()
	if start := strings.Join(g.frames(), ""); !strings.Contains(start, `Mechanisms="PLAIN AMQPLAIN EXTERNAL"`) {
		t.Errorf("offered: %s", start)
	}
	want(t, "start-ok", g.in(frame(0, &wire.ConnectionStartOk{Mechanism: "EXTERNAL", Response: []byte("\x00*\x00*")})),
		"0 ConnectionTune ChannelMax=2047 FrameMax=131072 Heartbeat=60")
	if g.recv.user != "O=org,CN=bob" {
		t.Errorf("logged in as %q", g.recv.user)
	}

	g = newRig(t)
	g.cert, g.loginErr = "nobody", errors.New("no such user")
	want(t, "of a user that is not there", g.in(frame(0, &wire.ConnectionStartOk{ClientProperties: clientProperties(true), Mechanism: "EXTERNAL"})),
		strings.Replace(refusedLogin, "%s", "EXTERNAL", 1))
}
