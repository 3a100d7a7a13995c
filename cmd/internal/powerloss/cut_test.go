package powerloss

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// image is what a cut left, and what had been asked for and promised by then.
type image struct {
	name    string
	disks   map[uint64]*vfs.MemFS
	clients []bounds
}

// cutter takes images of a cluster at some of its syncs.
type cutter struct {
	cluster *cluster
	limit   int
	only    uint64 // the node whose disk dies with the first cut of it, 0 for none

	mu      sync.Mutex
	rng     *rand.Rand
	syncs   int
	ledgers []*ledger
	images  []image
}

// watch begins to cut the cluster's power at syncs, up to limit times.
func watch(c *cluster, seed uint64, limit int) *cutter {
	k := &cutter{cluster: c, limit: limit, rng: rand.New(rand.NewPCG(seed, 77))}
	for _, d := range c.disks {
		d.onSync = k.atSync
	}
	return k
}

// follow has a client's ledger in the images to come.
func (k *cutter) follow(l *ledger) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ledgers = append(k.ledgers, l)
}

// enough says whether all cuts are taken.
func (k *cutter) enough() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.images) >= k.limit
}

// One in so many syncs is cut at. The store syncs seldom.
const (
	everyOfLog   = 8
	everyOfStore = 3
)

func (k *cutter) atSync(d *disk, file string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	every := everyOfStore
	if ofLog(file) {
		every = everyOfLog
	}
	if k.syncs++; len(k.images) >= k.limit || k.rng.IntN(every) != 0 {
		return
	}
	time.Sleep(syncHold) // a slow disk
	k.images = append(k.images, k.cut(fmt.Sprintf("cut %d, before sync %d, of %s", len(k.images), k.syncs, file)))
}

// cut takes an image of all disks in one instant.
func (k *cutter) cut(name string) image {
	c, keep := k.cluster, keeps[len(k.images)%len(keeps)]
	img := image{name: fmt.Sprintf("%s, %d %% of unsynced bytes kept", name, keep), disks: map[uint64]*vfs.MemFS{}}
	c.power.Lock()
	defer c.power.Unlock()
	promised := make([]int, len(k.ledgers))
	for i, l := range k.ledgers {
		promised[i] = l.promises()
	}
	for id := range c.ids() {
		if d := c.disks[id]; k.only == 0 || k.only == id {
			img.disks[id] = d.clone(keep, k.rng)
		}
	}
	if k.only != 0 {
		c.disks[k.only].die()
	}
	for i, l := range k.ledgers {
		img.clients = append(img.clients, l.bounds(promised[i]))
	}
	return img
}
