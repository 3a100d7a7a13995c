package store

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrClosed is the answer to a read after Close.
var ErrClosed = errors.New("store is closed")

// Options configure a DB. The zero value works.
type Options struct {
	Logger *slog.Logger // nil is quiet
	// Fatal is called once, with the first failure to write: the process has to end, since what the machine believes to be
	// on disk may not be. It may be called with Pebble's locks held: it must not call the store. nil panics.
	Fatal func(error)
	// NoSpace is told of writes for which there was no room, again and again until there is some: they wait, so a
	// checkpoint is merely late. May be nil, must not call the store.
	NoSpace func(error)
	Metrics Metrics

	CacheBytes    int64  // block cache; 32 MiB
	MemTableBytes uint64 // one of up to four memory tables; 16 MiB
}

// Metrics are told of work done. Functions may be nil and must not block.
type Metrics struct {
	// Checkpoint: a checkpoint of group with bytes of changes is on disk after seconds.
	Checkpoint func(group uint64, bytes int, seconds float64)
	// Evacuated: contents of bytes in all were moved out of the log.
	Evacuated func(group uint64, contents int, bytes int64)
}

// DB is a node's store: one Pebble database for all its groups.
type DB struct {
	p    *pebble.DB
	fs   vfs.FS
	dir  string
	o    Options
	kind machineKind

	opened  atomic.Bool
	closing chan struct{} // closed when Close begins
	life    sync.RWMutex  // held for reading around reads from foreign goroutines, for writing by Close
	closed  bool

	mu     sync.Mutex // guards what follows
	queue  []*job
	groups map[uint64]*Group

	compactor compactor

	wake    chan struct{} // capacity 1: there may be jobs
	stop    chan struct{} // closed by Close
	stopped chan struct{} // closed by the writer when it has ended

	endOnce sync.Once
	failed  chan struct{} // closed at the first failure
	failure error         // set before failed is closed
}

// Open opens the store in folder dir of fs, making it if there is none.
func Open(fs vfs.FS, dir string, o Options) (*DB, error) { return open(fs, dir, o, coreMachine) }

func open(fs vfs.FS, dir string, o Options, kind machineKind) (*DB, error) {
	if o.CacheBytes == 0 {
		o.CacheBytes = 32 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 16 << 20
	}
	d := &DB{
		fs: fs, dir: dir, o: o, kind: kind, groups: map[uint64]*Group{}, closing: make(chan struct{}),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}), failed: make(chan struct{}),
	}
	p, err := pebble.Open(dir, d.pebbleOptions(vfs.OnDiskFull(ordered{fs}, d.waitForRoom)))
	if err != nil {
		return nil, fmt.Errorf("opening the store in %s: %w", dir, err)
	}
	d.p = p
	d.opened.Store(true)
	go d.write()
	d.startCompactor()
	return d, nil
}

func (d *DB) pebbleOptions(fs vfs.FS) *pebble.Options {
	return &pebble.Options{
		FS:                          fs,
		DisableWAL:                  true, // the raft log is the redo log
		FormatMajorVersion:          pebble.FormatNewest,
		CacheSize:                   d.o.CacheBytes,
		MemTableSize:                d.o.MemTableBytes,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1000, // a checkpoint is never stalled by compactions
		BytesPerSync:                512 << 10,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      &pebbleLogger{d},
		EventListener:               &pebble.EventListener{BackgroundError: d.backgroundError},
	}
}

// Close waits for what is being written and closes. The groups must have no snapshot open and their apply goroutines
// must have ended. What was applied after the last checkpoint is not written.
func (d *DB) Close() error {
	close(d.closing)
	d.mu.Lock()
	groups := make([]*Group, 0, len(d.groups))
	for _, g := range d.groups {
		groups = append(groups, g)
	}
	d.mu.Unlock()
	for _, g := range groups {
		g.abandon()
	}
	d.compactor.cancel()
	<-d.compactor.stopped
	close(d.stop)
	<-d.stopped
	d.life.Lock()
	defer d.life.Unlock()
	d.closed = true
	return d.p.Close()
}

// fail makes err, if it is the first, the end of the store and of the process.
func (d *DB) fail(err error) {
	if !d.end(err) {
		return
	}
	if d.o.Fatal == nil {
		panic(d.failure)
	}
	d.o.Fatal(d.failure)
}

// end makes err, if it is the first, the answer to everyone who waits for the disk.
func (d *DB) end(err error) (first bool) {
	d.endOnce.Do(func() {
		d.failure = fmt.Errorf("store failed: %w", err)
		close(d.failed)
		first = true
	})
	return first
}

// apply commits a batch, to be made durable by flush.
func (d *DB) apply(b *pebble.Batch) error {
	if err := d.p.Apply(b, pebble.NoSync); err != nil {
		d.fail(err)
		return d.failure
	}
	return nil
}

// flush puts everything committed so far on disk. Memory tables go to disk in the order in which they were filled, and a
// batch is never split between two, so at any moment the disk holds a prefix of the batches.
func (d *DB) flush() error {
	select {
	case <-d.failed:
		return d.failure
	default:
	}
	done, err := d.p.AsyncFlush()
	if err != nil {
		d.fail(err)
		return d.failure
	}
	select {
	case <-done:
		return nil
	case <-d.failed:
		return d.failure
	}
}

// pebbleLogger keeps Pebble's own news from the log but for errors.
type pebbleLogger struct{ d *DB }

func (l *pebbleLogger) Infof(string, ...any) {}

func (l *pebbleLogger) Errorf(format string, args ...any) {
	if l.d.o.Logger != nil {
		l.d.o.Logger.Error("pebble: " + fmt.Sprintf(format, args...))
	}
}

// Fatalf is Pebble's word for a manifest that could not be written.
func (l *pebbleLogger) Fatalf(format string, args ...any) { l.d.fail(fmt.Errorf(format, args...)) }
