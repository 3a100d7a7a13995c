package log

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the one run of TestCrashAtEverySync; 0 runs the usual ones")

// modelGroup is a group's log, slow and obvious.
type modelGroup struct {
	hard      [3]uint64 // term, vote, commit
	truncated position
	terms     []uint64 // of the entries after truncated
}

func (m *modelGroup) last() uint64 { return m.truncated.index + uint64(len(m.terms)) }

func (m *modelGroup) clone() *modelGroup {
	c := *m
	c.terms = append([]uint64(nil), m.terms...)
	return &c
}

// step is one record's worth of change.
type step struct {
	kind        Kind
	group       uint64
	index, term uint64
	vote        uint64
}

func (m *modelGroup) apply(s step) {
	switch s.kind {
	case KindHardState:
		m.hard = [3]uint64{s.term, s.vote, s.index}
	case KindEntry:
		m.terms = append(m.terms[:s.index-m.truncated.index-1], s.term)
	case KindTruncate:
		m.terms = m.terms[min(s.index-m.truncated.index, uint64(len(m.terms))):]
		m.truncated = position{s.index, s.term}
	case KindSnapshot:
		m.terms, m.truncated = nil, position{s.index, s.term}
	}
}

func modelSize(index, term uint64) int {
	n := int((index*7919 + term*104729) % 3000)
	if n%20 == 0 {
		n += chunkBytes
	}
	return n
}

// differs says how g is unlike the model, "" if it is like it.
func (m *modelGroup) differs(g *Group) string {
	hs, _, _ := g.InitialState()
	if want := [3]uint64{m.hard[0], m.hard[1], min(m.hard[2], m.last())}; want != [3]uint64{hs.GetTerm(), hs.GetVote(), hs.GetCommit()} {
		return fmt.Sprintf("hard state %v, want %v", hs, want)
	}
	first, _ := g.FirstIndex()
	last, _ := g.LastIndex()
	if first != m.truncated.index+1 || last != m.last() {
		return fmt.Sprintf("entries %d..%d, want %d..%d", first, last, m.truncated.index+1, m.last())
	}
	if term, err := g.Term(first - 1); err != nil || term != m.truncated.term {
		return fmt.Sprintf("truncated at term %d, %v; want %d", term, err, m.truncated.term)
	}
	for k, term := range m.terms {
		i := first + uint64(k)
		if got, err := g.Term(i); err != nil || got != term {
			return fmt.Sprintf("entry %d has term %d, %v; want %d", i, got, err, term)
		}
	}
	return ""
}

// readable checks that every entry can be read back as it was appended.
func (m *modelGroup) readable(g *Group) string {
	for k, term := range m.terms {
		i := m.truncated.index + 1 + uint64(k)
		n := modelSize(i, term)
		if got, err := g.Bytes(i, 0, n); err != nil || !bytes.Equal(got, testData(g.id, i, term, n)) {
			return fmt.Sprintf("entry %d cannot be read: %v", i, err)
		}
	}
	return ""
}

// crashImage is the disk as power loss at some moment would leave it, and how many steps were acknowledged before.
type crashImage struct {
	fs    *vfs.MemFS
	acked int64
	keep  int
}

// crashRig runs a log over a crashable disk and keeps images of it at syncs.
type crashRig struct {
	t      *testing.T
	rng    *rand.Rand
	mem    *vfs.MemFS
	log    *Log
	groups []*modelGroup // as appended
	base   []*modelGroup // as recovered at the last open
	steps  []step        // appended since
	acked  atomic.Int64  // of steps, a prefix

	mu     sync.Mutex
	images []crashImage
	syncs  int
}

// MaybeError takes images before each sync: it is the moment at which the most is in doubt.
func (r *crashRig) observe(op errorfs.Op) error {
	if op.Kind != errorfs.OpFileSync && op.Kind != errorfs.OpFileSyncData {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.syncs++
	keep := []int{0, 50, 100}[r.syncs%3]
	acked := r.acked.Load()
	r.images = append(r.images, crashImage{r.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep,
		RNG: rand.New(rand.NewPCG(uint64(r.syncs), 9))}), acked, keep})
	return nil
}

func (r *crashRig) open(mem *vfs.MemFS) {
	r.mem, r.images, r.steps = mem, nil, nil
	r.acked.Store(0)
	o := testOptions(r.t, errorfs.Wrap(mem, errorfs.InjectorFunc(r.observe)))
	o.TailBytes = 4 << 10
	l, err := Open(o)
	if err != nil {
		r.t.Fatalf("open after a crash: %v", err)
	}
	r.log = l
}

// write appends a random write, or truncates, or drops segments.
func (r *crashRig) write() {
	id := uint64(r.rng.IntN(len(r.groups)))
	m, g := r.groups[id], r.log.Group(id)
	switch k := r.rng.IntN(20); {
	case k < 3 && len(m.terms) > 2:
		n := 1 + r.rng.IntN(len(m.terms))
		s := step{kind: KindTruncate, group: id, index: m.truncated.index + uint64(n), term: m.terms[n-1]}
		r.take(s)
		g.TruncateTo(s.index, s.term)
	case k == 3:
		for _, s := range r.log.Segments() {
			r.log.Drop(s.ID) //nolint:errcheck // refused where it is needed, as it should be
		}
	default:
		r.append(m, g, k == 4)
	}
}

