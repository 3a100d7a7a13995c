package sessions

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// TestADeclarationOutlivesAPartitionFromItsQueuesOwner: the node of a plain client's connection is cut off, in silence, and the client
// declares its exclusive queue again on a connection to another node that has been open all the time. To hear 405 would be the
// end of many programs; the queue is free as soon as the cluster has given the node up.
func TestADeclarationOutlivesAPartitionFromItsQueuesOwner(t *testing.T) {
	c := harmed()
	for _, l := range []struct {
		name string
		// owner's node is lost by cut, from the view of the node that the declaration comes to; until is waited for.
		leads bool
		cut   func(leader, owner *harness.Node)
		until func(t *testing.T, owner *client, leader, at *harness.Node)
	}{
		{"a follower that nobody reaches", false, func(_, owner *harness.Node) { c.Isolate(owner.ID) }, nil},
		{"the leader that nobody reaches", true, func(_, owner *harness.Node) { c.Isolate(owner.ID) }, awaitAnotherLeader},
		{"a follower that the leader alone does not reach", false, func(leader, owner *harness.Node) { c.CutBoth(leader.ID, owner.ID) },
			func(t *testing.T, owner *client, _, _ *harness.Node) {
				want(t, "the owner is closed with", owner.next("connection.close").Number(0), 320)
			}},
	} {
		t.Run(l.name, func(t *testing.T) {
			again(t, c)
			t.Cleanup(func() { c.Heal(); again(t, c) })
			leader, others := leaderAndOthers(t, c)
			lost, at := others[1], others[0]
			if l.leads {
				lost = leader
			}
			q := unique("q")
			owner, other, declarer := connect(t, lost.URL(), nil), connect(t, at.URL(), nil), connect(t, at.URL(), nil)
			owner.declare(q, true)
			other.send(1, "queue.declare", q, false, false, true)
			want(t, "while the owner is there", other.next("channel.close").Number(0), 405)
			l.cut(leader, lost)
			if l.until != nil {
				l.until(t, owner, leader, at)
			}
			began := time.Now()
			declarer.declare(q, true)
			t.Logf("declared after %v", time.Since(began).Round(time.Millisecond))
		})
	}
}

// TestADeclarationAtANodeThatIsCutOffEndsTheConnection: the client's own node is the lost one. Nobody can say what became of the queue.
func TestADeclarationAtANodeThatIsCutOffEndsTheConnection(t *testing.T) {
	c := harmed()
	again(t, c)
	t.Cleanup(func() { c.Heal(); again(t, c) })
	leader, others := leaderAndOthers(t, c)
	q := unique("q")
	owner, declarer := connect(t, leader.URL(), nil), connect(t, others[0].URL(), nil)
	owner.declare(q, true)
	await(t, func() error { // the client's node has heard of the queue
		return others[0].Get(context.Background(), "/api/queues/%2F/"+q, new(harness.Queue))
	})
	c.Isolate(others[0].ID)
	declarer.send(1, "queue.declare", q, false, false, true)
	want(t, "it is closed with", declarer.next("connection.close").Number(0), 320)
}

// awaitAnotherLeader waits until a node knows another leader in the place of one, in every group.
func awaitAnotherLeader(t *testing.T, _ *client, leader, at *harness.Node) {
	t.Helper()
	await(t, func() error {
		groups, err := at.Groups(context.Background())
		for id, g := range groups {
			if g.Leader == 0 || g.Leader == uint64(leader.ID) {
				err = fmt.Errorf("leader of group %d at node %d: %d", id, at.ID, g.Leader)
			}
		}
		return err
	})
}
