package v091

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/understudy-mq/understudy/amqp/sasl"
	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/amqp/v091/wire/wiretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
)

// fakeSession writes down what it is told.
type fakeSession struct {
	mu      sync.Mutex
	log     []string
	content map[uint64][]byte // records by message number, for events without one
	parts   [][]byte
	grant   session.Grant
	ended   string
	quiet   bool
	flushes bool     // they are written down
	tagged  bool     // the user is an impersonator
	later   int      // calls of FlushLater
	closed  []uint16 // channels whose close is to be answered
}

func (f *fakeSession) say(format string, args ...any) {
	if f.quiet {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

// told answers what the session was told since forget.
func (f *fakeSession) told() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

func (f *fakeSession) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = nil
}

func (f *fakeSession) Do(cmd entry.Addressed) {
	f.say("%s", wiretest.Show(cmd))
	if x, ok := cmd.(*entry.ChannelClose); ok && x.Reply {
		f.closed = append(f.closed, x.Channel)
	}
}
func (f *fakeSession) Publish(channel uint16, mandatory, fragmented bool, rec *message.Record) {
	if f.quiet {
		return
	}
	f.say("Publish %d mandatory=%t fragmented=%t %q %q %q %s of %d", channel, mandatory, fragmented, rec.Exchange, rec.RoutingKey, rec.Properties, wiretest.Octets(rec.Body), rec.BodySize)
}
func (f *fakeSession) Fragment(channel uint16, piece []byte) {
	f.say("Fragment %d %s", channel, wiretest.Octets(piece))
}
func (f *fakeSession) Settle(channel uint16, o entry.Outcome, multiple bool, first, last uint64) {
	if f.quiet {
		return
	}
	f.say("Settle %d outcome=%d multiple=%t %d..%d", channel, o, multiple, first, last)
}
func (f *fakeSession) Impersonates() bool { return f.tagged }

func (f *fakeSession) Flush() error {
	if f.flushes {
		f.say("Flush")
	}
	return nil
}

func (f *fakeSession) FlushLater() error { f.later++; return nil }
func (f *fakeSession) Written(channel uint16, tag uint64) error {
	f.say("Written %d %d", channel, tag)
	return nil
}
func (f *fakeSession) Content(e *session.Event) ([]byte, [][]byte, error) {
	if e.Record != nil {
		return e.Record, f.parts, nil
	}
	if r := f.content[e.Number]; r != nil {
		return r, f.parts, nil
	}
	return nil, nil, errors.New("no such record")
}
func (f *fakeSession) Grant() session.Grant { return f.grant }
func (f *fakeSession) Answered() {
	if f.grant.Named {
		f.say("Answered")
	}
}

func (f *fakeSession) End()    { f.leave("end") }
func (f *fakeSession) Detach() { f.leave("detach") }

func (f *fakeSession) leave(how string) {
	if f.ended == "" {
		f.ended = how
	}
}

// rig is the endpoint's two machines without a driver, the client's frames going in on one side and the machine's
// events on the other.
type rig struct {
	t       testing.TB
	opts    Options
	recv    *receiver
	send    *sender
	out     *outbox
	session *fakeSession
	wrote   bytes.Buffer

	loginErr, attachErr error
	cert                string // the user that the client's certificate names
	heartbeat           uint16
	asked               session.Attach
	announced           []string
	waits               []*waiting // declarations, ever
	stopped             []uint16   // channels whose wait was ended
}

func newRig(t testing.TB) *rig {
	g := &rig{t: t, session: &fakeSession{}}
	g.opts.EnsureDefaults()
	names := 0
	g.opts.random = func() string { names++; return fmt.Sprint("name", names) }
	sh := newShared(g.opts.ChannelMax)
	g.out = newOutbox()
	g.recv = newReceiver(&g.opts, g.opts.Logger, g, g.out, sh)
	g.send = newSender(&g.opts, g.opts.Logger, sh, func() Session { return g.session }, g.told, &g.wrote)
	return g
}

// opened is a rig whose connection is open, with the channels open, confirmed by the machine.
func opened(t testing.TB, channels ...uint16) *rig {
	g := newRig(t)
	g.recv.start()
	g.in(startOk("guest", "guest"), tuneOk(2047, 131072, 0), connectionOpen("/"))
	if g.recv.phase != running {
		t.Fatalf("the connection is %s", g.recv.phase)
	}
	for _, c := range channels {
		g.in(frame(c, &wire.ChannelOpen{}))
		g.tell(reply(c, entry.KindChannelOpen))
	}
	g.session.forget()
	return g
}

// told writes down an announcement.
func (g *rig) told(queue string, properties, body []byte) {
	g.announced = append(g.announced, fmt.Sprintf("%s %q %s", queue, properties, body))
}

func (g *rig) certified() bool { return g.cert != "" }

func (g *rig) login(with sasl.Credentials) (string, error) {
	switch {
	case with.External:
		return g.cert, g.loginErr
	case with.User == "":
		return "", errLogin
	}
	return with.User, g.loginErr
}

func (g *rig) attach(a session.Attach) (Session, error) {
	g.asked = a
	if g.attachErr != nil {
		return nil, g.attachErr
	}
	return g.session, nil
}

func (g *rig) await(w *waiting, _ func(context.Context)) (stop func()) {
	g.waits = append(g.waits, w)
	return func() { g.stopped = append(g.stopped, w.channel.number) }
}

// resume has a declaration go on that waits, and answers the frames that come of it.
func (g *rig) resume(w *waiting) []string {
	g.t.Helper()
	g.recv.resume(w)
	if err := g.recv.flush(); err != nil {
		g.t.Fatal(err)
	}
	return g.frames()
}

func (g *rig) tuned(frameMax uint32, heartbeat uint16) {
	g.send.frameMax = int(frameMax)
	g.heartbeat = heartbeat
}

// in feeds frames and answers the frames that come back at once. Channels that the endpoint refuses something on the machine closes
// at once, too.
func (g *rig) in(frames ...[]byte) []string {
	g.t.Helper()
	g.feed(frames...)
	for _, c := range g.session.closed {
		if list := g.send.shared.closes.expected[c]; len(list) > 0 && list[0] != nil {
			g.out.push([]session.Event{reply(c, entry.KindChannelClose)})
		}
	}
	return g.frames()
}

// feed feeds frames. The machine says nothing.
func (g *rig) feed(frames ...[]byte) {
	g.t.Helper()
	g.session.closed = nil
	b := slices.Concat(frames...)
	if n := g.recv.input(b); n != len(b) {
		g.t.Fatalf("%d of %d octets were taken", n, len(b))
	}
	if err := g.recv.flush(); err != nil {
		g.t.Fatal(err)
	}
}

// tell hands events of the machine's to the sender and answers the frames that come of them.
func (g *rig) tell(events ...session.Event) []string {
	g.t.Helper()
	g.out.push(events)
	return g.frames()
}

func (g *rig) frames() []string {
	g.t.Helper()
	events, notices, _ := g.out.take(nil, nil)
	if err := g.send.send(events, notices); err != nil {
		g.t.Fatal(err)
	}
	if err := g.send.reported(false); err != nil {
		g.t.Fatal(err)
	}
	defer g.wrote.Reset()
	return wiretest.Frames(g.wrote.Bytes())
}

// commands answers what the session was told since the last time.
func (g *rig) commands() []string {
	defer g.session.forget()
	return g.session.told()
}

func want(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func frame(channel uint16, m wire.Method) []byte { return wire.AppendMethod(nil, channel, m) }

func raw(typ uint8, channel uint16, payload []byte) []byte {
	return wire.End(append(wire.Begin(nil, typ, channel), payload...), 0)
}

func startOk(user, password string) []byte {
	return frame(0, &wire.ConnectionStartOk{
		ClientProperties: clientProperties(true), Mechanism: "PLAIN", Response: []byte("\x00" + user + "\x00" + password), Locale: "en_US",
	})
}

func clientProperties(capable bool) []byte {
	return message.AppendTable(nil, message.Table{
		{Key: "product", Value: "tests"},
		{Key: "connection_name", Value: "title"},
		{Key: "capabilities", Value: message.Table{
			{Key: "authentication_failure_close", Value: capable},
			{Key: "consumer_cancel_notify", Value: capable},
		}},
	})
}

func tuneOk(channelMax uint16, frameMax uint32, heartbeat uint16) []byte {
	return frame(0, &wire.ConnectionTuneOk{ChannelMax: channelMax, FrameMax: frameMax, Heartbeat: heartbeat})
}

func connectionOpen(vhost string) []byte { return frame(0, &wire.ConnectionOpen{VirtualHost: vhost}) }

// publish is the frames of one message.
func publish(channel uint16, exchange, key, body string) []byte {
	b := frame(channel, &wire.BasicPublish{Exchange: []byte(exchange), RoutingKey: []byte(key)})
	b = append(b, header(channel, uint64(len(body)))...)
	if body != "" {
		b = wire.AppendBody(b, channel, []byte(body))
	}
	return b
}

func header(channel uint16, size uint64) []byte {
	return wire.AppendHeader(nil, channel, classBasic, size, []byte{0, 0})
}

func bodyOf(channel uint16, s string) []byte { return wire.AppendBody(nil, channel, []byte(s)) }
