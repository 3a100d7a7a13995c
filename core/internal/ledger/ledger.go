package ledger

import (
	"sort"

	"github.com/understudy-mq/understudy/core/internal/queue"
)

// ChunkRecords is the most records that a chunk holds.
const ChunkRecords = 256

var classes = [...]int{8, 64, ChunkRecords}

const pooledMost = 128

// Record is one delivery in flight. Number 0 marks a settled slot.
type Record struct {
	queue.Ref
	Queue    uint32 // the queue's id
	Consumer uint32 // the consumer's number, 0 for a get
}

type chunk struct {
	base    uint64 // tag of records[0]; also the row's id
	first   int    // records[:first] are settled
	live    int
	stored  bool
	dirty   bool
	records []Record
}

// Pool recycles chunks between the ledgers of one machine.
type Pool struct{ free [len(classes)][]*chunk }

func (p *Pool) get(want int) *chunk {
	k := 0
	for k < len(classes)-1 && classes[k] < want {
		k++
	}
	if n := len(p.free[k]); n > 0 {
		c := p.free[k][n-1]
		p.free[k] = p.free[k][:n-1]
		return c
	}
	return &chunk{records: make([]Record, 0, classes[k])}
}

func (p *Pool) put(c *chunk) {
	for k, n := range classes {
		if cap(c.records) == n && len(p.free[k]) < pooledMost {
			*c = chunk{records: c.records[:0]}
			p.free[k] = append(p.free[k], c)
			return
		}
	}
}

// Ledger is the deliveries of a channel. The zero Ledger is empty.
type Ledger struct {
	chunks  []*chunk // by base; only the last may be empty
	last    uint64   // highest tag given out
	n       int
	dropped []uint64 // bases of stored chunks that are gone
}

// Len is how many deliveries are in flight.
func (l *Ledger) Len() int { return l.n }

// Last is the highest tag given out so far, 0 for none.
func (l *Ledger) Last() uint64 { return l.last }

// Add enters a delivery and answers its tag.
func (l *Ledger) Add(p *Pool, r Record) uint64 {
	l.last++
	c := l.tail(p)
	c.records = append(c.records, r)
	c.live++
	c.dirty = true
	l.n++
	return l.last
}

// tail answers the chunk that the tag l.last goes to.
func (l *Ledger) tail(p *Pool) *chunk {
	if len(l.chunks) > 0 {
		c := l.chunks[len(l.chunks)-1]
		switch {
		case c.live == 0:
			l.unstore(c)
			c.base, c.first, c.records = l.last, 0, c.records[:0]
			return c
		case l.last == c.base+uint64(len(c.records)) && len(c.records) < cap(c.records):
			return c
		case l.last == c.base+uint64(len(c.records)) && cap(c.records) < ChunkRecords:
			big := p.get(cap(c.records) + 1)
			records := append(big.records[:0], c.records...)
			*big = *c
			big.records = records
			p.put(c)
			l.chunks[len(l.chunks)-1] = big
			return big
		}
	}
	c := p.get(min(l.n+1, ChunkRecords))
	c.base = l.last
	l.chunks = append(l.chunks, c)
	return c
}

func (l *Ledger) unstore(c *chunk) {
	if c.stored {
		l.dropped = append(l.dropped, c.base)
		c.stored = false
	}
}

// find answers the position of the chunk that tag would be in, -1 if it is before all of them.
func (l *Ledger) find(tag uint64) int {
	if n := len(l.chunks); n == 0 || tag >= l.chunks[n-1].base {
		return n - 1
	}
	if len(l.chunks) > 1 && tag >= l.chunks[0].base && tag < l.chunks[1].base {
		return 0
	}
	return sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].base > tag }) - 1
}

// Get answers a delivery, nil if the tag is not in flight. The record may be read until the next change.
func (l *Ledger) Get(tag uint64) *Record {
	at := l.find(tag)
	if at < 0 {
		return nil
	}
	c := l.chunks[at]
	i := tag - c.base
	if i >= uint64(len(c.records)) || c.records[i].Number == 0 {
		return nil
	}
	return &c.records[i]
}

// Mark sets and clears flags of a delivery that is in flight.
func (l *Ledger) Mark(tag uint64, set, clear uint32) {
	c := l.chunks[l.find(tag)]
	r := &c.records[tag-c.base]
	r.Flags = r.Flags&^clear | set
	c.dirty = true
}

