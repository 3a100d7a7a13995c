package log

import (
	"errors"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Log is a node's segment log. See the package's documentation.
type Log struct{}

// Group is one group's part of a Log. It implements raft.Storage.
type Group struct{}

var _ raft.Storage = (*Group)(nil)

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

var errStub = errors.New("log: not built yet")

// Open opens the log in o.Dir, recovers it and locks the folder until Close.
func Open(o Options) (*Log, error) { return nil, errStub }

// Group is the part of the group id, made when first asked for.
func (l *Log) Group(id uint64) *Group { return nil }

// Segments lists the segments, oldest first.
func (l *Log) Segments() []SegmentInfo { return nil }

// Drop removes a sealed segment that no group and no pin needs (ErrNeeded otherwise), first making sure that the truncation points
// that allow it are on disk. It blocks for as long as an fsync takes.
func (l *Log) Drop(id uint64) error { return errStub }

// Pin keeps the group's entries from index on readable by Bytes, whatever is truncated, until release is called.
// It must be called before they are truncated.
func (l *Log) Pin(group, index uint64) (release func()) { return func() {} }

// Stats answers the counters.
func (l *Log) Stats() Stats { return Stats{} }

// Close writes and syncs what is queued, stops the writer and unlocks the folder. No done runs after it.
func (l *Log) Close() error { return errStub }

// SetConfState supplies InitialState's membership, which lives in the machine's checkpoint. Call it before raft starts.
func (g *Group) SetConfState(cs *raftpb.ConfState) {}

// SetSnapshot supplies what Snapshot calls. Call it before raft starts; without it Snapshot is temporarily unavailable.
func (g *Group) SetSnapshot(f func() (*raftpb.Snapshot, error)) {}

// Append queues w and makes it visible to the Storage methods at once; done (nil for none) runs on the writer's goroutine once it is
// written and, with w.Sync, on disk. It never blocks on the disk.
func (g *Group) Append(w Write, done func()) {}

// TruncateTo says that the group needs no entry up to and including index, whose term is term. It is recorded without a
// sync of its own. An index at or below an earlier one is ignored.
func (g *Group) TruncateTo(index, term uint64) {}

// Bytes is size bytes at offset of the entry's data, from memory or from disk, checked. The slice aliases the entry:
// it must not be changed, and who keeps it long should copy it. Safe from any goroutine.
//
// Errors: raft.ErrCompacted below the first entry kept, raft.ErrUnavailable above the last, ErrBounds, DamageError.
func (g *Group) Bytes(index uint64, offset, size int) ([]byte, error) { return nil, errStub }

func (g *Group) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return nil, nil, errStub
}
func (g *Group) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) { return nil, errStub }
func (g *Group) Term(i uint64) (uint64, error)                           { return 0, errStub }
func (g *Group) LastIndex() (uint64, error)                              { return 0, errStub }
func (g *Group) FirstIndex() (uint64, error)                             { return 0, errStub }
func (g *Group) Snapshot() (*raftpb.Snapshot, error)                     { return nil, errStub }
