package store

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/understudy-mq/understudy/core/message"
)

// Content reads a record of size bytes at loc, from the log or, if it was moved out, from Pebble. The bytes are the
// caller's to read only. Safe from any goroutine. Errors: nothing lies there (the last reference has gone), or damage.
func (g *Group) Content(loc message.Loc, size uint32) ([]byte, error) {
	g.db.life.RLock()
	defer g.db.life.RUnlock()
	if g.db.closed {
		return nil, ErrClosed
	}
	for c := (ref{loc, size}); ; {
		at := g.where.Load()
		b, err := g.content(at, c)
		// If it was moved between the look and the read, look again.
		if err == nil || g.where.Load() == at {
			return b, err
		}
	}
}

func (g *Group) content(at *place, c ref) ([]byte, error) {
	if c.loc.Index() < at.floor {
		return g.movedContent(g.db.p, at.generation, c)
	}
	b, err := g.o.ReadEntry(c.loc.Index(), c.loc.Offset(), int(c.size))
	if err != nil {
		return nil, fmt.Errorf("group %d: content at entry %d offset %d: %w", g.id, c.loc.Index(), c.loc.Offset(), err)
	}
	return b, nil
}

// movedContent reads a content that was moved out of the log.
func (g *Group) movedContent(r pebble.Reader, generation uint64, c ref) ([]byte, error) {
	b, closer, err := r.Get(contentKey(g.id, generation, c.loc))
	if err != nil {
		return nil, fmt.Errorf("group %d: content at entry %d offset %d, moved out of the log: %w",
			g.id, c.loc.Index(), c.loc.Offset(), err)
	}
	defer closer.Close()
	if len(b) != int(c.size) {
		return nil, fmt.Errorf("group %d: content at entry %d offset %d has %d bytes, not %d: the store is damaged",
			g.id, c.loc.Index(), c.loc.Offset(), len(b), c.size)
	}
	return bytes.Clone(b), nil
}

// spanBytes bounds what is read from an entry at once to get several contents.
const spanBytes = 1 << 20

// readLog reads contents, given in the order of the log, and hands each to visit; b is valid until it returns. Contents
// of the same entry are read together: a read checks the entry's checksum, so one each would read it over and over.
func (g *Group) readLog(refs []ref, visit func(c ref, b []byte) error) error {
	for len(refs) > 0 {
		n, size := joint(refs)
		first := refs[0].loc
		b, err := g.o.ReadEntry(first.Index(), first.Offset(), size)
		if err != nil {
			return fmt.Errorf("group %d: reading contents of entry %d: %w", g.id, first.Index(), err)
		}
		if len(b) != size {
			return fmt.Errorf("group %d: reading contents of entry %d: %d bytes at offset %d, not %d",
				g.id, first.Index(), len(b), first.Offset(), size)
		}
		for _, c := range refs[:n] {
			at := c.loc.Offset() - first.Offset()
			if err := visit(c, b[at:at+int(c.size)]); err != nil {
				return err
			}
		}
		refs = refs[n:]
	}
	return nil
}

// joint is how many of the first contents are read together, and the bytes from the first's begin to the last's end.
func joint(refs []ref) (n, size int) {
	first := refs[0].loc
	size = int(refs[0].size)
	for n = 1; n < len(refs) && refs[n].loc.Index() == first.Index(); n++ {
		end := refs[n].loc.Offset() + int(refs[n].size) - first.Offset()
		if end > spanBytes {
			break
		}
		size = max(size, end)
	}
	return n, size
}

// evacuation is a move of contents out of the log.
type evacuation struct {
	to       uint64
	refs     []ref         // in order, each once
	abort    chan struct{} // closed to abandon it
	finished chan struct{} // closed when err is known
	err      error
}

var (
	errEvacuating = errors.New("an evacuation is under way")
	errAbandoned  = errors.New("evacuation abandoned: a snapshot is being installed or the store closed")
)

// Evacuate copies the live contents of entries below `to` (and not yet moved) out of the log in the background. done is
// called when the copies are on disk; from then on the machine reads none of it from the log. Errors: an entry that is not
// applied yet, an evacuation under way, the log's own; nothing is changed then. The log must keep the entries until done.
func (g *Group) Evacuate(_, to uint64, done func(error)) {
	g.settle()
	switch at := g.where.Load(); {
	case to <= at.floor:
		done(nil)
		return
	case to > g.applied.index+1:
		done(fmt.Errorf("group %d: contents of entries up to %d cannot be moved, only %d are applied", g.id, to-1, g.applied.index))
		return
	case g.evac != nil:
		done(fmt.Errorf("group %d: %w", g.id, errEvacuating))
		return
	}
	g.machineMu.Lock()
	refs := distinct(collectRefs(g.m, g.refs.floor, to))
	g.machineMu.Unlock()
	e := &evacuation{to: to, refs: refs, abort: make(chan struct{}), finished: make(chan struct{})}
	g.evac = e
	go func() {
		e.err = g.evacuate(e)
		close(e.finished)
		done(e.err)
	}()
}

