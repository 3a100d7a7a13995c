package programs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
)

const (
	failoverCount = 2000
	killAfter     = 300 // confirms
	failoverQueue = "failover.q"
)

// Failover runs program "failover" against three nodes and kills the one that it is attached to, for good, after 300
// confirms. The program connects to one of AMQP_URLS, or to AMQP_BALANCED if its library knows one address only; it declares the durable queue failover.q, publishes persistent messages
// 1 to COUNT there with confirms, few at a time, and consumes them with a prefetch of 20 or so, acking each. It loses
// its connection, reconnects by the library's own means, publishes again what was not confirmed, and goes on. It prints
//
//	confirmed N          a confirm came
//	published N again    N is published once more
//	received N [again]   a delivery, with its redelivered flag
//	reconnected          the broker was reached anew
//	done                 all is confirmed and received; it goes on consuming what may come again, until it is killed
//
// The judgement is ledger.faults.
func (c Client) Failover(t *testing.T) {
	t.Helper()
	cluster := harness.Start(t, harness.Options{Nodes: 3})
	p := c.Start(t, Addresses(t, cluster), "failover", fmt.Sprint(failoverCount))
	l := newLedger(failoverCount)
	for line := p.mustLine(); line != "done"; line = p.mustLine() {
		p.noted(l, line)
		if !l.killed && len(l.confirmed) >= killAfter {
			KillAttached(t, cluster)
			l.killed = true
		}
	}
	awaitEmpty(t, cluster, failoverQueue)
	for _, line := range p.saidMeanwhile() {
		p.noted(l, line)
	}
	for _, fault := range l.faults() {
		t.Error(fault)
	}
}

// noted takes the line into the ledger, which ends the test if no program should print it.
func (p *Program) noted(l *ledger, line string) {
	p.t.Helper()
	if err := l.note(line); err != nil {
		p.t.Fatalf("%v\n%s\n%s", err, p.tail(), p.rest())
	}
}

// Addresses are the variables by which a program learns where the nodes are.
func Addresses(t testing.TB, c *harness.Cluster) []string {
	t.Helper()
	return addressesOf(t, c.Members())
}

func addressesOf(t testing.TB, nodes []*harness.Node) []string {
	t.Helper()
	var urls, targets []string
	for _, n := range nodes {
		urls, targets = append(urls, watched(t, n)), append(targets, n.AMQP)
	}
	return []string{
		"AMQP_URL=" + urls[0],
		"AMQP_URLS=" + strings.Join(urls, ","),
		"AMQP_BALANCED=" + strings.Replace(nodes[0].URL(), targets[0], Forward(t, "127.0.0.1:0", targets...), 1),
	}
}

// KillAttached kills the node with the most client connections, but for those named, and answers it.
func KillAttached(t testing.TB, c *harness.Cluster, but ...*harness.Node) *harness.Node {
	t.Helper()
	most, attached := 0, (*harness.Node)(nil)
	for _, n := range c.Running() {
		if own := clients(t, n); own > most && !slices.Contains(but, n) {
			most, attached = own, n
		}
	}
	if attached == nil {
		t.Fatal("no node has a client")
	}
	attached.Kill9()
	return attached
}

// clients counts the connections of a node.
func clients(t testing.TB, n *harness.Node) int {
	t.Helper()
	var rows []struct{ Node string }
	if err := harness.Await(patience, func(ctx context.Context) error { return n.Get(ctx, "/api/connections", &rows) }); err != nil {
		t.Fatal(err)
	}
	own := 0
	for _, r := range rows {
		if r.Node == fmt.Sprintf("understudy@%d", n.ID) {
			own++
		}
	}
	return own
}

// awaitEmpty waits until the queue holds nothing, neither ready nor unacknowledged.
func awaitEmpty(t testing.TB, c *harness.Cluster, queue string) {
	t.Helper()
	if err := harness.Await(patience, func(ctx context.Context) error {
		q, err := c.Running()[0].Queue(ctx, queue)
		if err == nil && q.Messages != 0 {
			err = fmt.Errorf("queue %s holds %d ready and %d unacknowledged messages", queue, q.Ready, q.Unacked)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// ledger is what a failover program told.
type ledger struct {
	count                        int
	killed                       bool
	lateConfirms                 int // after the kill
	reconnects                   int
	confirmed, republished, seen map[int]int // times by number
	fresh                        map[int]int // of those seen, the ones without the redelivered flag
}

func newLedger(count int) *ledger {
	return &ledger{count: count, confirmed: map[int]int{}, republished: map[int]int{}, seen: map[int]int{}, fresh: map[int]int{}}
}

// note takes a line; it refuses what no program should print.
func (l *ledger) note(line string) error {
	if line == "reconnected" {
		l.reconnects++
		return nil
	}
	words := strings.Fields(line)
	if len(words) < 2 {
		return fmt.Errorf("the program says %q", line)
	}
	n, err := strconv.Atoi(words[1])
	if err != nil || n < 1 || n > l.count {
		return fmt.Errorf("the program says %q", line)
	}
	switch words[0] + strings.Join(words[2:], " ") {
	case "confirmed":
		l.confirmed[n]++
		if l.killed {
			l.lateConfirms++
		}
	case "publishedagain":
		l.republished[n]++
	case "received":
		l.fresh[n]++
		l.seen[n]++
	case "receivedagain":
		l.seen[n]++
	default:
		return fmt.Errorf("the program says %q", line)
	}
	return nil
}

// faults is what the run shows that must not be: a message neither confirmed nor received, one delivered twice though it
// was published once and is not marked as redelivered, and a run in which the kill was not felt.
func (l *ledger) faults() []string {
	var faults []string
	for n := 1; n <= l.count; n++ {
		switch {
		case l.confirmed[n] == 0:
			faults = append(faults, fmt.Sprintf("%d was never confirmed", n))
		case l.seen[n] == 0:
			faults = append(faults, fmt.Sprintf("%d was confirmed and is lost", n))
		case l.fresh[n] > 1+l.republished[n]:
			faults = append(faults, fmt.Sprintf("%d came %d times as new and was published %d times", n, l.fresh[n], 1+l.republished[n]))
		}
	}
	if !l.killed || l.reconnects == 0 || l.lateConfirms < 100 {
		faults = append(faults, fmt.Sprintf("the kill was not felt: killed %v, reconnected %d times, %d confirms after it", l.killed, l.reconnects, l.lateConfirms))
	}
	if len(faults) > 10 {
		faults = append(slices.Clip(faults[:10]), fmt.Sprintf("and %d more", len(faults)-10))
	}
	return faults
}
