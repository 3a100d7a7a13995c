package rawclient

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Table is a field table. Values are nil, bool, int8, int16, int32, int64, float64, string, Timestamp, Table and []any;
// an int is written as int32.
type Table map[string]any

// Timestamp is a field's or a message's time in seconds.
type Timestamp uint64

// AppendTable appends a table with its length, keys in order.
func AppendTable(b []byte, t Table) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	for _, k := range slices.Sorted(maps.Keys(t)) {
		b = appendValue(append(b, short(k)...), t[k])
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 'V')
	case bool:
		return append(b, 't', bit(v))
	case int8:
		return append(b, 'b', byte(v))
	case int16:
		return binary.BigEndian.AppendUint16(append(b, 's'), uint16(v))
	case int:
		return binary.BigEndian.AppendUint32(append(b, 'I'), uint32(v))
	case int32:
		return binary.BigEndian.AppendUint32(append(b, 'I'), uint32(v))
	case int64:
		return binary.BigEndian.AppendUint64(append(b, 'l'), uint64(v))
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v))
	case Timestamp:
		return binary.BigEndian.AppendUint64(append(b, 'T'), uint64(v))
	case string:
		return append(append(b, 'S'), long(v)...)
	case Table:
		return AppendTable(append(b, 'F'), v)
	case []any:
		b = append(b, 'A')
		at := len(b)
		b = append(b, 0, 0, 0, 0)
		for _, x := range v {
			b = appendValue(b, x)
		}
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
		return b
	}
	panic(fmt.Sprintf("no field type for %T", v))
}

func bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// cursor reads values off a payload; once it runs out, everything is zero and err is set.
type cursor struct {
	b   []byte
	err error
}

var errShort = errors.New("the frame ends within a value")

func (c *cursor) take(n int) []byte {
	if c.err != nil || n > len(c.b) {
		c.err = errShort
		return make([]byte, min(n, 8))
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

func (c *cursor) u8() byte       { return c.take(1)[0] }
func (c *cursor) u16() uint16    { return binary.BigEndian.Uint16(c.take(2)) }
func (c *cursor) u32() uint32    { return binary.BigEndian.Uint32(c.take(4)) }
func (c *cursor) u64() uint64    { return binary.BigEndian.Uint64(c.take(8)) }
func (c *cursor) short() string  { return string(c.take(int(c.u8()))) }
func (c *cursor) bytes() []byte  { return c.take(int(c.u32())) }
func (c *cursor) more() bool     { return c.err == nil && len(c.b) > 0 }
func (c *cursor) part() *cursor  { return &cursor{b: c.bytes(), err: c.err} }
func (c *cursor) end(p *cursor)  { c.err = errors.Join(c.err, p.err) }
func (c *cursor) octets() []byte { return slices.Clone(c.bytes()) }

func (c *cursor) table() Table {
	t := Table{}
	p := c.part()
	for p.more() {
		k := p.short()
		t[k] = p.value()
	}
	c.end(p)
	return t
}

func (c *cursor) value() any {
	switch kind := c.u8(); kind {
	case 'V':
		return nil
	case 't':
		return c.u8() != 0
	case 'b', 'B':
		return int8(c.u8())
	case 's', 'u', 'U':
		return int16(c.u16())
	case 'I', 'i':
		return int32(c.u32())
	case 'l', 'L':
		return int64(c.u64())
	case 'f':
		return float64(math.Float32frombits(c.u32()))
	case 'd':
		return math.Float64frombits(c.u64())
	case 'T':
		return Timestamp(c.u64())
	case 'S', 'x':
		return string(c.bytes())
	case 'F':
		return c.table()
	case 'A':
		list := []any{}
		p := c.part()
		for p.more() {
			list = append(list, p.value())
		}
		c.end(p)
		return list
	case 'D':
		return fmt.Sprintf("%x", c.take(5))
	default:
		c.err = errors.Join(c.err, fmt.Errorf("field of type %q", kind))
		return nil
	}
}