// evacuate copies, flushes, and only then has readers look in Pebble.
func (g *Group) evacuate(e *evacuation) error {
	at := *g.where.Load()
	err := g.copyContents(e, at.generation)
	if err == nil {
		at.floor = e.to
		g.where.Store(&at)
		return nil
	}
	// What was copied so far is not to stay: by the next try some of it may be settled, and nothing would delete it.
	b := g.db.p.NewBatch()
	defer b.Close()
	b.DeleteRange(contentKey(g.id, at.generation, firstLoc(at.floor)), contentKey(g.id, at.generation, firstLoc(e.to)), nil)
	return errors.Join(err, g.db.apply(b))
}

// batchBytes is the size at which bulk writes are handed to Pebble.
const batchBytes = 1 << 20

func (g *Group) copyContents(e *evacuation, generation uint64) error {
	w := bulk{db: g.db, b: g.db.p.NewBatch()}
	defer w.close()
	var total int64
	err := g.readLog(e.refs, func(c ref, b []byte) error {
		select {
		case <-e.abort:
			return errAbandoned
		default:
		}
		total += int64(len(b))
		return w.set(contentKey(g.id, generation, c.loc), b)
	})
	if err != nil {
		return err
	}
	// The floor goes with the last copies: on disk it stands for all of them.
	if err := w.set(metaKey(g.id, metaFloor), encodeIndex(e.to)); err != nil {
		return err
	}
	if err := w.commit(); err != nil {
		return err
	}
	if err := g.db.flush(); err != nil {
		return err
	}
	if f := g.db.o.Metrics.Evacuated; f != nil {
		f(g.id, len(e.refs), total)
	}
	return nil
}

// settle takes note of an evacuation that has finished: from here on the machine reports the contents' last uses.
func (g *Group) settle() {
	e := g.evac
	if e == nil {
		return
	}
	select {
	case <-e.finished:
	default:
		return
	}
	// After a restart the evacuated entries may have to be applied first.
	if e.err == nil && e.to > g.applied.index+1 {
		return
	}
	g.evac = nil
	if e.err != nil {
		return
	}
	g.machineMu.Lock()
	defer g.machineMu.Unlock()
	g.refs.raise(g.m, e.to, e.refs)
	g.m.SetFloor(e.to)
}

// abandon ends an evacuation under way and waits for its end.
func (g *Group) abandon() {
	if g.evac == nil {
		return
	}
	select {
	case <-g.evac.finished:
	default:
		close(g.evac.abort)
		<-g.evac.finished
	}
}

// resumeEvacuation finds, at boot, an evacuation whose copies were on disk but whose leftovers were not yet deleted.
func (g *Group) resumeEvacuation(generation, swept, floor uint64) error {
	if swept >= floor {
		return nil
	}
	e := &evacuation{to: floor, finished: make(chan struct{})}
	close(e.finished)
	it, err := g.db.p.NewIter(&pebble.IterOptions{
		LowerBound: contentKey(g.id, generation, firstLoc(swept)), UpperBound: contentKey(g.id, generation, firstLoc(floor)),
	})
	if err != nil {
		return fmt.Errorf("group %d: reading contents moved out of the log: %w", g.id, err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		e.refs = append(e.refs, ref{loc: contentLoc(it.Key())})
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("group %d: reading contents moved out of the log: %w", g.id, err)
	}
	g.evac = e
	g.settle()
	return nil
}

// sweepOrphans deletes, at boot, the copies of an evacuation that a crash cut short, and what was staged in part or is of
// no use any more.
func (g *Group) sweepOrphans(state stateMeta, floor uint64) error {
	b := g.db.p.NewBatch()
	defer b.Close()
	b.DeleteRange(contentKey(g.id, state.generation, firstLoc(floor)), contentEnd(g.id, state.generation), nil)
	staged, ok, err := readState(g.db.p, g.id, metaStaged)
	if err != nil {
		return err
	}
	if !ok || staged.index <= state.index {
		b.Delete(metaKey(g.id, metaStaged), nil)
		b.DeleteRange(dataKey(g.id, state.generation+1), dataEnd(g.id), nil)
	}
	return g.db.apply(b)
}

// bulk writes much in batches of bounded size.
type bulk struct {
	db *DB
	b  *pebble.Batch
}

func (w *bulk) set(key, value []byte) error {
	w.b.Set(key, value, nil)
	if w.b.Len() < batchBytes {
		return nil
	}
	return w.commit()
}

// commit hands on what is gathered; it is on disk after the next flush.
func (w *bulk) commit() error {
	if err := w.db.apply(w.b); err != nil {
		return err
	}
	w.b.Close()
	w.b = w.db.p.NewBatch()
	return nil
}

func (w *bulk) close() { w.b.Close() }