// Assign gives a delivery that is in flight to another consumer.
func (l *Ledger) Assign(tag uint64, consumer uint32) {
	c := l.chunks[l.find(tag)]
	c.records[tag-c.base].Consumer = consumer
	c.dirty = true
}

// Take removes a delivery. It answers false if the tag is not in flight.
func (l *Ledger) Take(p *Pool, tag uint64) (Record, bool) {
	at := l.find(tag)
	if at < 0 {
		return Record{}, false
	}
	c := l.chunks[at]
	i := tag - c.base
	if i >= uint64(len(c.records)) || c.records[i].Number == 0 {
		return Record{}, false
	}
	r := c.records[i]
	c.records[i] = Record{}
	c.dirty = true
	c.live--
	l.n--
	if c.live == 0 {
		l.free(p, at)
	} else if int(i) == c.first {
		for c.records[c.first].Number == 0 {
			c.first++
		}
	}
	return r, true
}

// free lets go of a chunk without deliveries. A small last one stays, for the next.
func (l *Ledger) free(p *Pool, at int) {
	c := l.chunks[at]
	l.unstore(c)
	if len(l.chunks) == 1 && cap(c.records) == classes[0] {
		return
	}
	copy(l.chunks[at:], l.chunks[at+1:])
	l.chunks[len(l.chunks)-1] = nil
	l.chunks = l.chunks[:len(l.chunks)-1]
	p.put(c)
}

// Next answers the first tag in flight that is at least tag, 0 if there is none.
func (l *Ledger) Next(tag uint64) uint64 {
	for at := max(l.find(tag), 0); at < len(l.chunks); at++ {
		c := l.chunks[at]
		i := c.first
		if tag > c.base {
			i = max(i, int(min(tag-c.base, uint64(len(c.records)))))
		}
		for ; i < len(c.records); i++ {
			if c.records[i].Number != 0 {
				return c.base + uint64(i)
			}
		}
	}
	return 0
}

// Before answers the last tag in flight that is at most tag, 0 if there is none.
func (l *Ledger) Before(tag uint64) uint64 {
	for at := l.find(tag); at >= 0; at-- {
		c := l.chunks[at]
		if c.live == 0 {
			continue
		}
		for i := int(min(tag-c.base, uint64(len(c.records)-1))); i >= c.first; i-- {
			if c.records[i].Number != 0 {
				return c.base + uint64(i)
			}
		}
	}
	return 0
}

// Each visits the deliveries by tag.
func (l *Ledger) Each(visit func(tag uint64, r *Record)) {
	for _, c := range l.chunks {
		for i := c.first; i < len(c.records); i++ {
			if r := &c.records[i]; r.Number != 0 {
				visit(c.base+uint64(i), r)
			}
		}
	}
}

// Clear forgets everything, but for the rows that the next Changes must delete.
func (l *Ledger) Clear(p *Pool) {
	for _, c := range l.chunks {
		l.unstore(c)
		p.put(c)
	}
	l.chunks, l.n, l.last = nil, 0, 0
}

// Changes reports which chunks differ from what the last call reported, and which are gone. Settled slots are in the
// slice, with number 0; the slice is valid during the call only.
func (l *Ledger) Changes(put func(base uint64, records []Record), del func(base uint64)) {
	for _, base := range l.dropped {
		del(base)
	}
	l.dropped = nil
	for _, c := range l.chunks {
		if c.dirty && c.live > 0 {
			put(c.base, c.records)
			c.dirty, c.stored = false, true
		}
	}
}

// Load adds a chunk that Changes reported, by ascending base. last is the highest tag given out.
func (l *Ledger) Load(p *Pool, base uint64, records []Record) {
	c := p.get(len(records))
	c.base, c.stored = base, true
	c.records = append(c.records, records...)
	for i := range records {
		if records[i].Number != 0 {
			c.live++
		}
	}
	for c.first < len(records) && c.records[c.first].Number == 0 {
		c.first++
	}
	l.n += c.live
	l.chunks = append(l.chunks, c)
	l.last = max(l.last, base+uint64(len(records))-1)
}

// Loaded ends loading: last is the highest tag given out.
func (l *Ledger) Loaded(last uint64) { l.last = max(l.last, last) }
