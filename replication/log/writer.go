package log

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
)

const (
	batchBytesMax  = 8 << 20  // of one write, but for its last record
	bufferKeepMax  = 10 << 20 // a bigger buffer is not kept for the next write
	segmentIDLimit = 1<<32 - 1
)

// op is one queued request to the writer. What of it is encoded is taken out, so that the rest can be queued again.
type op struct {
	group    *Group // nil for a flush
	snapshot position
	truncate position
	hard     *raftpb.HardState
	entries  []*raftpb.Entry
	bytes    int // of the records of entries, about
	sync     bool
	wake     bool // the writer is not woken for what may wait
	done     func()
	result   chan<- error // of a flush
}

// mark is an entry in the writer's buffer and where it will be.
type mark struct {
	group *Group
	index uint64
	slot  slot
}

// tailRange is a run of entries in the tail cache, oldest first in the writer's queue of them.
type tailRange struct {
	group *Group
	last  uint64
	bytes int64
}

// writer encodes ops and writes them. One goroutine owns it.
type writer struct {
	log     *Log
	current *segment // nil until the first write after Open
	next    uint64   // number of the next segment
	offset  int64    // after what is written
	durable int64    // up to here the current segment is synced
	chain   uint32   // crc of the last record, in the buffer or written
	number  uint64   // of writes
	dirty   bool     // something was written since Open

	buf   []byte // records not yet written; they begin at offset
	marks []mark
	tail  []tailRange
}

// run is the writer's goroutine.
func (w *writer) run() {
	defer close(w.log.stopped)
	var ops []op
	for {
		var ok bool
		if ops, ok = w.log.take(ops[:0]); !ok {
			break
		}
		if !w.round(ops) {
			return
		}
		clear(ops)
	}
	if w.log.hasFailed() {
		return
	}
	if err := w.farewell(); err != nil && !errors.Is(err, ErrClosed) {
		w.log.fail(err)
	}
}

// round writes ops, syncs if any needs it and runs their dones. It is false after a failure, when nothing is acknowledged.
func (w *writer) round(ops []op) bool {
	n := 0
	var full error
	for ; n < len(ops); n++ {
		err := w.encode(&ops[n])
		if err != nil && !isFull(err) {
			if !errors.Is(err, ErrClosed) {
				w.log.fail(err)
			}
			return false
		}
		if full = err; full != nil {
			break
		}
	}
	if err := w.finish(ops[:n]); err != nil {
		if !errors.Is(err, ErrClosed) {
			w.log.fail(err)
		}
		return false
	}
	if full != nil {
		w.log.setFull(full)
		w.log.requeue(ops[n:], full)
	}
	w.evict()
	return true
}

// finish writes the buffer, syncs if one of ops needs it and runs the dones.
func (w *writer) finish(ops []op) error {
	if err := w.flush(); err != nil {
		return err
	}
	need := false
	for i := range ops {
		need = need || ops[i].sync
	}
	if need {
		if err := w.sync(); err != nil {
			return err
		}
		w.markDurable(ops)
	}
	for i := range ops {
		if ops[i].done != nil {
			ops[i].done()
		}
		if ops[i].result != nil {
			ops[i].result <- nil
		}
	}
	return nil
}

// markDurable publishes the truncation points that a sync has made durable: those of the ops' groups, or all for a flush.
func (w *writer) markDurable(ops []op) {
	for i := range ops {
		if g := ops[i].group; g != nil {
			g.durable.Store(g.written.truncated.index)
			continue
		}
		for _, g := range w.log.allGroups() {
			g.durable.Store(g.written.truncated.index)
		}
	}
}

// encode puts an op's records into the buffer, beginning a new segment where the current one is full.
func (w *writer) encode(o *op) error {
	if o.group == nil {
		return nil
	}
	if o.snapshot.index != 0 {
		if err := w.position(KindSnapshot, o.group, o.snapshot); err != nil {
			return err
		}
		o.group.written.truncated, o.group.written.last = o.snapshot, o.snapshot
		o.snapshot = position{}
	}
	if o.truncate.index != 0 {
		if err := w.position(KindTruncate, o.group, o.truncate); err != nil {
			return err
		}
		o.group.written.truncate(o.truncate)
		o.truncate = position{}
	}
	if o.hard != nil {
		if err := w.hardState(o.group, o.hard); err != nil {
			return err
		}
		o.hard = nil
	}
	for len(o.entries) > 0 {
		if err := w.entry(o.group, o.entries[0]); err != nil {
			return err
		}
		o.entries = o.entries[1:]
	}
	return nil
}

