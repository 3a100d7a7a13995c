package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// newSource is a group with contents in the log and in Pebble, and rows of both kinds of age.
func newSource(t *testing.T) *rig {
	r := newRig(t, vfs.NewMem(), 11)
	r.random(100, 200)
	r.evacuate(70)
	r.checkpoint()
	r.must(r.g.ApplyConf(r.log.append(nil), 4, []byte("three voters")))
	r.random(50, 200)
	r.checkpoint()
	r.random(10, 200)
	return r
}

func (r *rig) stage(b []byte) error {
	_, _, _, err := r.g.Stage(context.Background(), bytes.NewReader(b))
	return err
}

func TestSnapshotMakesAnotherStoreEqual(t *testing.T) {
	source := newSource(t)
	stream := source.stream()
	r := newRig(t, vfs.NewMem(), 12)
	r.random(30, 50)
	r.evacuate(20)
	r.checkpoint()
	index, term, conf, err := r.g.Stage(context.Background(), bytes.NewReader(stream))
	r.must(err)
	if at, atTerm := source.g.Applied(); index != at || term != atTerm || string(conf) != "three voters" {
		t.Fatalf("staged %d/%d %q, the source is at %d/%d", index, term, conf, at, atTerm)
	}
	r.random(10, 50) // the old state goes on until the install
	if r.g.Install(index+1, term) == nil || r.g.Install(index, term+1) == nil {
		t.Fatal("a snapshot was installed that is not the staged one")
	}
	r.must(r.g.Install(index, term))
	r.log = newToyLog() // nothing is read from the log
	equal := func() {
		t.Helper()
		at, atTerm := r.g.Applied()
		durable, _ := r.g.Durable()
		if at != index || atTerm != term || durable != index || string(r.g.Conf()) != "three voters" {
			t.Fatalf("at %d/%d, durable %d, conf %q", at, atTerm, durable, r.g.Conf())
		}
		if r.g.Fingerprint() != source.g.Fingerprint() {
			t.Fatal("fingerprints differ")
		}
		r.readable()
	}
	equal()
	r.reopen()
	equal()
	tidy(r, "installed")
	if !bytes.Equal(r.stream(), stream) {
		t.Fatal("a snapshot of the installed state has other bytes")
	}
}

func TestSnapshotIsOfTheMomentOfItsCut(t *testing.T) {
	source := newSource(t)
	s, err := source.g.Snapshot()
	source.must(err)
	want := source.g.Fingerprint()
	source.random(50, 200)
	source.checkpoint()
	at, _ := source.g.Applied()
	// Evacuated while the snapshot is open: it goes on to read the log, which is kept.
	done := make(chan error, 1)
	source.g.Evacuate(0, at+1, func(err error) { done <- err })
	source.must(wait(t, done))
	source.g.Round()
	for k := range uint16(200) {
		source.apply(del(k))
	}
	source.g.Round()
	source.checkpoint()
	var b bytes.Buffer
	_, err = s.WriteTo(&b)
	source.must(err)
	r := newRig(t, vfs.NewMem(), 12)
	r.must(r.stage(b.Bytes()))
	r.must(r.g.Install(s.Index(), s.Term()))
	source.must(s.Close())
	if r.g.Fingerprint() != want {
		t.Fatal("the snapshot is not of the state at its cut")
	}
	r.readable()
}

func TestDamagedSnapshotIsRefusedAndChangesNothing(t *testing.T) {
	source := newSource(t)
	stream := source.stream()
	r := newRig(t, vfs.NewMem(), 12)
	r.random(30, 50)
	r.checkpoint()
	want := r.g.Fingerprint()
	refused := func(what string, b []byte) {
		t.Helper()
		if err := r.stage(b); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("%s: %v", what, err)
		}
		if n := r.count(dataKey(rigGroup, 1), dataEnd(rigGroup)); n != 0 {
			t.Fatalf("%s: %d rows are left aside", what, n)
		}
		if err := r.g.Install(source.log.last, 4); err == nil {
			t.Fatalf("%s: it was installed", what)
		}
	}
	for at := 0; at < len(stream); at += 1 + at/40 {
		b := bytes.Clone(stream)
		b[at] ^= 0x41
		refused("flipped", b)
		refused("truncated", stream[:at])
	}
	refused("last byte missing", stream[:len(stream)-1])
	if r.g.Fingerprint() != want {
		t.Fatal("the old state changed")
	}
	r.readable()
	r.must(r.stage(stream))
}

