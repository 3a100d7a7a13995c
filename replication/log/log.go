package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/replication/durable"
)

// retryInterval is how often room is looked for on a full disk.
const retryInterval = time.Second

// Log is a node's segment log. See the package's documentation.
type Log struct {
	o    Options
	lock io.Closer
	dir  vfs.File

	mu      sync.Mutex // guards what follows; innermost of all but stats
	awake   sync.Cond
	queue   []op
	groups  map[uint64]*Group
	closing bool
	failed  bool
	woken   bool  // something in the queue must not wait
	full    error // no spare file can be made: only truncations are written
	stuck   error // a write found no room: nothing is written
	retry   bool  // a stuck write, or blocked truncations, are to be tried again
	blocked bool  // not even truncations find room: no segment is open

	fullMu   sync.Mutex // orders the calls of Options.Full
	fullTold bool

	segmentsMu sync.RWMutex
	segments   []*segment // ascending by id

	dropMu    sync.Mutex
	sparesMu  sync.Mutex
	spares    []uint64
	spareNext uint64

	keeperWake chan struct{}
	stop       chan struct{}
	stopped    chan struct{} // the writer has ended
	keeperDone chan struct{}

	stats struct {
		bytes, writes, syncs atomic.Uint64
		tail                 atomic.Int64
	}
}

// Open opens the log in o.Dir, recovers it and locks the folder until Close.
//
// Errors: a DamageError where synced bytes are not what was written; the folder is in use.
func Open(o Options) (*Log, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	l, w, err := load(o)
	if err != nil {
		return nil, err
	}
	go w.run()
	go l.keepSpare()
	l.wakeKeeper()
	return l, nil
}

// load locks and recovers the log in o.Dir; nothing runs yet.
func load(o Options) (*Log, *writer, error) {
	l := &Log{o: o, groups: map[uint64]*Group{}, keeperWake: make(chan struct{}, 1),
		stop: make(chan struct{}), stopped: make(chan struct{}), keeperDone: make(chan struct{})}
	l.awake.L = &l.mu
	err := durable.MakeDir(o.FS, o.Dir, 0o750)
	if err == nil {
		l.dir, err = o.FS.OpenDir(o.Dir)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("log: the folder %s: %w", o.Dir, err)
	}
	if l.lock, err = o.FS.Lock(l.path(lockName)); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("log: the folder %s is in use by another process (stop that one first): %w",
			o.Dir, err), l.dir.Close())
	}
	w, err := l.recover()
	if err != nil {
		return nil, nil, errors.Join(err, l.release())
	}
	return l, w, nil
}

// release closes the files and unlocks the folder.
func (l *Log) release() error {
	var errs []error
	l.segmentsMu.Lock()
	defer l.segmentsMu.Unlock()
	for _, s := range l.segments {
		s.readers.Lock()
		if s.file != nil {
			errs = append(errs, s.file.Close())
			s.file = nil
		}
		s.readers.Unlock()
	}
	return errors.Join(append(errs, l.dir.Close(), l.lock.Close())...)
}

// Close writes and syncs what is queued, stops the writer and unlocks the folder. No done runs after it.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return ErrClosed
	}
	l.closing = true
	l.awake.Broadcast()
	l.mu.Unlock()
	close(l.stop)
	<-l.stopped
	<-l.keeperDone
	return l.release()
}

// Group is the part of the group id, made when first asked for.
func (l *Log) Group(id uint64) *Group {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[id]
	if g == nil {
		g = newGroup(l, id)
		l.groups[id] = g
	}
	return g
}

// allGroups lists the groups in order of their numbers.
func (l *Log) allGroups() []*Group {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Collect(maps.Values(l.groups))
	slices.SortFunc(out, func(a, b *Group) int { return int(int64(a.id) - int64(b.id)) })
	return out
}

// Pin keeps the group's entries from index on readable by Bytes, whatever is truncated, until release is called. What was
// truncated before is not brought back; a snapshot marker ends it.
func (l *Log) Pin(group, index uint64) (release func()) { return l.Group(group).pin(index) }

