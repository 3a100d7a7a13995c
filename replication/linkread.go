package replication

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// ReadStatus is what a read of a group's log for the standby link came to.
type ReadStatus uint8

// The answers to a read.
const (
	ReadEntries  ReadStatus = iota + 1 // the entries after the place, none if there are none yet
	ReadPurged                         // this node has no longer what comes after the place
	ReadMismatch                       // another entry, or another history, is at the place
	ReadAhead                          // this node has not applied as much yet
)

// LinkEntry is one committed entry of a group's log.
type LinkEntry struct {
	Index, Term uint64
	Own         bool   // raft's own entry (empty, membership): it has no data and changes no state
	Data        []byte // must not be changed
	Hash        uint64 // the rolling hash of the log up to it, itself included
	// Fingerprint is what the machine's state had after it, where this node has kept that (Printed).
	Fingerprint uint64
	Printed     bool
}

// LinkRead answers ReadLink.
type LinkRead struct {
	Status     ReadStatus
	Applied    uint64 // the last entry that this node has applied, and its stamp (Unix ms)
	Stamp      int64
	First      uint64 // the first entry that this node can hand out
	Term, Hash uint64 // of a mismatch: what is here at the place
	Entries    []LinkEntry
}

// ReadLink reads the entries after a place of the group's log, up to what this node has applied: at least one if there is
// any, and no more than bytesMax bytes otherwise. The place is (index, term, hash), hash being the rolling hash there. What was
// applied before the group was promoted is another cluster's log and counts as purged; the promotion's own entry is the first. Safe from any goroutine.
//
// Errors: the log cannot be read (damage, the node is stopping).
func (g *Group) ReadLink(index, term, hash uint64, bytesMax int) (LinkRead, error) {
	applied, _ := g.machine.RollingHash()
	first, err := g.log.FirstIndex()
	if err != nil {
		return LinkRead{}, fmt.Errorf("group %d: %w", g.id, err)
	}
	_, _, since := g.machine.Standing()
	first = max(first, since)
	r := LinkRead{Status: ReadEntries, Applied: applied, Stamp: g.machine.Stamp(), First: first}
	switch {
	case index+1 < first:
		r.Status = ReadPurged
		return r, nil
	case index > applied:
		r.Status = ReadAhead
		return r, nil
	}
	err = g.readAfter(&r, index, term, hash, bytesMax)
	if errors.Is(err, raft.ErrCompacted) { // meanwhile
		return LinkRead{Status: ReadPurged, Applied: applied, Stamp: r.Stamp, First: index + 2}, nil
	}
	if err != nil {
		return LinkRead{}, fmt.Errorf("group %d: read the log after entry %d: %w", g.id, index, err)
	}
	return r, nil
}

func (g *Group) readAfter(r *LinkRead, index, term, hash uint64, bytesMax int) (err error) {
	if r.Term, err = g.log.Term(index); err != nil {
		return err
	}
	if r.Hash, err = g.hashes.at(g, index); err != nil {
		return err
	}
	if r.Term != term || r.Hash != hash {
		r.Status = ReadMismatch
		return nil
	}
	if index == r.Applied {
		return nil
	}
	entries, err := g.log.Entries(index+1, r.Applied+1, uint64(bytesMax))
	if err != nil {
		return err
	}
	r.Entries = make([]LinkEntry, len(entries))
	for i, e := range entries {
		hash += g.entryHash(e)
		x := LinkEntry{Index: e.GetIndex(), Term: e.GetTerm(), Own: own(e), Hash: hash}
		if !x.Own {
			x.Data = e.GetData()
		}
		x.Fingerprint, x.Printed = g.hashes.print(x.Index)
		r.Entries[i] = x
	}
	g.hashes.note(entries[len(entries)-1].GetIndex(), hash)
	return nil
}