// reseal makes the end of a stream fit its bytes.
func reseal(b []byte) []byte {
	binary.BigEndian.PutUint64(b[len(b)-8:], xxhash.Sum64(b[:len(b)-8]))
	return b
}

func TestSnapshotOfWellSummedNonsenseIsRefused(t *testing.T) {
	key, value := []byte{0, 1}, make([]byte, 20)
	binary.BigEndian.PutUint32(value[8:], 3)
	row := append(append([]byte{0, 0, 0, 2}, key...), value...)
	head := append(binary.BigEndian.AppendUint64(nil, rigGroup), make([]byte, headerBytes-8)...)
	content := append(make([]byte, 8), "abc"...)
	newRow, newContent := bytes.Clone(row), bytes.Clone(content)
	newRow[6+4], newContent[4] = 1, 1 // of entry 2^8, when the header says 0
	type frame struct {
		kind    byte
		payload []byte
	}
	for name, frames := range map[string][]frame{
		"no header":            {{frameRow, row}},
		"short header":         {{frameHeader, head[:10]}},
		"another group":        {{frameHeader, make([]byte, headerBytes)}},
		"unknown frame":        {{frameHeader, head}, {'x', nil}},
		"row without key":      {{frameHeader, head}, {frameRow, []byte{0, 0}}},
		"key beyond its frame": {{frameHeader, head}, {frameRow, []byte{0, 0, 0, 9, 1}}},
		"undecodable row":      {{frameHeader, head}, {frameRow, row[:len(row)-1]}},
		"same row twice":       {{frameHeader, head}, {frameRow, row}, {frameRow, row}},
		"content missing":      {{frameHeader, head}, {frameRow, row}},
		"content too many":     {{frameHeader, head}, {frameContent, content}},
		"content too short":    {{frameHeader, head}, {frameRow, row}, {frameContent, content[:9]}},
		"content without loc":  {{frameHeader, head}, {frameRow, row}, {frameContent, content[:5]}},
		"content twice":        {{frameHeader, head}, {frameRow, row}, {frameContent, content}, {frameContent, content}},
		"content too new":      {{frameHeader, head}, {frameRow, newRow}, {frameContent, newContent}},
		"row behind contents":  {{frameHeader, head}, {frameRow, row}, {frameContent, content}, {frameRow, row}},
		"wrong counts":         {{frameHeader, head}, {frameRow, row}, {frameContent, content}, {0, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := newStreamWriter(&b)
			rows, contents := uint64(0), uint64(0)
			for _, f := range frames {
				switch f.kind {
				case 0:
					rows += 5
					continue
				case frameRow:
					rows++
				case frameContent:
					contents++
				}
				w.frame(f.kind, nil, f.payload)
			}
			if err := w.end(rows, contents); err != nil {
				t.Fatal(err)
			}
			r := newRig(t, vfs.NewMem(), 1)
			if err := r.stage(b.Bytes()); !errors.Is(err, ErrSnapshot) {
				t.Fatalf("stage: %v", err)
			}
		})
	}
}

func TestOversizedSnapshotFrameIsRefusedBeforeMemoryIsTaken(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	for _, size := range []uint32{frameBytesMax + 1, 1<<32 - 1} {
		b := append([]byte(streamMagic), frameHeader)
		if err := r.stage(binary.BigEndian.AppendUint32(b, size)); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("a frame of %d bytes: %v", size, err)
		}
	}
	// A frame that promises much and holds little costs little.
	b := binary.BigEndian.AppendUint32(append([]byte(streamMagic), frameHeader), frameBytesMax)
	in, err := newStreamReader(bytes.NewReader(b))
	r.must(err)
	if _, _, err := in.next(); !errors.Is(err, ErrSnapshot) {
		t.Fatal(err)
	}
	if cap(in.buf) > 2*takeStep {
		t.Fatalf("%d bytes were taken for nothing", cap(in.buf))
	}
}

