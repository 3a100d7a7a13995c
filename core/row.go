package core

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/understudy-mq/understudy/core/message"
)

// ErrRow says that bytes are no row of this package's: the store is damaged or of another version.
var ErrRow = errors.New("malformed row")

// table is a row key's first octet. Rows load in key order, so what is referred to comes before what refers to it.
// Numbers are part of the stored form and never reused.
type table byte

const (
	tableHeader table = iota + 1
	tableLocal
	tableNode
	tableVhost
	tableExchange
	tableQueue
	tableSession
	tableChannel
	tableConsumer
	tableBinding
	tableContent
	tableReady
	tableFlight
	tableNotes
	tableLetter
	tablePolicy
	tableHeld
	tableWindow
	tablePublisher
)

// tableLink is the standby link's; 18 to 25 are for sessions.
const tableLink table = 26

// object is one thing of the replicated state that is a row: in checkpoints, and in the fingerprint.
type object interface {
	key(dst []byte) []byte
	code(c *rowCoder)
	state() *meta
}

// meta is what the machine notes beside each object. None of it is replicated.
type meta struct {
	hash    uint64 // what the fingerprint counts for the row now
	touched bool   // on Machine.touched: changed in this entry
	dirty   bool   // on Machine.dirty: changed since the last checkpoint
	stored  bool   // the row is in the last checkpoint
	gone    bool   // deleted
	local   bool   // a local fact: outside the fingerprint
}

func (t *meta) state() *meta { return t }

func keyOf(dst []byte, t table, ids ...uint64) []byte {
	dst = append(dst, byte(t))
	for _, id := range ids {
		dst = binary.BigEndian.AppendUint64(dst, id)
	}
	return dst
}

// rowCoder walks the fields of a row in one order for both directions, so that a row's form is written down once.
type rowCoder struct {
	buf      []byte // encoding: what is written so far; decoding: what is left
	encoding bool
	hashing  bool // encode for the fingerprint: without Locs, which are local knowledge
	err      error
}

func (c *rowCoder) fail(what string) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrRow, what)
	}
	c.buf = nil
}

func (c *rowCoder) u64(v *uint64) {
	if c.encoding {
		c.buf = binary.AppendUvarint(c.buf, *v)
		return
	}
	x, n := binary.Uvarint(c.buf)
	if n <= 0 {
		c.fail("number")
		*v = 0
		return
	}
	*v, c.buf = x, c.buf[n:]
}

// Encoding writes to no field: a delivery may be reading what a letter says.
func (c *rowCoder) i64(v *int64) {
	u := uint64(*v)
	if c.u64(&u); !c.encoding {
		*v = int64(u)
	}
}

func (c *rowCoder) u32(v *uint32) { narrow(c, v, 1<<32-1) }
func (c *rowCoder) u16(v *uint16) { narrow(c, v, 1<<16-1) }
func (c *rowCoder) u8(v *uint8)   { narrow(c, v, 1<<8-1) }

func narrow[T ~uint8 | uint16 | uint32](c *rowCoder, v *T, most uint64) {
	u := uint64(*v)
	c.u64(&u)
	if u > most {
		c.fail("number too large")
		return
	}
	if !c.encoding {
		*v = T(u)
	}
}

func (c *rowCoder) boolean(v *bool) {
	var u uint64
	if *v {
		u = 1
	}
	if c.u64(&u); !c.encoding {
		*v = u != 0
	}
}

func (c *rowCoder) str(v *string) {
	if c.encoding {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*v)))
		c.buf = append(c.buf, *v...)
		return
	}
	*v = string(c.view())
}

// bytes copies when it decodes: rows are views into the store.
func (c *rowCoder) bytes(v *[]byte) {
	if c.encoding {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*v)))
		c.buf = append(c.buf, *v...)
		return
	}
	*v = append([]byte(nil), c.view()...)
}

func (c *rowCoder) view() []byte {
	var n uint64
	c.u64(&n)
	if n > uint64(len(c.buf)) {
		c.fail("length")
		return nil
	}
	b := c.buf[:n]
	c.buf = c.buf[n:]
	return b
}

// count codes how many elements follow; each takes at least one octet.
func (c *rowCoder) count(n *uint64) {
	if c.u64(n); !c.encoding && *n > uint64(len(c.buf)) {
		c.fail("count")
		*n = 0
	}
}

func (c *rowCoder) strs(v *[]string) {
	n := uint64(len(*v))
	if c.count(&n); !c.encoding && n > 0 {
		*v = make([]string, n)
	}
	for i := range *v {
		c.str(&(*v)[i])
	}
}

func (c *rowCoder) u64s(v *[]uint64) {
	n := uint64(len(*v))
	if c.count(&n); !c.encoding && n > 0 {
		*v = make([]uint64, n)
	}
	for i := range *v {
		c.u64(&(*v)[i])
	}
}

// parts codes the pieces of a fragmented body; their Locs only where a store reads them.
func (c *rowCoder) parts(v *[]message.Part) {
	n := uint64(len(*v))
	c.u64(&n)
	if !c.encoding {
		if n > uint64(len(c.buf)) { // each takes at least two octets
			c.fail("count of parts")
			return
		}
		*v = make([]message.Part, n)
	}
	for i := range *v {
		p := &(*v)[i]
		c.u32(&p.Size)
		if !c.hashing {
			c.u64((*uint64)(&p.Loc))
		}
	}
	if n == 0 {
		*v = nil
	}
}
