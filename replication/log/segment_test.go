package log

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
)

func TestDropIsRefusedWhileAGroupNeedsTheSegment(t *testing.T) {
	l := mustOpen(t, testOptions(t, vfs.NewMem()))
	defer mustClose(t, l)
	a, b := l.Group(1), l.Group(2)
	appendSync(t, b, Write{Entries: testEntries(2, 1, 1, 1, 100)})
	appendSync(t, a, Write{Entries: testEntries(1, 1, 200, 1, 1000)})
	segments := l.Segments()
	newest := segments[len(segments)-1]
	want := func(id uint64, want error) {
		t.Helper()
		if err := l.Drop(id); !errors.Is(err, want) {
			t.Fatalf("drop of %d: %v, want %v", id, err, want)
		}
	}
	want(1, ErrNeeded)
	want(newest.ID, ErrNeeded)
	a.TruncateTo(segments[0].Groups[0].Last-1, 1)
	want(1, ErrNeeded)
	a.TruncateTo(200, 1)
	want(1, ErrNeeded) // group 2 still
	want(2, nil)       // one between others may go
	b.TruncateTo(1, 1)
	want(1, nil)
	want(newest.ID, ErrNeeded)
	if err := l.Drop(1); err == nil {
		t.Fatal("a segment was dropped twice")
	}
}

func TestHardStateAndTruncationSurviveTheSegmentsThatHeldThem(t *testing.T) {
	l := mustOpen(t, testOptions(t, vfs.NewMem()))
	appendSync(t, l.Group(2), Write{HardState: makeHardState(9, 3, 0)})
	appendSync(t, l.Group(3), Write{SnapshotIndex: 70, SnapshotTerm: 5})
	appendSync(t, l.Group(1), Write{HardState: makeHardState(4, 1, 100), Entries: testEntries(1, 1, 200, 4, 1000)})
	l.Group(1).TruncateTo(200, 4)
	appendSync(t, l.Group(1), Write{Entries: testEntries(1, 201, 300, 4, 1000)})
	dropAll(t, l)
	for range 2 {
		hs, _, _ := l.Group(2).InitialState()
		if hs.GetTerm() != 9 || hs.GetVote() != 3 {
			t.Fatalf("group 2's hard state is %v", hs)
		}
		if first, _ := l.Group(3).FirstIndex(); first != 71 {
			t.Fatalf("group 3 begins at %d", first)
		}
		wantLog(t, l.Group(1), 201, 300, always(4), 1000)
		l = reopen(t, l)
	}
	mustClose(t, l)
}

// dropAll drops what can be dropped, and wants it to be something.
func dropAll(t *testing.T, l *Log) {
	t.Helper()
	n := 0
	for _, s := range l.Segments() {
		err := l.Drop(s.ID)
		if err == nil {
			n++
		} else if !errors.Is(err, ErrNeeded) {
			t.Fatal(err)
		}
	}
	if n == 0 {
		t.Fatal("no segment could be dropped")
	}
}

func TestDropMakesTheTruncationDurableFirst(t *testing.T) {
	mem := vfs.NewCrashableMem()
	o := testOptions(t, mem)
	l := mustOpen(t, o)
	defer mustClose(t, l)
	appendSync(t, l.Group(1), Write{Entries: testEntries(1, 1, 200, 4, 1000)})
	l.Group(1).TruncateTo(150, 4) // not synced by itself
	dropAll(t, l)
	o.FS = mem.CrashClone(vfs.CrashCloneCfg{})
	l2 := mustOpen(t, o)
	defer mustClose(t, l2)
	wantLog(t, l2.Group(1), 151, 200, always(4), 1000)
}