func TestStageEndsWithItsContext(t *testing.T) {
	stream := newSource(t).stream()
	r := newRig(t, vfs.NewMem(), 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, _, err := r.g.Stage(ctx, bytes.NewReader(stream)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestInstallAbandonsAnEvacuationAndACheckpointUnderWay(t *testing.T) {
	source := newSource(t)
	r := newRig(t, vfs.NewMem(), 12)
	r.random(40, 50)
	r.must(r.stage(source.stream()))
	reading := make(chan struct{}, 100)
	r.g.o.ReadEntry = func(uint64, int, int) ([]byte, error) {
		reading <- struct{}{}
		<-r.g.evac.abort
		return nil, errors.New("the log has moved on")
	}
	r.g.Checkpoint(nil)
	done := make(chan error, 1)
	r.g.Evacuate(0, 30, func(err error) { done <- err })
	wait(t, reading)
	r.must(r.g.Install(source.log.last, 1))
	if err := wait(t, done); err == nil {
		t.Fatal("the evacuation says that it was done")
	}
	if r.g.Fingerprint() != source.g.Fingerprint() {
		t.Fatal("fingerprints differ")
	}
	r.readable()
	tidy(r, "installed")
}

func TestInstallIsOnDiskWhenItReturns(t *testing.T) {
	source := newSource(t)
	fs := vfs.NewCrashableMem()
	r := newRig(t, fs, 12)
	r.random(10, 50)
	r.must(r.stage(source.stream()))
	index, term := source.g.Applied()
	r.must(r.g.Install(index, term))
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	r.close()
	r.fs, r.log = crashed, newToyLog()
	r.open(Options{})
	if at, _ := r.g.Applied(); at != index {
		t.Fatalf("at %d after the crash, installed was %d", at, index)
	}
	r.readable()
}

func TestInstallIsNotUndoneByACheckpointBegunBefore(t *testing.T) {
	source := newSource(t)
	r := newRig(t, vfs.NewMem(), 12)
	r.must(r.stage(source.stream()))
	r.random(10, 50)
	hold := make(chan struct{})
	r.g.Checkpoint(func(error) { <-hold }) // holds the writer
	r.g.awaitJob()
	r.random(10, 50)
	r.g.Checkpoint(nil)
	// Only what would go wrong needs the time: the install waits for the writer.
	time.AfterFunc(20*time.Millisecond, func() { close(hold) })
	index, term := source.g.Applied()
	r.must(r.g.Install(index, term))
	<-hold
	r.g.awaitJob()
	r.checkpoint()
	r.reopen()
	if at, _ := r.g.Applied(); at != index || r.g.Fingerprint() != source.g.Fingerprint() {
		t.Fatalf("at %d, installed was %d", at, index)
	}
}

func TestStagedSnapshotThatTheLogOvertookIsDeletedAtBoot(t *testing.T) {
	source := newSource(t)
	r := newRig(t, vfs.NewMem(), 12)
	r.must(r.stage(source.stream()))
	r.reopen()
	if r.count(dataKey(rigGroup, 1), dataEnd(rigGroup)) == 0 {
		t.Fatal("it is gone while it can still be installed")
	}
	index, term := source.g.Applied()
	r.random(int(index), 50)
	r.must(r.g.Install(index, term)) // nothing to do
	if at, _ := r.g.Applied(); at != index || r.g.Fingerprint() != r.log.sums[index] {
		t.Fatal("an older state was installed")
	}
	r.checkpoint()
	r.reopen()
	tidy(r, "overtaken")
}

func TestDamagedRowStopsTheOpeningAndIsNamed(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.apply(put([]byte("x"), 0x1234))
	r.checkpoint()
	k := append(rowPrefix(rigGroup, 0), 0x12, 0x34)
	r.must(r.db.p.Set(k, []byte("short"), pebble.NoSync))
	r.must(r.db.flush())
	r.close()
	db, err := open(r.fs, "store", Options{}, toyKind)
	r.must(err)
	defer db.Close()
	_, err = db.Group(rigGroup, GroupOptions{})
	if !errors.Is(err, errToy) || !bytes.Contains([]byte(err.Error()), []byte("group 3: the row 1234 ")) {
		t.Fatalf("open: %v", err)
	}
}

func TestNewerStoredFormIsRefused(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.apply(put([]byte("x"), 1))
	r.checkpoint()
	b := (&stateMeta{index: 1, term: 1}).encode()
	b[0] = formatVersion + 1
	r.must(r.db.p.Set(metaKey(rigGroup, metaState), b, pebble.NoSync))
	r.must(r.db.flush())
	r.close()
	db, err := open(r.fs, "store", Options{}, toyKind)
	r.must(err)
	defer db.Close()
	if _, err = db.Group(rigGroup, GroupOptions{}); err == nil {
		t.Fatal("it was opened")
	}
}
