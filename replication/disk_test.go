package replication_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/understudy-mq/understudy/replication"
	"github.com/understudy-mq/understudy/replication/simtest"
)

// faultyFS fails operations of one kind with err while on.
func faultyFS(on *atomic.Bool, kind errorfs.OpKind, err error) vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on.Load() && op.Kind == kind {
			return err
		}
		return nil
	}))
}

func TestFullDiskTurnsTheNodeReadOnlyUntilThereIsRoom(t *testing.T) {
	var full atomic.Bool
	m := options(t, 1)
	m.opts.FS, m.opts.SegmentBytes = faultyFS(&full, errorfs.OpCreate, syscall.ENOSPC), 64<<10
	m.start()
	defer m.stop()
	<-m.reg
	full.Store(true)
	accepted := uint64(0)
	var refused error
	eventually(t, "read-only", func() bool {
		if refused = m.group().Submit(simtest.Bytes(16<<10), 1); refused == nil {
			accepted++
			return false
		}
		return true
	})
	if !errors.Is(refused, replication.ErrReadOnly) {
		t.Errorf("submit: %v", refused)
	}
	if is, why := m.node.ReadOnly(); !is || !strings.Contains(why, "full") {
		t.Errorf("ReadOnly: %v, %q", is, why)
	}
	full.Store(false)
	eventually(t, "writable again", func() bool {
		is, _ := m.node.ReadOnly()
		return !is && m.machine.Count() == accepted
	})
	m.mustSubmit(0, 10)
	eventually(t, "goes on", func() bool { return m.machine.Count() == accepted+10 })
}

// More is submitted at once than may be unapplied, so that some wait for room in the window when the disk is found full: which it is
// only once all are submitted.
func TestASubmitThatWaitsWhenTheDiskFillsIsAnsweredOnceThereIsRoom(t *testing.T) {
	const submits = 100
	var full atomic.Bool
	var begun sync.WaitGroup
	begun.Add(submits)
	m := options(t, 1)
	m.opts.SegmentBytes = 1 << 20
	m.opts.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !full.Load() || op.Kind != errorfs.OpCreate {
			return nil
		}
		begun.Wait()
		return syscall.ENOSPC
	}))
	m.start()
	defer m.stop()
	<-m.reg
	full.Store(true)
	answers := make(chan error, submits)
	group, commands := m.group(), simtest.Bytes(128<<10)
	for range submits {
		go func() {
			begun.Done()
			answers <- group.Submit(commands, 1)
		}()
	}
	eventually(t, "read-only", func() bool { is, _ := m.node.ReadOnly(); return is })
	if len(answers) == submits {
		t.Error("no submit waits")
	}
	full.Store(false)
	accepted := uint64(0)
	for range submits {
		select {
		case err := <-answers:
			if err == nil {
				accepted++
			} else if !errors.Is(err, replication.ErrReadOnly) {
				t.Errorf("submit: %v", err)
			}
		case <-within(t).Done():
			t.Fatal("a submit was not answered")
		}
	}
	eventually(t, "all that was accepted is applied", func() bool { return m.machine.Count() == accepted })
}

func TestFullDiskGivesLeadershipUp(t *testing.T) {
	var full [4]atomic.Bool
	ms := cluster(t, 3, func(m *member) {
		m.opts.FS, m.opts.SegmentBytes = faultyFS(&full[m.opts.NodeID], errorfs.OpCreate, syscall.ENOSPC), 64<<10
	})
	for _, m := range ms {
		<-m.reg
	}
	leader := leaderOf(ms)
	full[leader].Store(true)
	eventually(t, "another leads", func() bool {
		_ = ms[leader].group().Submit(simtest.Bytes(16<<10), 1)
		now := leaderOf(ms)
		return now != 0 && now != leader
	})
	full[leader].Store(false)
	eventually(t, "writable again", func() bool { is, _ := ms[leader].node.ReadOnly(); return !is })
}

func TestFailedSyncIsFatal(t *testing.T) {
	var broken atomic.Bool
	m := options(t, 1)
	m.opts.FS = faultyFS(&broken, errorfs.OpFileSyncData, errors.New("the disk is on fire"))
	fatal := make(chan error, 10)
	m.opts.Fatal = func(err error) { fatal <- err }
	m.start()
	<-m.reg
	broken.Store(true)
	m.mustSubmit(0, 1)
	if err := <-fatal; !strings.Contains(err.Error(), "on fire") {
		t.Errorf("fatal: %v", err)
	}
	if n := m.machine.Count(); n != 0 {
		t.Errorf("%d values applied that are not on disk", n)
	}
	_ = m.node.Stop(within(t))
}