// truncate follows a truncation in what is written.
func (s *groupState) truncate(p position) {
	if p.index > s.truncated.index {
		s.truncated = p
	}
	if p.index > s.last.index {
		s.last = p
	}
}

func (w *writer) position(k Kind, g *Group, p position) error {
	return w.record(recordHeader{kind: k, group: g.id, index: p.index, term: p.term}, nil)
}

func (w *writer) hardState(g *Group, hs *raftpb.HardState) error {
	var vote [8]byte
	putVote(vote[:], hs.GetVote())
	err := w.record(recordHeader{kind: KindHardState, group: g.id, index: hs.GetCommit(), term: hs.GetTerm()}, vote[:])
	if err == nil {
		g.written.term, g.written.vote, g.written.commit = hs.GetTerm(), hs.GetVote(), hs.GetCommit()
	}
	return err
}

func (w *writer) entry(g *Group, e *raftpb.Entry) error {
	if err := w.record(recordHeader{kind: KindEntry, entryType: uint8(e.GetType()), group: g.id,
		index: e.GetIndex(), term: e.GetTerm()}, e.Data); err != nil {
		return err
	}
	s := makeSlot(e.GetTerm(), e.GetType(), len(e.Data))
	s.segment = uint32(w.current.id)
	s.offset = uint32(w.offset + int64(len(w.buf)-payloadBytes(len(e.Data))))
	s.crc = checksumOf(w.buf, len(e.Data))
	w.marks = append(w.marks, mark{g, e.GetIndex(), s})
	g.written.last = position{e.GetIndex(), e.GetTerm()}
	return nil
}

