package store

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// failing is a file system whose writes fail with err while it is on.
func failing(err error) (vfs.FS, *atomic.Bool) {
	on := new(atomic.Bool)
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return err
		}
		return nil
	})), on
}

func TestFailedWriteIsFatalOnceAndTheCheckpointSaysSo(t *testing.T) {
	fs, on := failing(errors.New("bad disk"))
	fatal := make(chan error, 10)
	r := &rig{t: t, fs: fs, log: newToyLog(), rng: newRNG(1)}
	r.open(Options{Fatal: func(err error) { fatal <- err }})
	r.random(50, 50)
	r.checkpoint()
	durable, _ := r.g.Durable()
	on.Store(true)
	r.random(50, 50)
	done := make(chan error, 1)
	r.g.Checkpoint(func(err error) { done <- err })
	if err := wait(t, fatal); err == nil {
		t.Fatal("fatal without an error")
	}
	if err := wait(t, done); err == nil {
		t.Fatal("the checkpoint says that it is on disk")
	}
	if at, _ := r.g.Durable(); at != durable {
		t.Fatalf("durable moved to %d", at)
	}
	// Everything after it fails too, at once, and Fatal is not called again.
	r.g.Checkpoint(func(err error) { done <- err })
	if err := wait(t, done); err == nil {
		t.Fatal("a checkpoint after the failure says that it is on disk")
	}
	if err := r.g.ApplyConf(101, 1, nil); err == nil {
		t.Fatal("a membership after the failure is said to be on disk")
	}
	on.Store(false)
	r.db.Close() // its error is the injected one, or none
	if len(fatal) != 0 {
		t.Fatal("fatal was called again")
	}
}

// full is a file system with no room for files whose name says what, while it is on.
type full struct {
	vfs.FS
	on    atomic.Bool
	what  string
	known bool // how much room there is
}

func newFull(what string, known bool) *full {
	f := &full{what: what, known: known}
	f.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if f.on.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, f.what) {
			return syscall.ENOSPC
		}
		return nil
	}))
	return f
}

func (f *full) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	if !f.known {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	if f.on.Load() {
		return vfs.DiskUsage{AvailBytes: roomBytes - 1, TotalBytes: 1 << 30}, nil
	}
	return vfs.DiskUsage{AvailBytes: roomBytes, TotalBytes: 1 << 30}, nil
}

// fill has a checkpoint meet a full disk; done tells how it ended.
func fill(t *testing.T, f *full) (r *rig, done chan error) {
	told := make(chan error, 100)
	r = &rig{t: t, fs: f, log: newToyLog(), rng: newRNG(1)}
	r.open(Options{NoSpace: func(err error) {
		select {
		case told <- err:
		default:
		}
	}})
	r.random(50, 50)
	f.on.Store(true)
	done = make(chan error, 1)
	r.g.Checkpoint(func(err error) { done <- err })
	for range 3 {
		if err := wait(t, told); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("told of %v", err)
		}
	}
	if len(done) != 0 {
		t.Fatal("the checkpoint is done on a full disk")
	}
	return r, done
}

func TestFullDiskDelaysTheCheckpointAndIsNotFatal(t *testing.T) {
	// When only the manifest has no room, Pebble's second try is its last: that needs a disk that tells how full it is.
	for _, f := range []*full{newFull("", true), newFull("", false), newFull("MANIFEST", true)} {
		r, done := fill(t, f)
		f.on.Store(false)
		r.must(wait(t, done))
		at, _ := r.g.Applied()
		if durable, _ := r.g.Durable(); durable != at {
			t.Fatalf("durable is %d, applied %d", durable, at)
		}
		r.reopen()
		if got, _ := r.g.Applied(); got != at {
			t.Fatalf("reopened at %d, the checkpoint was at %d", got, at)
		}
		r.close()
	}
}

func TestOpenOnAFullDiskFails(t *testing.T) {
	f := newFull("", true)
	f.on.Store(true)
	if _, err := open(f, "store", Options{Fatal: func(error) {}}, toyKind); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("open: %v", err)
	}
}

func TestCloseOnAFullDiskEnds(t *testing.T) {
	for _, known := range []bool{true, false} {
		r, done := fill(t, newFull("", known))
		closed := make(chan error, 1)
		go func() { closed <- r.db.Close() }()
		if err := wait(t, done); err == nil {
			t.Fatal("the checkpoint says that it is on disk")
		}
		wait(t, closed)
	}
}
