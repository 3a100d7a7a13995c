package queue

import "sort"

// List is the ready messages of a queue, by message number. The zero List is empty.
type List struct {
	chunks  []*chunk // chunks[head:] are in use; only the first of them has consumed references
	head    int
	n       int
	lastID  uint32
	dropped []uint32 // ids of stored chunks that are gone
}

// Len is how many messages are ready.
func (l *List) Len() int { return l.n }

// First is the number of the first message, 0 if there is none.
func (l *List) First() uint64 {
	if l.n == 0 {
		return 0
	}
	c := l.chunks[l.head]
	return c.refs[c.start].Number
}

// Push adds a message at its place by number: the end for a new one, its original place for one that returns.
func (l *List) Push(p *Pool, r Ref) {
	if l.n == 0 {
		l.begin(p, r)
		return
	}
	c := l.chunks[len(l.chunks)-1]
	if r.Number < c.refs[len(c.refs)-1].Number {
		l.insert(p, r)
		return
	}
	if len(c.refs) == cap(c.refs) {
		c = l.grow(p, c)
	}
	c.refs = append(c.refs, r)
	c.dirty = true
	l.n++
}

// begin puts the first message into an empty list, which may have kept its last small chunk.
func (l *List) begin(p *Pool, r Ref) {
	if l.head == len(l.chunks) {
		l.chunks = append(l.chunks[:0], l.fresh(p, 1))
		l.head = 0
	}
	c := l.chunks[l.head]
	c.refs = append(c.refs[:0], r)
	c.start, c.dirty = 0, true
	l.n = 1
}

func (l *List) fresh(p *Pool, want int) *chunk {
	c := p.get(want)
	l.lastID++
	c.id = l.lastID
	return c
}

// grow makes room behind the full last chunk c: by moving its references down, into a bigger chunk or into one more.
func (l *List) grow(p *Pool, c *chunk) *chunk {
	if c.start >= cap(c.refs)/2 {
		n := copy(c.refs, c.live())
		c.refs, c.start = c.refs[:n], 0
		return c
	}
	if cap(c.refs) < ChunkRefs {
		big := p.get(cap(c.refs) + 1)
		big.id, big.stored, big.dirty = c.id, c.stored, true
		big.refs = append(big.refs, c.live()...)
		l.chunks[len(l.chunks)-1] = big
		p.put(c)
		return big
	}
	c = l.fresh(p, min(l.n, ChunkRefs))
	l.chunks = append(l.chunks, c)
	return c
}

// Pop takes the first message. The list must not be empty.
func (l *List) Pop(p *Pool) Ref {
	c := l.chunks[l.head]
	r := c.refs[c.start]
	c.start++
	l.n--
	if c.start == len(c.refs) {
		l.drain(p)
	}
	return r
}

// drain lets go of the first chunk, which is used up. A small last one stays, for the next message.
func (l *List) drain(p *Pool) {
	c := l.chunks[l.head]
	if l.n == 0 && cap(c.refs) == classes[0] {
		if c.stored {
			l.dropped = append(l.dropped, c.id)
			c.stored = false
		}
		c.refs, c.start, c.dirty = c.refs[:0], 0, false
		return
	}
	l.chunks[l.head] = nil
	l.head++
	l.release(p, c)
	if l.head*2 >= len(l.chunks) {
		n := copy(l.chunks, l.chunks[l.head:])
		clear(l.chunks[n:])
		l.chunks, l.head = l.chunks[:n], 0
	}
	if l.n == 0 && cap(l.chunks) > classes[1] {
		l.chunks = nil
	}
}

func (l *List) release(p *Pool, c *chunk) {
	if c.stored {
		l.dropped = append(l.dropped, c.id)
	}
	p.put(c)
}

// insert puts a message somewhere before the last one.
func (l *List) insert(p *Pool, r Ref) {
	at := l.head + sort.Search(len(l.chunks)-l.head, func(i int) bool {
		c := l.chunks[l.head+i]
		return c.refs[c.start].Number > r.Number
	})
	l.n++
	if at == l.head {
		l.insertFront(p, r)
		return
	}
	at--
	c := l.chunks[at]
	i := c.start + sort.Search(len(c.live()), func(i int) bool { return c.refs[c.start+i].Number > r.Number })
	c.dirty = true
	switch {
	case c.start > 0: // only the first chunk has room in front
		copy(c.refs[c.start-1:], c.refs[c.start:i])
		c.start--
		c.refs[i-1] = r
	case len(c.refs) < cap(c.refs):
		c.refs = append(c.refs, Ref{})
		copy(c.refs[i+1:], c.refs[i:])
		c.refs[i] = r
	default:
		l.split(p, at)
		l.n--
		l.insert(p, r)
	}
}

// insertFront puts a message before all others. What returns mostly comes back from the newest to the oldest, so a new
// chunk is filled from its end.
func (l *List) insertFront(p *Pool, r Ref) {
	c := l.chunks[l.head]
	if c.start == 0 {
		f := l.fresh(p, min(l.n, ChunkRefs))
		f.refs = f.refs[:cap(f.refs)]
		f.start = len(f.refs)
		l.open(l.head)
		l.chunks[l.head] = f
		c = f
	}
	c.start--
	c.refs[c.start] = r
	c.dirty = true
}

// open makes a free slot at position at of the list of chunks.
func (l *List) open(at int) {
	if at == l.head && l.head > 0 {
		l.head--
		return
	}
	l.chunks = append(l.chunks, nil)
	copy(l.chunks[at+1:], l.chunks[at:])
}

// split divides the full chunk at position at into two.
func (l *List) split(p *Pool, at int) {
	c := l.chunks[at]
	half := len(c.refs) / 2
	f := l.fresh(p, cap(c.refs))
	f.refs = append(f.refs, c.refs[half:]...)
	f.dirty, c.dirty = true, true
	c.refs = c.refs[:half]
	l.chunks = append(l.chunks, nil)
	copy(l.chunks[at+2:], l.chunks[at+1:])
	l.chunks[at+1] = f
}

// Each visits the messages in order.
func (l *List) Each(visit func(Ref)) {
	if l.n == 0 {
		return
	}
	for _, c := range l.chunks[l.head:] {
		for _, r := range c.live() {
			visit(r)
		}
	}
}

// Detach takes all messages out, as a list of their own, and answers the id of its newest chunk: those of chunks that come
// later are higher. It takes no time.
func (l *List) Detach() (all List, last uint32) {
	// A chunk may have the id of a row that is to be deleted first: both belong to one list.
	all = List{chunks: l.chunks, head: l.head, n: l.n, dropped: l.dropped}
	l.chunks, l.head, l.n, l.dropped = nil, 0, 0, nil
	return all, l.lastID
}

// Behind has new chunks get ids behind last, which those have that were detached before the list was loaded.
func (l *List) Behind(last uint32) { l.lastID = max(l.lastID, last) }

// Clear drops everything.
func (l *List) Clear(p *Pool) {
	for _, c := range l.chunks[l.head:] {
		l.release(p, c)
	}
	l.chunks, l.head, l.n = nil, 0, 0
}

// Bytes sums the sizes of the messages' records, in time proportional to their number.
func (l *List) Bytes() uint64 {
	n := uint64(0)
	l.Each(func(r Ref) { n += uint64(r.Size) })
	return n
}

// Head is the first message. The list must not be empty.
func (l *List) Head() Ref {
	c := l.chunks[l.head]
	return c.refs[c.start]
}