// Stats answers the counters.
func (l *Log) Stats() Stats {
	s := Stats{Bytes: l.stats.bytes.Load(), Writes: l.stats.writes.Load(), Syncs: l.stats.syncs.Load(), TailBytes: l.stats.tail.Load()}
	l.sparesMu.Lock()
	s.SpareBytes = int64(len(l.spares)) * l.o.SegmentBytes
	l.sparesMu.Unlock()
	l.segmentsMu.RLock()
	defer l.segmentsMu.RUnlock()
	s.Segments = len(l.segments)
	for _, seg := range l.segments {
		s.SegmentBytes += max(seg.end, seg.size)
	}
	return s
}

// seals lists the ends of the segments that are sealed.
func (l *Log) seals() []seal {
	l.segmentsMu.RLock()
	defer l.segmentsMu.RUnlock()
	var out []seal
	for _, s := range l.segments {
		if s.sealed {
			out = append(out, seal{id: s.id, end: s.end, chain: s.chain})
		}
	}
	return out
}

// fail ends the log's work: Fatal is called, once, and nothing further is acknowledged.
func (l *Log) fail(err error) {
	l.mu.Lock()
	was := l.failed
	l.failed = true
	l.awake.Broadcast()
	l.mu.Unlock()
	if !was {
		l.o.Fatal(err)
	}
}

func (l *Log) hasFailed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// enqueue gives o to the writer.
func (l *Log) enqueue(o op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, o)
	l.woken = l.woken || o.wake
	if o.wake || l.full != nil {
		l.awake.Broadcast()
	}
}

// requeue gives back what the writer could not write for want of room (full).
func (l *Log) requeue(ops []op, full error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	back := make([]op, 0, len(ops)+len(l.queue))
	l.woken, l.retry, l.blocked = true, false, ops[0].truncate.index != 0
	for _, o := range ops {
		if o.result != nil && l.blocked {
			o.result <- full
			continue
		}
		back = append(back, o)
	}
	l.queue = append(back, l.queue...)
}

// flush waits until everything queued, or on a full disk every truncation, is on disk.
func (l *Log) flush() error {
	done := make(chan error, 1)
	l.enqueue(op{sync: true, wake: true, result: done})
	select {
	case err := <-done:
		return err
	case <-l.stopped:
		return ErrClosed
	}
}

// take waits for something to do and answers it, appended to dst; it is false when the log is to end.
func (l *Log) take(dst []op) ([]op, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.failed {
			return dst, false
		}
		if l.full != nil && (!l.blocked || l.retry) {
			l.blocked = false
			if dst = l.takeTruncations(dst); len(dst) > 0 {
				return dst, true
			}
		} else if l.full == nil && (l.woken || l.closing && len(l.queue) > 0) {
			return l.takeBatch(dst), true
		}
		if l.closing {
			return dst, false
		}
		l.awake.Wait()
	}
}

// takeBatch takes ops from the queue's front up to a write's bound. mu is held.
func (l *Log) takeBatch(dst []op) []op {
	n, bytes := 0, 0
	for n < len(l.queue) && (n == 0 || bytes+l.queue[n].bytes <= batchBytesMax) {
		bytes += l.queue[n].bytes
		n++
	}
	dst = append(dst, l.queue[:n]...)
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	l.woken = rest > 0
	return dst
}

// takeTruncations takes the truncations and flushes that may go ahead of what waits for room. Those of a group whose
// snapshot marker waits must not. mu is held.
func (l *Log) takeTruncations(dst []op) []op {
	marked := map[*Group]bool{}
	l.queue = slices.DeleteFunc(l.queue, func(o op) bool {
		if o.snapshot.index != 0 {
			marked[o.group] = true
		}
		ahead := o.group == nil || o.truncate.index != 0 && !marked[o.group]
		if ahead {
			dst = append(dst, o)
		}
		return ahead
	})
	return dst
}

func isFull(err error) bool { return errors.Is(err, ErrFull) || vfs.IsNoSpaceError(err) }

func putVote(b []byte, vote uint64) { binary.LittleEndian.PutUint64(b, vote) }

// checksumOf is the data crc in the header of the last record in buf, whose data has n bytes.
func checksumOf(buf []byte, n int) uint32 {
	return binary.LittleEndian.Uint32(buf[len(buf)-recordBytes(n)+8:])
}
