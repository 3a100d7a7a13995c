package sessions

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

// go test ./interop/sessions -timeout 40m -v -args -long [-seed=S]
var (
	long = flag.Bool("long", false, "every cut point, and the long runs of the helper")
	seed = flag.Uint64("seed", 0, "seed of the sample of cut points and of the faults, 0 for one from the clock")
)

// firstSeed is the seed that was asked for, or one from the clock.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	first := *seed
	if first == 0 {
		first = uint64(time.Now().Unix())
	}
	t.Logf("-seed=%d", first)
	return first
}

// suite stands for the whole package where the harness asks for a test: the shared cluster outlives each of them.
type suite struct {
	testing.TB
	failed  bool
	cleanup []func()
}

func (s *suite) Helper()          {}
func (s *suite) Failed() bool     { return s.failed }
func (s *suite) Cleanup(f func()) { s.cleanup = append(s.cleanup, f) }
func (s *suite) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
func (s *suite) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (s *suite) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

var everyone = &suite{}

// shared is a cluster of three nodes that no test harms, started on first use.
var shared = sync.OnceValue(func() *harness.Cluster {
	return harness.Start(everyone, harness.Options{Nodes: 3, Args: []string{"--session-expiry-max=600", "--sessions-per-user-max=1000"}})
})

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	everyone.failed = code != 0
	for _, f := range slices.Backward(everyone.cleanup) {
		f()
	}
	harness.Clean()
	os.Exit(code)
}

var counter atomic.Int64

// unique is a name that no other test of this run has.
func unique(prefix string) string { return fmt.Sprintf("%s%d", prefix, counter.Add(1)) }

// client is a connection with channel 1 open, for tests in which every wait is for one certain thing.
type client struct {
	*rawclient.Frames
	t testing.TB
}

// connect opens a connection with client properties, and channel 1; it ends with the test.
func connect(t testing.TB, url string, properties table) *client {
	t.Helper()
	c := connectBare(t, url, properties)
	c.call("channel.open-ok", 1, "channel.open")
	return c
}

func connectBare(t testing.TB, url string, properties table) *client {
	t.Helper()
	all := table{"capabilities": table{"authentication_failure_close": true, "consumer_cancel_notify": true}}
	for k, v := range properties {
		all[k] = v
	}
	f, err := rawclient.DialFrames(url, rawclient.Handshake{Properties: all})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &client{f, t}
}

func (c *client) call(reply string, channel uint16, name string, arguments ...any) *event {
	c.t.Helper()
	e, err := c.Call(reply, channel, name, arguments...)
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	return e
}

func (c *client) send(channel uint16, name string, arguments ...any) {
	c.t.Helper()
	if err := c.Send(channel, name, arguments...); err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
}

func (c *client) next(name string) *event {
	c.t.Helper()
	e, err := c.Next()
	if err != nil {
		c.t.Fatal(err)
	}
	if e.Name != name {
		c.t.Fatalf("%s came, not %s", e, name)
	}
	return e
}

// quiet wants nothing to come before the reply of a call.
func (c *client) quiet() {
	c.t.Helper()
	c.call("basic.qos-ok", 1, "basic.qos", 0, 0, true)
}

// publish sends a message to a queue and waits for its confirm; the channel must be in confirm mode.
func (c *client) publish(channel uint16, queue, body string, p props) {
	c.t.Helper()
	b := rawclient.AppendCall(nil, channel, "basic.publish", "", queue)
	if err := c.Write(rawclient.AppendContent(b, channel, c.FrameMax, &p, []byte(body))); err != nil {
		c.t.Fatal(err)
	}
	want(c.t, "the confirm's number", c.next("basic.ack").Number(0) > 0, true)
}

func (c *client) declare(queue string, exclusive bool) {
	c.t.Helper()
	c.call("queue.declare-ok", 1, "queue.declare", queue, false, false, exclusive)
}

// count is how many messages of a queue are ready.
func (c *client) count(queue string) uint64 {
	c.t.Helper()
	return c.call("queue.declare-ok", 1, "queue.declare", queue, true).Number(1)
}

// consume begins to consume, with acknowledgements.
func (c *client) consume(queue, tag string) {
	c.t.Helper()
	c.call("basic.consume-ok", 1, "basic.consume", queue, tag)
}

// deliver is the next delivery: its tag and whether it is a repetition.
func (c *client) deliver(body string) (tag uint64, redelivered bool) {
	c.t.Helper()
	e := c.next("basic.deliver")
	if string(e.Body) != body {
		c.t.Fatalf("%q was delivered, not %q", e.Body, body)
	}
	redelivered, _ = e.Arguments[2].(bool)
	return e.Number(1), redelivered
}

// status asks for the session's state.
func (c *client) status() table {
	c.t.Helper()
	return c.call("basic.get-ok", 1, "basic.get", "amq.session", true).Properties.Headers
}

// cut ends the connection without a word.
func (c *client) cut() {
	c.t.Helper()
	if err := c.Close(); err != nil {
		c.t.Fatal(err)
	}
}

// refusal opens a connection that is refused behind its open-ok, and answers code and text.
func refusal(t testing.TB, url string, properties table) (uint64, string) {
	t.Helper()
	c := connectBare(t, url, properties)
	e := c.next("connection.close")
	if err := c.Send(0, "connection.close-ok"); err != nil {
		t.Fatal(err)
	}
	return e.Number(0), e.Text(1)
}

// session is the properties of a client that asks for one.
func session(id string, more ...string) table {
	p := table{"x-session-id": id}
	for i := 0; i < len(more); i += 2 {
		p[more[i]] = more[i+1]
	}
	return p
}

// row is what /api/sessions says of a session.
type row struct {
	ID        string `json:"id"`
	User      string `json:"user"`
	State     string `json:"state"`
	Node      string `json:"node"`
	InFlight  int    `json:"in_flight"`
	ExpiresAt *int64 `json:"expires_at"`
}

func listed(ctx context.Context, n *harness.Node, id string) (row, error) {
	var rows []row
	if err := n.Get(ctx, "/api/sessions", &rows); err != nil {
		return row{}, err
	}
	for _, r := range rows {
		if r.ID == id {
			return r, nil
		}
	}
	return row{}, errNoSession
}

var errNoSession = errors.New("no such session")

func want(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func hasText(t testing.TB, what, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("%s: got %q, want %q in it", what, got, p)
		}
	}
}