// record puts a record into the buffer, after a barrier if it is the first of its write.
func (w *writer) record(h recordHeader, data []byte) error {
	err := w.makeRoom(recordBytes(len(data)))
	if err != nil && !(isFull(err) && h.kind == KindTruncate && w.current != nil) {
		return err // on a full disk a truncation makes its segment longer: it is what will make room
	}
	if len(w.buf) >= batchBytesMax {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(w.buf) == 0 {
		w.barrier(barrierOpen)
	}
	h.generation = w.current.header.generation()
	w.buf = appendRecord(w.buf, &h, w.chain, data)
	w.chain = h.chain
	return nil
}

// makeRoom sees to it that a record of n bytes may follow in the current segment: it seals that one and begins the next if
// n does not fit and something else is in it.
func (w *writer) makeRoom(n int) error {
	if w.current != nil {
		at := w.offset + int64(len(w.buf))
		if len(w.buf) == 0 {
			n += barrierBytes
		}
		fits := at+int64(n) <= w.log.o.SegmentBytes
		if empty := at == w.current.header.bytes; fits || empty {
			return nil
		}
	}
	return w.roll()
}

// barrier begins a write. The last one of a log that is closed says so by its term.
func (w *writer) barrier(term uint64) {
	w.number++
	seg := w.current.header
	var data [barrierDataBytes]byte
	barrier{nonce: seg.nonce, offset: w.offset, durable: w.durable, chain: w.chain}.put(data[:])
	h := recordHeader{kind: KindBarrier, generation: seg.generation(), index: w.number, term: term}
	w.buf = appendRecord(w.buf, &h, seg.barrierSeed(), data[:])
	w.chain = h.chain
}

// roll seals the current segment, all of it on disk, and begins the next.
func (w *writer) roll() error {
	if w.next > segmentIDLimit {
		return fmt.Errorf("log: segment numbers are used up")
	}
	spare, err := w.log.takeSpare()
	if err != nil {
		return err // the current segment stays open, for truncations
	}
	if err := w.seal(); err != nil {
		return err
	}
	h := &header{id: w.next, seals: w.log.seals()}
	for _, g := range w.log.allGroups() {
		if !g.written.empty() {
			h.groups = append(h.groups, g.written)
		}
	}
	s, err := w.log.begin(h, spare)
	if err != nil {
		return err
	}
	w.next++
	w.current, w.offset, w.durable, w.chain = s, h.bytes, h.bytes, h.chain
	w.log.wakeKeeper()
	w.log.o.Logger.Debug("log segment begun", "segment", s.id)
	return nil
}

// seal writes and syncs what is left of the current segment.
func (w *writer) seal() error {
	if w.current == nil {
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	if w.durable < w.offset {
		if err := w.sync(); err != nil {
			return err
		}
	}
	w.log.segmentsMu.Lock()
	defer w.log.segmentsMu.Unlock()
	w.current.sealed, w.current.end, w.current.chain = true, w.offset, w.chain
	w.current = nil
	return nil
}

// flush writes the buffer with one positioned write. On a full disk it waits for room: nothing of the write was acknowledged, and it is made
// again in the same place.
func (w *writer) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	for {
		_, err := w.current.file.WriteAt(w.buf, w.offset)
		if err == nil {
			w.log.setStuck(nil)
			break
		}
		if !vfs.IsNoSpaceError(err) {
			return fmt.Errorf("log: writing %s at %d: %w", w.log.segmentPath(w.current.id), w.offset, err)
		}
		w.log.setStuck(fmt.Errorf("log: writing %s: %w: %w", w.log.segmentPath(w.current.id), ErrFull, err))
		if !w.log.awaitRetry() {
			return ErrClosed
		}
	}
	w.offset += int64(len(w.buf))
	w.dirty = true
	w.log.stats.writes.Add(1)
	w.log.stats.bytes.Add(uint64(len(w.buf)))
	w.publish()
	if w.buf = w.buf[:0]; cap(w.buf) > bufferKeepMax {
		w.buf = nil
	}
	return nil
}

// publish tells the index where the entries of the write are.
func (w *writer) publish() {
	s := w.current
	w.log.segmentsMu.Lock()
	s.end = w.offset
	for _, m := range w.marks {
		s.note(m.group.id, m.index)
	}
	w.log.segmentsMu.Unlock()
	for from := 0; from < len(w.marks); {
		g, bytes, to := w.marks[from].group, int64(0), from
		for ; to < len(w.marks) && w.marks[to].group == g; to++ {
			bytes += int64(w.marks[to].slot.bytes())
		}
		g.place(w.marks[from:to])
		w.tail = append(w.tail, tailRange{g, w.marks[to-1].index, bytes})
		w.log.stats.tail.Add(bytes)
		from = to
	}
	clear(w.marks)
	w.marks = w.marks[:0]
}

// evict brings the tail cache under its bound, oldest entries first.
func (w *writer) evict() {
	n := 0
	for ; n < len(w.tail) && w.log.stats.tail.Load() > w.log.o.TailBytes; n++ {
		w.tail[n].group.forget(w.tail[n].last)
		w.log.stats.tail.Add(-w.tail[n].bytes)
		w.tail[n] = tailRange{}
	}
	w.tail = w.tail[n:]
}

// sync makes the current segment durable up to offset.
func (w *writer) sync() error {
	if w.current == nil || w.durable == w.offset {
		return nil
	}
	begun := time.Now()
	if err := w.current.file.SyncData(); err != nil {
		return fmt.Errorf("log: fdatasync of %s: %w", w.log.segmentPath(w.current.id), err)
	}
	w.log.stats.syncs.Add(1)
	w.durable = w.offset
	w.log.o.Synced(time.Since(begun).Seconds())
	return nil
}

// farewell syncs everything and ends with a barrier that vouches for it, so that damage after a clean end is told from a
// torn write, and the next Open goes on in this segment.
func (w *writer) farewell() error {
	if w.current == nil || !w.dirty {
		return nil
	}
	if err := w.sync(); err != nil {
		return err
	}
	w.barrier(barrierClosed)
	if err := w.flush(); err != nil {
		return err
	}
	return w.sync()
}
