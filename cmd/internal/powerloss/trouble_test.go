package powerloss

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/replication"
	"github.com/understudy-mq/understudy/replication/log"
)

// running is a cluster that is formed.
func running(t *testing.T, size int) (*cluster, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	c := newCluster(t, size, nil)
	t.Cleanup(c.crash)
	if err := errors.Join(c.start(), c.form()); err != nil {
		t.Fatal(err)
	}
	return c, ctx
}

// never is for crews that end with their sessions.
func never() bool { return false }

func TestFailedSyncEndsTheProcessAndNothingIsConfirmedAfterIt(t *testing.T) {
	for _, part := range []string{"log", "store"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			c, ctx := running(t, 1)
			k := watch(c, 1, pace{1 << 30, 1 << 30}, 1)
			n, d := c.nodes[1], c.disks[1]
			// From some sync on all of this part's fail; what the disk holds is then what it has synced, and no more.
			var syncs atomic.Int64
			d.breakWith(func(op errorfs.Op) error {
				if isSync(op.Kind) && (part == "log") == ofLog(op.Path) && syncs.Add(1) > 20 {
					return errDisk
				}
				return nil
			})
			if err := crew(ctx, c, k, 1, 0, never); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-n.failed:
				if !strings.Contains(err.Error(), errDisk.Error()) {
					t.Errorf("Fatal was told %v, not of the disk's error", err)
				}
			default:
				t.Fatal("the sessions ended, but Fatal was not called")
			}
			k.mu.Lock()
			img := k.cut("after the failed sync") // 0 % of unsynced bytes are kept
			k.mu.Unlock()
			if err := survives(t, ctx, img, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFullDiskOfALeaderMakesItReadOnlyAndAnotherGoesOn(t *testing.T) {
	c, ctx := running(t, 3)
	k := &cutter{}
	var leader *node
	eventually(t, "group 1 has a leader", func() bool { leader = c.nodes[c.leader(1)]; return leader != nil })
	var rounds atomic.Int64
	if err := crew(ctx, c, k, 1, 0, func() bool { return rounds.Add(1) > 60 }); err != nil {
		t.Fatal(err)
	}
	before := c.files(t, leader.id)
	c.disks[leader.id].breakWith(noRoom)
	full := func() bool { is, _ := leader.raft.ReadOnly(); return is }
	var over atomic.Bool
	wait := crewBeside(ctx, c, k, 2, 100, over.Load) // the full node's own clients are stuck until there is room
	eventually(t, "the node is read-only", full)
	for _, group := range groups {
		eventually(t, fmt.Sprintf("another node leads group %d", group), func() bool {
			id := c.leader(group)
			return id != 0 && id != leader.id
		})
	}
	if err := leader.raft.Group(1).Submit(entry.Append(nil, &entry.Tick{}), 1); !errors.Is(err, replication.ErrReadOnly) {
		t.Errorf("a full node takes a command: %v", err)
	}
	for id, n := range c.nodes {
		if err := n.awaitRegistered(groups...); id != leader.id && err != nil {
			t.Fatal(err)
		} else if id != leader.id {
			if err := n.goesOn(ctx, "one"); err != nil {
				t.Errorf("node %d beside a full one: %v", id, err)
			}
		}
	}
	for _, name := range before {
		if !slices.Contains(c.files(t, leader.id), name) && !strings.HasSuffix(name, ".spare") {
			t.Errorf("%s is gone from the full disk", name)
		}
	}
	over.Store(true)
	c.disks[leader.id].breakWith(nil)
	eventually(t, "the node has room again", func() bool { return !full() })
	if err := errors.Join(wait(), leader.awaitRegistered(groups...), leader.goesOn(ctx, "one")); err != nil {
		t.Fatalf("the node that was full: %v", err)
	}
	// The sessions of its clients that were refused end with the process.
	c.crashNode(leader.id)
	if err := c.boot(leader.id); err != nil {
		t.Fatal(err)
	}
	var clients []bounds
	for _, l := range k.ledgers {
		clients = append(clients, l.bounds(l.promises()))
	}
	if err := c.whole(ctx, clients, k); err != nil {
		t.Error(err)
	}
}

// crewBeside begins a crew and answers what waits for its end.
func crewBeside(ctx context.Context, c *cluster, k *cutter, seed, first uint64, enough func() bool) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- crew(ctx, c, k, seed, first, enough) }()
	return func() error { return <-done }
}

// leader is who leads a group as those who follow it say, 0 if nobody.
func (c *cluster) leader(group uint64) uint64 {
	for id, n := range c.nodes {
		if n.raft.Group(group).Status().Role == "leader" {
			return id
		}
	}
	return 0
}

