package long

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

const patience = harness.Patience

// api sends a request that is to succeed.
func api(t *testing.T, n *harness.Node, method, path, body string) {
	t.Helper()
	must(t, harness.Await(patience, func(ctx context.Context) error {
		_, err := n.Do(ctx, method, path, strings.NewReader(body))
		return err
	}))
}

func vhostURL(n *harness.Node, vhost string) string { return n.URL() + vhost }

// each calls do for 0 to n-1 from several goroutines and answers the first error.
func each(n, workers int, do func(i int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	failed := make(chan error, workers)
	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

func TestAThousandVhostsOfAHundredQueuesCostNextToNothing(t *testing.T) {
	const queues = 100
	vhosts := scaled(1000)
	cluster := harness.Start(t, harness.Options{Nodes: 3, Direct: true})
	first := cluster.Node(1)
	begin := time.Now()
	must(t, each(vhosts, 8, func(i int) error {
		return harness.Await(patience, func(ctx context.Context) error { // again after a time-out: it may be there by then
			_, err := first.Do(ctx, http.MethodPut, fmt.Sprint("/api/vhosts/v", i), nil)
			return err
		})
	}))
	t.Logf("%d vhosts made in %.1f s", vhosts, time.Since(begin).Seconds())
	begin = time.Now()
	must(t, each(vhosts, 32, func(i int) error { return declareMany(vhostURL(first, fmt.Sprint("v", i)), queues) }))
	t.Logf("%d queues declared in %.1f s", vhosts*queues, time.Since(begin).Seconds())
	must(t, cluster.Fingerprints(patience))
	report(t, cluster, "after they were made")

	cluster.KillAll()
	begin = time.Now()
	for _, n := range cluster.Members() {
		must(t, n.Start())
	}
	must(t, cluster.WaitReady(patience))
	t.Logf("all three ready %.2f s after a restart of all", time.Since(begin).Seconds())
	for _, n := range cluster.Members() {
		used, err := n.CPU()
		must(t, err)
		t.Logf("node %d has used %.2f s of processor time by then", n.ID, used.Seconds())
	}
	must(t, cluster.Fingerprints(patience))
	report(t, cluster, "after the restart")
	for _, n := range cluster.Members() {
		must(t, harness.Await(patience, func(ctx context.Context) error {
			var all struct {
				Totals struct {
					Queues int `json:"queues"`
				} `json:"object_totals"`
			}
			err := n.Get(ctx, "/api/overview", &all)
			if err == nil && all.Totals.Queues != vhosts*queues {
				err = fmt.Errorf("node %d has %d queues, want %d", n.ID, all.Totals.Queues, vhosts*queues)
			}
			return err
		}))
	}
	must(t, declareMany(vhostURL(cluster.Node(2), "v0"), queues)) // they serve
}

func declareMany(url string, queues int) error {
	conn, err := rawclient.Dial(url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for q := range queues {
		if err := conn.DeclareQueue(fmt.Sprint("q", q)); err != nil {
			return err
		}
	}
	return nil
}

// report tells what the nodes cost while nobody uses them.
func report(t *testing.T, cluster *harness.Cluster, when string) {
	t.Helper()
	idle := time.Duration(scaled(10_000)) * time.Millisecond
	settle := time.Duration(scaled(5_000)) * time.Millisecond
	time.Sleep(settle) // what was done last is over
	before := map[int]time.Duration{}
	for _, n := range cluster.Members() {
		used, err := n.CPU()
		must(t, err)
		before[n.ID] = used
	}
	time.Sleep(idle) // measured, not waited for
	for _, n := range cluster.Members() {
		used, err := n.CPU()
		must(t, err)
		share := (used - before[n.ID]).Seconds() / idle.Seconds() * 100
		t.Logf("%s, node %d idle: %.1f %% of a core", when, n.ID, share)
		if *long && share > 5 {
			t.Errorf("node %d: %.1f %% of a core while nobody uses it, over 5", n.ID, share)
		}
		atMost(t, fmt.Sprintf("%s, memory of node %d", when, n.ID), must1(t)(n.VmRSS()), 600<<20)
	}
}

// A vhost of a million dead letters is cleared, in each of the ways there are, while another vhost of the same group is used.
func TestAMillionMessagesGoWithoutStallingTheirNeighbours(t *testing.T) {
	node := harness.Start(t, harness.Options{Args: []string{"--groups", "1"}}).Node(1)
	tr := traffic{queue: "full", messages: scaled(1_000_000), bytes: 512}
	neighbour := startSteady(t, node.URL())
	for _, way := range []struct{ name, path string }{
		{"purge", "/api/queues/big/dead/contents"}, {"queue", "/api/queues/big/dead"}, {"vhost", "/api/vhosts/big"},
	} {
		t.Run(way.name, func(t *testing.T) { goes(t, node, neighbour, tr, way.path) })
	}
	must(t, neighbour.stop())
}

// goes fills vhost big with dead letters and deletes path, which holds them.
func goes(t *testing.T, node *harness.Node, neighbour *steady, tr traffic, path string) {
	api(t, node, http.MethodPut, "/api/vhosts/big", "")
	api(t, node, http.MethodPut, "/api/queues/big/dead", `{"durable":true}`)
	api(t, node, http.MethodPut, "/api/policies/big/letters",
		`{"pattern":"^full$","definition":{"max-length":0,"dead-letter-exchange":"","dead-letter-routing-key":"dead"}}`)
	neighbour.longest()
	begin := time.Now()
	must(t, tr.publish(vhostURL(node, "big")))
	size, err := node.DataBytes()
	must(t, err)
	t.Logf("%d dead letters in %.1f s: longest gap between the neighbour's confirms %v, data folder %d MB",
		tr.messages, time.Since(begin).Seconds(), neighbour.longest(), size>>20)

	begin = time.Now()
	api(t, node, http.MethodDelete, path, "")
	answered := time.Since(begin)
	must(t, harness.Await(patience, func(context.Context) error {
		size, err := node.DataBytes()
		if err == nil && size >= 300<<20 {
			err = fmt.Errorf("the data folder has %d MB, want less than 300", size>>20)
		}
		return err
	}))
	gap := neighbour.longest()
	t.Logf("answered after %v, disk free after %.1f s, longest gap between the neighbour's confirms %v",
		answered.Round(time.Millisecond), time.Since(begin).Seconds(), gap)
	if *long && gap > time.Second {
		t.Errorf("the neighbour waited %v for a confirm", gap)
	}
}

// steady publishes one message after the other, each once the one before is confirmed.
type steady struct {
	conn  *rawclient.Conn
	ended chan error
	done  atomic.Bool

	mu   sync.Mutex
	last time.Time
	gap  time.Duration
}

func startSteady(t *testing.T, url string) *steady {
	t.Helper()
	conn, err := rawclient.Dial(url)
	must(t, err)
	must(t, conn.DeclareQueue("steady"))
	p, err := conn.Publisher("steady", 100)
	must(t, err)
	s := &steady{conn: conn, ended: make(chan error, 1), last: time.Now()}
	go func() { s.ended <- s.run(p) }()
	t.Cleanup(func() { _ = conn.Close() })
	return s
}

func (s *steady) run(p *rawclient.Publisher) error {
	for !s.done.Load() {
		err := p.Publish()
		if err == nil {
			err = s.conn.Flush()
		}
		if err == nil {
			_, _, err = s.conn.Confirm()
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		now := time.Now()
		s.gap = max(s.gap, now.Sub(s.last))
		s.last = now
		s.mu.Unlock()
	}
	return nil
}

// longest is the longest wait for a confirm since the last call, one that goes on included.
func (s *steady) longest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	gap := max(s.gap, time.Since(s.last))
	s.gap = 0
	return gap.Round(time.Millisecond)
}

func (s *steady) stop() error {
	s.done.Store(true)
	return <-s.ended
}
