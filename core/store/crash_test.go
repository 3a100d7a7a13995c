package store

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// crash is what a power cut left of a node.
type crash struct {
	fs      *vfs.MemFS
	durable uint64 // what Durable had promised
	log     *toyLog
	staged  bool // Stage had returned
	name    string
}

// crasher is a file system that keeps clones of itself as power cuts would have left it, cut before some of its writes.
type crasher struct {
	mem     *vfs.MemFS
	percent int // of unsynced data that survives

	mu     sync.Mutex
	rng    *rand.Rand
	every  int // one in so many writes is cut before
	ops    int
	look   func(*crash) // called before the clone is made
	after  func(*crash) // called after
	crashs []crash
}

func newCrasher(seed int64, percent, every int) *crasher {
	return &crasher{mem: vfs.NewCrashableMem(), percent: percent, every: every, rng: newRNG(uint64(seed))}
}

func (c *crasher) fs() vfs.FS {
	return errorfs.Wrap(c.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			c.cut(fmt.Sprintf("%v %s", op.Kind, op.Path))
		}
		return nil
	}))
}

func (c *crasher) cut(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.look == nil {
		return
	}
	if c.ops++; c.rng.IntN(c.every) != 0 {
		return
	}
	k := crash{name: fmt.Sprintf("cut %d, before %s, %d%% kept", c.ops, name, c.percent)}
	c.look(&k)
	k.fs = c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: c.percent, RNG: c.rng})
	c.after(&k)
	c.crashs = append(c.crashs, k)
}

// watch begins to cut, with r's promises noted.
func (c *crasher) watch(r *rig, staged *atomic.Bool) {
	var first uint64
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look = func(k *crash) {
		k.durable, _ = r.g.Durable()
		k.staged = staged != nil && staged.Load()
		first, _ = r.log.bounds()
	}
	c.after = func(k *crash) {
		r.log.mu.Lock()
		last := r.log.summed
		r.log.mu.Unlock()
		k.log = r.log.from(first, last)
	}
}

// taken ends the cutting and answers the crashes.
func (c *crasher) taken() []crash {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look = nil
	return c.crashs
}

// revive opens what a crash left.
func revive(t *testing.T, k crash) *rig {
	r := &rig{t: t, fs: k.fs, log: k.log, rng: newRNG(1)}
	r.open(Options{})
	return r
}

func TestCrashLeavesTheStateOfItsAppliedIndexAndAllItsContents(t *testing.T) {
	for _, percent := range []int{0, 50, 100} {
		for seed := range int64(3) {
			t.Run(fmt.Sprintf("%d%% kept, seed %d", percent, seed), func(t *testing.T) {
				c := newCrasher(seed, percent, 12)
				r := newRigWith(t, c.fs(), uint64(seed), Options{MemTableBytes: 64 << 10})
				c.watch(r, nil)
				busy(r)
				crashes := c.taken()
				if len(crashes) < 10 {
					t.Fatalf("only %d crashes", len(crashes))
				}
				for _, k := range crashes {
					recovers(t, k)
				}
			})
		}
	}
}

// busy is a load with everything that writes.
func busy(r *rig) {
	for i := range 120 {
		r.random(1+r.rng.IntN(20), 300)
		switch r.rng.IntN(6) {
		case 0, 1:
			r.g.Checkpoint(nil)
		case 2:
			at, _ := r.g.Applied()
			to := at + 1 - uint64(r.rng.IntN(20))
			r.g.Evacuate(0, to, func(err error) {
				if err == nil {
					r.log.truncate(to)
				}
			})
		case 3:
			at, _ := r.g.Applied()
			i := r.log.append(nil)
			r.log.note(i, r.g.Fingerprint()) // which it does not change
			r.must(r.g.ApplyConf(at+1, 1, fmt.Appendf(nil, "conf %d", i)))
		case 4:
			if i%3 == 0 {
				s, err := r.g.Snapshot()
				r.must(err)
				r.must(s.Close())
			}
		}
	}
	r.g.awaitJob()
}

