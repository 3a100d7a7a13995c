package log

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.etcd.io/raft/v3/raftpb"
)

// faults injects an error into the operations of some kinds while it is on.
type faults struct {
	on    atomic.Bool
	err   error
	kinds map[errorfs.OpKind]bool
}

func newFaults(err error, kinds ...errorfs.OpKind) *faults {
	f := &faults{err: err, kinds: map[errorfs.OpKind]bool{}}
	for _, k := range kinds {
		f.kinds[k] = true
	}
	return f
}

func (f *faults) inject(op errorfs.Op) error {
	if f.on.Load() && f.kinds[op.Kind] {
		return f.err
	}
	return nil
}

func TestFailedWriteOrSyncIsFatalAndAcknowledgesNothing(t *testing.T) {
	for name, kind := range map[string]errorfs.OpKind{"fdatasync": errorfs.OpFileSyncData, "write": errorfs.OpFileWriteAt} {
		t.Run(name, func(t *testing.T) {
			f := newFaults(errors.New("the disk is on fire"), kind)
			o := testOptions(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(f.inject)))
			fatal := make(chan error, 10)
			o.Fatal = func(err error) { fatal <- err }
			l := mustOpen(t, o)
			g := l.Group(1)
			appendSync(t, g, Write{Entries: testEntries(1, 1, 1, 1, 100)})
			f.on.Store(true)
			var acked atomic.Int32
			for i := range uint64(3) {
				g.Append(Write{Entries: testEntries(1, i+2, i+2, 1, 100), Sync: true}, func() { acked.Add(1) })
			}
			if err := <-fatal; !errors.Is(err, f.err) {
				t.Errorf("fatal: %v", err)
			}
			f.on.Store(false) // no retry, though it would work
			g.Append(Write{Entries: testEntries(1, 5, 5, 1, 100), Sync: true}, func() { acked.Add(1) })
			if err := l.flush(); !errors.Is(err, ErrClosed) {
				t.Errorf("flush: %v", err)
			}
			mustClose(t, l)
			if n := acked.Load(); n != 0 || len(fatal) != 0 {
				t.Errorf("%d appends were acknowledged, Fatal ran %d more times", n, len(fatal))
			}
		})
	}
}

func TestGapInAppendedEntriesIsFatal(t *testing.T) {
	for name, entries := range map[string][]*raftpb.Entry{
		"before them":  testEntries(1, 2, 2, 1, 10),
		"between them": append(testEntries(1, 1, 1, 1, 10), testEntries(1, 3, 3, 1, 10)...),
	} {
		o := testOptions(t, vfs.NewMem())
		var fatal error
		o.Fatal = func(err error) { fatal = err }
		l := mustOpen(t, o)
		acked := func() { t.Error("acknowledged") }
		l.Group(1).Append(Write{Entries: entries, Sync: true}, acked)
		l.Group(2).Append(Write{Entries: testEntries(2, 1, 1, 1, 10), Sync: true}, acked)
		if err := l.flush(); !errors.Is(err, ErrClosed) {
			t.Errorf("flush: %v", err)
		}
		mustClose(t, l)
		if fatal == nil {
			t.Errorf("entries were taken into an empty log with a gap %s", name)
		}
	}
}

// fullRig is a log on a disk that can be filled.
type fullRig struct {
	*faults
	log  *Log
	told chan error
}

func newFullRig(t *testing.T, kinds ...errorfs.OpKind) *fullRig {
	r := &fullRig{faults: newFaults(syscall.ENOSPC, kinds...), told: make(chan error, 100)}
	o := testOptions(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(r.inject)))
	o.Full = func(err error) { r.told <- err }
	r.log = mustOpen(t, o)
	return r
}

func TestFullDiskHoldsAppendsUntilADropMakesRoom(t *testing.T) {
	r := newFullRig(t, errorfs.OpCreate)
	g := r.log.Group(1)
	const before = 200
	for i := range uint64(before) {
		appendSync(t, g, Write{Entries: testEntries(1, i+1, i+1, 4, 1000)})
	}
	r.on.Store(true) // from now on no file can be made
	var acked atomic.Uint64
	acked.Store(before)
	var all sync.WaitGroup
	for i := uint64(before + 1); i <= 400; i++ {
		all.Add(1)
		g.Append(Write{Entries: testEntries(1, i, i, 4, 1000), Sync: true}, func() { acked.Store(i); all.Done() })
	}
	if err := <-r.told; !errors.Is(err, ErrFull) {
		t.Fatalf("told %v", err)
	}
	mustFlush(t, r.log) // what could be written is: no more is under way
	held := acked.Load()
	if held >= 400 {
		t.Fatalf("%d entries were acknowledged on a full disk", held)
	}
	wantLog(t, g, 1, 400, always(4), 1000)
	// Only segments that are dropped make room, and their truncation must be recorded on the full disk.
	for n := held; n < 400; n = acked.Load() {
		g.TruncateTo(n, 4)
		mustFlush(t, r.log)
		for _, s := range r.log.Segments() {
			if err := r.log.Drop(s.ID); err != nil && !errors.Is(err, ErrNeeded) {
				t.Fatal(err)
			}
		}
	}
	all.Wait()
	r.on.Store(false)
	r.log = reopen(t, r.log)
	defer mustClose(t, r.log)
	if last, _ := r.log.Group(1).LastIndex(); last != 400 {
		t.Fatalf("after a restart the log ends at %d", last)
	}
}

