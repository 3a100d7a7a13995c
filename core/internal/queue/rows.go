package queue

import "slices"

// Changes reports which chunks differ from what the last call reported, and which are gone. The slices given to put are
// valid during the call only, and may begin with references that are consumed already: those before First.
func (l *List) Changes(put func(id uint32, refs []Ref), del func(id uint32)) {
	for _, id := range l.dropped {
		del(id)
	}
	l.dropped = nil
	if l.n == 0 {
		return
	}
	for _, c := range l.chunks[l.head:] {
		if c.dirty {
			put(c.id, c.live())
			c.dirty, c.stored = false, true
		}
	}
}

// Exact has the next Changes report the first chunk anew if its row may have references that are consumed by now; it says whether there is
// such a chunk.
func (l *List) Exact() bool {
	if l.n == 0 {
		return false
	}
	c := l.chunks[l.head]
	c.dirty = c.dirty || c.start > 0
	return c.dirty
}

// Load adds a chunk that Changes reported, in any order; Loaded must follow.
func (l *List) Load(p *Pool, id uint32, refs []Ref) {
	c := p.get(len(refs))
	c.id, c.stored = id, true
	c.refs = append(c.refs, refs...)
	l.chunks = append(l.chunks, c)
	l.lastID = max(l.lastID, id)
}

// Loaded ends loading: messages before number first are consumed.
func (l *List) Loaded(first uint64) {
	slices.SortFunc(l.chunks, func(a, b *chunk) int {
		if a.refs[0].Number < b.refs[0].Number {
			return -1
		}
		return 1
	})
	for i, c := range l.chunks {
		for i == 0 && c.start < len(c.refs)-1 && c.refs[c.start].Number < first {
			c.start++
		}
		l.n += len(c.live())
	}
}