func TestStaleSuffixStaysDeadWhenItsOverrideIsDropped(t *testing.T) {
	l := mustOpen(t, testOptions(t, vfs.NewMem()))
	g, other := l.Group(1), l.Group(2)
	appendSync(t, other, Write{Entries: testEntries(2, 1, 1, 1, 100)}) // keeps segment 1
	appendSync(t, g, Write{Entries: testEntries(1, 1, 20, 1, 1000)})
	appendSync(t, other, Write{Entries: testEntries(2, 2, 60, 1, 1000)}) // fills it
	appendSync(t, g, Write{Entries: testEntries(1, 11, 12, 2, 1000)})    // in segment 2
	appendSync(t, other, Write{Entries: testEntries(2, 61, 130, 1, 1000)})
	g.TruncateTo(12, 2)
	release := l.Pin(2, 1)
	other.TruncateTo(130, 1)
	release()
	mustFlush(t, l)
	if err := l.Drop(2); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, l)
	defer mustClose(t, l)
	wantLog(t, l.Group(1), 13, 12, always(2), 0)
}

func TestRecycledFileNeverShowsItsOldRecords(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, testOptions(t, mem))
	g := l.Group(1)
	next := uint64(1)
	for range 12 {
		appendSync(t, g, Write{Entries: testEntries(1, next, next+99, 4, 1000)})
		next += 100
		g.TruncateTo(next-1, 4)
		appendSync(t, g, Write{HardState: makeHardState(next, 1, next-1)})
		for _, s := range l.Segments() {
			l.Drop(s.ID) //nolint:errcheck // the newest is refused
		}
	}
	appendSync(t, g, Write{Entries: testEntries(1, next, next+2, 4, 100)})
	files := diskFiles(t, mem) // as kill -9 leaves it
	segments := l.Segments()
	mustClose(t, l)
	newest := segmentName(segments[len(segments)-1].ID)
	if !bytes.Contains(files[newest], testData(1, next-250, 4, 1000)[:50]) && len(files) > 3 {
		t.Fatalf("%d segments: no file was recycled", len(files))
	}
	l = mustOpen(t, testOptions(t, diskOf(t, files)))
	defer mustClose(t, l)
	wantLog(t, l.Group(1), next, next+2, always(4), 100)
}

func TestFilesAreRecycledAndSparesBounded(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, testOptions(t, mem))
	g := l.Group(1)
	for i := range uint64(20) {
		appendSync(t, g, Write{Entries: testEntries(1, i*60+1, i*60+60, 4, 1000)})
		g.TruncateTo(i*60+60, 4)
		for _, s := range l.Segments() {
			l.Drop(s.ID) //nolint:errcheck // the newest is refused
		}
	}
	l.sparesMu.Lock()
	made, stock := l.spareNext, len(l.spares)
	l.sparesMu.Unlock()
	if stock > sparesMax {
		t.Errorf("%d spare files", stock)
	}
	if s := l.Stats(); s.Segments > 2 || made < 10 {
		t.Errorf("%d segments, %d spare files in all", s.Segments, made)
	}
	appendSync(t, g, Write{Entries: testEntries(1, 1201, 1900, 4, 1000)})
	g.TruncateTo(1900, 4)
	dropAll(t, l) // more than are kept
	mustClose(t, l)
	found, err := list(mem, "/log")
	if err != nil || len(found.spares) > sparesMax || len(found.segments) > 2 {
		t.Errorf("in the folder: %+v, %v", found, err)
	}
}

func TestFilesOfAnotherSizeAreNotUsedAgain(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(t, mem)
	l := mustOpen(t, o)
	appendSync(t, l.Group(1), Write{Entries: testEntries(1, 1, 200, 4, 1000)})
	mustClose(t, l)
	o.SegmentBytes *= 2
	l = mustOpen(t, o)
	appendSync(t, l.Group(1), Write{Entries: testEntries(1, 201, 400, 4, 1000)})
	l.Group(1).TruncateTo(400, 4)
	dropAll(t, l)
	mustClose(t, l)
	found, err := list(mem, "/log")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range found.spares { // what was dropped went there at once, or not at all
		if info, err := mem.Stat(l.sparePath(n)); err != nil || info.Size() != o.SegmentBytes {
			t.Errorf("a spare file has %d bytes, want %d (%v)", info.Size(), o.SegmentBytes, err)
		}
	}
}

