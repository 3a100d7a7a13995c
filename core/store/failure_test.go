package store

import (
	"errors"
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

func TestFullDiskDelaysTheCheckpointAndIsNotFatal(t *testing.T) {
	fs, on := failing(syscall.ENOSPC)
	told := make(chan error, 100)
	r := &rig{t: t, fs: fs, log: newToyLog(), rng: newRNG(1)}
	r.open(Options{NoSpace: func(err error) {
		select {
		case told <- err:
		default:
		}
	}})
	defer r.close()
	r.random(50, 50)
	on.Store(true)
	done := make(chan error, 1)
	r.g.Checkpoint(func(err error) { done <- err })
	wait(t, told)
	wait(t, told) // it is tried again
	if len(done) != 0 {
		t.Fatal("the checkpoint is done on a full disk")
	}
	on.Store(false)
	r.must(wait(t, done))
	at, _ := r.g.Applied()
	if durable, _ := r.g.Durable(); durable != at {
		t.Fatalf("durable is %d, applied %d", durable, at)
	}
}
