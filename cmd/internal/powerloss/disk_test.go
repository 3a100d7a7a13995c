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
	sync.RWMutex // read-held by syncs
}

// disk is a node's disk in memory.
type disk struct {
	mem   *vfs.MemFS
	power *power

	mu     sync.Mutex
	onSync func(file string)      // called before each sync, outside all locks; may be nil
	fault  func(errorfs.Op) error // of changes only; may be nil
	files  map[string]*file       // the newest handle of each name
}

func newDisk(p *power, mem *vfs.MemFS) *disk {
	return &disk{mem: mem, power: p, files: map[string]*file{}}
}

func isSync(k errorfs.OpKind) bool {
	return k == errorfs.OpFileSync || k == errorfs.OpFileSyncData || k == errorfs.OpFileSyncTo
}

// fs is the file system that a node sees.
func (d *disk) fs() vfs.FS {
	return &fileSystem{d: d, FS: errorfs.Wrap(d.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if isSync(op.Kind) || op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpFileClose {
			return nil
		}
		return d.faultOf(op)
	}))}
}

// fileSystem sees to it that a sync either ends before a cut or has not begun: what it makes durable is noticed outside.
type fileSystem struct {
	vfs.FS
	d *disk
}

type file struct {
	vfs.File
	d    *disk
	name string // as it is now; guarded by d.mu
}

func (f *fileSystem) wrap(name string) func(vfs.File, error) (vfs.File, error) {
	return func(in vfs.File, err error) (vfs.File, error) {
		if err != nil {
			return nil, err
		}
		out := &file{in, f.d, name}
		f.d.mu.Lock()
		defer f.d.mu.Unlock()
		f.d.files[name] = out
		return out, nil
	}
}

// Rename implements vfs.FS. A handle goes with its file: the log makes a segment of a spare file that it has open.
func (f *fileSystem) Rename(from, to string) error {
	if err := f.FS.Rename(from, to); err != nil {
		return err
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if moved := f.d.files[from]; moved != nil {
		delete(f.d.files, from)
		f.d.files[to], moved.name = moved, to
	}
	return nil
}

// GetDiskUsage implements vfs.FS: a full disk has no room, and any other has enough. A store asks before it writes again what did not fit.
func (f *fileSystem) GetDiskUsage(string) (vfs.DiskUsage, error) {
	const size = 1 << 40
	if f.d.full() {
		return vfs.DiskUsage{TotalBytes: size, UsedBytes: size}, nil
	}
	return vfs.DiskUsage{TotalBytes: size, AvailBytes: size}, nil
}

// Create implements vfs.FS, as do the following.
func (f *fileSystem) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(name)(f.FS.Create(name, c))
}

func (f *fileSystem) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return f.wrap(name)(f.FS.Open(name, o...))
}

func (f *fileSystem) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.wrap(name)(f.FS.OpenReadWrite(name, c, o...))
}

func (f *fileSystem) OpenDir(name string) (vfs.File, error) { return f.wrap(name)(f.FS.OpenDir(name)) }

func (f *fileSystem) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(to)(f.FS.ReuseForWrite(from, to, c))
}

// Sync implements vfs.File, as do the following.
func (f *file) Sync() error { return f.sync(errorfs.OpFileSync, f.File.Sync) }

func (f *file) SyncData() error { return f.sync(errorfs.OpFileSyncData, f.File.SyncData) }

func (f *file) SyncTo(length int64) (full bool, err error) {
	err = f.sync(errorfs.OpFileSyncTo, func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

func (f *file) sync(kind errorfs.OpKind, do func() error) error {
	f.d.mu.Lock()
	name := f.name
	f.d.mu.Unlock()
	f.d.beforeSync(name)
	op := errorfs.Op{Kind: kind, Path: name}
	f.d.power.RLock()
	if f.d.faulty() {
		f.d.power.RUnlock() // it may never answer
		if err := f.d.faultOf(op); err != nil {
			return err
		}
		f.d.power.RLock()
	}
	defer f.d.power.RUnlock()
	return do()
}

func (d *disk) faulty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fault != nil
}

func (d *disk) faultOf(op errorfs.Op) error {
	d.mu.Lock()
	f := d.fault
	d.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(op)
}

// full says whether what takes room fails for want of it.
func (d *disk) full() bool {
	return errors.Is(d.faultOf(errorfs.Op{Kind: errorfs.OpFileWrite, Path: logDir + "/any"}), syscall.ENOSPC)
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

// freeze is called when a node's process would be gone. If its disk is broken it answers true, and whatever of the store
// still tries to write ends there: a store that has called Fatal is not made to be closed, and would try for ever.
func (d *disk) freeze() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault == nil {
		return false
	}
	d.fault = func(op errorfs.Op) error {
		if !ofLog(op.Path) {
			select {}
		}
		return errDisk
	}
	return true
}

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