// recovers checks that what a crash left is a state that was, with all that was promised, and goes on from there.
func recovers(t *testing.T, k crash) {
	t.Helper()
	r := revive(t, k)
	defer r.close()
	at, _ := r.g.Applied()
	if at < k.durable {
		t.Fatalf("%s: reopened at %d, Durable was %d", k.name, at, k.durable)
	}
	if got, want := r.g.Fingerprint(), r.log.sums[at]; got != want {
		t.Fatalf("%s: reopened at %d with fingerprint %x, was %x", k.name, at, got, want)
	}
	r.replay()
	r.readable()
	tidy(r, k.name)
}

// tidy evacuates everything and checks that Pebble holds exactly the contents that are referred to.
func tidy(r *rig, name string) {
	r.t.Helper()
	at, _ := r.g.Applied()
	r.evacuate(at + 1)
	r.g.Round()
	r.checkpoint()
	r.readable()
	if got, want := r.moved(), len(distinct(collectRefs(r.g.m, 0, at+1))); got != want || r.g.refs.moved != want {
		r.t.Fatalf("%s: %d contents in Pebble, %d counted, %d referred to", name, got, r.g.refs.moved, want)
	}
	generation := r.g.where.Load().generation
	if n := r.count(dataKey(rigGroup, generation+1), dataEnd(rigGroup)); n != 0 {
		r.t.Fatalf("%s: %d rows of a snapshot that is of no use", name, n)
	}
	if n := r.count(dataKey(rigGroup, 0), dataKey(rigGroup, generation)); n != 0 {
		r.t.Fatalf("%s: %d rows of the state before the install", name, n)
	}
	if swept, err := readIndex(r.db.p, rigGroup, metaSwept); err != nil || swept != at+1 {
		r.t.Fatalf("%s: a restart would sweep from %d on, want %d (%v)", name, swept, at+1, err)
	}
}

func TestCrashDuringStageOrInstallLeavesTheOldStateOrTheNew(t *testing.T) {
	source := newRig(t, vfs.NewMem(), 7)
	source.random(300, 400)
	source.evacuate(150)
	source.random(100, 400)
	stream := source.stream()
	index, term := source.g.Applied()
	for _, percent := range []int{0, 50, 100} {
		c := newCrasher(int64(percent), percent, 2)
		r := newRig(t, c.fs(), 8)
		r.random(100, 100)
		r.evacuate(60)
		r.random(50, 100)
		r.checkpoint()
		var staged atomic.Bool
		c.watch(r, &staged)
		_, _, _, err := r.g.Stage(context.Background(), bytes.NewReader(stream))
		r.must(err)
		staged.Store(true)
		r.must(r.g.Install(index, term))
		crashes := c.taken()
		if len(crashes) < 5 {
			t.Fatalf("only %d crashes", len(crashes))
		}
		for _, k := range crashes {
			survivesInstall(t, k, source, index, term)
		}
	}
}

func survivesInstall(t *testing.T, k crash, source *rig, index, term uint64) {
	t.Helper()
	r := revive(t, k)
	defer r.close()
	at, _ := r.g.Applied()
	if at != index {
		if at != k.durable || r.g.Fingerprint() != k.log.sums[at] {
			t.Fatalf("%s: reopened at %d, neither the old state at %d nor the new", k.name, at, k.durable)
		}
		r.readable()
		err := r.g.Install(index, term)
		if err != nil && k.staged {
			t.Fatalf("%s: install after the crash: %v", k.name, err)
		}
		if err != nil {
			tidy(r, k.name)
			return
		}
	}
	r.must(r.g.Install(index, term))
	r.log = newToyLog() // all contents came with the snapshot
	if r.g.Fingerprint() != source.log.sums[index] {
		t.Fatalf("%s: installed fingerprint %x, the source had %x", k.name, r.g.Fingerprint(), source.log.sums[index])
	}
	r.readable()
	tidy(r, k.name)
}

// stream is a snapshot's bytes.
func (r *rig) stream() []byte {
	r.t.Helper()
	s, err := r.g.Snapshot()
	r.must(err)
	var b bytes.Buffer
	n, err := s.WriteTo(&b)
	r.must(err)
	if n != int64(b.Len()) {
		r.t.Fatalf("WriteTo says %d bytes, %d came", n, b.Len())
	}
	r.must(s.Close())
	return b.Bytes()
}
