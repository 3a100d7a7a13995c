package powerloss

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/understudy-mq/understudy/cmd/loopback"
)

// cluster is one or three nodes in this process.
type cluster struct {
	t     testing.TB
	id    string // its own, lest a node talks to one of another cluster that now has an old address
	power *power
	disks map[uint64]*disk
	nodes map[uint64]*node
	size  uint64 // of the first members, 1 and up

	mu        sync.Mutex        // guards nodes where a crew runs beside, and
	addresses map[uint64]string // where each listens now
}

// newCluster makes a cluster of size nodes over disks, or new disks where that is nil. Nothing runs yet.
func newCluster(t testing.TB, size int, disks map[uint64]*vfs.MemFS) *cluster {
	c := &cluster{t: t, id: uuid.NewString(), power: &power{}, disks: map[uint64]*disk{}, nodes: map[uint64]*node{}, size: uint64(size),
		addresses: map[uint64]string{}}
	for id := range c.first() {
		mem := disks[id]
		if mem == nil {
			mem = vfs.NewCrashableMem()
		}
		c.disks[id] = newDisk(c.power, mem)
	}
	return c
}

// ids are all members', ascending.
func (c *cluster) ids() []uint64 { return slices.Sorted(maps.Keys(c.disks)) }

// first visits the first members' ids.
func (c *cluster) first() func(func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for id := uint64(1); id <= c.size; id++ {
			if !yield(id) {
				return
			}
		}
	}
}

// start boots all nodes; whatever fails stops those that run.
func (c *cluster) start() error {
	for _, id := range c.ids() {
		if err := c.boot(id); err != nil {
			c.crash()
			return fmt.Errorf("boot of node %d: %w", id, err)
		}
	}
	return nil
}

// boot boots a node over its disk.
func (c *cluster) boot(id uint64) error {
	d := c.disks[id]
	s := settings{id: id, cluster: c.id, fs: d.fs(), ended: d.freeze}
	if c.size > 1 {
		s.addr, s.peers = c.address, map[uint64]string{}
		for p := range c.first() {
			s.peers[p] = elsewhere
		}
		s.join = id > c.size
		s.listen = loopback.Addresses(c.t, 1)[0]
		c.mu.Lock()
		c.addresses[id] = s.listen
		c.mu.Unlock()
	}
	n, err := boot(s)
	if err == nil {
		c.mu.Lock()
		c.nodes[id] = n
		c.mu.Unlock()
	}
	return err
}

// elsewhere is what members know as the address of each: address says where it really is.
const elsewhere = "127.0.0.1:1"

// running are the nodes that run at present.
func (c *cluster) running() map[uint64]*node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.nodes)
}

func (c *cluster) address(id uint64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addresses[id]
}

// form waits until every node may speak in every group and the vhosts are there.
func (c *cluster) form() error {
	for _, n := range c.nodes {
		if err := n.awaitRegistered(groups...); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		if err := n.makeVhosts(c.nodes); err != nil {
			return err
		}
	}
	return nil
}

// crash ends all nodes, without ado.
func (c *cluster) crash() {
	var wait sync.WaitGroup
	for _, n := range c.running() {
		wait.Go(n.crash)
	}
	wait.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.nodes)
}

// crashNode ends one.
func (c *cluster) crashNode(id uint64) {
	c.nodes[id].crash()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.nodes, id)
}

// failures are what Fatal was called with.
func (c *cluster) failures() (out []error) {
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		select {
		case err := <-c.nodes[id].failed:
			out = append(out, fmt.Errorf("node %d: %w", id, err))
		default:
		}
	}
	return out
}
