//go:build interop

package kombu

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/programs"
)

const (
	tasks = 100
	queue = "session.q"
)

// TestSessionKeepsTheTasksOfACeleryWorkerThatLosesItsNode kills the node while the worker runs its first task and holds the
// others. Each task must be run exactly once, by this worker: another one that waits at the queue gets none. Its remote
// control's exclusive queue must be its own at once.
func TestSessionKeepsTheTasksOfACeleryWorkerThatLosesItsNode(t *testing.T) {
	cluster := harness.Start(t, harness.Options{Nodes: 3})
	p := client(t).Start(t, append(programs.Addresses(t, cluster), "AMQP_SESSION=celery-worker"), "celery-session")
	p.Says("ran 1")
	holds(t, cluster, tasks)
	rival := programs.StartRival(t, cluster, queue)
	programs.KillAttached(t, cluster, rival.Node())
	p.Tell("it is dead")
	ran := map[string]int{"1": 1}
	for len(ran) < tasks {
		line, more := p.Line()
		number, isTask := strings.CutPrefix(line, "ran ")
		if !more || !isTask {
			t.Fatalf("after %d tasks the worker says %q", len(ran), line)
		}
		number = strings.TrimSuffix(number, " again")
		if ran[number]++; ran[number] > 1 {
			t.Errorf("task %s was run twice", number)
		}
	}
	holds(t, cluster, 0)
	rival.Stop()
}

// holds waits until so many messages are in flight, and none ready.
func holds(t *testing.T, c *harness.Cluster, count int64) {
	t.Helper()
	if err := harness.Await(harness.Patience, func(ctx context.Context) error {
		q, err := c.Running()[0].Queue(ctx, queue)
		if err == nil && (q.Unacked != count || q.Ready != 0) {
			err = fmt.Errorf("%d in flight and %d ready, want %d and none", q.Unacked, q.Ready, count)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
