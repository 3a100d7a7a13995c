package log

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// testOptions are for small segments in memory; a Fatal fails the test.
func testOptions(t testing.TB, fs vfs.FS) Options {
	return Options{Dir: "/log", FS: fs, SegmentBytes: 64 << 10, TailBytes: 16 << 10,
		Fatal: func(err error) { t.Errorf("fatal: %v", err) }}
}

func mustOpen(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func reopen(t testing.TB, l *Log) *Log {
	t.Helper()
	mustClose(t, l)
	return mustOpen(t, l.o)
}

// testData is n bytes that differ between entries.
func testData(group, index, term uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(group), byte(index), byte(index >> 8), byte(term)})
	r.Read(b) //nolint:errcheck // it never fails
	return b
}

func testEntry(group, index, term uint64, n int) *raftpb.Entry {
	return &raftpb.Entry{Index: new(index), Term: new(term), Type: raftpb.EntryType_EntryNormal.Enum(), Data: testData(group, index, term, n)}
}

func testEntries(group, from, to, term uint64, n int) (out []*raftpb.Entry) {
	for i := from; i <= to; i++ {
		out = append(out, testEntry(group, i, term, n))
	}
	return out
}

// appendSync appends and waits until it is on disk.
func appendSync(t testing.TB, g *Group, w Write) {
	t.Helper()
	w.Sync = true
	done := make(chan struct{})
	g.Append(w, func() { close(done) })
	<-done
}

func mustFlush(t testing.TB, l *Log) {
	t.Helper()
	if err := l.flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
}

// wantLog checks a group's bounds and every entry by Term, Bytes and Entries.
func wantLog(t testing.TB, g *Group, first, last uint64, term func(i uint64) uint64, size int) {
	t.Helper()
	f, _ := g.FirstIndex()
	la, _ := g.LastIndex()
	if f != first || la != last {
		t.Fatalf("group %d holds %d..%d, want %d..%d", g.id, f, la, first, last)
	}
	for i := first; i <= last; i++ {
		if got, err := g.Term(i); err != nil || got != term(i) {
			t.Fatalf("group %d term of %d: %d, %v; want %d", g.id, i, got, err, term(i))
		}
		want := testData(g.id, i, term(i), size)
		if got, err := g.Bytes(i, 0, size); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("group %d bytes of %d: wrong, %v", g.id, i, err)
		}
	}
	if first > last {
		return
	}
	es, err := g.Entries(first, last+1, 1<<40)
	if err != nil || len(es) != int(last-first)+1 {
		t.Fatalf("group %d entries: %d, %v", g.id, len(es), err)
	}
	for k, e := range es {
		i := first + uint64(k)
		if e.GetIndex() != i || e.GetTerm() != term(i) || !bytes.Equal(e.Data, testData(g.id, i, term(i), size)) {
			t.Fatalf("group %d entries: %d is wrong", g.id, i)
		}
	}
}

func always(term uint64) func(uint64) uint64 { return func(uint64) uint64 { return term } }

func TestEntriesAndHardStateSurviveRestart(t *testing.T) {
	l := mustOpen(t, testOptions(t, vfs.NewMem()))
	for id := range uint64(3) {
		appendSync(t, l.Group(id), Write{HardState: makeHardState(7, 2, 90), Entries: testEntries(id, 1, 100, 7, 1000)})
	}
	for round := range 3 {
		for id := range uint64(3) {
			wantLog(t, l.Group(id), 1, 100, always(7), 1000)
			hs, _, err := l.Group(id).InitialState()
			if err != nil || hs.GetTerm() != 7 || hs.GetVote() != 2 || hs.GetCommit() != 90 {
				t.Fatalf("round %d: hard state %v, %v", round, hs, err)
			}
		}
		l = reopen(t, l)
	}
	if n := len(l.Segments()); n < 5 {
		t.Fatalf("300 KB in segments of 64 KiB made %d segments", n)
	}
	mustClose(t, l)
}

