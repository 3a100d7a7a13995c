package wire

import (
	"encoding/binary"
	"errors"
)

// ID is a method's class id (upper 16 bits) and method id.
type ID uint32

// Class is the class id.
func (id ID) Class() uint16 { return uint16(id >> 16) }

// Method is the method id within the class.
func (id ID) Method() uint16 { return uint16(id) }

// Method is the arguments of one method.
type Method interface {
	ID() ID
	// Decode reads the arguments, without the ids. Errors: ErrTruncated, ErrTrailing.
	Decode(b []byte) error
	// Append writes the ids and the arguments behind dst. Short strings are cut to 255 octets.
	Append(dst []byte) []byte
}

// ErrTruncated says that arguments end before their last field.
var ErrTruncated = errors.New("arguments are cut short")

// ErrTrailing says that octets follow the last argument.
var ErrTrailing = errors.New("octets follow the last argument")

// SplitMethod reads the ids at the start of a method frame's payload.
func SplitMethod(payload []byte) (id ID, args []byte, ok bool) {
	if len(payload) < 4 {
		return 0, nil, false
	}
	return ID(binary.BigEndian.Uint32(payload)), payload[4:], true
}

// decoder reads arguments in order. After the first failure it answers zero values, and end tells.
type decoder struct {
	b    []byte
	bad  bool
	bits uint8
}

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.b, d.bad = nil, true
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) octet() uint8 {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) short() uint16 {
	if v := d.take(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

func (d *decoder) long() uint32 {
	if v := d.take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (d *decoder) longlong() uint64 {
	if v := d.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (d *decoder) shortview() []byte { return d.take(int(d.octet())) }
func (d *decoder) shortstr() string  { return string(d.shortview()) }

// longstr reads a long string's or a table's octets, without their length.
func (d *decoder) longstr() []byte {
	n := d.long()
	if uint64(n) > uint64(len(d.b)) {
		d.b, d.bad = nil, true
		return nil
	}
	return d.take(int(n))
}

func (d *decoder) end() error {
	if d.bad {
		return ErrTruncated
	}
	if len(d.b) > 0 {
		return ErrTrailing
	}
	return nil
}

func appendShort[T string | []byte](dst []byte, s T) []byte {
	if len(s) > 255 {
		s = s[:255]
	}
	dst = append(dst, byte(len(s)))
	return append(dst, s...)
}

func appendLong(dst, s []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

func bit(set bool, at uint) uint8 {
	if set {
		return 1 << at
	}
	return 0
}
