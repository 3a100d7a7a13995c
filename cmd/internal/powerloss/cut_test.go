package powerloss

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// image is what a cut left, and what had been asked for and promised by then.
type image struct {
	syncing string // the file whose sync had not begun
	name    string
	disks   map[uint64]*vfs.MemFS
	clients []bounds
}

// pace says at which syncs to cut: one in so many. The store syncs less often than the log.
type pace struct{ ofLog, ofStore int }

// cutter takes images of a cluster at some of its syncs.
type cutter struct {
	cluster *cluster
	pace    pace
	victim  uint64 // the node that is cut alone, and whose disk ends with it; 0 for all at once, which go on

	mu      sync.Mutex
	rng     *rand.Rand
	limit   int
	syncs   int
	ledgers []*ledger
	clients []bounds // of clients that are gone
	images  []image
}

// watch begins to cut the power of a cluster, or of one of its nodes, at syncs, up to limit times.
func watch(c *cluster, seed uint64, p pace, limit int) *cutter {
	k := &cutter{cluster: c, pace: p, limit: limit, rng: rand.New(rand.NewPCG(seed, 77))}
	for _, d := range c.disks {
		d.watch(k.atSync)
	}
	return k
}

// watchOne is watch for the end of one node's disk.
func watchOne(c *cluster, seed, victim uint64, p pace) *cutter {
	k := &cutter{cluster: c, pace: p, limit: 1, victim: victim, rng: rand.New(rand.NewPCG(seed, 78))}
	c.disks[victim].watch(k.atSync)
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

// stop ends the cutting and answers the images.
func (k *cutter) stop() []image {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.limit = 0
	return k.images
}

func (k *cutter) atSync(file string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	every := k.pace.ofStore
	if ofLog(file) {
		every = k.pace.ofLog
	}
	if k.syncs++; len(k.images) >= k.limit || k.rng.IntN(every) != 0 {
		return
	}
	time.Sleep(syncHold)
	img := k.cut(fmt.Sprintf("cut %d, before sync %d, of %s", len(k.images), k.syncs, file))
	img.syncing = filepath.Base(file)
	k.images = append(k.images, img)
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
	for _, id := range c.ids() {
		if k.victim == 0 || k.victim == id {
			img.disks[id] = c.disks[id].clone(keep, k.rng)
		}
	}
	if k.victim != 0 {
		c.disks[k.victim].die()
	}
	img.clients = append(img.clients, k.clients...)
	for i, l := range k.ledgers {
		img.clients = append(img.clients, l.bounds(promised[i]))
	}
	return img
}
