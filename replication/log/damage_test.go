package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// readFile is a file's bytes.
func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, info.Size())
	if n, err := f.ReadAt(b, 0); n < len(b) {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, category)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(append([]byte(nil), b...)); err != nil { // Write may scribble over what it is given
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// images makes a disk that holds the given files in /log.
func diskOf(t testing.TB, files map[string][]byte) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/log", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		writeFile(t, fs, "/log/"+name, b)
	}
	return fs
}

// killed is what lies on the disk of a log that ended without Close, after the writes were synced one by one.
func killed(t testing.TB, writes ...Write) map[string][]byte {
	t.Helper()
	fs := vfs.NewMem()
	l := mustOpen(t, testOptions(t, fs))
	defer mustClose(t, l)
	for _, w := range writes {
		appendSync(t, l.Group(1), w)
	}
	return diskFiles(t, fs)
}

// diskFiles are the segments that lie on a disk.
func diskFiles(t testing.TB, fs vfs.FS) map[string][]byte {
	t.Helper()
	found, err := list(fs, "/log")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, id := range found.segments {
		files[segmentName(id)] = readFile(t, fs, "/log/"+segmentName(id))
	}
	return files
}

// recordsOf lists the records that a disk's log holds.
func recordsOf(t testing.TB, fs vfs.FS) (out []Record) {
	t.Helper()
	if err := Dump(fs, "/log", func(r Record) error { out = append(out, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTornTailIsCutAtEveryByte(t *testing.T) {
	files := killed(t, Write{Entries: testEntries(1, 1, 3, 1, 100)}, Write{HardState: makeHardState(2, 1, 3), Entries: testEntries(1, 4, 6, 2, 100)})
	name := segmentName(1)
	whole := files[name]
	records := recordsOf(t, diskOf(t, files))
	last := records[len(records)-1]
	end := last.Offset + int64(recordBytes(len(last.Data)))
	from := int64(0) // of the last write
	for _, r := range records {
		if r.Kind == KindBarrier {
			from = r.Offset
		}
	}
	term := func(i uint64) uint64 { return 1 + i/4 }
	for cut := from; cut < end; cut++ {
		torn := append([]byte(nil), whole...)
		clear(torn[cut:])
		fs := diskOf(t, map[string][]byte{name: torn})
		l := mustOpen(t, testOptions(t, fs))
		kept, _ := l.Group(1).LastIndex()
		if kept < 3 || kept == 6 && cut < end-8 {
			t.Fatalf("cut at %d of %d..%d: the last entry is %d", cut, from, end, kept)
		}
		wantLog(t, l.Group(1), 1, kept, term, 100)
		if cut%8 != 5 {
			mustClose(t, l)
			continue
		}
		appendSync(t, l.Group(1), Write{Entries: testEntries(1, kept+1, kept+3, 1+(kept+1)/4, 100)})
		l = reopen(t, l)
		if last, _ := l.Group(1).LastIndex(); last != kept+3 {
			t.Fatalf("cut at %d: after it the log goes to %d, want %d", cut, last, kept+3)
		}
		mustClose(t, l)
	}
}

func TestCommitIndexNeverPassesTheLastEntry(t *testing.T) {
	files := killed(t, Write{Entries: testEntries(1, 1, 3, 1, 100)}, Write{HardState: makeHardState(1, 1, 6), Entries: testEntries(1, 4, 6, 1, 100)})
	records := recordsOf(t, diskOf(t, files))
	torn := files[segmentName(1)]
	clear(torn[records[len(records)-2].Offset:])
	l := mustOpen(t, testOptions(t, diskOf(t, files)))
	defer mustClose(t, l)
	if hs, _, _ := l.Group(1).InitialState(); hs.GetCommit() != 4 {
		t.Fatalf("commit is %d, want 4: the last entry", hs.GetCommit())
	}
}

// wantDamage opens the log, and wants it refused for the file and an offset in from..to.
func wantDamage(t *testing.T, fs vfs.FS, file string, from, to int64) {
	t.Helper()
	o := testOptions(t, fs)
	o.EnsureDefaults()
	_, _, err := load(o)
	var d *DamageError
	if !errors.As(err, &d) {
		t.Fatalf("opened, or another error: %v", err)
	}
	if d.File != "/log/"+file || d.Offset < from || d.Offset > to {
		t.Fatalf("damage in %s at %d, want %s at %d..%d", d.File, d.Offset, file, from, to)
	}
	if text := err.Error(); !strings.Contains(text, d.File) || !strings.Contains(text, fmt.Sprint(d.Offset)) {
		t.Fatalf("the error names not the place: %s", text)
	}
}

func TestFlippedBitInSyncedBytesStopsTheOpen(t *testing.T) {
	var writes []Write
	for i := range uint64(16) {
		writes = append(writes, Write{HardState: makeHardState(1, 2, i), Entries: testEntries(1, 10*i+1, 10*i+10, 1, 1000)})
	}
	files := killed(t, writes...)
	fs := diskOf(t, files)
	records := recordsOf(t, fs)
	last := Record{} // the barrier of the last write, which nothing vouches for
	for _, r := range records {
		if r.Kind == KindBarrier {
			last = r
		}
	}
	flipped, flips, newest := 0, 0, 0
	for _, r := range records {
		if r.Offset == 0 || r.Segment == last.Segment && r.Offset >= last.Offset {
			continue
		}
		if r.Segment == last.Segment {
			newest++
		}
		for k, at := range []int64{0, 5, 9, 14, 16, 25, 33, 47, int64(recordHeaderBytes + len(r.Data)/2)} {
			if k%3 != flips%3 { // a third of them, others for each record
				continue
			}
			if len(r.Data) == 0 && at >= recordHeaderBytes {
				continue
			}
			name := segmentName(r.Segment)
			files[name][r.Offset+at] ^= 1 << (at % 8)
			wantDamage(t, diskOf(t, files), name, r.Offset, r.Offset)
			files[name][r.Offset+at] ^= 1 << (at % 8)
			flipped++
		}
		flips++
	}
	if flipped < 300 || len(files) < 2 || newest < 20 {
		t.Fatalf("only %d bits in %d segments, %d records of the newest, were looked at", flipped, len(files), newest)
	}
}

func TestFlippedBitInABigEntryOrItsChecksumsStopsTheOpen(t *testing.T) {
	const size = 5*chunkBytes + 100
	files := killed(t, Write{Entries: testEntries(1, 1, 1, 1, size)}, Write{Entries: testEntries(1, 2, 2, 1, 10)}, Write{Entries: testEntries(1, 3, 3, 1, 10)})
	for _, r := range recordsOf(t, diskOf(t, files)) {
		if len(r.Data) != size {
			continue
		}
		name := segmentName(r.Segment)
		for _, at := range []int64{size / 2, size - 1, int64(padded(size)) + 2, int64(padded(size)) + 4*int64(chunksOf(size)) - 1} {
			at += r.Offset + recordHeaderBytes
			files[name][at] ^= 8
			wantDamage(t, diskOf(t, files), name, r.Offset, r.Offset)
			files[name][at] ^= 8
		}
		return
	}
	t.Fatal("there is no big entry")
}

func TestFlippedBitInAHeaderStopsTheOpen(t *testing.T) {
	files := killed(t, Write{Entries: testEntries(1, 1, 90, 1, 1000)})
	for name, b := range files {
		for _, at := range []int{0, 4, 9, 17, 30, 33, 41, 45, 66, 4000} {
			b[at] ^= 4
			wantDamage(t, diskOf(t, files), name, 0, 0)
			b[at] ^= 4
		}
	}
}

func TestCleanCloseVouchesForTheLastWrite(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, testOptions(t, fs))
	appendSync(t, l.Group(1), Write{Entries: testEntries(1, 1, 3, 1, 100)})
	mustClose(t, l)
	files := diskFiles(t, fs)
	records := recordsOf(t, fs)
	at := records[len(records)-2].Offset // the last entry
	files[segmentName(1)][at+60] ^= 1
	wantDamage(t, diskOf(t, files), segmentName(1), at, at)
}

func TestSegmentThatIsCutShortStopsTheOpen(t *testing.T) {
	files := killed(t, Write{Entries: testEntries(1, 1, 90, 1, 1000)})
	if len(files) < 2 {
		t.Fatal("one segment is not enough")
	}
	name := segmentName(1)
	files[name] = files[name][:len(files[name])/2]
	wantDamage(t, diskOf(t, files), name, headerBlock, int64(len(files[name])))
}

func TestMissingSegmentStopsTheOpen(t *testing.T) {
	files := killed(t, Write{Entries: testEntries(1, 1, 200, 1, 1000)})
	delete(files, segmentName(2))
	_, err := Open(testOptions(t, diskOf(t, files)))
	if err == nil || !strings.Contains(err.Error(), "of group 1 are missing") {
		t.Fatalf("open without segment 2: %v", err)
	}
}

func TestSegmentOfAnotherLogStopsTheOpen(t *testing.T) {
	ours, theirs := killed(t, Write{Entries: testEntries(1, 1, 200, 1, 1000)}), killed(t, Write{Entries: testEntries(1, 1, 200, 1, 1000)})
	name := segmentName(2)
	ours[name] = theirs[name]
	wantDamage(t, diskOf(t, ours), name, headerBlock, int64(len(ours[name])))
}

func TestRecordOfAnOlderUseOfTheFileIsNoRecord(t *testing.T) {
	files := killed(t, Write{Entries: testEntries(1, 1, 3, 1, 100)})
	b := files[segmentName(1)]
	records := recordsOf(t, diskOf(t, files))
	last := records[len(records)-1].Offset
	before := records[len(records)-2].Offset
	h, _ := parseRecordHeader(b[last:], 0)
	h.generation++
	h.put(b[last:], binary.LittleEndian.Uint32(b[before:])) // all else is right, its checksum too
	l := mustOpen(t, testOptions(t, diskOf(t, files)))
	defer mustClose(t, l)
	wantLog(t, l.Group(1), 1, 2, always(1), 100)
}

func TestDroppedSegmentThatComesBackIsIgnored(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, testOptions(t, fs))
	appendSync(t, l.Group(1), Write{Entries: testEntries(1, 1, 100, 1, 1000)})
	old := diskFiles(t, fs)[segmentName(1)]
	l.Group(1).TruncateTo(100, 1)
	dropAll(t, l)
	appendSync(t, l.Group(1), Write{Entries: testEntries(1, 101, 200, 1, 1000)})
	mustClose(t, l)
	writeFile(t, fs, "/log/"+segmentName(1), old) // as if its removal had not reached the disk
	l = mustOpen(t, testOptions(t, fs))
	defer mustClose(t, l)
	wantLog(t, l.Group(1), 101, 200, always(1), 1000)
	if s := l.Segments(); s[0].ID == 1 {
		t.Fatal("segment 1 is back")
	}
}

func TestMissingNewestSegmentIsNotNoticed(t *testing.T) {
	// A whole segment that is gone from the end leaves nothing that vouches for it: stated, not wished.
	files := killed(t, Write{Entries: testEntries(1, 1, 200, 1, 1000)})
	delete(files, segmentName(uint64(len(files))))
	mustClose(t, mustOpen(t, testOptions(t, diskOf(t, files))))
}

func TestNewerFormatIsRefused(t *testing.T) {
	files := killed(t, Write{Entries: testEntries(1, 1, 3, 1, 100)})
	b := files[segmentName(1)]
	b[4] = formatVersion + 1
	_, err := Open(testOptions(t, diskOf(t, files)))
	if err == nil || !strings.Contains(err.Error(), "format version 2, this program reads 1") {
		t.Fatalf("open: %v", err)
	}
}

func TestDamagedReadIsAnErrorNotData(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(t, fs)
	o.TailBytes = 1
	l := mustOpen(t, o)
	appendSync(t, l.Group(1), Write{Entries: testEntries(1, 1, 10, 1, 1000)})
	mustFlush(t, l)
	f, err := fs.OpenReadWrite("/log/"+segmentName(1), category)
	if err != nil {
		t.Fatal(err)
	}
	records := recordsOf(t, fs)
	if _, err := f.WriteAt([]byte{1, 2, 3}, records[len(records)-1].Offset+200); err != nil {
		t.Fatal(err)
	}
	var d *DamageError
	if _, err := l.Group(1).Bytes(10, 0, 5); !errors.As(err, &d) {
		t.Errorf("Bytes: %v", err)
	}
	if _, err := l.Group(1).Entries(1, 11, 1<<30); !errors.As(err, &d) {
		t.Errorf("Entries: %v", err)
	}
	if _, err := l.Group(1).Bytes(9, 0, 5); err != nil {
		t.Errorf("the entry before: %v", err)
	}
}

func TestDumpGoesOnAfterDamage(t *testing.T) {
	files := killed(t, Write{Entries: testEntries(1, 1, 200, 1, 1000)})
	whole := len(recordsOf(t, diskOf(t, files)))
	files[segmentName(2)][headerBlock+3000] ^= 1
	seen := map[uint64]int{}
	err := Dump(diskOf(t, files), "/log", func(r Record) error { seen[r.Segment]++; return nil })
	var d *DamageError
	if !errors.As(err, &d) || d.File != "/log/"+segmentName(2) {
		t.Fatalf("dump: %v", err)
	}
	total := seen[1] + seen[2] + seen[3] + seen[4]
	if seen[3] == 0 || total >= whole {
		t.Fatalf("records by segment: %v of %d", seen, whole)
	}
}

// TestOldSegmentsAreSkimmed: of a long log only the end is read when it is opened; damage before that is found when it is
// read, or at once where it is in what tells the records apart.
func TestOldSegmentsAreSkimmed(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(t, fs)
	o.SegmentBytes, o.CheckBytes = 64<<10, 64<<10
	l := mustOpen(t, o)
	for i := range uint64(40) {
		appendSync(t, l.Group(1), Write{Entries: testEntries(1, i+1, i+1, 1, 10<<10)})
	}
	first := l.Segments()[0]
	mustClose(t, l)
	file := segmentName(first.ID)
	whole := diskFiles(t, fs)
	flip := func(file string, at int) *vfs.MemFS {
		files := map[string][]byte{}
		for name, b := range whole {
			files[name] = append([]byte(nil), b...)
		}
		files[file][at] ^= 1
		return diskOf(t, files)
	}
	records := recordsOf(t, fs)
	at := -1
	for i := range records {
		if records[i].Kind == KindEntry && records[i].Index == 2 {
			at = int(records[i].Offset)
		}
	}

	o.FS = fs
	l = mustOpen(t, o)
	wantLog(t, l.Group(1), 1, 40, always(1), 10<<10)
	mustClose(t, l)

	o.FS = flip(file, at+recordHeaderBytes+5000)
	l = mustOpen(t, o)
	var damage *DamageError
	if _, err := l.Group(1).Entries(2, 3, 1); !errors.As(err, &damage) {
		t.Errorf("damage in an old segment: %v", err)
	}
	if _, err := l.Group(1).Entries(3, 41, 1<<30); err != nil {
		t.Errorf("entries beside the damage: %v", err)
	}
	mustClose(t, l)

	o.FS = flip(file, at+20)
	if _, err := Open(o); !errors.As(err, &damage) {
		t.Errorf("damage to a record's head in an old segment: %v", err)
	}
	o.CheckBytes = 1 << 30
	o.FS = flip(file, at+recordHeaderBytes+5000)
	if _, err := Open(o); !errors.As(err, &damage) {
		t.Errorf("damage within what is checked: %v", err)
	}
}
