package sessions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// links are where a cluster's nodes serve their link.
func links(c *harness.Cluster) string {
	var list []string
	for _, n := range c.Members() {
		list = append(list, n.Link)
	}
	return strings.Join(list, ",")
}

// comeBack makes a former source, all nodes of which are stopped, a standby of the cluster that serves: its first node is wound
// back, the others join that one with empty folders.
func comeBack(t *testing.T, former, serving *harness.Cluster, token string) {
	t.Helper()
	understudy := func(args ...string) ([]byte, error) {
		out, err := exec.CommandContext(t.Context(), harness.Binary(t), args...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("understudy %v: %w\n%s", args, err, out)
		}
		return out, nil
	}
	first := former.Node(1)
	out, err := understudy("link", "rejoin", "--data", first.Data, "--source", links(serving), "--link-token-file", token)
	if err != nil {
		t.Fatal(err)
	}
	hasText(t, "how the former source comes back", string(out), "wound back to where its cluster was cut")
	first.Without("--cluster")
	follow := []string{"--link-source", links(serving), "--link-token-file", token}
	if err := first.Start(append(follow, "--link-seed", "1")...); err != nil {
		t.Fatal(err)
	}
	if err := former.WaitReady(harness.Patience); err != nil {
		t.Fatal(err)
	}
	for _, n := range former.Members()[1:] {
		if err := os.RemoveAll(n.Data); err != nil {
			t.Fatal(err)
		}
		n.Without("--cluster")
		if err := n.Start(append(follow, "--join", "http://"+first.Admin)...); err != nil {
			t.Fatal(err)
		}
		err := harness.Await(harness.Patience, func(context.Context) error {
			_, err := understudy("members", "promote", fmt.Sprint(n.ID), "--admin-url", "http://"+first.Admin)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := former.WaitReady(harness.Patience); err != nil {
		t.Fatal(err)
	}
}

// keeper is a session that holds deliveries and has an exclusive queue, by nothing but its id.
type keeper struct {
	t    *testing.T
	id   string
	tags []uint64
}

const keeps = 3

// begin declares what it has, and takes what it holds.
func (k *keeper) begin(url string) {
	k.t.Helper()
	c := connect(k.t, url, session(k.id, "x-session-expiry", "300"))
	c.call("confirm.select-ok", 1, "confirm.select")
	c.declare("kept", false)
	c.declare("own", true)
	c.publish(1, "own", "mine", props{})
	for i := range keeps {
		c.publish(1, "kept", fmt.Sprint(i), props{})
	}
	c.consume("kept", "keeper")
	for i := range keeps {
		tag, _ := c.deliver(fmt.Sprint(i))
		k.tags = append(k.tags, tag)
	}
	c.cut()
}

// find wants everything as it was; with settle it acknowledges what it holds.
func (k *keeper) find(url string, settle bool) {
	k.t.Helper()
	c := connect(k.t, url, session(k.id, "x-session-expiry", "300"))
	want(k.t, "the session's state", c.status()["x-session-state"], "resumed")
	c.declare("own", true)
	want(k.t, "messages in the exclusive queue", c.count("own"), 1)
	c.consume("kept", "keeper")
	for i, was := range k.tags {
		tag, again := c.deliver(fmt.Sprint(i))
		want(k.t, "a held delivery's tag and redelivered flag", fmt.Sprint(tag, again), fmt.Sprint(was, true))
		if settle {
			c.send(1, "basic.ack", tag)
		}
	}
	if settle {
		want(k.t, "messages that are ready", c.count("kept"), 0)
		want(k.t, "deliveries in flight", c.status()["x-session-inflight-count"], 0)
	}
	c.cut()
}

// wantSent wants a client of a cluster that has handed over to be told of every node of the other.
func wantSent(t *testing.T, from *harness.Node, to *harness.Cluster) {
	t.Helper()
	_, err := amqp.Dial(from.URL())
	var told *amqp.Error
	if !errors.As(err, &told) || told.Code != amqp.ConnectionForced {
		t.Fatalf("a client of a fenced cluster is told %v", err)
	}
	for _, n := range to.Members() {
		hasText(t, "where a client is sent", told.Reason, n.AMQP)
	}
}

// TestHelperGoesToTheStandbyAndBackWhenTheClustersChangePlacesTwice: under load the source hands over, comes back as a standby, and is
// handed everything again. The sessions go both ways, with what they hold.
func TestHelperGoesToTheStandbyAndBackWhenTheClustersChangePlacesTwice(t *testing.T) {
	nodes, each := 1, 300
	if *long {
		nodes, each = 3, 5000
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r := newPromotedRun(t, ctx, pairOf(t, harness.PairOptions{Nodes: nodes, Direct: true}))
	former, next := r.pair.Source, r.pair.Standby
	stop := make(chan struct{})
	total := r.publish(stop, "a", "b")
	more := func() {
		t.Helper()
		before := r.delivered()
		r.await(harness.Patience, func(context.Context) error {
			if n := r.delivered() - before; n < each {
				return fmt.Errorf("%d of %d more deliveries", n, each)
			}
			return nil
		})
	}
	k := &keeper{t: t, id: unique("keeper")}
	k.begin(former.Node(1).URL())
	more()
	for _, way := range []struct {
		from, to   *harness.Cluster
		generation uint64
	}{{former, next, 1}, {next, former, 2}} {
		if way.generation == 2 {
			former.KillAll() // fenced
			comeBack(t, former, next, r.pair.Token)
			more()
		}
		back := harness.Pair{Source: way.from, Standby: way.to}
		if err := back.WaitCaughtUpWithin(500, harness.Patience); err != nil {
			t.Fatal(err)
		}
		report, err := way.to.Node(1).Promote(ctx, "switchover")
		if err != nil {
			t.Fatal(err)
		}
		want(t, "the kind of promotion", report.Kind, "planned")
		want(t, "the generation", report.Generation, way.generation)
		r.awaitPromoted()
		wantSent(t, way.from.Node(1), way.to)
		k.find(way.to.Node(1).URL(), way.generation == 2)
		more()
	}
	close(stop)
	r.judge(total())
	if err := former.Fingerprints(harness.Patience); err != nil {
		t.Error(err)
	}
}
