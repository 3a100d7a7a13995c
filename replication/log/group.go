package log

import (
	"fmt"
	"sync"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Group is one group's part of a Log. It implements raft.Storage.
type Group struct {
	log *Log
	id  uint64

	mu       sync.Mutex
	index    index
	hard     *raftpb.HardState
	conf     *raftpb.ConfState
	snapshot func() (*raftpb.Snapshot, error)
	pins     map[*pin]struct{}
	verified verifiedCache

	written groupState // what the files say: the writer's own
	// durable is the truncation point that is on disk.
	durable atomic.Uint64
}

var _ raft.Storage = (*Group)(nil)

// pin keeps entries from index on.
type pin struct{ index uint64 }

// Write is what one Append persists, in this order: the snapshot marker, the hard state, the entries.
type Write struct {
	// HardState, nil or empty for none.
	HardState *raftpb.HardState
	// Entries, contiguous; they override what the group holds from their first index on. They and their Data must never
	// change afterwards: the tail cache keeps them.
	Entries []*raftpb.Entry
	// SnapshotIndex, if not 0, says that the group's log is now empty and begins after it.
	SnapshotIndex, SnapshotTerm uint64
	// Sync asks that done runs only once this and everything before it is on disk.
	Sync bool
}

func newGroup(l *Log, id uint64) *Group {
	return &Group{log: l, id: id, index: newIndex(), conf: &raftpb.ConfState{}, pins: map[*pin]struct{}{},
		written: groupState{group: id}}
}

// ID is the group's number.
func (g *Group) ID() uint64 { return g.id }

// SetConfState supplies InitialState's membership, which lives in the machine's checkpoint. Call it before raft starts.
func (g *Group) SetConfState(cs *raftpb.ConfState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conf = proto.CloneOf(raftpb.EnsureConfState(cs))
}

// SetSnapshot supplies what Snapshot calls. Call it before raft starts; without it Snapshot is temporarily unavailable.
func (g *Group) SetSnapshot(f func() (*raftpb.Snapshot, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.snapshot = f
}

// Append queues w and makes it visible to the Storage methods at once; done (nil for none) runs on the writer's goroutine
// once it is written and, with w.Sync, on disk. It never blocks on the disk. A Write with neither Sync nor done waits for the next that has.
func (g *Group) Append(w Write, done func()) {
	if err := g.append(w, op{group: g, sync: w.Sync, done: done, wake: w.Sync || done != nil}); err != nil {
		g.log.fail(err)
	}
}

func (g *Group) append(w Write, o op) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.SnapshotIndex > g.index.truncated.index {
		o.snapshot = position{w.SnapshotIndex, w.SnapshotTerm}
		g.index.reset(o.snapshot)
		g.verified.clear()
	}
	if !raft.IsEmptyHardState(w.HardState) {
		g.hard, o.hard = w.HardState, w.HardState
	}
	if err := g.admit(w.Entries, &o); err != nil {
		return err
	}
	g.log.enqueue(o)
	return nil
}

// admit puts entries into the index and into o. Entries that are truncated already are passed over.
func (g *Group) admit(entries []*raftpb.Entry, o *op) error {
	for len(entries) > 0 && entries[0].GetIndex() <= g.index.truncated.index {
		entries = entries[1:]
	}
	if len(entries) == 0 {
		return nil
	}
	if first, last := entries[0].GetIndex(), g.index.last(); first > last+1 {
		return fmt.Errorf("log: group %d: entry %d appended after %d: a gap", g.id, first, last)
	} else if first <= last {
		g.verified.clear()
	}
	next := entries[0].GetIndex()
	for _, e := range entries {
		if e.GetIndex() != next || len(e.Data) > dataBytesMax {
			return fmt.Errorf("log: group %d: entry %d of %d bytes appended where %d was due", g.id, e.GetIndex(), len(e.Data), next)
		}
		g.index.put(next, makeSlot(e.GetTerm(), e.GetType(), len(e.Data)))
		g.index.tail = append(g.index.tail, e)
		o.bytes += recordBytes(len(e.Data))
		next++
	}
	o.entries = entries
	return nil
}

// TruncateTo says that the group needs no entry up to and including index, whose term is term. It is recorded without a
// sync of its own. An index at or below an earlier one is ignored.
func (g *Group) TruncateTo(index, term uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if index <= g.index.truncated.index {
		return
	}
	p := position{index, term}
	g.index.truncate(p)
	g.trim()
	g.log.enqueue(op{group: g, truncate: p})
}

// trim lets go of what neither raft nor a pin needs. g.mu is held.
func (g *Group) trim() {
	keep := g.index.truncated.index + 1
	for p := range g.pins {
		keep = min(keep, p.index)
	}
	g.index.trim(keep)
}

func (g *Group) pin(index uint64) (release func()) {
	p := &pin{index}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pins[p] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.pins, p)
		g.trim()
	}
}

// needs says whether an entry that is kept for raft or a pin, up to the end of r, is in the segment, whose range r is, or
// in an older one (recovery joins what it finds there to what follows by way of this one). If none is, it is by overrides and
// by the truncation up to point.
func (g *Group) needs(r GroupRange, segment uint64) (point uint64, needed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.index.upTo(r.Last) {
		if s.segment != 0 && uint64(s.segment) <= segment {
			return 0, true
		}
	}
	return min(g.index.truncated.index, r.Last), false
}

// settled says whether the truncation up to point and all overrides up to the end of r are written.
func (g *Group) settled(r GroupRange, point uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.index.upTo(r.Last) {
		if s.segment == 0 {
			return false
		}
	}
	return g.durable.Load() >= point
}

// place records where entries were written. Those overridden since have another term (or the same content).
func (g *Group) place(marks []mark) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range marks {
		if s, err := g.index.at(m.index); err == nil && s.term == m.slot.term {
			g.index.slots[m.index-g.index.base] = m.slot
		}
	}
}

// forget lets go of written entries in memory up to index.
func (g *Group) forget(index uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.index.dropTail(index, false)
}

// InitialState implements raft.Storage.
func (g *Group) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hard, proto.CloneOf(g.conf), nil
}

// FirstIndex implements raft.Storage.
func (g *Group) FirstIndex() (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.index.truncated.index + 1, nil
}

// LastIndex implements raft.Storage.
func (g *Group) LastIndex() (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.index.lastPosition().index, nil
}

// Term implements raft.Storage.
func (g *Group) Term(i uint64) (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.index.term(i)
}

// Snapshot implements raft.Storage by the function given to SetSnapshot.
func (g *Group) Snapshot() (*raftpb.Snapshot, error) {
	g.mu.Lock()
	f := g.snapshot
	g.mu.Unlock()
	if f == nil {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return f()
}
