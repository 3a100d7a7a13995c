package long

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

func TestAFollowerFarBehindCatchesUpAndServesClients(t *testing.T) {
	c := harness.Start(t, harness.Options{Nodes: 3})
	const bytes = 16 << 10
	kept := traffic{queue: "kept", messages: 1000, bytes: 1000}
	must(t, kept.publish(c.Node(1).URL()))
	ctx := t.Context()
	group, err := c.BusiestGroup(ctx)
	must(t, err)
	leader, _, err := c.WaitLeader(group, harness.Patience)
	must(t, err)
	victim := leader%3 + 1
	had := c.Applied(ctx, victim, group)
	c.Node(victim).Kill9()

	passing := traffic{queue: "passing", messages: scaled(500 << 20 / bytes), bytes: bytes}
	begin := time.Now()
	must(t, passing.pass(c.Node(leader).URL(), c.Node(leader).URL()))
	t.Logf("%d MB passed in %.1f s while node %d was down", passing.messages*bytes>>20, time.Since(begin).Seconds(), victim)
	size, err := c.Node(leader).DataBytes()
	must(t, err)
	t.Logf("the leader's data folder: %d MB", size>>20)
	if *long {
		must(t, logBegins(ctx, c, leader, group, had))
	}

	must(t, c.Node(victim).Start())
	t.Logf("node %d ready %.1f s after its restart", victim, ready(t, c.Node(victim)).Seconds())
	must(t, c.Fingerprints(harness.Patience))
	must(t, kept.consume(c.Node(victim).URL()))
	after := traffic{queue: "after", messages: 1000, bytes: 100}
	must(t, after.pass(c.Node(victim).URL(), c.Node(victim).URL()))
	must(t, c.Fingerprints(harness.Patience))
}

// logBegins waits until the leader's log begins behind what the follower had: only a snapshot can help it then.
func logBegins(ctx context.Context, c *harness.Cluster, leader int, group, had uint64) error {
	return harness.Await(harness.Patience, func(context.Context) error {
		metrics, err := c.Node(leader).Metrics(ctx)
		if err != nil {
			return err
		}
		name := fmt.Sprintf(`understudy_group_first_index{group="%d"}`, group)
		if first := uint64(metrics[name]); first <= had+1 {
			return fmt.Errorf("the leader's log begins at %d, the follower had %d: no snapshot is needed", first, had)
		}
		return nil
	})
}