func TestPinKeepsTruncatedEntriesReadable(t *testing.T) {
	o := testOptions(t, vfs.NewMem())
	o.TailBytes = 1
	l := mustOpen(t, o)
	defer mustClose(t, l)
	g := l.Group(1)
	appendSync(t, g, Write{Entries: testEntries(1, 1, 200, 4, 1000)})
	release, later := l.Pin(1, 30), l.Pin(1, 31)
	g.TruncateTo(200, 4)
	if first, _ := g.FirstIndex(); first != 201 {
		t.Fatalf("raft's first index is %d: a pin must not hold it", first)
	}
	if _, err := g.Entries(30, 31, 1); !errors.Is(err, raft.ErrCompacted) {
		t.Fatalf("Entries of a truncated one: %v", err)
	}
	if got, err := g.Bytes(30, 0, 1000); err != nil || !bytes.Equal(got, testData(1, 30, 4, 1000)) {
		t.Fatalf("a pinned entry cannot be read: %v", err)
	}
	if _, err := g.Bytes(29, 0, 1); !errors.Is(err, raft.ErrCompacted) {
		t.Fatalf("the entry below the pin: %v", err)
	}
	if err := l.Drop(1); !errors.Is(err, ErrNeeded) {
		t.Fatalf("a pinned segment was dropped: %v", err)
	}
	release()
	if err := l.Drop(1); !errors.Is(err, ErrNeeded) {
		t.Fatalf("a segment with a second pin was dropped: %v", err)
	}
	later()
	if err := l.Drop(1); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Bytes(31, 0, 1); !errors.Is(err, raft.ErrCompacted) {
		t.Fatalf("after the release: %v", err)
	}
}

func TestReadersAreSafeBesideAppendsAndDrops(t *testing.T) {
	o := testOptions(t, vfs.NewMem())
	o.TailBytes = 20 << 10
	l := mustOpen(t, o)
	defer mustClose(t, l)
	g := l.Group(1)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() { readUntil(t, g, stop) })
	}
	for i := range uint64(40) {
		appendSync(t, g, Write{Entries: testEntries(1, i*20+1, i*20+20, 4, 1000)})
		if i > 8 {
			g.TruncateTo((i-8)*20, 4)
		}
		for _, s := range l.Segments() {
			l.Drop(s.ID) //nolint:errcheck // most are needed
		}
	}
	close(stop)
	readers.Wait()
}

// readUntil reads all over the log; what it gets must be right or compacted.
func readUntil(t *testing.T, g *Group, stop chan struct{}) {
	for n := uint64(0); ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		first, _ := g.FirstIndex()
		last, _ := g.LastIndex()
		if first > last {
			continue
		}
		i := first + (n*31)%(last-first+1)
		got, err := g.Bytes(i, 100, 800)
		if errors.Is(err, raft.ErrCompacted) {
			continue
		}
		if err != nil || !bytes.Equal(got, testData(1, i, 4, 1000)[100:900]) {
			t.Errorf("entry %d: %v", i, err)
			return
		}
	}
}

func TestTailCacheStaysUnderItsBoundAndServesTheNewest(t *testing.T) {
	o := testOptions(t, vfs.NewMem())
	l := mustOpen(t, o)
	defer mustClose(t, l)
	for i := range uint64(100) {
		for id := range uint64(2) {
			appendSync(t, l.Group(id), Write{Entries: testEntries(id, i+1, i+1, 4, 1000)})
		}
	}
	mustFlush(t, l)
	if n := l.Stats().TailBytes; n > o.TailBytes || n < o.TailBytes/2 {
		t.Errorf("%d bytes are in the tail, the bound is %d", n, o.TailBytes)
	}
	g := l.Group(1)
	g.mu.Lock()
	held, newest := len(g.index.tail), g.index.entry(100) != nil
	g.mu.Unlock()
	if held > 17 || !newest {
		t.Errorf("the tail holds %d entries, the newest: %v", held, newest)
	}
	wantLog(t, g, 1, 100, always(4), 1000)
}

