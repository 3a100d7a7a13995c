package core

import (
	"fmt"

	"github.com/understudy-mq/understudy/core/internal/ledger"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

// chunkOwner is how a chunk's row begins: (vhost, queue, chunk id) for ready messages, (session, channel, first tag) for
// deliveries in flight. The chunk id of ready messages has their lane above bit 32.
type chunkOwner [3]uint64

func (o *chunkOwner) key(dst []byte, t table) []byte { return keyOf(dst, t, o[:]...) }

func (o *chunkOwner) code(c *rowCoder, count *uint64) {
	for i := range o {
		c.u64(&o[i])
	}
	c.u64(count)
}

func (c *rowCoder) ref(r *ready.Ref) {
	c.u64(&r.Number)
	if r.Number == 0 {
		return
	}
	c.u64(&r.Loc)
	c.u32(&r.Size)
	c.u32(&r.Flags)
}

func (c *rowCoder) note(x *ready.Note) {
	c.u64(&x.Number)
	if x.Number == 0 {
		return
	}
	c.i64(&x.Expires)
	c.u64(&x.Body)
}

func (c *rowCoder) flight(r *ledger.Record) {
	c.ref(&r.Ref)
	if r.Number == 0 {
		return
	}
	c.u32(&r.Queue)
	c.u32(&r.Consumer)
}

// checkpoint is one run of Checkpoint.
type checkpoint struct {
	m   *Machine
	put func(key, value []byte)
	del func(key []byte)
	key []byte
}

// Changed is how many objects the next Checkpoint is about: it takes time, and memory until then, for each.
func (m *Machine) Changed() int { return len(m.dirty) }

// Checkpoint reports what has changed since the last call, or since the state was loaded or made: rows to put and rows to
// delete, to be written in this order in one batch. Slices are valid during the call only. Keys begin with a table octet
// and are meant to be loaded in order; what a row holds is this package's business.
func (m *Machine) Checkpoint(put func(key, value []byte), del func(key []byte)) {
	c := checkpoint{m: m, put: put, del: del}
	for _, o := range m.dirty {
		c.row(o)
		switch x := o.(type) {
		case *queue:
			c.readyChunks(x)
			c.notes(x)
		case *channel:
			c.flightChunks(x)
		case *vhost:
			c.remains(x)
		}
	}
	clear(m.dirty)
	m.dirty = m.dirty[:0]
}

// Exact has the next Checkpoint leave no row that refers to a message which is gone: consuming the head of a queue changes no chunk, so the row
// of its first one goes on to name what was consumed. Whoever looks up the content of all that rows refer to needs this.
func (m *Machine) Exact() {
	for _, v := range m.vhosts {
		for _, q := range v.queues {
			if q.ready.exact() {
				m.changed(q)
			}
		}
		for _, x := range v.remains {
			if x.list.Exact() {
				m.changed(v)
			}
		}
	}
}

func (c *checkpoint) row(o object) {
	t := o.state()
	t.dirty = false
	c.key = o.key(c.key[:0])
	if t.gone {
		if t.stored {
			c.del(c.key)
		}
		return
	}
	row := c.begin()
	o.code(row)
	c.put(c.key, row.buf)
	t.stored = true
}

func (c *checkpoint) begin() *rowCoder {
	c.m.coder = rowCoder{buf: c.m.coder.buf[:0], encoding: true}
	return &c.m.coder
}

func (c *checkpoint) readyChunks(q *queue) {
	owner := chunkOwner{uint64(q.Vhost), uint64(q.ID)}
	c.lane(owner, 0, &q.ready.zero)
	for i := range q.ready.more {
		c.lane(owner, uint64(i)+1, &q.ready.more[i])
	}
}

// lane reports the chunks of one list; owner says whose they are, but for the chunk.
func (c *checkpoint) lane(owner chunkOwner, lane uint64, list *ready.List) {
	list.Changes(func(id uint32, refs []ready.Ref) {
		owner[2] = lane<<32 | uint64(id)
		row, n := c.begin(), uint64(len(refs))
		owner.code(row, &n)
		for i := range refs {
			row.ref(&refs[i])
		}
		c.key = owner.key(c.key[:0], tableReady)
		c.put(c.key, row.buf)
	}, func(id uint32) {
		owner[2] = lane<<32 | uint64(id)
		c.key = owner.key(c.key[:0], tableReady)
		c.del(c.key)
	})
}

func (c *checkpoint) notes(q *queue) {
	owner := chunkOwner{uint64(q.Vhost), uint64(q.ID)}
	q.notes.Changes(func(id uint32, notes []ready.Note) {
		owner[2] = uint64(id)
		row, n := c.begin(), uint64(len(notes))
		owner.code(row, &n)
		for i := range notes {
			row.note(&notes[i])
		}
		c.key = owner.key(c.key[:0], tableNotes)
		c.put(c.key, row.buf)
	}, func(id uint32) {
		owner[2] = uint64(id)
		c.key = owner.key(c.key[:0], tableNotes)
		c.del(c.key)
	})
}

func (c *checkpoint) flightChunks(h *channel) {
	owner := chunkOwner{h.Session, uint64(h.Number)}
	h.flight.Changes(func(base uint64, records []ledger.Record) {
		owner[2] = base
		row, n := c.begin(), uint64(len(records))
		owner.code(row, &n)
		for i := range records {
			row.flight(&records[i])
		}
		c.key = owner.key(c.key[:0], tableFlight)
		c.put(c.key, row.buf)
	}, func(base uint64) {
		owner[2] = base
		c.key = owner.key(c.key[:0], tableFlight)
		c.del(c.key)
	})
}

// RowContents visits the references to content that a row holds, once per reference. Consumed references at the head of a
// chunk may be among them (Exact). Errors: ErrRow.
func RowContents(key, value []byte, visit func(message.Loc, uint32)) error {
	if len(key) == 0 {
		return fmt.Errorf("%w: empty key", ErrRow)
	}
	c := rowCoder{buf: value}
	switch table(key[0]) {
	case tableReady:
		_, refs := c.readyChunk()
		for i := range refs {
			visit(message.Loc(refs[i].Loc), refs[i].Size)
		}
	case tableFlight:
		_, records := c.flightChunk()
		for i := range records {
			if records[i].Number != 0 {
				visit(message.Loc(records[i].Loc), records[i].Size)
			}
		}
	case tableContent:
		var row contentRow
		row.code(&c)
		visitParts(row.Parts, visit)
	case tableChannel:
		var row channelRow
		row.code(&c)
		visitParts(row.Parts, visit)
		for i := range row.Pending {
			row.Pending[i].visit(visit)
		}
	case tableHeld:
		var row heldRow
		row.code(&c)
		row.visit(visit)
	default:
		return nil
	}
	return c.err
}

func visitParts(parts []message.Part, visit func(message.Loc, uint32)) {
	for i := range parts {
		visit(parts[i].Loc, parts[i].Size)
	}
}

func (c *rowCoder) readyChunk() (chunkOwner, []ready.Ref) {
	return chunkOf(c, ready.ChunkRefs, "count of messages", (*rowCoder).ref)
}

func (c *rowCoder) noteChunk() (chunkOwner, []ready.Note) {
	return chunkOf(c, ready.ChunkNotes, "count of notes", (*rowCoder).note)
}

func (c *rowCoder) flightChunk() (chunkOwner, []ledger.Record) {
	return chunkOf(c, ledger.ChunkRecords, "count of deliveries", (*rowCoder).flight)
}

// chunkOf decodes a chunk's owner and its things, at most so many: the count is checked before memory is taken.
func chunkOf[T any](c *rowCoder, most uint64, count string, code func(*rowCoder, *T)) (chunkOwner, []T) {
	var owner chunkOwner
	var n uint64
	owner.code(c, &n)
	if n > most || n > uint64(len(c.buf)) {
		c.fail(count)
		return owner, nil
	}
	things := make([]T, n)
	for i := range things {
		code(c, &things[i])
	}
	return owner, things
}
