package replication

const (
	// sparseShare: less than this part of a segment, and its survivors cost less to move out than the file does.
	sparseShare = 8
	// liveFactor times what is live, beside what is allowed anyway, is how large the log may be.
	liveFactor = 2
	// entriesMost bounds what the log keeps in memory of its entries, 24 bytes each.
	entriesMost = 4 << 20
)

// usage is how much of a segment is in use.
type usage struct {
	bytes      int64 // of the segment
	references int
	live       int64 // bytes that the references are to; more than there are, where several are to the same
	entries    uint64
}

// crowded says whether what is live in the first, the oldest, of the segments is to be moved out of a log of extent bytes, of which
// most are allowed in any case. Moving costs a read, a write and Pebble's compactions, so it has to be worth it:
//
//   - The log may be larger by what is live in it, and as much again: a long queue lies best where it is. Beyond that, what is live in
//     the oldest segment stands before more that could be given back.
//   - A segment with little in use is emptied, but not while it is being consumed, which is seen by the next one, of which most is
//     still there: it will be empty in a moment by itself.
func crowded(segments []usage, extent, most int64) bool {
	if extent <= most {
		return false
	}
	var live int64
	var entries uint64
	for _, s := range segments {
		live += min(s.live, s.bytes)
		entries += s.entries
	}
	if extent > most+liveFactor*live || entries > entriesMost {
		return true
	}
	oldest := segments[0]
	consumed := len(segments) == 1 || segments[1].live < segments[1].bytes/2
	return consumed && oldest.live < oldest.bytes/sparseShare
}
