package message

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrTable says that bytes are no field table, or one beyond the limits; it is wrapped with what is wrong and where.
var ErrTable = errors.New("malformed field table")

// Limits of a field table. Depth counts the outermost table as 1; elements are the fields of all tables and the items of
// all arrays together, so that those of zero width are bounded too.
const (
	TableDepthMax    = 32
	TableElementsMax = 65536
)

// Table is a decoded field table, in the order of its bytes.
//
// Values are Go's bool, int8, uint8, int16, uint16, int32, uint32, int64, float32, float64, Decimal, string (longstr), Timestamp,
// []byte (byte array 'x'), []any (array), Table and nil (void).
type Table []Field

// Field is one entry of a Table.
type Field struct {
	Key   string // at most 255 bytes
	Value any
}

// Timestamp is seconds since 1970, as a table carries it.
type Timestamp uint64

// Decimal is Value / 10^Scale.
type Decimal struct {
	Scale uint8
	Value int32
}

// Get answers the value of the first field named key.
func (t Table) Get(key string) (value any, ok bool) {
	for i := range t {
		if t[i].Key == key {
			return t[i].Value, true
		}
	}
	return nil, false
}

// ParseTable decodes a table's content (AMQP 0-9-1 section 4.2.5.5 with RabbitMQ's types), WITHOUT the 4-byte length that
// precedes it on the wire; no bytes are the empty table. The result shares no memory with b and takes at most about 32
// bytes for each of b's (64 while it grows). Errors: as Check.
func ParseTable(b []byte) (Table, error) {
	if err := Check(b); err != nil {
		return nil, err
	}
	d := decoder{b: b}
	return d.table(len(b)), nil
}

// Check validates a table's content (without its length) against the grammar and the limits, without allocating. Errors:
// ErrTable, wrapped with what is wrong and the byte where.
func Check(b []byte) error {
	s := scanner{b: b, left: TableElementsMax}
	s.table(len(b), 1)
	return s.failure()
}

// scanner walks a table's bytes and only judges them.
type scanner struct {
	b    []byte
	at   int
	left int    // elements that may still come
	what string // the first fault, at byte at; "" for none
}

func (s *scanner) failure() error {
	if s.what == "" {
		return nil
	}
	return fmt.Errorf("%w: %s at byte %d", ErrTable, s.what, s.at)
}

func (s *scanner) fail(what string) bool {
	s.what = what
	return false
}

// table takes the fields up to end.
func (s *scanner) table(end, depth int) bool {
	if depth > TableDepthMax {
		return s.fail("nested too deep")
	}
	for s.at < end {
		key := 1 + int(s.b[s.at])
		if key > end-s.at {
			return s.fail("truncated key")
		}
		s.at += key
		if !s.value(end, depth) {
			return false
		}
	}
	return true
}

func (s *scanner) array(end, depth int) bool {
	if depth > TableDepthMax {
		return s.fail("nested too deep")
	}
	for s.at < end {
		if !s.value(end, depth) {
			return false
		}
	}
	return true
}

// value takes a type octet and its value, which must end by end.
func (s *scanner) value(end, depth int) bool {
	if s.left--; s.left < 0 {
		return s.fail("too many elements")
	}
	if s.at >= end {
		return s.fail("missing value")
	}
	kind := s.b[s.at]
	width := fixedWidth(kind)
	if width < 0 && !lengthPrefixed(kind) {
		return s.fail("unknown type")
	}
	if width >= 0 {
		if width > end-s.at-1 {
			return s.fail("truncated value")
		}
		s.at += 1 + width
		return true
	}
	return s.prefixed(kind, end, depth)
}

// prefixed takes a value that begins with its length.
func (s *scanner) prefixed(kind byte, end, depth int) bool {
	if end-s.at < 5 {
		return s.fail("truncated length")
	}
	n := int64(binary.BigEndian.Uint32(s.b[s.at+1:]))
	if n > int64(end-s.at-5) {
		return s.fail("length beyond the end")
	}
	s.at += 5
	end = s.at + int(n)
	switch kind {
	case 'F':
		return s.table(end, depth+1)
	case 'A':
		return s.array(end, depth+1)
	}
	s.at = end
	return true
}

// fixedWidth is how many bytes a value of the type takes, or -1 if it says so itself (or is unknown).
func fixedWidth(kind byte) int {
	switch kind {
	case 'V':
		return 0
	case 't', 'b', 'B':
		return 1
	case 's', 'u', 'U':
		return 2
	case 'I', 'i', 'f':
		return 4
	case 'D':
		return 5
	case 'l', 'L', 'd', 'T':
		return 8
	}
	return -1
}

func lengthPrefixed(kind byte) bool { return kind == 'S' || kind == 'x' || kind == 'A' || kind == 'F' }

// decoder reads bytes that Check has passed, and so has no faults of its own to report.
type decoder struct {
	b  []byte
	at int
}

