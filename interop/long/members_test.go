package long

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/checker"
	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/load"
)

func TestADeadNodeIsReplacedUnderLoad(t *testing.T) {
	// Without proxies: a node that joins has one address for all.
	c := harness.Start(t, harness.Options{Nodes: 3, Spare: 1, Direct: true})
	ctx, cancel := context.WithTimeout(t.Context(), 3*harness.Patience)
	defer cancel()
	group := uint64(1)
	leader, _, err := c.WaitLeader(group, harness.Patience)
	must(t, err)
	dead := leader%3 + 1
	helper, spare := c.Node(leader), c.Node(4)
	l, err := load.Start(ctx, load.Options{
		URLs: append(c.URLs(), spare.URL()), Rate: 300, Seed: 1,
		Queues: []load.Queue{{Name: "ordered", Producers: 2, Consumers: 1}, {Name: "shared", Producers: 1, Consumers: 2}},
	})
	must(t, err)
	defer l.Stop()
	progress(t, l, 500)

	c.Node(dead).Kill9()
	progress(t, l, 500)
	members(t, helper, "add", fmt.Sprintf("%d=%s", spare.ID, spare.Peer))
	must(t, spare.Start("--join", "http://"+helper.Admin))
	t.Logf("node 4 ready %.1f s after its start", ready(t, spare).Seconds())
	members(t, helper, "promote", fmt.Sprint(spare.ID))
	members(t, helper, "remove", fmt.Sprint(dead))
	progress(t, l, 500)

	// The new node carries its share: with one more of the old ones gone there is still a majority.
	other := 6 - leader - dead
	c.Node(other).Kill9()
	progress(t, l, 500)
	must(t, c.Node(other).Start())
	must(t, c.WaitReady(harness.Patience))
	l.StopProducers()
	must(t, l.WaitEmpty(ctx))
	l.StopConsumers()
	must(t, l.Drain(ctx))
	report := checker.Check(l.History, l.Single)
	t.Log(report)
	if !report.OK() {
		t.Errorf("the checker found faults:\n%s", strings.Join(report.Examples, "\n"))
	}
	must(t, c.Fingerprints(harness.Patience))
}

// progress waits for so many more messages to be confirmed and delivered.
func progress(t *testing.T, l *load.Load, n int64) {
	t.Helper()
	confirmed, delivered := l.History.Confirmed(), l.History.Delivered()
	must(t, harness.Await(harness.Patience, func(context.Context) error {
		if c, d := l.History.Confirmed()-confirmed, l.History.Delivered()-delivered; c < n || d < n {
			return fmt.Errorf("%d of %d messages confirmed, %d delivered", c, n, d)
		}
		return nil
	}))
}

// members runs a verb against a node until it succeeds: a learner cannot be promoted before it has caught up.
func members(t *testing.T, n *harness.Node, args ...string) {
	t.Helper()
	begin := time.Now()
	must(t, harness.Await(harness.Patience, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, harness.Binary(t), append(append([]string{"members"}, args...), "--admin-url", "http://"+n.Admin)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("members %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}))
	t.Logf("members %s took %.1f s", strings.Join(args, " "), time.Since(begin).Seconds())
}
