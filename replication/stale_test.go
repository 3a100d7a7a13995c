package replication_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// A follower whose disk stands still goes on hearing its leader. What it tells of the group is old, and it says so.
func TestANodeWhoseDiskStallsSaysHowOldWhatItHasAppliedIs(t *testing.T) {
	var stalled atomic.Uint64 // the node whose disk stands still
	goes := make(chan struct{})
	resume := sync.OnceFunc(func() { stalled.Store(0); close(goes) })
	ms := cluster(t, 3, func(m *member) {
		m.opts.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileSyncData && stalled.Load() == m.opts.NodeID {
				<-goes
			}
			return nil
		}))
	})
	t.Cleanup(resume) // a node does not stop before its disk goes on
	for _, m := range ms {
		<-m.reg
	}
	leader := leaderOf(ms)
	slow := leader%3 + 1
	stalled.Store(slow)
	ms[leader].mustSubmit(0, 100)
	eventually(t, "the others have applied", func() bool { return ms[leader].machine.Count() == 100 })
	eventually(t, "it hears its leader and says that what it has is old", func() bool {
		s := ms[slow].group().Status()
		return s.Leader != 0 && s.StaleMillis > 500 // which an election takes at least
	})
	resume()
	eventually(t, "it has caught up, and says so", func() bool {
		return ms[slow].machine.Count() == 100 && ms[slow].group().Status().StaleMillis < 100
	})
}