func (d *decoder) next(n int) []byte {
	b := d.b[d.at : d.at+n]
	d.at += n
	return b
}

func (d *decoder) octet() byte { return d.next(1)[0] }
func (d *decoder) u16() uint16 { return binary.BigEndian.Uint16(d.next(2)) }
func (d *decoder) u32() uint32 { return binary.BigEndian.Uint32(d.next(4)) }
func (d *decoder) u64() uint64 { return binary.BigEndian.Uint64(d.next(8)) }

func (d *decoder) table(n int) Table {
	t := Table{}
	for end := d.at + n; d.at < end; {
		key := string(d.next(int(d.octet())))
		t = append(t, Field{key, d.value()})
	}
	return t
}

func (d *decoder) array(n int) []any {
	a := []any{}
	for end := d.at + n; d.at < end; {
		a = append(a, d.value())
	}
	return a
}

func (d *decoder) value() any {
	switch kind := d.octet(); kind {
	case 't':
		return d.octet() != 0
	case 'b':
		return int8(d.octet())
	case 'B':
		return d.octet()
	case 's', 'U':
		return int16(d.u16())
	case 'u':
		return d.u16()
	case 'I':
		return int32(d.u32())
	case 'i':
		return d.u32()
	case 'l', 'L':
		return int64(d.u64())
	case 'f':
		return math.Float32frombits(d.u32())
	case 'd':
		return math.Float64frombits(d.u64())
	case 'D':
		scale := d.octet()
		return Decimal{scale, int32(d.u32())}
	case 'T':
		return Timestamp(d.u64())
	case 'S':
		return string(d.next(int(d.u32())))
	case 'x':
		return append([]byte{}, d.next(int(d.u32()))...)
	case 'A':
		return d.array(int(d.u32()))
	case 'F':
		return d.table(int(d.u32()))
	}
	return nil
}

// AppendTable encodes a table's content behind dst, without the 4-byte length. What ParseTable answered comes back byte for
// byte, but for the types L and U, which are written l and s, and booleans other than 0 and 1. It panics on a value of a
// type that Table does not list and on a key longer than 255 bytes: both are faults of the program, not of its input.
func AppendTable(dst []byte, t Table) []byte {
	for i := range t {
		if len(t[i].Key) > math.MaxUint8 {
			panic(fmt.Sprintf("message: field table key of %d bytes", len(t[i].Key)))
		}
		dst = append(dst, byte(len(t[i].Key)))
		dst = append(dst, t[i].Key...)
		dst = appendValue(dst, t[i].Value)
	}
	return dst
}

// Integer answers a whole number of any of a Table's types; a Timestamp is none.
func Integer(value any) (int64, bool) {
	switch v := value.(type) {
	case int8:
		return int64(v), true
	case uint8:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

func appendValue(dst []byte, value any) []byte {
	be := binary.BigEndian
	switch v := value.(type) {
	case nil:
		return append(dst, 'V')
	case bool:
		if v {
			return append(dst, 't', 1)
		}
		return append(dst, 't', 0)
	case int8:
		return append(dst, 'b', byte(v))
	case uint8:
		return append(dst, 'B', v)
	case int16:
		return be.AppendUint16(append(dst, 's'), uint16(v))
	case uint16:
		return be.AppendUint16(append(dst, 'u'), v)
	case int32:
		return be.AppendUint32(append(dst, 'I'), uint32(v))
	case uint32:
		return be.AppendUint32(append(dst, 'i'), v)
	case int64:
		return be.AppendUint64(append(dst, 'l'), uint64(v))
	case float32:
		return be.AppendUint32(append(dst, 'f'), math.Float32bits(v))
	case float64:
		return be.AppendUint64(append(dst, 'd'), math.Float64bits(v))
	case Decimal:
		return be.AppendUint32(append(dst, 'D', v.Scale), uint32(v.Value))
	case Timestamp:
		return be.AppendUint64(append(dst, 'T'), uint64(v))
	default:
		return appendPrefixed(dst, value)
	}
}

// appendPrefixed encodes the values that begin with their length.
func appendPrefixed(dst []byte, value any) []byte {
	var kind byte
	switch value.(type) {
	case string:
		kind = 'S'
	case []byte:
		kind = 'x'
	case []any:
		kind = 'A'
	case Table:
		kind = 'F'
	default:
		panic(fmt.Sprintf("message: field table value of type %T", value))
	}
	dst = append(dst, kind, 0, 0, 0, 0)
	start := len(dst)
	switch v := value.(type) {
	case string:
		dst = append(dst, v...)
	case []byte:
		dst = append(dst, v...)
	case []any:
		for _, item := range v {
			dst = appendValue(dst, item)
		}
	case Table:
		dst = AppendTable(dst, v)
	}
	binary.BigEndian.PutUint32(dst[start-4:], uint32(len(dst)-start))
	return dst
}
