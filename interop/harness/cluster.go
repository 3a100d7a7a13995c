package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/cmd/loopback"
)

// Options say what kind of cluster a test wants. The zero value is one node.
type Options struct {
	Nodes  int      // 1 if 0
	Args   []string // further arguments of serve
	Env    []string // further environment, KEY=VALUE
	Wrap   func(n *Node) []string
	Direct bool // no proxies between nodes: for measurements
	// Cuttable nodes can lose their power (CutPower): they run a binary with another file system.
	Cuttable bool
	// Spare nodes get ports, a data folder and proxies but are not members and are not started. One that joins later is reached by its
	// peers without proxies.
	Spare int
	// LinkTokens is a file of tokens with which standbys may read and fence the cluster; "" for none.
	LinkTokens string
	// NodeArgs are further arguments of one node; may be nil.
	NodeArgs func(n *Node) []string
}

// Cluster is a set of nodes and the network between them.
type Cluster struct {
	t       testing.TB
	dir     string
	opts    Options
	nodes   []*Node
	proxies map[pair]*proxy
	gates   map[pair]*gate
	stopped sync.Once
}

// pair is a direction: from one node to another, by id.
type pair struct{ from, to int }

// Start starts a cluster and waits until every node is ready. It ends with the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := New(t, o)
	if err := c.startAll(); err != nil {
		t.Fatal(err)
	}
	return c
}

// startAll starts the first members and waits until they are ready.
func (c *Cluster) startAll() error {
	for _, n := range c.Members() {
		if err := n.start(); err != nil {
			return err
		}
	}
	return c.WaitReady(Patience)
}

// joinSpares has the spare nodes join the first member and makes voters of them: they are members from then on.
func (c *Cluster) joinSpares(ctx context.Context) error {
	first := c.Node(1)
	for _, n := range c.nodes[c.opts.Nodes:] {
		if err := n.Start("--join", "http://"+first.Admin); err != nil {
			return err
		}
		if err := n.WaitReady(ctx); err != nil {
			return err
		}
		err := Await(Patience, func(ctx context.Context) error { // a learner has to catch up first
			_, err := first.Do(ctx, "POST", fmt.Sprintf("/api/cluster/members/%d/promote", n.ID), nil)
			return err
		})
		if err != nil {
			return fmt.Errorf("node %d: %w", n.ID, err)
		}
		c.opts.Nodes++
	}
	return nil
}

// New prepares a cluster of which no node runs yet.
func New(t testing.TB, o Options) *Cluster {
	t.Helper()
	o.Nodes = max(1, o.Nodes)
	dir, err := os.MkdirTemp("", "understudy-cluster-")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{t: t, dir: dir, opts: o, proxies: map[pair]*proxy{}, gates: map[pair]*gate{}}
	t.Cleanup(c.Stop)
	binary := Binary
	if o.Cuttable {
		binary = cuttable
	}
	ports := loopback.Addresses(t, 4*(o.Nodes+o.Spare))
	for i := range o.Nodes + o.Spare {
		name := filepath.Join(dir, fmt.Sprintf("node%d", i+1))
		c.nodes = append(c.nodes, &Node{
			ID: i + 1, AMQP: ports[4*i], Admin: ports[4*i+1], Peer: ports[4*i+2], Link: ports[4*i+3], Data: name, Log: name + ".log",
		})
	}
	c.connect()
	for _, n := range c.nodes {
		n.argv = c.serve(binary(t), n)
		n.env = o.Env
		if o.Wrap != nil {
			n.argv = append(o.Wrap(n), n.argv...)
		}
	}
	return c
}

// connect starts the proxies: one for each ordered pair of nodes, two gates for each unordered one.
func (c *Cluster) connect() {
	for _, a := range c.nodes {
		for _, b := range c.nodes {
			if a != b {
				c.gates[pair{a.ID, b.ID}] = newGate()
			}
		}
	}
	if c.opts.Direct {
		return
	}
	for way, out := range c.gates {
		p, err := startProxy(c.Node(way.to).Peer, out, c.gates[pair{way.to, way.from}])
		if err != nil {
			c.t.Fatal(err)
		}
		c.proxies[way] = p
	}
}

// serve is a node's command line. Its own address in --cluster is its own listener; the others' are its proxies to them.
func (c *Cluster) serve(binary string, n *Node) []string {
	argv := []string{binary, "serve", "--disk-free-min", "0", "--node-id", fmt.Sprint(n.ID), "--data", n.Data, "--amqp", n.AMQP, "--admin", n.Admin, "--peer", n.Peer}
	if len(c.nodes) > 1 && n.ID <= c.opts.Nodes {
		var members []string
		for _, m := range c.Members() {
			members = append(members, fmt.Sprintf("%d=%s", m.ID, c.PeerAddress(n.ID, m.ID)))
		}
		argv = append(argv, "--cluster", strings.Join(members, ","))
	}
	if c.opts.LinkTokens != "" {
		argv = append(argv, "--link", n.Link, "--link-hold-disk-percent", "100", "--link-serve-token-file", c.opts.LinkTokens, "--link-fence-token-file", c.opts.LinkTokens)
	}
	argv = append(argv, c.opts.Args...)
	if c.opts.NodeArgs != nil {
		argv = append(argv, c.opts.NodeArgs(n)...)
	}
	return argv
}

// PeerAddress is where node from finds node to: its proxy to it.
func (c *Cluster) PeerAddress(from, to int) string {
	if p := c.proxies[pair{from, to}]; p != nil {
		return p.address()
	}
	return c.Node(to).Peer
}

// Node is the node with the id, counted from 1.
func (c *Cluster) Node(id int) *Node { return c.nodes[id-1] }

// Members are the first members (spares are not among them).
func (c *Cluster) Members() []*Node { return c.nodes[:c.opts.Nodes] }

// Running are the nodes whose process runs.
func (c *Cluster) Running() []*Node {
	var running []*Node
	for _, n := range c.nodes {
		if n.Running() {
			running = append(running, n)
		}
	}
	return running
}

// URLs are the AMQP addresses of the first members.
func (c *Cluster) URLs() []string {
	var urls []string
	for _, n := range c.Members() {
		urls = append(urls, n.URL())
	}
	return urls
}

// WaitReady waits until every running node is ready.
func (c *Cluster) WaitReady(atMost time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	for _, n := range c.Running() {
		if err := n.WaitReady(ctx); err != nil {
			return fmt.Errorf("cluster: %w", err)
		}
	}
	return nil
}

// KillAll kills every running node with SIGKILL at the same moment.
func (c *Cluster) KillAll() { kill9(c.Running()) }

func kill9(nodes []*Node) {
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(n.Kill9)
	}
	wg.Wait()
}

// Stop ends the cluster before its test ends. Unless the test has failed so far, what the nodes left is removed.
func (c *Cluster) Stop() { c.stopped.Do(c.stop) }

func (c *Cluster) stop() {
	c.KillAll()
	for _, p := range c.proxies {
		p.close()
	}
	if !c.t.Failed() {
		_ = os.RemoveAll(c.dir)
		return
	}
	for _, n := range c.nodes {
		if _, err := os.Stat(n.Log); err == nil {
			c.t.Logf("node %d, end of %s:\n%s", n.ID, n.Log, n.LogTail(4000))
		}
		_ = os.RemoveAll(n.Data)
	}
}

// Patience bounds a wait for what has to come. Nothing is expected to take nearly as long, but a machine may be busy with something else.
const Patience = 2 * time.Minute

// Await polls until the condition holds, or answers its last error when atMost is over.
func Await(atMost time.Duration, condition func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("not within %v", atMost), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