func TestStorageAnswersBeforeTheWriteIsOnDisk(t *testing.T) {
	l := mustOpen(t, testOptions(t, vfs.NewMem()))
	defer mustClose(t, l)
	g := l.Group(1)
	g.Append(Write{Entries: testEntries(1, 1, 50, 3, 2000)}, nil) // no sync, no done: it waits in the queue
	wantLog(t, g, 1, 50, always(3), 2000)
	if s := l.Stats(); s.Writes != 0 {
		t.Fatalf("%d writes", s.Writes)
	}
	mustFlush(t, l)
	wantLog(t, g, 1, 50, always(3), 2000)
}

func TestEntriesHonoursMaxSizeButAnswersOne(t *testing.T) {
	l := mustOpen(t, testOptions(t, vfs.NewMem()))
	defer mustClose(t, l)
	g := l.Group(1)
	appendSync(t, g, Write{Entries: testEntries(1, 1, 100, 3, 1000)})
	for _, c := range []struct{ max, want uint64 }{{0, 1}, {1, 1}, {1 << 11, 2}, {1 << 12, 4}, {1 << 20, 100}} {
		es, err := g.Entries(1, 101, c.max)
		if err != nil || uint64(len(es)) != c.want {
			t.Errorf("max %d: %d entries, %v; want %d", c.max, len(es), err, c.want)
		}
	}
}

func TestStorageErrorsNameTheCase(t *testing.T) {
	l := mustOpen(t, testOptions(t, vfs.NewMem()))
	defer mustClose(t, l)
	g := l.Group(1)
	appendSync(t, g, Write{Entries: testEntries(1, 1, 10, 3, 10)})
	g.TruncateTo(5, 3)
	check := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err := g.Entries(5, 7, 100)
	check("entries below", err, raft.ErrCompacted)
	_, err = g.Entries(6, 12, 100)
	check("entries above", err, raft.ErrUnavailable)
	_, err = g.Term(4)
	check("term below", err, raft.ErrCompacted)
	_, err = g.Term(11)
	check("term above", err, raft.ErrUnavailable)
	_, err = g.Bytes(5, 0, 1)
	check("bytes below", err, raft.ErrCompacted)
	_, err = g.Bytes(11, 0, 1)
	check("bytes above", err, raft.ErrUnavailable)
	for _, c := range [][2]int{{0, 11}, {11, 0}, {-1, 1}, {1, -1}, {1, 1 << 62}} {
		_, err = g.Bytes(6, c[0], c[1])
		check(fmt.Sprint("piece ", c), err, ErrBounds)
	}
	_, err = g.Snapshot()
	check("snapshot", err, raft.ErrSnapshotTemporarilyUnavailable)
	if term, err := g.Term(5); err != nil || term != 3 {
		t.Errorf("the term before the first entry: %d, %v", term, err)
	}
}

func TestLaterEntriesOverrideTheSuffix(t *testing.T) {
	l := mustOpen(t, testOptions(t, vfs.NewMem()))
	g := l.Group(1)
	appendSync(t, g, Write{Entries: testEntries(1, 1, 100, 1, 1000)})
	appendSync(t, g, Write{Entries: testEntries(1, 61, 70, 2, 1000)})
	term := func(i uint64) uint64 {
		if i > 60 {
			return 2
		}
		return 1
	}
	for range 3 {
		wantLog(t, g, 1, 70, term, 1000)
		l = reopen(t, l)
		g = l.Group(1)
	}
	mustClose(t, l)
}

func TestTruncationSurvivesRestart(t *testing.T) {
	l := mustOpen(t, testOptions(t, vfs.NewMem()))
	g := l.Group(1)
	appendSync(t, g, Write{Entries: testEntries(1, 1, 100, 4, 100)})
	g.TruncateTo(40, 4)
	g.TruncateTo(30, 4)
	for range 3 {
		wantLog(t, g, 41, 100, always(4), 100)
		if term, err := g.Term(40); err != nil || term != 4 {
			t.Fatalf("term of 40: %d, %v", term, err)
		}
		l = reopen(t, l)
		g = l.Group(1)
	}
	mustClose(t, l)
}

