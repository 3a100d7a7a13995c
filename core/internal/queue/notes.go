package queue

import "sort"

// ChunkNotes is the most notes that a chunk holds.
const ChunkNotes = 256

// Note is what a queue keeps beside a message for as long as it holds it, ready or in flight. Only messages that need
// one have one.
type Note struct {
	Number  uint64 // of the message; 0 marks a removed note
	Expires int64  // stamp in milliseconds, 0 for never
	Body    uint64 // bytes of the message's body
}

type noteChunk struct {
	id     uint32
	first  int // notes[:first] are removed
	live   int
	stored bool
	dirty  bool
	notes  []Note // by number, removed ones with number 0 among them
	base   uint64 // number of the first note ever added: for the search
}

// Notes is the notes of one queue, by message number. The zero Notes is empty.
type Notes struct {
	chunks  []*noteChunk
	n       int
	lastID  uint32
	dropped []uint32
}

// Len is how many notes there are.
func (l *Notes) Len() int { return l.n }

// Add adds a note; its number must be higher than those of all notes so far.
func (l *Notes) Add(p *Pool, x Note) {
	c := l.tail(p, x.Number)
	c.notes = append(c.notes, x)
	c.live++
	c.dirty = true
	l.n++
}

// tail answers the chunk that takes the next note. The first chunk of a queue grows as it is needed.
func (l *Notes) tail(p *Pool, number uint64) *noteChunk {
	if n := len(l.chunks); n > 0 {
		if c := l.chunks[n-1]; len(c.notes) < ChunkNotes {
			return c
		}
	}
	var c *noteChunk
	if n := len(p.notes); n > 0 {
		c, p.notes = p.notes[n-1], p.notes[:n-1]
	} else {
		c = new(noteChunk)
	}
	l.lastID++
	*c = noteChunk{id: l.lastID, base: number, notes: c.notes[:0]}
	l.chunks = append(l.chunks, c)
	return c
}

// find answers the chunk and the place of a note; false if it is not there.
func (l *Notes) find(number uint64) (at, place int, ok bool) {
	at = 0
	if len(l.chunks) > 1 && number >= l.chunks[1].base {
		at = sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].base > number }) - 1
	}
	if len(l.chunks) == 0 {
		return 0, 0, false
	}
	c := l.chunks[at]
	place = c.search(number)
	return at, place, place < len(c.notes) && c.notes[place].Number == number
}

// search is a binary search that steps over removed notes.
func (c *noteChunk) search(number uint64) int {
	low, high := c.first, len(c.notes)
	for low < high {
		middle := int(uint(low+high) >> 1)
		probe := middle
		for probe < high && c.notes[probe].Number == 0 {
			probe++
		}
		switch {
		case probe == high:
			high = middle
		case c.notes[probe].Number < number:
			low = probe + 1
		case c.notes[probe].Number == number:
			return probe
		default:
			high = middle
		}
	}
	return len(c.notes)
}

// Get answers a message's note; false if it has none.
func (l *Notes) Get(number uint64) (Note, bool) {
	at, place, ok := l.find(number)
	if !ok {
		return Note{}, false
	}
	return l.chunks[at].notes[place], true
}

// Remove takes a note out and answers it; false if there is none.
func (l *Notes) Remove(p *Pool, number uint64) (Note, bool) {
	at, place, ok := l.find(number)
	if !ok {
		return Note{}, false
	}
	c := l.chunks[at]
	x := c.notes[place]
	c.notes[place] = Note{}
	c.dirty = true
	c.live--
	l.n--
	if c.live == 0 {
		l.free(p, at)
		return x, true
	}
	for c.notes[c.first].Number == 0 {
		c.first++
	}
	return x, true
}

func (l *Notes) free(p *Pool, at int) {
	c := l.chunks[at]
	if c.stored {
		l.dropped = append(l.dropped, c.id)
	}
	copy(l.chunks[at:], l.chunks[at+1:])
	l.chunks[len(l.chunks)-1] = nil
	l.chunks = l.chunks[:len(l.chunks)-1]
	if len(p.notes) < pooledMost {
		p.notes = append(p.notes, c)
	}
}

// Each visits the notes by number.
func (l *Notes) Each(visit func(Note)) {
	for _, c := range l.chunks {
		for _, x := range c.notes[c.first:] {
			if x.Number != 0 {
				visit(x)
			}
		}
	}
}

// Clear drops everything, but for the rows that the next Changes must delete.
func (l *Notes) Clear() {
	for _, c := range l.chunks {
		if c.stored {
			l.dropped = append(l.dropped, c.id)
		}
	}
	l.chunks, l.n = nil, 0
}

// Changes reports which chunks differ from what the last call reported, and which are gone. Removed notes are in the
// slice, with number 0; it is valid during the call only.
func (l *Notes) Changes(put func(id uint32, notes []Note), del func(id uint32)) {
	for _, id := range l.dropped {
		del(id)
	}
	l.dropped = nil
	for _, c := range l.chunks {
		if c.dirty {
			put(c.id, c.notes[c.first:])
			c.dirty, c.stored = false, true
		}
	}
}

// Load adds a chunk that Changes reported. Chunks come by ascending id, which is by ascending number too.
func (l *Notes) Load(id uint32, notes []Note) {
	c := &noteChunk{id: id, stored: true, notes: append([]Note(nil), notes...)}
	for _, x := range notes {
		if x.Number == 0 {
			continue
		}
		if c.live == 0 {
			c.base = x.Number
		}
		c.live++
	}
	for c.first < len(notes) && notes[c.first].Number == 0 {
		c.first++
	}
	l.chunks = append(l.chunks, c)
	l.n += c.live
	l.lastID = max(l.lastID, id)
}