func TestVerifiedCacheIsBounded(t *testing.T) {
	var c verifiedCache
	for i := range uint64(300) {
		size := int(1 + (i*7919)%(verifiedBytes/4))
		c.put(i, 100, make([]byte, size))
		held := 0
		for _, p := range c.pieces {
			held += len(p.data)
		}
		if held != c.bytes || held > verifiedBytes || len(c.pieces) > verifiedMax {
			t.Fatalf("after %d: %d bytes are held in %d pieces, %d counted", i, held, len(c.pieces), c.bytes)
		}
		if c.get(i, 100, size) == nil || c.get(i, 99, 1) != nil || c.get(i, 100, size+1) != nil {
			t.Fatalf("piece %d is not what was put", i)
		}
	}
	c.put(2000, 0, make([]byte, verifiedBytes))
	if c.get(2000, 0, 1) != nil {
		t.Fatal("a piece beyond the bound is kept")
	}
}

func TestPiecesOfBigEntriesAreReadAndCheckedAlone(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(t, fs)
	o.TailBytes, o.SegmentBytes = 1, 1<<20
	l := mustOpen(t, o)
	defer func() { mustClose(t, l) }()
	sizes := []int{0, 1, chunkBytes - 1, chunkBytes, chunkBytes + 1, 5*chunkBytes + 777, 300 << 10}
	for k, n := range sizes {
		appendSync(t, l.Group(1), Write{Entries: testEntries(1, uint64(k+1), uint64(k+1), 1, n)})
	}
	for range 2 {
		for k, n := range sizes {
			want := testData(1, uint64(k+1), 1, n)
			for _, c := range [][2]int{{0, n}, {n / 2, n - n/2}, {n / 3, n / 5}, {max(n-3, 0), min(n, 3)}, {n, 0},
				{min(n, chunkBytes-1), min(2, n-min(n, chunkBytes-1))}} {
				got, err := l.Group(1).Bytes(uint64(k+1), c[0], c[1])
				if err != nil || !bytes.Equal(got, want[c[0]:c[0]+c[1]]) {
					t.Fatalf("entry of %d bytes, piece %v: %v", n, c, err)
				}
			}
		}
		mustClose(t, l)
		l = mustOpen(t, o)
	}
	records := recordsOf(t, fs)
	big := records[len(records)-2]
	f, err := fs.OpenReadWrite("/log/"+segmentName(1), category)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{1, 2, 3}, big.Offset+recordHeaderBytes+3*chunkBytes); err != nil {
		t.Fatal(err)
	}
	var d *DamageError
	if _, err := l.Group(1).Bytes(7, 3*chunkBytes+500, 10); !errors.As(err, &d) {
		t.Errorf("a damaged chunk: %v", err)
	}
	if _, err := l.Group(1).Bytes(7, 4*chunkBytes, 10); err != nil {
		t.Errorf("another chunk: %v", err)
	}
	if _, err := l.Group(1).Entries(7, 8, 1); !errors.As(err, &d) {
		t.Errorf("the damaged entry: %v", err)
	}
	if _, err := f.WriteAt(testData(1, 7, 1, 300<<10), big.Offset+recordHeaderBytes); err != nil {
		t.Fatal(err)
	}
}

