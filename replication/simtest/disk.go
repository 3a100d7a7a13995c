package simtest

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/understudy-mq/understudy/replication"
	"github.com/understudy-mq/understudy/replication/log"
)

// Disk is one group's log in memory. What was appended is visible at once and durable after Sync; a crash keeps what
// is durable and, at will, some of the writes after it, in order.
type Disk struct {
	seen, durable contents
	waiting       []operation
	conf          *pb.ConfState
	snapshot      func() (*pb.Snapshot, error)
	// Immediate syncs every append at once: while a node starts, which waits for its disk.
	Immediate bool
	// Syncs counts.
	Syncs int
}

var _ replication.GroupLog = (*Disk)(nil)

type operation struct {
	write    log.Write
	truncate uint64
	term     uint64
	done     func()
}

// contents are entries after (index, term).
type contents struct {
	index, term uint64
	entries     []*pb.Entry
	hard        *pb.HardState
}

func (c *contents) do(o operation) {
	if o.truncate != 0 {
		if o.truncate > c.index && o.truncate <= c.last() {
			c.entries = slices.Clone(c.entries[o.truncate-c.index:])
			c.index, c.term = o.truncate, o.term
		}
		return
	}
	if w := o.write; w.SnapshotIndex != 0 {
		*c = contents{index: w.SnapshotIndex, term: w.SnapshotTerm, hard: c.hard}
	}
	if !raft.IsEmptyHardState(o.write.HardState) {
		c.hard = o.write.HardState
	}
	if es := o.write.Entries; len(es) > 0 {
		c.entries = append(slices.Clip(c.entries[:es[0].GetIndex()-c.index-1]), es...)
	}
}

func (c *contents) last() uint64 { return c.index + uint64(len(c.entries)) }

func (d *Disk) put(o operation) {
	d.seen.do(o)
	d.waiting = append(d.waiting, o)
	if d.Immediate {
		d.Sync()
	}
}

// Append makes w visible.
func (d *Disk) Append(w log.Write, done func()) { d.put(operation{write: w, done: done}) }

// TruncateTo drops the entries up to index.
func (d *Disk) TruncateTo(index, term uint64) { d.put(operation{truncate: index, term: term}) }

// Sync makes everything durable and says so; false if there was nothing to do.
func (d *Disk) Sync() bool {
	ops := d.waiting
	d.waiting = nil
	for _, o := range ops {
		d.durable.do(o)
	}
	for _, o := range ops {
		if o.done != nil {
			o.done()
		}
	}
	d.Syncs++
	return len(ops) > 0
}

// Unsynced is the number of appends and truncations that a crash may lose.
func (d *Disk) Unsynced() int { return len(d.waiting) }

// Crash loses all but the first keep of the unsynced operations.
func (d *Disk) Crash(keep int) {
	for _, o := range d.waiting[:keep] {
		d.durable.do(o)
	}
	d.waiting = nil
	d.seen = d.durable
	d.seen.entries = slices.Clone(d.durable.entries)
}

// SetConfState and the rest carry out replication.GroupLog.
func (d *Disk) SetConfState(cs *pb.ConfState) { d.conf = cs }

// SetSnapshot supplies what Snapshot calls.
func (d *Disk) SetSnapshot(f func() (*pb.Snapshot, error)) { d.snapshot = f }

// Snapshot calls it.
func (d *Disk) Snapshot() (*pb.Snapshot, error) { return d.snapshot() }

// InitialState is what was appended last.
func (d *Disk) InitialState() (*pb.HardState, *pb.ConfState, error) { return d.seen.hard, d.conf, nil }

// FirstIndex is the first entry kept.
func (d *Disk) FirstIndex() (uint64, error) { return d.seen.index + 1, nil }

// LastIndex is the last entry.
func (d *Disk) LastIndex() (uint64, error) { return d.seen.last(), nil }

// Term is an entry's term.
func (d *Disk) Term(i uint64) (uint64, error) {
	switch c := &d.seen; {
	case i < c.index:
		return 0, raft.ErrCompacted
	case i == c.index:
		return c.term, nil
	case i > c.last():
		return 0, raft.ErrUnavailable
	default:
		return c.entries[i-c.index-1].GetTerm(), nil
	}
}

// Entries are those from lo up to hi, at most maxSize bytes of them but at least one.
func (d *Disk) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	c := &d.seen
	if lo <= c.index {
		return nil, raft.ErrCompacted
	}
	if hi > c.last()+1 {
		return nil, raft.ErrUnavailable
	}
	var out []*pb.Entry
	size := uint64(0)
	for _, e := range c.entries[lo-c.index-1 : hi-c.index-1] {
		size += uint64(len(e.GetData())) + 16
		if len(out) > 0 && size > maxSize {
			break
		}
		out = append(out, e)
	}
	return out, nil
}

// Bytes is a piece of an entry.
func (d *Disk) Bytes(index uint64, offset, size int) ([]byte, error) {
	es, err := d.Entries(index, index+1, 0)
	if err != nil {
		return nil, err
	}
	data := es[0].GetData()
	if offset < 0 || size < 0 || offset+size > len(data) {
		return nil, fmt.Errorf("entry %d: %w", index, log.ErrBounds)
	}
	return data[offset : offset+size], nil
}
