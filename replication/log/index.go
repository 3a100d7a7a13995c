package log

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// slot is where an entry's data is: 24 bytes an entry, without pointers. segment 0 means not written yet; the entry is then in
// the tail.
type slot struct {
	term    uint64
	segment uint32
	offset  uint32 // of the data
	size    uint32 // of the data; the entry's type in the two highest bits
	crc     uint32 // of the data
}

func makeSlot(term uint64, t raftpb.EntryType, size int) slot {
	return slot{term: term, size: uint32(size) | uint32(t)<<30}
}

func (s slot) bytes() int                  { return int(s.size & dataBytesMax) }
func (s slot) entryType() raftpb.EntryType { return raftpb.EntryType(s.size >> 30) }

// index is a group's log as appended: slots of the entries base..last, and the newest of the entries themselves. raft sees those after truncated;
// those between base and truncated are kept for pins.
type index struct {
	truncated position
	base      uint64 // index of slots[0]; truncated.index+1 if nothing older is pinned
	slots     []slot
	spent     int             // slots trimmed from the front of the backing array
	tail      []*raftpb.Entry // the newest entries; the last one is the log's last
}

func newIndex() index { return index{base: 1} }

func (x *index) last() uint64 { return x.base + uint64(len(x.slots)) - 1 }

func (x *index) lastPosition() position {
	if n := len(x.slots); n > 0 && x.last() > x.truncated.index {
		return position{x.last(), x.slots[n-1].term}
	}
	return x.truncated
}

// at answers the slot of an entry that is kept for raft or for a pin.
func (x *index) at(i uint64) (slot, error) {
	if i < x.base {
		return slot{}, raft.ErrCompacted
	}
	if i > x.last() {
		return slot{}, raft.ErrUnavailable
	}
	return x.slots[i-x.base], nil
}

// upTo answers the slots that are kept of the entries up to last.
func (x *index) upTo(last uint64) []slot {
	end := min(last, x.last()) + 1
	if end <= x.base {
		return nil
	}
	return x.slots[:end-x.base]
}

func (x *index) term(i uint64) (uint64, error) {
	if i < x.truncated.index {
		return 0, raft.ErrCompacted
	}
	if i == x.truncated.index {
		return x.truncated.term, nil
	}
	s, err := x.at(i)
	return s.term, err
}

// entry answers an entry from the tail, nil if it is not there.
func (x *index) entry(i uint64) *raftpb.Entry {
	first := x.last() - uint64(len(x.tail)) + 1
	if i < first || i > x.last() {
		return nil
	}
	return x.tail[i-first]
}

// cut removes the entries from index i on.
func (x *index) cut(i uint64) {
	if i > x.last() {
		return
	}
	keep := uint64(0)
	if i > x.base {
		keep = i - x.base
	}
	gone := len(x.slots) - int(keep)
	x.slots = x.slots[:keep]
	if n := max(len(x.tail)-gone, 0); n < len(x.tail) {
		clear(x.tail[n:])
		x.tail = x.tail[:n]
	}
}

// reset empties the log; it begins after p.
func (x *index) reset(p position) { *x = index{truncated: p, base: p.index + 1} }

// put appends the slot of the entry i, overriding it and all after it. Where that leaves a gap the older slots go: the entries in the gap
// must prove to be truncated, which recovery checks at its end.
func (x *index) put(i uint64, s slot) {
	x.cut(i)
	if i != x.last()+1 {
		x.slots, x.tail, x.base, x.spent = nil, nil, i, 0
	}
	x.slots = append(x.slots, s)
}

// truncate moves the point before which raft needs nothing.
func (x *index) truncate(p position) {
	if p.index <= x.truncated.index {
		return
	}
	if p.index > x.last() {
		x.reset(p)
		return
	}
	x.truncated = p
}

// trim lets go of the slots below keep, but for those that raft needs: amortised O(1) a slot.
func (x *index) trim(keep uint64) {
	keep = min(keep, x.truncated.index+1)
	if keep <= x.base {
		return
	}
	n := int(min(keep-x.base, uint64(len(x.slots))))
	x.slots, x.base, x.spent = x.slots[n:], keep, x.spent+n
	x.dropTail(keep-1, true)
	if x.spent > len(x.slots)+1024 {
		x.slots, x.spent = append(make([]slot, 0, len(x.slots)+len(x.slots)/4), x.slots...), 0
	}
}

// dropTail lets go of the entries up to index i in memory: those that are written, or all of them if unwritten is true.
func (x *index) dropTail(i uint64, unwritten bool) {
	first := x.last() - uint64(len(x.tail)) + 1
	n := 0
	for n < len(x.tail) && first+uint64(n) <= i {
		if s, err := x.at(first + uint64(n)); !unwritten && err == nil && s.segment == 0 {
			break
		}
		n++
	}
	clear(x.tail[:n])
	x.tail = x.tail[n:]
}
