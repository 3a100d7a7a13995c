package powerloss

import (
	"errors"
	"math/rand/v2"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// keeps are the shares of unsynced bytes, in percent, that survive a cut.
var keeps = []int{0, 50, 100}

// syncHold is how long a sync that is cut at takes: long enough for a promise that does not wait for the disk to be seen.
const syncHold = 2 * time.Millisecond

var errDisk = errors.New("input/output error")

// power is what all disks of a cluster hang on: while it is cut, none of them changes.
type power struct {
	sync.RWMutex // read-held by changes, for a moment
}

// disk is a node's disk in memory.
type disk struct {
	mem   *vfs.MemFS
	power *power

	mu     sync.Mutex
	onSync func(file string)      // called before each sync, outside all locks; may be nil
	fault  func(errorfs.Op) error // of changes only; may be nil
}

func newDisk(p *power, mem *vfs.MemFS) *disk { return &disk{mem: mem, power: p} }

func isSync(k errorfs.OpKind) bool {
	return k == errorfs.OpFileSync || k == errorfs.OpFileSyncData || k == errorfs.OpFileSyncTo
}

// fs is the file system that a node sees.
func (d *disk) fs() vfs.FS {
	return errorfs.Wrap(d.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpFileClose {
			return nil
		}
		if isSync(op.Kind) {
			d.beforeSync(op.Path)
		}
		d.power.RLock()
		defer d.power.RUnlock()
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.fault != nil {
			return d.fault(op)
		}
		return nil
	}))
}

func (d *disk) beforeSync(file string) {
	d.mu.Lock()
	f := d.onSync
	d.mu.Unlock()
	if f != nil {
		f(file)
	}
}

// watch has f called before each sync, with the file's name.
func (d *disk) watch(f func(file string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onSync = f
}

// breakWith makes changes fail as f says; nil mends the disk.
func (d *disk) breakWith(f func(errorfs.Op) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// die ends a disk: nothing on it changes any more.
func (d *disk) die() { d.breakWith(func(errorfs.Op) error { return errDisk }) }

// noRoom is a full disk: what takes room fails.
func noRoom(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpCreate, errorfs.OpFilePreallocate, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpMkdirAll, errorfs.OpLink:
		return syscall.ENOSPC
	}
	return nil
}

// clone is what a cut leaves of the disk. The power must be cut.
func (d *disk) clone(keep int, rng *rand.Rand) *vfs.MemFS {
	return d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng})
}

// ofLog says whether a file is one of the log's, as opposed to the store's.
func ofLog(file string) bool { return path.Dir(file) == logDir || file == logDir }