// files lists the files of a disk's log.
func (c *cluster) files(t *testing.T, id uint64) []string {
	t.Helper()
	names, err := c.disks[id].mem.List(logDir)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestEntryOfAnUnknownVersionStopsItsGroupAndNoOther(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var poisoned atomic.Bool
	d := newDisk(&power{}, vfs.NewCrashableMem())
	start := func() *node {
		n, err := boot(settings{id: 1, cluster: "unknown version", fs: d.fs(), header: func(dst []byte, stamp int64) []byte {
			at := len(dst)
			if dst = entry.AppendHeader(dst, stamp); poisoned.CompareAndSwap(true, false) {
				dst[at] = entry.Version + 1
			}
			return dst
		}})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := start()
	if err := errors.Join(n.awaitRegistered(groups...), n.makeVhosts(map[uint64]*node{1: n})); err != nil {
		t.Fatal(err)
	}
	c := newClient(ctx, n.broker, "a client of group 1", "one")
	if err := c.attach(); err != nil {
		t.Fatal(err)
	}
	poisoned.Store(true)
	s := newScript(c, 1, 1)
	s.call(&entry.QueueDeclare{Ref: s.ref(), Name: "q"})
	if err := s.wait(never); !errors.Is(err, errLeft) || !strings.Contains(err.Error(), "unknown version") {
		t.Errorf("the client of the stopped group was told: %v", err)
	}
	for range 2 { // a restart does not skip it
		eventually(t, "group 1 says why it has stopped", func() bool {
			return strings.Contains(n.raft.Group(1).Status().Error, "entry of an unknown version")
		})
		if err := n.awaitRegistered(systemGroup, 2); err != nil {
			t.Fatal(err)
		}
		if err := n.goesOn(ctx, "two"); err != nil {
			t.Errorf("group 2 beside a stopped group: %v", err)
		}
		n.crash()
		n = start()
	}
	n.crash()
}

// segments lists a disk's log segments, oldest first.
func segments(t *testing.T, mem *vfs.MemFS) (names []string) {
	t.Helper()
	list, err := mem.List(logDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		if strings.HasSuffix(name, ".seg") {
			names = append(names, logDir+"/"+name)
		}
	}
	slices.Sort(names)
	return names
}

// flip changes a byte of a file.
func flip(t *testing.T, mem *vfs.MemFS, name string, at int64) {
	t.Helper()
	f, err := mem.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	b[0] ^= 0x40
	_, werr := f.WriteAt(b[:], at)
	if err := errors.Join(err, werr, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestDamageBeforeTheLogsTailStopsTheNodeNamingFileAndOffset(t *testing.T) {
	c, ctx := running(t, 1)
	k := watch(c, 1, pace{1 << 30, 1 << 30}, 1)
	if err := crew(ctx, c, k, 1, 0, func() bool { return len(segments(t, c.disks[1].mem)) > 3 }); err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	img := k.cut("at the end")
	k.mu.Unlock()
	mem := img.disks[1]
	damaged := segments(t, mem)[0]
	if len(segments(t, mem)) < 2 {
		t.Fatal("the log has one segment only")
	}
	const at = 4500 // in the records that every segment begins with: how far it was filled is the load's choice
	flip(t, mem, damaged, at)
	n, err := boot(settings{id: 1, cluster: "damage", fs: newDisk(&power{}, mem).fs()})
	if err == nil {
		n.crash()
		t.Fatal("a node boots over a damaged log")
	}
	var d *log.DamageError
	if !errors.As(err, &d) || !strings.HasSuffix(damaged, d.File) && d.File != damaged || d.Offset <= 0 || d.Offset > at {
		t.Errorf("damage of %s at %d is told as %v", damaged, at, err)
	}
}

func TestTornTailOfTheLogIsCut(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for seed, torn := uint64(5), 0; torn < 3; seed++ { // which syncs a load has is the schedule's choice
		if ctx.Err() != nil {
			t.Fatalf("%d images had a tail to tear", torn)
		}
		torn += tearTails(ctx, t, seed)
	}
}

// tearTails cuts a load at syncs of the log, all unsynced bytes kept but for the last, which is torn. It answers how often.
func tearTails(ctx context.Context, t *testing.T, seed uint64) (torn int) {
	c := newCluster(t, 1, nil)
	defer c.crash()
	if err := errors.Join(c.start(), c.form()); err != nil {
		t.Fatal(err)
	}
	k := watch(c, seed, pace{6, 1 << 30}, 9)
	if err := crew(ctx, c, k, seed, 0, k.enough); err != nil {
		t.Fatal(err)
	}
	for i, img := range k.stop() {
		if keeps[i%len(keeps)] != 100 {
			continue
		}
		mem := img.disks[1]
		names := segments(t, mem)
		newest := names[len(names)-1]
		if filepath.Base(newest) != img.syncing {
			continue // what is at the log's end was synced: damage, not a torn write
		}
		at := lastByte(t, mem, newest)
		if at <= 0 {
			continue
		}
		flip(t, mem, newest, at)
		torn++
		if err := survives(t, ctx, img, 0); err != nil {
			t.Errorf("%s, and the last write torn: %v", img.name, err)
		}
	}
	return torn
}

// lastByte is where the last byte of a file that is not 0 lies.
func lastByte(t *testing.T, mem *vfs.MemFS, name string) int64 {
	t.Helper()
	f, err := mem.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	for at := len(b) - 1; at >= 0; at-- {
		if b[at] != 0 {
			return int64(at)
		}
	}
	return -1
}