func TestCleanRestartsGoOnInTheSameSegmentCutOnesDoNot(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, testOptions(t, fs))
	for i := range uint64(10) {
		appendSync(t, l.Group(1), Write{Entries: testEntries(1, i+1, i+1, 1, 100)})
		l = reopen(t, l)
		l = reopen(t, l)
	}
	if n := len(l.Segments()); n != 1 {
		t.Fatalf("20 clean restarts made %d segments", n)
	}
	appendSync(t, l.Group(1), Write{Entries: testEntries(1, 11, 11, 1, 100)})
	files := diskFiles(t, fs) // as kill -9 leaves it
	mustClose(t, l)
	l = mustOpen(t, testOptions(t, diskOf(t, files)))
	defer func() { mustClose(t, l) }()
	appendSync(t, l.Group(1), Write{Entries: testEntries(1, 12, 12, 1, 100)})
	if n := len(l.Segments()); n != 2 {
		t.Fatalf("after a kill there are %d segments", n)
	}
	l = reopen(t, l)
	wantLog(t, l.Group(1), 1, 12, always(1), 100)
}

func TestOverriddenEntriesDoNotHoldTheirSegment(t *testing.T) {
	mem := vfs.NewCrashableMem()
	o := testOptions(t, mem)
	l := mustOpen(t, o)
	defer mustClose(t, l)
	g := l.Group(1)
	appendSync(t, g, Write{Entries: testEntries(1, 1, 50, 1, 1000)})
	appendSync(t, l.Group(2), Write{Entries: testEntries(2, 1, 60, 1, 1000)})
	g.Append(Write{Entries: testEntries(1, 31, 32, 2, 1000)}, nil) // not synced by itself; the group is idle after it
	g.TruncateTo(30, 1)
	l.Group(2).TruncateTo(60, 1)
	if err := l.Drop(1); err != nil {
		t.Fatal(err)
	}
	o.FS = mem.CrashClone(vfs.CrashCloneCfg{})
	l2 := mustOpen(t, o)
	defer mustClose(t, l2)
	wantLog(t, l2.Group(1), 31, 32, always(2), 1000)
}

// readCounter counts what is read of files.
type readCounter struct {
	vfs.FS
	reads, bytes int
}

func (c *readCounter) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := c.FS.OpenReadWrite(name, category, opts...)
	return countedFile{f, c}, err
}

type countedFile struct {
	vfs.File
	c *readCounter
}

func (f countedFile) ReadAt(b []byte, off int64) (int, error) {
	f.c.reads++
	f.c.bytes += len(b)
	return f.File.ReadAt(b, off)
}

func TestWhatIsReadInOrderIsReadAheadAndNothingElseIs(t *testing.T) {
	const size, piece = 256 << 10, 4200
	fs := &readCounter{FS: vfs.NewMem()}
	o := testOptions(t, fs)
	o.TailBytes = 1
	l := mustOpen(t, o)
	defer mustClose(t, l)
	g := l.Group(1)
	appendSync(t, g, Write{Entries: testEntries(1, 1, 100, 1, size)})
	mustFlush(t, l)
	read := func(index uint64, offset int) {
		t.Helper()
		want := testData(1, index, 1, size)[offset : offset+piece]
		if b, err := g.Bytes(index, offset, piece); err != nil || !bytes.Equal(b, want) {
			t.Fatalf("entry %d at %d: %v", index, offset, err)
		}
	}
	for _, c := range []struct {
		name         string
		do           func(i uint64)
		reads, bytes int // at most, per entry
	}{
		{"in order", func(i uint64) {
			for at := 0; at+piece <= size; at += piece {
				read(i, at)
			}
		}, 8, size * 3 / 2},
		{"one each", func(i uint64) { read(i-49, 40*piece) }, 2, 2*chunkBytes + 100},
	} {
		fs.reads, fs.bytes = 0, 0
		for i := range uint64(50) {
			c.do(50 + i)
		}
		if fs.reads < 50 || fs.reads > 50*c.reads || fs.bytes > 50*c.bytes {
			t.Errorf("%s: %d reads and %d bytes, at most %d and %d are due, and 50 reads at least", c.name, fs.reads, fs.bytes, 50*c.reads, 50*c.bytes)
		}
	}
}