func (r *crashRig) append(m *modelGroup, g *Group, snapshot bool) {
	var w Write
	if snapshot {
		w.SnapshotIndex, w.SnapshotTerm = m.last()+uint64(r.rng.IntN(30)), m.hard[0]
		if w.SnapshotIndex <= m.truncated.index {
			return
		}
		r.take(step{kind: KindSnapshot, group: g.id, index: w.SnapshotIndex, term: w.SnapshotTerm})
	}
	from, n := m.last()+1, r.rng.Uint64N(6)
	if commit := max(m.hard[2], m.truncated.index); from > commit+1 && r.rng.IntN(8) == 0 {
		from = commit + 1 + r.rng.Uint64N(from-commit-1) // raft overrides what is not committed
	}
	if r.rng.IntN(3) == 0 { // the commit index may be that of the last entry of this same write
		s := step{kind: KindHardState, group: g.id, term: m.hard[0] + 1, vote: r.rng.Uint64N(3), index: m.hard[2]}
		s.index = max(s.index, from-1) + r.rng.Uint64N(n+1) - n
		s.index = min(max(s.index, m.hard[2]), from+n-1)
		w.HardState = makeHardState(s.term, s.vote, s.index)
		r.take(s)
	}
	for i := range n {
		s := step{kind: KindEntry, group: g.id, index: from + i, term: m.hard[0]*1000 + uint64(len(r.steps)%1000)}
		w.Entries = append(w.Entries, testEntry(g.id, s.index, s.term, modelSize(s.index, s.term)))
		r.take(s)
	}
	w.Sync = r.rng.IntN(3) > 0
	on, steps := make(chan struct{}), int64(len(r.steps))
	g.Append(w, func() {
		if w.Sync {
			r.acked.Store(steps)
		}
		close(on)
	})
	if r.rng.IntN(2) == 0 {
		<-on
	}
}

func (r *crashRig) take(s step) {
	r.groups[s.group].apply(s)
	r.steps = append(r.steps, s)
}

// verify opens an image and finds which prefix of the steps it holds: it must hold all that was acknowledged.
func (r *crashRig) verify(img crashImage) (held []*modelGroup) {
	l, err := Open(Options{Dir: "/log", FS: img.fs, SegmentBytes: 64 << 10, TailBytes: 4 << 10, Fatal: func(err error) { r.t.Error(err) }})
	if err != nil {
		r.t.Fatalf("open with %d%% of the unsynced bytes kept: %v", img.keep, err)
	}
	defer mustClose(r.t, l)
	state := make([]*modelGroup, len(r.base))
	for i, m := range r.base {
		state[i] = m.clone()
	}
	why := ""
	for n := 0; ; n++ {
		if int64(n) >= img.acked {
			if why = unlike(state, l); why == "" {
				break
			}
		}
		if n == len(r.steps) {
			r.t.Fatalf("with %d%% of the unsynced bytes kept the log is no prefix of %d steps from %d on; the longest: %s",
				img.keep, len(r.steps), img.acked, why)
		}
		state[r.steps[n].group].apply(r.steps[n])
	}
	for i, m := range state {
		if why := m.readable(l.Group(uint64(i))); why != "" {
			r.t.Fatalf("group %d: %s", i, why)
		}
	}
	return state
}

func unlike(state []*modelGroup, l *Log) string {
	for i, m := range state {
		if why := m.differs(l.Group(uint64(i))); why != "" {
			return fmt.Sprintf("group %d: %s", i, why)
		}
	}
	return ""
}

func runCrashes(t *testing.T, seed uint64, lives, writes int) (images int) {
	r := &crashRig{t: t, rng: rand.New(rand.NewPCG(seed, 1))}
	for range 3 {
		r.groups = append(r.groups, &modelGroup{})
		r.base = append(r.base, &modelGroup{})
	}
	mem := vfs.NewCrashableMem()
	for range lives {
		r.open(mem)
		for range writes {
			r.write()
		}
		if why := unlike(r.groups, r.log); why != "" {
			t.Fatalf("before any crash: %s", why)
		}
		mustClose(t, r.log)
		var held []*modelGroup
		for _, img := range r.images {
			clone := img
			clone.fs = img.fs.CrashClone(vfs.CrashCloneCfg{})
			held = r.verify(clone)
			mem = img.fs
		}
		images += len(r.images)
		r.base, r.groups = held, nil
		for _, m := range held {
			r.groups = append(r.groups, m.clone())
		}
	}
	return images
}

func TestCrashAtEverySyncKeepsWhatWasAcknowledged(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4, 5, 6}
	if *seedFlag != 0 {
		seeds = []uint64{*seedFlag}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("replay: go test ./replication/log -run TestCrashAtEverySync -seed %d", seed)
				}
			})
			n := runCrashes(t, seed, 5, 100)
			if n < 100 {
				t.Errorf("only %d crash images were looked at", n)
			}
		})
	}
}

func TestWhatRecoveryKeepsOfAnUnsyncedWriteIsDurable(t *testing.T) {
	mem := vfs.NewCrashableMem()
	f := newFaults(errors.New("no sync"), errorfs.OpFileSyncData)
	o := testOptions(t, errorfs.Wrap(mem, errorfs.InjectorFunc(f.inject)))
	fatal := make(chan error, 1)
	o.Fatal = func(err error) { fatal <- err }
	l := mustOpen(t, o)
	appendSync(t, l.Group(1), Write{Entries: testEntries(1, 1, 1, 1, 100)})
	f.on.Store(true)
	l.Group(1).Append(Write{Entries: testEntries(1, 2, 2, 1, 100), Sync: true}, nil)
	<-fatal // the process ends; the system keeps what it wrote
	mustClose(t, l)
	f.on.Store(false)
	l = mustOpen(t, o)
	wantLog(t, l.Group(1), 1, 2, always(1), 100)
	o.FS = mem.CrashClone(vfs.CrashCloneCfg{}) // then the power fails
	mustClose(t, l)
	l = mustOpen(t, o)
	defer mustClose(t, l)
	wantLog(t, l.Group(1), 1, 2, always(1), 100)
}