// BeforePromotion is the place in a promoted group's log before the promotion's entry: what a reader has to be at to begin with that.
// Errors: the group was never promoted; raft.ErrCompacted, the log does not reach back to it any more.
func (g *Group) BeforePromotion() (index, term, hash uint64, err error) {
	_, _, since := g.machine.Standing()
	if since == 0 {
		return 0, 0, 0, fmt.Errorf("group %d was never promoted", g.id)
	}
	index = since - 1
	if term, err = g.log.Term(index); err == nil {
		hash, err = g.hashes.at(g, index)
	}
	if err != nil {
		return 0, 0, 0, fmt.Errorf("group %d: the log before its promotion at entry %d: %w", g.id, since, err)
	}
	return index, term, hash, nil
}

// own says whether an entry is raft's own.
func own(e *pb.Entry) bool { return e.GetType() != pb.EntryNormal || len(e.GetData()) == 0 }

// entryHash is what an entry counts in the rolling hash.
func (g *Group) entryHash(e *pb.Entry) uint64 {
	if own(e) {
		return g.env.opts.Codec.Hash(e.GetIndex(), e.GetTerm(), nil)
	}
	return g.env.opts.Codec.Hash(e.GetIndex(), e.GetTerm(), e.GetData())
}

const (
	hashMarksMost = 4096
	hashStep      = 1024 // entries between marks made on the way to a place
	walkBytes     = 1 << 20
	printsMost    = 1024
)

// hashes remembers the rolling hash at some places of a group's log, and the state's fingerprint at some.
type hashes struct {
	mu     sync.Mutex
	marks  []hashMark // ascending
	prints []hashMark // a ring, ascending from turn on
}

type hashMark struct{ index, hash uint64 }

func byIndex(m hashMark, index uint64) int {
	switch {
	case m.index < index:
		return -1
	case m.index > index:
		return 1
	}
	return 0
}

// note remembers a place, in another's stead if there are too many.
func (h *hashes) note(index, hash uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, found := slices.BinarySearchFunc(h.marks, index, byIndex)
	if found {
		return
	}
	if len(h.marks) == hashMarksMost { // every other one goes
		kept := h.marks[:0]
		for j, m := range h.marks {
			if j%2 == 1 {
				kept = append(kept, m)
			}
		}
		h.marks = kept
		i, _ = slices.BinarySearchFunc(h.marks, index, byIndex)
	}
	h.marks = slices.Insert(h.marks, i, hashMark{index, hash})
}

// applied remembers what the machine says at the end of a run.
func (h *hashes) applied(index, fingerprint uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.prints); n > 0 && h.prints[n-1].index >= index {
		return
	}
	if len(h.prints) >= printsMost {
		h.prints = h.prints[:copy(h.prints, h.prints[printsMost/2:])]
	}
	h.prints = append(h.prints, hashMark{index, fingerprint})
}

func (h *hashes) print(index uint64) (fingerprint uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, ok := slices.BinarySearchFunc(h.prints, index, byIndex)
	if !ok {
		return 0, false
	}
	return h.prints[i].hash, true
}

// nearest is the closest place that is remembered at index or after it. The machine's own is one.
func (h *hashes) nearest(g *Group, index uint64) hashMark {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i, _ := slices.BinarySearchFunc(h.marks, index, byIndex); i < len(h.marks) {
		return h.marks[i]
	}
	at, hash := g.machine.RollingHash()
	return hashMark{at, hash}
}

// at is the rolling hash at a place up to what is applied: the one of the next place that is remembered, less what lies
// between. A place that is far from all others takes reading the log between, once.
func (h *hashes) at(g *Group, index uint64) (uint64, error) {
	m := h.nearest(g, index)
	for m.index > index {
		from := max(index+1, m.index-min(m.index, hashStep)+1)
		hash, err := g.sum(from, m.index)
		if err != nil {
			return 0, err
		}
		m = hashMark{from - 1, m.hash - hash}
		h.note(m.index, m.hash)
	}
	return m.hash, nil
}

// sum is what the entries from first to last count.
func (g *Group) sum(first, last uint64) (sum uint64, err error) {
	for first <= last {
		entries, err := g.log.Entries(first, last+1, walkBytes)
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			sum += g.entryHash(e)
		}
		first += uint64(len(entries))
	}
	return sum, nil
}
