//go:build interop

package kombu

import (
	"os/exec"
	"testing"

	"github.com/understudy-mq/understudy/interop/programs"
)

// celery runs the programs whose files have that prefix.
func celery(t *testing.T) programs.Client {
	t.Helper()
	plain := client(t)
	return func(program string, args ...string) *exec.Cmd { return plain("celery-"+program, args...) }
}

func TestNodeKilledUnderCelery(t *testing.T) { celery(t).Failover(t) }

// TestWhatCeleryDoesWithoutRemoteControl: results over the rpc backend, failures, retries, chains and groups, states on the
// way, countdowns, rejected tasks as dead letters and requeued ones as redelivered, priorities. With quorum queues Celery
// lays no global prefetch on, and delays tasks through 28 queues whose messages expire into each other.
func TestWhatCeleryDoesWithoutRemoteControl(t *testing.T) {
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			env := []string{"AMQP_URL=" + programs.Broker(t), "CELERY_QUEUES=" + kind}
			celery(t).Start(t, env, "basics", "worker", "one@test", "--without-gossip", "--without-mingle", "--without-heartbeat").Says("ready")
			tasks := celery(t).Start(t, env, "basics", "tasks")
			tasks.Says(
				"result: 5",
				"failed: ValueError no",
				"retried: 2",
				"chain: 6",
				"group: 45",
				"progress: PROGRESS PROGRESS PROGRESS SUCCESS",
				"countdown: kept",
				"dead: reject rejected from basics."+kind,
				"requeued: again",
				"priorities: 9 5 1",
			)
			tasks.Ends()
		})
	}
}

// TestWhatCeleryDoesWithRemoteControl: two workers that find each other (mingle, gossip) and send events are asked, told and
// stopped over their mailboxes, by the library and by its command.
func TestWhatCeleryDoesWithRemoteControl(t *testing.T) {
	env := []string{"AMQP_URL=" + programs.Broker(t), "CELERY_CONTROL=yes"}
	var workers []*programs.Program
	for _, host := range []string{"one@test", "two@test"} {
		worker := celery(t).Start(t, env, "basics", "worker", host, "--task-events")
		worker.Says("ready")
		workers = append(workers, worker)
	}
	control := celery(t).Start(t, env, "basics", "control")
	control.Says(
		"ping: one@test two@test",
		"registered: add everywhere fail flaky reject slow steps when",
		"queues: basics.classic",
		"events: task-received task-started task-succeeded",
		"scheduled, revoked: 2",
		"running, terminated: TaskRevokedError terminated",
		"rate limit: new rate limit set successfully new rate limit set successfully",
		"another queue: 3",
		"command line: 2 nodes online. and 2 nodes online.",
	)
	control.Ends()
	celery(t).Start(t, env, "basics", "shutdown").Ends()
	for _, worker := range workers {
		worker.Says("everywhere")
		worker.Ends()
	}
}