func TestSnapshotMarkerEmptiesTheLog(t *testing.T) {
	l := mustOpen(t, testOptions(t, vfs.NewMem()))
	g := l.Group(1)
	appendSync(t, g, Write{Entries: testEntries(1, 1, 100, 4, 100)})
	appendSync(t, g, Write{SnapshotIndex: 50, SnapshotTerm: 6, HardState: makeHardState(6, 0, 50)})
	wantLog(t, g, 51, 50, always(6), 100)
	appendSync(t, g, Write{SnapshotIndex: 500, SnapshotTerm: 7, Entries: testEntries(1, 501, 510, 7, 100)})
	for range 3 {
		wantLog(t, g, 501, 510, always(7), 100)
		if term, err := g.Term(500); err != nil || term != 7 {
			t.Fatalf("term of 500: %d, %v", term, err)
		}
		l = reopen(t, l)
		g = l.Group(1)
	}
	mustClose(t, l)
}

func TestSecondProcessIsRefused(t *testing.T) {
	o := testOptions(t, vfs.NewMem())
	l := mustOpen(t, o)
	_, err := Open(o)
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("/log is in use")) {
		t.Fatalf("a second open: %v", err)
	}
	mustClose(t, l)
	mustClose(t, mustOpen(t, o))
}

func TestConcurrentAppendsShareSyncs(t *testing.T) {
	gate := make(chan struct{})
	o := testOptions(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSyncData {
			<-gate
		}
		return nil
	})))
	o.SegmentBytes = 1 << 20
	l := mustOpen(t, o)
	defer mustClose(t, l)
	const groups, each = 8, 50
	var wg, queued sync.WaitGroup
	for id := range uint64(groups) {
		queued.Add(1)
		wg.Go(func() {
			defer queued.Done()
			for i := uint64(1); i <= each; i++ {
				wg.Add(1)
				l.Group(id).Append(Write{Entries: testEntries(id, i, i, 1, 100), Sync: true}, wg.Done)
			}
		})
	}
	queued.Wait() // all of it is queued while at most the first fdatasync is under way
	close(gate)
	wg.Wait()
	if s := l.Stats(); s.Syncs > 2 || s.Writes > 2 {
		t.Fatalf("%d appends cost %d syncs and %d writes", groups*each, s.Syncs, s.Writes)
	}
}

func TestOverriddenEntryIsNotTakenForItsSuccessor(t *testing.T) {
	arrived, gate := make(chan struct{}), make(chan struct{})
	var gated atomic.Bool
	last := testOptions(t, nil).SegmentBytes - 1 // where the maker of spare segments writes, at any moment
	o := testOptions(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWriteAt && op.Offset != last && gated.Load() {
			arrived <- struct{}{}
			<-gate
		}
		return nil
	})))
	o.TailBytes = 1
	l := mustOpen(t, o)
	defer mustClose(t, l)
	g := l.Group(1)
	appendSync(t, g, Write{HardState: makeHardState(1, 0, 0)})
	gated.Store(true)
	g.Append(Write{Entries: testEntries(1, 1, 1, 1, 100), Sync: true}, nil)
	<-arrived                                                               // it is being written
	g.Append(Write{Entries: testEntries(1, 1, 1, 2, 100), Sync: true}, nil) // and overridden
	gate <- struct{}{}
	<-arrived // the first is on disk and the tail was evicted; the second is not written yet
	wantLog(t, g, 1, 1, always(2), 100)
	gated.Store(false)
	close(gate)
	mustFlush(t, l)
	wantLog(t, g, 1, 1, always(2), 100)
}

func TestOverriddenEntryIsNotReadFromTheCache(t *testing.T) {
	o := testOptions(t, vfs.NewMem())
	o.TailBytes = 1
	l := mustOpen(t, o)
	defer mustClose(t, l)
	g := l.Group(1)
	for term := uint64(1); term <= 3; term++ {
		appendSync(t, g, Write{Entries: testEntries(1, 1, 5, term, 100)})
		mustFlush(t, l)
		wantLog(t, g, 1, 5, always(term), 100)
	}
}
