package sessions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

// fault is what becomes of a cluster while a conversation goes on; node is the one that the client is connected to.
type fault struct {
	name string
	do   func(ctx context.Context, c *harness.Cluster, node *harness.Node) error
}

var faults = []fault{
	{"the node is killed", func(ctx context.Context, _ *harness.Cluster, node *harness.Node) error {
		node.Kill9()
		return node.Start()
	}},
	{"the node is stopped in good order", func(ctx context.Context, _ *harness.Cluster, node *harness.Node) error {
		if code, err := node.Terminate(ctx); err != nil || code != 0 {
			return fmt.Errorf("exit code %d: %w", code, err)
		}
		return node.Start()
	}},
	{"all nodes are killed", func(_ context.Context, c *harness.Cluster, _ *harness.Node) error {
		c.KillAll()
		for _, n := range c.Members() {
			if err := n.Start(); err != nil {
				return err
			}
		}
		return nil
	}},
	{"another node leads", func(ctx context.Context, c *harness.Cluster, node *harness.Node) error {
		for group := range 5 {
			leader, _, err := c.WaitLeader(uint64(group), 20*time.Second)
			if err != nil {
				return err
			}
			cmd := exec.CommandContext(ctx, binary, "members", "transfer-leader", fmt.Sprint(group), fmt.Sprint(leader%3+1), "--admin-url", "http://"+node.Admin)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
		return nil
	}},
	{"the node is cut off from the others", func(ctx context.Context, c *harness.Cluster, node *harness.Node) error {
		c.Isolate(node.ID)
		defer c.Heal()
		return harness.Await(harness.Patience, func(ctx context.Context) error {
			if node.Ready(ctx) {
				return fmt.Errorf("node %d has not noticed", node.ID)
			}
			return nil
		})
	}},
}

var binary string

// TestAConversationSurvivesWhatBecomesOfItsNode: a step of the conversation comes after the fault, and the trace is that of one
// without it.
func TestAConversationSurvivesWhatBecomesOfItsNode(t *testing.T) {
	binary = harness.Binary(t)
	c := harness.Start(t, harness.Options{Nodes: 3})
	uncut := newTalk(c, 0, nil)
	if err := uncut.conversation(); err != nil {
		t.Fatal(err)
	}
	first := firstSeed(t)
	t.Logf("%d steps", uncut.step)
	random := rand.New(rand.NewPCG(first, 2))
	rounds := 1
	if *long {
		rounds = 6
	}
	for round := range rounds {
		for i, f := range faults {
			at := 6 + random.IntN(uncut.step-8)
			k := newTalk(c, round+i, nil)
			var failed error
			k.before = func(step int) {
				if step == at {
					failed = f.do(t.Context(), c, nodeOf(c, k.urls[k.node()]))
				}
			}
			began := time.Now()
			err := k.conversation()
			if failed != nil {
				t.Fatalf("%s: %v", f.name, failed)
			}
			if err != nil || !slices.Equal(k.told(), uncut.told()) {
				t.Errorf("%s before step %d: %v\n%s", f.name, at, err, difference(k.told(), uncut.told()))
			}
			if err := c.WaitReady(harness.Patience); err != nil {
				t.Fatal(err)
			}
			if err := c.Fingerprints(harness.Patience); err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
			t.Logf("%s before step %d: %d more connections, %v", f.name, at, k.resumed, time.Since(began))
		}
	}
}

func nodeOf(c *harness.Cluster, url string) *harness.Node {
	members := c.Members()
	return members[slices.IndexFunc(members, func(n *harness.Node) bool { return n.URL() == url })]
}

// TestASessionGoesOnAtANodeThatCameBackBySnapshot: the node was down while the others dropped the log that it would need. (In the
// short run they have not: it catches up from the log.)
func TestASessionGoesOnAtANodeThatCameBackBySnapshot(t *testing.T) {
	megabytes := 8
	if *long {
		megabytes = 500
	}
	c := harness.Start(t, harness.Options{Nodes: 3})
	uncut := newTalk(c, 0, nil)
	if err := uncut.conversation(); err != nil {
		t.Fatal(err)
	}
	group, err := c.BusiestGroup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leader, _, err := c.WaitLeader(group, harness.Patience)
	if err != nil {
		t.Fatal(err)
	}
	victim := leader%3 + 1
	k := newTalk(c, victim-1, table{"x-session-expiry": "600"})
	k.before = func(step int) {
		if step != 14 { // deliveries are in flight, and publishes are known
			return
		}
		had := c.Applied(t.Context(), victim, group)
		c.Node(victim).Kill9()
		if err := pass(c.Node(leader).URL(), megabytes); err != nil {
			t.Fatal(err)
		}
		if *long {
			if err := logBegins(c, leader, group, had); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Node(victim).Start(); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitReady(harness.Patience); err != nil {
			t.Fatal(err)
		}
		k.dials = 0 // go on at the node that came back
	}
	if err := k.conversation(); err != nil || !slices.Equal(k.told(), uncut.told()) {
		t.Errorf("%v\n%s", err, difference(k.told(), uncut.told()))
	}
	want(t, "connections after the first", k.resumed, 1)
	if err := c.Fingerprints(harness.Patience); err != nil {
		t.Error(err)
	}
}

// pass publishes and consumes so much.
func pass(url string, megabytes int) error {
	const bodyBytes, burst = 16 << 10, 64
	in, err := rawclient.Dial(url)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // all is confirmed
	out, err := rawclient.Dial(url)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // all is acknowledged
	if err := in.DeclareQueue("passing"); err != nil {
		return err
	}
	p, err := in.Publisher("passing", bodyBytes)
	if err != nil {
		return err
	}
	if err := out.Consume("passing", 2*burst); err != nil {
		return err
	}
	for range megabytes << 20 / (bodyBytes * burst) {
		for range burst {
			if err := p.Publish(); err != nil {
				return err
			}
		}
		if err := in.Flush(); err != nil {
			return err
		}
		for range burst {
			d, err := out.Next()
			if err != nil {
				return err
			}
			out.Ack(d.Tag, false)
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return out.Barrier()
}

// logBegins waits until the leader's log begins behind what the other had.
func logBegins(c *harness.Cluster, leader int, group, had uint64) error {
	return harness.Await(harness.Patience, func(ctx context.Context) error {
		metrics, err := c.Node(leader).Metrics(ctx)
		if err != nil {
			return err
		}
		if first := uint64(metrics[fmt.Sprintf(`understudy_group_first_index{group="%d"}`, group)]); first <= had+1 {
			return fmt.Errorf("the leader's log begins at %d, the other had %d: no snapshot is needed", first, had)
		}
		return nil
	})
}

// outcome is a scenario on a feature that a resumed session must not change: what it answers is the same with interruptions
// as without.
type outcome struct {
	name string
	run  func(t *talk, interrupt func() error) error
}

func queueWith(t *talk, queue string, arguments table) func() error {
	return func() error {
		_, err := t.ask(1, "queue.declare-ok", "queue.declare", t.prefix+queue, false, true, false, false, false, arguments)
		return err
	}
}

func (t *talk) awaitCount(queue string, n uint64) error {
	end := time.Now().Add(patience)
	for {
		e, err := t.ask(1, "queue.declare-ok", "queue.declare", t.prefix+queue, true)
		if err != nil || e.Number(1) == n {
			t.say("%s has %d", queue, n)
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s has %d messages, not %d", queue, e.Number(1), n)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

var outcomes = []outcome{
	{"TTL and dead letters", func(t *talk, interrupt func() error) error {
		return steps(
			queueWith(t, "dead", table{}),
			queueWith(t, "q", table{"x-message-ttl": 2000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": t.prefix + "dead"}),
			func() error { return t.publish(1, t.messages("", t.prefix+"q", "m", 10)...) },
			func() error { return t.consume(1, t.prefix+"q", "c", table{}) },
			func() error { return t.receive(1, "c", 4) },
			interrupt,
			func() error { return t.awaitCount("dead", 6) },
			interrupt,
			func() error { return t.ack(1, 3, true) },
			func() error { return t.nack(1, 4, false) },
			func() error { return t.awaitCount("dead", 7) },
			func() error { return t.awaitCount("q", 0) },
		)
	}},
	{"delivery limit", func(t *talk, interrupt func() error) error {
		return steps(
			queueWith(t, "dead", table{}),
			queueWith(t, "q", table{"x-queue-type": "quorum", "x-delivery-limit": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": t.prefix + "dead"}),
			func() error { return t.publish(1, t.message("", t.prefix+"q", "m")) },
			func() error { return t.consume(1, t.prefix+"q", "c", table{}) },
			func() error { return t.receive(1, "c", 1) },
			interrupt, interrupt, interrupt, interrupt, // none counts as failed
			func() error { return t.reject(1, 1) },
			func() error { return t.receive(1, "c", 2) },
			interrupt,
			func() error { return t.reject(1, 2) },
			func() error { return t.receive(1, "c", 3) },
			interrupt,
			func() error { return t.reject(1, 3) },
			func() error { return t.awaitCount("dead", 1) },
		)
	}},
	{"priorities", func(t *talk, interrupt func() error) error {
		var list []*parcel
		for i := range 12 {
			m := t.message("", t.prefix+"q", fmt.Sprint(i))
			priority := byte(i % 4)
			m.properties.Priority = &priority
			list = append(list, m)
		}
		return steps(
			queueWith(t, "q", table{"x-max-priority": 4}),
			func() error { return t.publish(1, list...) },
			func() error { return t.consume(1, t.prefix+"q", "c", table{}) },
			func() error { return t.receive(1, "c", 4) },
			interrupt,
			func() error { return t.ack(1, 2, true) },
			func() error { return t.receive(1, "c", 6) },
			interrupt,
			func() error { return t.ack(1, 6, true) },
			func() error { return t.receive(1, "c", 10) },
			func() error { return t.ack(1, 10, true) },
			func() error { return t.receive(1, "c", 12) },
			func() error { return t.ack(1, 12, true) },
			func() error { return t.awaitCount("q", 0) },
		)
	}},
	{"single active consumer", func(t *talk, interrupt func() error) error {
		return steps(
			queueWith(t, "q", table{"x-single-active-consumer": true}),
			func() error { return t.consume(1, t.prefix+"q", "active", table{}) },
			func() error { return t.openChannel(2, 4) },
			func() error { return t.consume(2, t.prefix+"q", "waiting", table{}) },
			interrupt,
			func() error { return t.publish(1, t.messages("", t.prefix+"q", "m", 6)...) },
			func() error { return t.receive(1, "active", 4) },
			interrupt,
			func() error { return t.ack(1, 4, true) },
			func() error { return t.receive(1, "active", 6) },
			func() error { return t.ack(1, 6, true) },
			func() error { return t.cancel(1, "active") },
			interrupt,
			func() error { return t.publish(1, t.messages("", t.prefix+"q", "n", 2)...) },
			func() error { return t.receive(2, "waiting", 2) },
			func() error { return t.ack(2, 2, true) },
			func() error { return t.awaitCount("q", 0) },
		)
	}},
	{"transactions", func(t *talk, interrupt func() error) error {
		return steps(
			queueWith(t, "q", table{}),
			func() error { return t.openChannel(2, 10) },
			func() error { return t.transaction(2, nil, t.messages("", t.prefix+"q", "a", 3)...) },
			func() error { return t.awaitCount("q", 3) },
			func() error { return t.transaction(2, interrupt, t.messages("", t.prefix+"q", "b", 3)...) },
			func() error { return t.awaitCount("q", 6) },
			func() error { return t.transaction(2, interrupt, t.messages("", t.prefix+"q", "a", 3)...) }, // committed before
			func() error { return t.awaitCount("q", 6) },
		)
	}},
}

// interrupt cuts the connection, and waits until the talk goes on on another one.
func (t *talk) interrupt() error {
	if err := t.f.Close(); err != nil {
		return err
	}
	_, err := t.ask(1, "basic.qos-ok", "basic.qos", 0, t.lane(1).prefetch)
	return err
}

func (t *talk) reject(channel uint16, tag uint64) error {
	t.say("channel %d: reject %d", channel, tag)
	return t.settle(channel, func(l *lane) error { return t.f.Send(l.number, "basic.reject", tag, true) })
}

// transaction publishes and commits; the whole of it again where the connection was lost.
func (t *talk) transaction(channel uint16, interrupt func() error, parcels ...*parcel) error {
	return t.do(func() error {
		l := t.lane(channel)
		if _, err := t.call(l, "tx.select-ok", "tx.select"); err != nil {
			return err
		}
		for _, p := range parcels {
			b := rawclient.AppendCall(nil, channel, "basic.publish", p.exchange, p.key)
			if err := t.f.Write(rawclient.AppendContent(b, channel, t.f.FrameMax, &p.properties, p.body)); err != nil {
				return errCut
			}
		}
		if interrupt != nil {
			cut := interrupt
			interrupt = nil
			resumed := t.resumed
			if err := cut(); err != nil {
				return err
			}
			if t.resumed > resumed {
				return errCut // what was not committed is gone
			}
		}
		_, err := t.call(l, "tx.commit-ok", "tx.commit")
		return err
	})
}

func TestAResumedSessionChangesNoOutcome(t *testing.T) {
	c := shared()
	for _, o := range outcomes {
		t.Run(strings.ReplaceAll(o.name, " ", "-"), func(t *testing.T) {
			var traces [2][]string
			for i := range traces {
				k := newTalk(c, i, nil)
				interrupt := func() error { return nil }
				if i == 1 {
					interrupt = k.interrupt
				}
				err := steps(k.attachFirst,
					func() error { return k.openChannel(1, 4) },
					func() error { return k.confirmSelect(1) },
					func() error { return o.run(k, interrupt) })
				if err != nil {
					t.Fatalf("interrupted %t: %v\n%s", i == 1, err, strings.Join(k.trace, "\n"))
				}
				if i == 1 && k.resumed == 0 {
					t.Error("it was never interrupted")
				}
				traces[i] = k.told()
				_ = k.f.Close()
			}
			if !slices.Equal(traces[0], traces[1]) {
				t.Errorf("the outcome differs: %s", difference(traces[1], traces[0]))
			}
		})
	}
}
