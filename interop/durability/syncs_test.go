package durability

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// publishes is how many are made, one after the other, each confirmed before the next.
const publishes = 1000

func TestEachSequentialConfirmCostsASyncOnAMajority(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Fatalf("%v: install strace, with which this test counts the broker's syncs", err)
	}
	for _, c := range []struct{ nodes, syncsMin int }{{1, publishes}, {3, 2 * publishes}} {
		t.Run(fmt.Sprintf("%d nodes", c.nodes), func(t *testing.T) {
			cluster := harness.Start(t, harness.Options{Nodes: c.nodes, Wrap: traced})
			ch := channel(t, cluster.Node(1).URL())
			before := syncs(t, cluster)
			publishOneByOne(t, ch)
			after := syncs(t, cluster)
			t.Logf("%d publishes cost %d syncs on %d nodes", publishes, after-before, c.nodes)
			if after-before < c.syncsMin {
				t.Errorf("%d syncs, want %d at least", after-before, c.syncsMin)
			}
		})
	}
}

// traced runs the node under strace. With -D the node stays the process that the harness knows.
func traced(n *harness.Node) []string {
	return []string{"strace", "-D", "-f", "--seccomp-bpf", "-e", "trace=fdatasync,fsync", "-o", trace(n)}
}

func trace(n *harness.Node) string { return n.Log + ".strace" }

// syncs counts the calls of fdatasync and fsync that all nodes have begun so far. strace writes line by line.
func syncs(t *testing.T, c *harness.Cluster) int {
	t.Helper()
	total := 0
	for _, n := range c.Members() {
		text, err := os.ReadFile(trace(n))
		if err != nil {
			t.Fatal(err)
		}
		total += strings.Count(string(text), "fdatasync(") + strings.Count(string(text), "fsync(")
	}
	return total
}

func channel(t *testing.T, url string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseDeadline(time.Now().Add(5 * time.Second)) })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("sequential", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return ch
}

func publishOneByOne(t *testing.T, ch *amqp.Channel) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*harness.Patience)
	defer cancel()
	for i := range publishes {
		c, err := ch.PublishWithDeferredConfirm("", "sequential", false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: fmt.Append(nil, i)})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := c.WaitContext(ctx); err != nil || !ok {
			t.Fatalf("publish %d: acked %v, %v", i, ok, err)
		}
	}
}
