package bench

import (
	"context"
	"flag"
	"math"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// go test ./interop/bench -run LinkCost -count=1 -timeout 40m -v -args -measure [-duration=2s] [-rounds=20] [-only=NAME]
var rounds = flag.Int("rounds", 10, "how often a source is measured without and with its standby")

// linkLoads are those under which a source is measured. Those without a rate are put on at half of what the source carries.
var linkLoads = []load{
	{name: "link-500", nodes: 1, queues: 1, bytes: 256, window: 1000, prefetch: 1000, ackEvery: 1, rate: 500},
	{name: "link-2000", nodes: 1, queues: 1, bytes: 256, window: 1000, prefetch: 1000, ackEvery: 1, rate: 2000},
	{name: "link-half", nodes: 1, queues: 1, bytes: 256, window: 1000, prefetch: 1000, ackEvery: 1},
	{name: "link3-2000", nodes: 3, queues: 1, bytes: 256, window: 1000, prefetch: 1000, ackEvery: 1, rate: 2000},
	{name: "link3-half", nodes: 3, queues: 1, bytes: 256, window: 1000, prefetch: 1000, ackEvery: 1},
}

// TestLinkCost measures what a standby costs its source; without -measure it shows that this can be measured.
func TestLinkCost(t *testing.T) {
	chosen, warmup, lasts, times := linkLoads[:1], 200*time.Millisecond, 500*time.Millisecond, 1
	if *measuring {
		chosen, warmup, lasts, times = linkLoads, 3*time.Second, *duration, *rounds
	}
	for _, l := range chosen {
		if *only != "" && *only != l.name {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			p, err := attach(t, harness.PairOptions{Nodes: l.nodes, Direct: true}, *measuring)
			if err == nil && l.rate == 0 {
				l, err = l.half(p, warmup, lasts)
			}
			var c comparison
			if err == nil {
				c, err = compare(p, l, warmup, lasts, times)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d nodes, %d messages/s of %d bytes%v", l.name, l.nodes, l.rate*l.queues, l.bytes, c)
		})
	}
}

// What a standby asks makes no entry of the source's log: as many syncs, of publishes that wait for one another, as without.
func TestAStandbyCostsItsSourceNoSyncs(t *testing.T) {
	const publishes, slack = 300, 15
	p := harness.StartPair(t, harness.PairOptions{Direct: true})
	with := syncsOf(t, p.Source, publishes)
	p.Standby.KillAll()
	without := syncsOf(t, p.Source, publishes)
	t.Logf("%d publishes cost %d syncs with a standby and %d without", publishes, with, without)
	if with > without+slack {
		t.Errorf("%d syncs with a standby, %d without", with, without)
	}
}

// syncsOf publishes n messages, each once the one before is confirmed, and counts the syncs.
func syncsOf(t *testing.T, c *harness.Cluster, n int) int {
	t.Helper()
	conn, ch, err := dialLib(c.URLs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	const queue = "one-by-one"
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	before, err := count(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*harness.Patience)
	defer cancel()
	for i := range n {
		confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent})
		if err != nil {
			t.Fatal(err)
		}
		if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
			t.Fatalf("publish %d: acked %v, %v", i, acked, err)
		}
	}
	after, err := count(c)
	if err != nil {
		t.Fatal(err)
	}
	return int(after.syncs - before.syncs)
}

// What a side's syncs explain is no cost of the standby's.
func TestWhatAStandbyCostsIsToldApartFromWhatSyncsCost(t *testing.T) {
	side := func(extra float64, syncs ...float64) (all []figures) {
		for _, s := range syncs {
			all = append(all, figures{syncs: s, cpu: 20 + s/10 + extra})
		}
		return all
	}
	c := comparison{side(0, 300, 500, 400), side(7, 800, 700)}
	if got := c.extra(); math.Abs(got-7) > 1e-9 {
		t.Errorf("%v us/msg, want 7", got)
	}
}

func TestAMedianIsTheMiddleOne(t *testing.T) {
	var all []figures
	for i, want := range []float64{3, 4, 5} { // of 3; of 3 and 5; of 3, 5 and 9
		all = append(all, figures{cpu: []float64{3, 5, 9}[i]})
		if got := medians(all).cpu; got != want {
			t.Errorf("of %d: %v, want %v", i+1, got, want)
		}
	}
}
