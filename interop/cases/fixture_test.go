package cases

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

type (
	table = rawclient.Table
	props = rawclient.Properties
	event = rawclient.Event
	list  = []any
)

// otherBroker names an environment variable with the URL of another broker to run the tests against.
const otherBroker = "INTEROP_AMQP_URL"

// node is the broker under test, one for the package.
var node struct {
	url     string
	cluster *harness.Cluster // nil for another broker
}

// suite stands for the whole package where the harness asks for a test: its node outlives each of them.
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

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if node.url = os.Getenv(otherBroker); node.url != "" {
		return unusedDifferences(m.Run())
	}
	s := &suite{}
	defer func() {
		for _, f := range slices.Backward(s.cleanup) {
			f()
		}
	}()
	node.cluster = harness.Start(s, harness.Options{})
	node.url = node.cluster.Node(1).URL()
	code := harness.Main(m)
	s.failed = code != 0
	return unusedDifferences(code)
}

// unusedDifferences fails a full run that came past no use of a difference.
func unusedDifferences(code int) int {
	if code != 0 || flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.list").Value.String() != "" {
		return code
	}
	for key := range differences {
		if !used[key] {
			fmt.Fprintf(os.Stderr, "differences.go lists %q, which no test uses\n", key)
			code = 1
		}
	}
	return code
}

// used are the differences that a test has asked for.
var used = map[string]bool{}

// differs answers what this broker is to say where RabbitMQ and Understudy are listed to differ.
func differs(t *testing.T, key string) string {
	t.Helper()
	d, ok := differences[key]
	if !ok {
		t.Fatalf("differences.go does not list %q", key)
	}
	used[key] = true
	if node.cluster == nil {
		return d.rabbitmq
	}
	return d.ours
}

// client is a connection with channel 1 open.
type client struct {
	*rawclient.Frames
	t *testing.T
}

func connect(t *testing.T) *client { t.Helper(); return connectAs(t, rawclient.Handshake{}) }

func connectAs(t *testing.T, h rawclient.Handshake) *client {
	t.Helper()
	f, err := rawclient.DialFrames(node.url, h)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	c := &client{f, t}
	c.open(1)
	return c
}

