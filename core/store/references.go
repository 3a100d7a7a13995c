package store

import (
	"cmp"
	"slices"

	"github.com/understudy-mq/understudy/core/message"
)

// ref is a content that something refers to.
type ref struct {
	loc  message.Loc
	size uint32 // bytes
}

// firstLoc is the lowest Loc of entry index.
func firstLoc(index uint64) message.Loc { return message.NewLoc(index, 0) }

// references counts the references to contents that were moved out of the log, so that the last one to go takes the
// content along. Nearly all have one reference: only the others cost memory.
type references struct {
	floor   uint64                 // contents of entries below are counted
	moved   int                    // contents below floor that have a reference
	more    map[message.Loc]uint32 // references beyond the first
	dropped []message.Loc          // without a reference, to be deleted by the next checkpoint
	reclaim int                    // deleted since the last compaction
	unswept bool                   // the next checkpoint records floor as swept
}

// countReferences counts all references below floor.
func countReferences(m machine, floor uint64) references {
	r := references{more: map[message.Loc]uint32{}}
	r.raise(m, floor, nil)
	r.unswept = false
	return r
}

// raise moves the floor up to `to`. copied are the contents between that are in Pebble, in order: those without a
// reference are to be deleted.
func (r *references) raise(m machine, to uint64, copied []ref) {
	live := collectRefs(m, r.floor, to)
	for i, l := range live {
		if i > 0 && live[i-1].loc == l.loc {
			r.more[l.loc]++
			continue
		}
		r.moved++
		for len(copied) > 0 && copied[0].loc < l.loc {
			r.dropped = append(r.dropped, copied[0].loc)
			copied = copied[1:]
		}
		if len(copied) > 0 && copied[0].loc == l.loc {
			copied = copied[1:]
		}
	}
	for _, c := range copied {
		r.dropped = append(r.dropped, c.loc)
	}
	r.floor, r.unswept = to, true
}

// add takes note of a reference beside those that there are.
func (r *references) add(loc message.Loc) { r.more[loc]++ }

// drop takes note of a reference that is gone.
func (r *references) drop(loc message.Loc) {
	switch n := r.more[loc]; {
	case n > 1:
		r.more[loc] = n - 1
	case n == 1:
		delete(r.more, loc)
	default:
		r.moved--
		r.dropped = append(r.dropped, loc)
	}
}

// collectRefs is every reference from <= index < to in the order of the log, once per reference.
func collectRefs(m machine, from, to uint64) []ref {
	var refs []ref
	m.Contents(from, to, func(loc message.Loc, size uint32) { refs = append(refs, ref{loc, size}) })
	sortRefs(refs)
	return refs
}

func sortRefs(refs []ref) {
	slices.SortFunc(refs, func(a, b ref) int { return cmp.Compare(a.loc, b.loc) })
}

// distinct drops repeated contents from a sorted list, in place.
func distinct(refs []ref) []ref {
	return slices.CompactFunc(refs, func(a, b ref) bool { return a.loc == b.loc })
}
