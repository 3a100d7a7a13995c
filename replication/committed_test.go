package replication_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// led waits until all nodes are registered, and answers who leads them.
func led(t *testing.T, ms map[uint64]*member) (leader uint64) {
	t.Helper()
	for _, m := range ms {
		<-m.reg
	}
	eventually(t, "one leads", func() bool { leader = leaderOf(ms); return leader != 0 })
	return leader
}

// A follower whose disk stands still applies nothing. What the others have committed since it can tell all the same.
func TestANodeWhoseDiskStallsTellsWhatTheOthersHaveCommitted(t *testing.T) {
	var stalled atomic.Uint64 // the node whose disk stands still
	goes := make(chan struct{})
	resume := sync.OnceFunc(func() { stalled.Store(0); close(goes) })
	ms := cluster(t, 3, func(m *member) {
		m.opts.TickInterval = 50 * time.Millisecond // a busy machine makes no elections of it
		m.opts.SegmentBytes = 1 << 20               // in memory
		m.opts.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileSyncData && stalled.Load() == m.opts.NodeID {
				<-goes
			}
			return nil
		}))
	})
	t.Cleanup(resume) // a node does not stop before its disk goes on
	leader := led(t, ms)
	slow := ms[leader%3+1]
	stalled.Store(slow.opts.NodeID)
	ms[leader].mustSubmit(0, 100)
	eventually(t, "the others have applied", func() bool { return ms[leader].machine.Count() == 100 })
	applied, _ := ms[leader].machine.Applied()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	index, err := slow.group().Committed(ctx)
	if at, _ := slow.machine.Applied(); err != nil || index < applied || at >= applied {
		t.Errorf("it tells %d, %v; the leader has applied %d, it %d", index, err, applied, at)
	}
}

func TestWhatIsCommittedIsNotToldWithoutAMajority(t *testing.T) {
	ms := cluster(t, 3)
	leader := led(t, ms)
	for _, m := range ms {
		if m.opts.NodeID != leader {
			m.stop()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if index, err := ms[leader].group().Committed(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it tells %d, %v", index, err)
	}
}
