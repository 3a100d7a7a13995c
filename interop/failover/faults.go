package failover

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// fault is something bad with a name. do does it, holds it and makes it good again; it answers the node that suffered
// (0: all or none) and what was done in words.
type fault struct {
	name string
	do   func(ctx context.Context, r *round) (victim int, what string, err error)
	// power: it needs nodes whose power can be cut.
	power bool
}

// faults in the order in which rounds take them.
var faults = []fault{
	{name: "kill-leader", do: killLeader},
	{name: "pause-leader", do: pauseLeader},
	{name: "partition-full", do: partitionFull},
	{name: "kill-follower", do: killFollower},
	{name: "kill-all", do: killAll},
	{name: "partition-one-way", do: partitionOneWay},
	{name: "pause-follower", do: pauseFollower},
	{name: "slow-disk", do: slowDisk},
	{name: "leader-transfer", do: leaderTransfer},
	{name: "power-all", do: powerAll, power: true},
	{name: "power-leader", do: powerLeader, power: true},
}

func named(name string) (fault, bool) {
	for _, f := range faults {
		if f.name == name {
			return f, true
		}
	}
	return fault{}, false
}

func killLeader(ctx context.Context, r *round) (int, string, error) {
	return r.leader, fmt.Sprintf("kill -9 of node %d", r.leader), killAndRestart(ctx, r, r.leader, 4*time.Second)
}

func killFollower(ctx context.Context, r *round) (int, string, error) {
	victim := r.follower()
	return victim, fmt.Sprintf("kill -9 of node %d", victim), killAndRestart(ctx, r, victim, 3*time.Second)
}

func killAndRestart(ctx context.Context, r *round, id int, down time.Duration) error {
	r.begin()
	r.cluster.Node(id).Kill9()
	r.hold(ctx, down+r.upTo(2*time.Second))
	return r.cluster.Node(id).Start()
}

func killAll(ctx context.Context, r *round) (int, string, error) {
	r.begin()
	r.cluster.KillAll()
	r.hold(ctx, r.upTo(2*time.Second))
	for _, n := range r.cluster.Members() {
		if err := n.Start(); err != nil {
			return 0, "", err
		}
	}
	return 0, "kill -9 of all nodes", nil
}

// powerAll is killAll of nodes that lose what they had not synced.
func powerAll(ctx context.Context, r *round) (int, string, error) {
	what, err := cutPower(ctx, r, r.cluster.Members())
	return 0, what, err
}

func powerLeader(ctx context.Context, r *round) (int, string, error) {
	what, err := cutPower(ctx, r, []*harness.Node{r.cluster.Node(r.leader)})
	return r.leader, fmt.Sprintf("node %d: %s", r.leader, what), err
}

func cutPower(ctx context.Context, r *round, nodes []*harness.Node) (what string, err error) {
	r.begin()
	loss, err := harness.CutPower(nodes, r.rng)
	if err != nil {
		return "", err
	}
	r.hold(ctx, r.upTo(2*time.Second))
	for _, n := range nodes {
		if err := n.Start(); err != nil {
			return "", err
		}
	}
	return loss.String(), nil
}

func pauseLeader(ctx context.Context, r *round) (int, string, error) {
	return pause(ctx, r, r.leader)
}

func pauseFollower(ctx context.Context, r *round) (int, string, error) {
	return pause(ctx, r, r.follower())
}

func pause(ctx context.Context, r *round, id int) (int, string, error) {
	r.begin()
	if err := r.cluster.Node(id).Pause(); err != nil {
		return id, "", err
	}
	r.hold(ctx, 5*time.Second)
	return id, fmt.Sprintf("node %d stopped for 5 s", id), r.cluster.Node(id).Resume()
}

// partitionFull cuts one node off for long enough that it closes its clients: the leader, two times in three.
func partitionFull(ctx context.Context, r *round) (int, string, error) {
	victim := r.leader
	if r.rng.IntN(3) == 0 {
		victim = r.follower()
	}
	r.begin()
	r.cluster.Isolate(victim)
	r.hold(ctx, 6*time.Second+r.upTo(2*time.Second))
	r.cluster.Heal()
	return victim, fmt.Sprintf("node %d cut off", victim), nil
}

// partitionOneWay lets the leader hear and not speak, or speak and not hear.
func partitionOneWay(ctx context.Context, r *round) (int, string, error) {
	victim, what := r.leader, fmt.Sprintf("node %d cannot be heard", r.leader)
	deaf := r.rng.IntN(2) == 0
	if deaf {
		what = fmt.Sprintf("node %d cannot hear", victim)
	}
	r.begin()
	for _, n := range r.cluster.Members() {
		switch {
		case n.ID == victim:
		case deaf:
			r.cluster.CutOneWay(n.ID, victim)
		default:
			r.cluster.CutOneWay(victim, n.ID)
		}
	}
	r.hold(ctx, 6*time.Second+r.upTo(2*time.Second))
	r.cluster.Heal()
	return victim, what, nil
}

// slowDisk makes each sync of one node, leader or not, take 100 ms longer for 6 s. A follower with a slow disk slows
// nobody down, so that the node's own account of its syncs is what tells that the fault bit.
func slowDisk(ctx context.Context, r *round) (int, string, error) {
	victim := r.leader
	if r.rng.IntN(2) == 0 {
		victim = r.follower()
	}
	node := r.cluster.Node(victim)
	before, err := syncsOf(ctx, node)
	if err != nil {
		return victim, "", err
	}
	r.begin()
	stop, how, err := node.SlowDisk(100 * time.Millisecond)
	if err != nil {
		return victim, "", err
	}
	r.hold(ctx, 6*time.Second)
	stop()
	after, err := syncsOf(ctx, node)
	if mean := after.meanSince(before); mean > 50*time.Millisecond {
		r.noticed = fmt.Sprintf("%d syncs took %v each", after.count-before.count, mean.Round(time.Millisecond))
	}
	return victim, fmt.Sprintf("node %d: %s", victim, how), err
}

// syncs is a node's account of its log's syncs.
type syncs struct {
	count int
	took  time.Duration
}

func (s syncs) meanSince(before syncs) time.Duration {
	return (s.took - before.took) / time.Duration(max(1, s.count-before.count))
}

func syncsOf(ctx context.Context, n *harness.Node) (syncs, error) {
	metrics, err := n.Metrics(ctx)
	const name = "understudy_log_fsync_seconds"
	return syncs{int(metrics[name+"_count"]), time.Duration(metrics[name+"_sum"] * float64(time.Second))}, err
}

func leaderTransfer(ctx context.Context, r *round) (int, string, error) {
	to := r.follower()
	r.begin()
	cmd := exec.CommandContext(ctx, harness.Binary(r.t), "members", "transfer-leader", fmt.Sprint(r.group), fmt.Sprint(to),
		"--admin-url", "http://"+r.cluster.Node(r.leader).Admin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return to, "", fmt.Errorf("members transfer-leader %d %d: %w: %s", r.group, to, err, out)
	}
	r.hold(ctx, 2*time.Second)
	return 0, fmt.Sprintf("leadership handed to node %d", to), nil
}