func TestFullDiskIsLeftWhenThereIsRoomAgain(t *testing.T) {
	r := newFullRig(t, errorfs.OpCreate)
	defer func() { mustClose(t, r.log) }()
	g := r.log.Group(1)
	appendSync(t, g, Write{Entries: testEntries(1, 1, 1, 4, 1000)})
	r.on.Store(true)
	done := make(chan struct{})
	g.Append(Write{Entries: testEntries(1, 2, 300, 4, 1000), Sync: true}, func() { close(done) })
	if err := <-r.told; !errors.Is(err, ErrFull) {
		t.Fatalf("told %v", err)
	}
	r.on.Store(false)
	r.log.wakeKeeper() // as its clock would
	<-done
	if err := <-r.told; err != nil {
		t.Fatalf("told %v", err)
	}
	wantLog(t, g, 1, 300, always(4), 1000)
}

func TestWriteThatFindsNoRoomIsMadeAgain(t *testing.T) {
	r := newFullRig(t, errorfs.OpFileWriteAt) // a file system that cannot reserve space
	g := r.log.Group(1)
	appendSync(t, g, Write{Entries: testEntries(1, 1, 1, 4, 1000)})
	r.on.Store(true)
	done := make(chan struct{})
	g.Append(Write{Entries: testEntries(1, 2, 3, 4, 1000), Sync: true}, func() { close(done) })
	if err := <-r.told; !errors.Is(err, ErrFull) {
		t.Fatalf("told %v", err)
	}
	select {
	case <-done:
		t.Fatal("acknowledged on a full disk")
	default:
	}
	r.on.Store(false)
	r.log.wakeKeeper()
	<-done
	r.log = reopen(t, r.log)
	wantLog(t, r.log.Group(1), 1, 3, always(4), 1000)
	mustClose(t, r.log)
}

func TestClosingOnAFullDiskEnds(t *testing.T) {
	for name, kind := range map[string]errorfs.OpKind{"create": errorfs.OpCreate, "write": errorfs.OpFileWriteAt} {
		t.Run(name, func(t *testing.T) {
			r := newFullRig(t, kind)
			g := r.log.Group(1)
			appendSync(t, g, Write{Entries: testEntries(1, 1, 1, 4, 1000)})
			r.on.Store(true)
			g.Append(Write{Entries: testEntries(1, 2, 300, 4, 1000), Sync: true}, func() { t.Error("acknowledged") })
			<-r.told
			mustClose(t, r.log)
			r.on.Store(false)
			l := mustOpen(t, r.log.o)
			defer mustClose(t, l)
			last, _ := l.Group(1).LastIndex()
			wantLog(t, l.Group(1), 1, last, always(4), 1000)
		})
	}
}

func TestLogOpensOnAFullDiskAndADropMakesRoom(t *testing.T) {
	r := newFullRig(t, errorfs.OpCreate)
	g := r.log.Group(1)
	for i := range uint64(200) {
		appendSync(t, g, Write{Entries: testEntries(1, i+1, i+1, 4, 1000)})
	}
	g.TruncateTo(100, 4)
	mustFlush(t, r.log)
	files := diskFiles(t, r.log.o.FS) // no spare file is left, and the last segment was not closed
	mustClose(t, r.log)
	r.on.Store(true)
	r.log.o.FS = errorfs.Wrap(diskOf(t, files), errorfs.InjectorFunc(r.inject))
	l := mustOpen(t, r.log.o)
	defer mustClose(t, l)
	g = l.Group(1)
	done := make(chan struct{})
	g.Append(Write{Entries: testEntries(1, 201, 201, 4, 1000), Sync: true}, func() { close(done) })
	if err := <-r.told; !errors.Is(err, ErrFull) {
		t.Fatalf("told %v", err)
	}
	g.TruncateTo(150, 4) // cannot be recorded: no segment is open
	if err := l.Drop(2); !errors.Is(err, ErrFull) {
		t.Fatalf("drop of a segment whose truncation is not recorded: %v", err)
	}
	if err := l.Drop(1); err != nil { // an older truncation allows it
		t.Fatal(err)
	}
	<-done
	wantLog(t, g, 151, 201, always(4), 1000)
}