// bare is a connection on which nothing was said yet.
func bare(t *testing.T) *client {
	t.Helper()
	f, err := rawclient.DialBare(node.url)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return &client{f, t}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// names numbers what tests declare, so that a second run against another broker meets nothing of the first.
var names atomic.Int64

func name(t *testing.T, what string) string {
	return fmt.Sprintf("%s.%s.%d.%d", strings.ReplaceAll(t.Name(), "/", "."), what, os.Getpid(), names.Add(1))
}

func (c *client) open(channel uint16) {
	c.t.Helper()
	c.call(channel, "channel.open-ok", "channel.open")
}

// send sends a method.
func (c *client) send(channel uint16, method string, arguments ...any) {
	c.t.Helper()
	must(c.t, c.Send(channel, method, arguments...))
}

// write sends octets.
func (c *client) write(b []byte) { c.t.Helper(); must(c.t, c.Write(b)) }

// next reads an event.
func (c *client) next() *event {
	c.t.Helper()
	e, err := c.Next()
	must(c.t, err)
	return e
}

// want reads as many events as lines are given; each must begin with its line.
func (c *client) want(lines ...string) (last *event) {
	c.t.Helper()
	for _, line := range lines {
		if last = c.next(); !strings.HasPrefix(last.String(), line) {
			c.t.Fatalf("\n got %s\nwant %s", last, line)
		}
	}
	return last
}

// wantSet reads as many events as lines are given, in any order.
func (c *client) wantSet(lines ...string) {
	c.t.Helper()
	left := slices.Clone(lines)
	for range lines {
		e := c.next().String()
		at := slices.IndexFunc(left, func(line string) bool { return strings.HasPrefix(e, line) })
		if at < 0 {
			c.t.Fatalf("\n got %s\nwant one of %q", e, left)
		}
		left = slices.Delete(left, at, at+1)
	}
}

// call sends a method and reads the reply, which must be next.
func (c *client) call(channel uint16, reply, method string, arguments ...any) *event {
	c.t.Helper()
	c.send(channel, method, arguments...)
	return c.want(reply)
}

// reopen answers a channel.close and opens the channel again.
func (c *client) reopen(channel uint16) {
	c.t.Helper()
	c.send(channel, "channel.close-ok")
	c.open(channel)
}

// refused sends a method, for which the channel must be closed with the text, and opens the channel again.
func (c *client) refused(text, method string, arguments ...any) {
	c.t.Helper()
	c.call(1, "channel.close "+text, method, arguments...)
	c.reopen(1)
}

// queue declares a durable queue, which is deleted when the test ends.
func (c *client) queue(arguments table) string {
	c.t.Helper()
	return c.queueNamed(name(c.t, "q"), arguments)
}

func (c *client) queueNamed(q string, arguments table) string {
	c.t.Helper()
	c.call(1, "queue.declare-ok "+q, "queue.declare", q, false, true, false, false, false, arguments)
	c.t.Cleanup(func() { afterwards("queue.delete-ok", "queue.delete", q) })
	return q
}

// exchange declares a durable exchange, which is deleted when the test ends.
func (c *client) exchange(kind string, arguments table) string {
	c.t.Helper()
	x := name(c.t, "x")
	c.call(1, "exchange.declare-ok", "exchange.declare", x, kind, false, true, false, false, false, arguments)
	c.t.Cleanup(func() { afterwards("exchange.delete-ok", "exchange.delete", x) })
	return x
}

// afterwards tidies up over a connection of its own; that of the test may be closed.
func afterwards(reply, method string, arguments ...any) {
	f, err := rawclient.DialFrames(node.url, rawclient.Handshake{})
	if err != nil {
		return
	}
	_, _ = f.Call("channel.open-ok", 1, "channel.open")
	_, _ = f.Call(reply, 1, method, arguments...)
	_ = f.Close()
}

func (c *client) bind(queue, exchange, key string, arguments table) {
	c.t.Helper()
	c.call(1, "queue.bind-ok", "queue.bind", queue, exchange, key, false, arguments)
}

func (c *client) bindExchange(destination, source, key string) {
	c.t.Helper()
	c.call(1, "exchange.bind-ok", "exchange.bind", destination, source, key)
}

// message is the frames of a publish on channel 1.
func (c *client) message(exchange, key string, mandatory bool, p props, body string) []byte {
	b := rawclient.AppendCall(nil, 1, "basic.publish", exchange, key, mandatory)
	return rawclient.AppendContent(b, 1, c.FrameMax, &p, []byte(body))
}

func (c *client) publish(exchange, key, body string) {
	c.t.Helper()
	c.write(c.message(exchange, key, false, props{}, body))
}

func (c *client) publishWith(exchange, key string, p props, body string) {
	c.t.Helper()
	c.write(c.message(exchange, key, false, p, body))
}

// routed is a round trip behind all publishes: they are in their queues.
func (c *client) routed() {
	c.t.Helper()
	c.call(1, "tx.select-ok", "tx.select")
	c.call(1, "tx.commit-ok", "tx.commit")
	c.call(1, "channel.close-ok", "channel.close", 200)
	c.open(1)
}

// confirming turns confirms on.
func (c *client) confirming() { c.t.Helper(); c.call(1, "confirm.select-ok", "confirm.select") }

// confirmed reads acks until each publish from first to last has one, be it alone or with others.
func (c *client) confirmed(first, last uint64) {
	c.t.Helper()
	missing := map[uint64]bool{}
	for i := first; i <= last; i++ {
		missing[i] = true
	}
	for len(missing) > 0 {
		e := c.want("basic.ack")
		delete(missing, e.Number(0))
		for i := first; e.Arguments[1] == true && i < e.Number(0); i++ {
			delete(missing, i)
		}
	}
}

// get gets a message and acknowledges nothing; body "" stands for an empty queue.
func (c *client) get(queue string, noAck bool) *event {
	c.t.Helper()
	c.send(1, "basic.get", queue, noAck)
	return c.want("basic.get-")
}

// wantBodies takes all messages out of a queue, which must be these.
func (c *client) wantBodies(queue string, bodies ...string) {
	c.t.Helper()
	if got := c.bodies(queue); !slices.Equal(got, bodies) {
		c.t.Fatalf("queue %s: got %q, want %q", queue, got, bodies)
	}
}

func (c *client) bodies(queue string) (bodies []string) {
	c.t.Helper()
	for {
		e := c.get(queue, true)
		if e.Name == "basic.get-empty" {
			return bodies
		}
		bodies = append(bodies, string(e.Body))
	}
}

func (c *client) consume(queue, tag string) {
	c.t.Helper()
	c.call(1, "basic.consume-ok "+tag, "basic.consume", queue, tag)
}

// delivery reads a delivery, which must have the body.
func (c *client) delivery(body string) *event {
	c.t.Helper()
	e := c.want("basic.deliver")
	if string(e.Body) != body {
		c.t.Fatalf("got %s, want body %q", e, body)
	}
	return e
}

// tag is a delivery's tag: the second argument of basic.deliver, the first of basic.get-ok.
func tag(e *event) uint64 {
	if e.Name == "basic.deliver" {
		return e.Number(1)
	}
	return e.Number(0)
}

func redelivered(e *event) bool {
	i := 1
	if e.Name == "basic.deliver" {
		i = 2
	}
	is, _ := e.Arguments[i].(bool)
	return is
}

// ready is a queue's count of ready messages, by passive declare.
func (c *client) ready(queue string) uint64 {
	c.t.Helper()
	return c.call(1, "queue.declare-ok", "queue.declare", queue, true).Number(1)
}

// awaitReady waits until a queue has so many messages ready.
func (c *client) awaitReady(queue string, n uint64) {
	c.t.Helper()
	c.awaitThat(func() error {
		if got := c.ready(queue); got != n {
			return fmt.Errorf("queue %s has %d messages ready, want %d", queue, got, n)
		}
		return nil
	})
}

// awaitThat polls until there is no error.
func (c *client) awaitThat(condition func() error) {
	c.t.Helper()
	must(c.t, harness.Await(harness.Patience, func(context.Context) error { return condition() }))
}
