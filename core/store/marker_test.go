package store

import (
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

func TestPowerLossWhileAStoreIsOpenedLeavesOneThatOpens(t *testing.T) {
	mem := vfs.NewCrashableMem()
	log := newToyLog()
	for _, store := range []string{"new", "old", "older"} {
		for i, left := range cutsOfALife(t, mem, log) {
			db, err := open(left, "store", Options{}, toyKind)
			if err != nil {
				t.Fatalf("a %s store, cut %d: %v", store, i, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// cutsOfALife opens a store, has it make a checkpoint and closes it. It answers what cuts before each sync left: of the names that were
// not on disk yet, some are there.
func cutsOfALife(t *testing.T, mem *vfs.MemFS, log *toyLog) (left []*vfs.MemFS) {
	var mu sync.Mutex
	rng := newRNG(7)
	r := &rig{t: t, log: log, rng: newRNG(1), fs: errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileSync {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		for range 4 {
			left = append(left, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}))
		}
		return nil
	}))}
	r.open(Options{})
	r.random(10, 100)
	r.checkpoint()
	r.close()
	mu.Lock()
	defer mu.Unlock()
	return left
}
