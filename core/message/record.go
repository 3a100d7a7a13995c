package message

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// Loc is where a record lies in this node's copy of the log: the raft index of its entry (40 bits) and the offset in
// the entry's data (24 bits). It is local knowledge beside the machine's state, never part of it.
type Loc uint64

// NewLoc makes a Loc.
func NewLoc(index uint64, offset int) Loc { return Loc(index<<24 | uint64(offset)) }

// Index is the raft index of the entry.
func (l Loc) Index() uint64 { return uint64(l) >> 24 }

// Offset is the place in the entry's data, in bytes.
func (l Loc) Offset() int { return int(l & (1<<24 - 1)) }

// Form tells the protocol that a record's properties and body are written in.
type Form uint8

// FormAMQP091 has properties as on the wire: the property flags and the property list of a content header frame.
const FormAMQP091 Form = 1

// ErrRecord says that bytes are no record.
var ErrRecord = errors.New("malformed message record")

// Record is a message's content. Byte fields are views.
type Record struct {
	Form       Form
	Exchange   []byte // at most 255 bytes
	RoutingKey []byte // at most 255 bytes
	Properties []byte
	BodySize   uint64 // of the whole body, fragments included
	Body       []byte // what of the body is in the record itself: all of it, or the last part of a fragmented one
}

// AppendRecord encodes all but the body, which the caller appends behind it (BodySize bytes, or the tail).
func AppendRecord(dst []byte, r *Record) []byte {
	dst = append(dst, byte(r.Form), byte(len(r.Exchange)))
	dst = append(dst, r.Exchange...)
	dst = append(dst, byte(len(r.RoutingKey)))
	dst = append(dst, r.RoutingKey...)
	dst = binary.AppendUvarint(dst, uint64(len(r.Properties)))
	dst = append(dst, r.Properties...)
	return binary.AppendUvarint(dst, r.BodySize)
}

// RecordBytes is the length of what AppendRecord and the body behind it take.
func RecordBytes(r *Record) int {
	return 3 + len(r.Exchange) + len(r.RoutingKey) + uvarintBytes(uint64(len(r.Properties))) + len(r.Properties) +
		uvarintBytes(r.BodySize) + len(r.Body)
}

func uvarintBytes(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// ParseRecord reads a record; r's fields are views into b.
func ParseRecord(b []byte, r *Record) error {
	if len(b) < 2 {
		return ErrRecord
	}
	r.Form = Form(b[0])
	b = b[1:]
	var ok bool
	if r.Exchange, b, ok = short(b); !ok {
		return ErrRecord
	}
	if r.RoutingKey, b, ok = short(b); !ok {
		return ErrRecord
	}
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return ErrRecord
	}
	r.Properties, b = b[w:w+int(n)], b[w+int(n):]
	if r.BodySize, w = binary.Uvarint(b); w <= 0 {
		return ErrRecord
	}
	r.Body = b[w:]
	return nil
}

func short(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || len(b)-1 < int(b[0]) {
		return nil, nil, false
	}
	n := 1 + int(b[0])
	return b[1:n], b[n:], true
}

// Part is a piece of a fragmented body.
type Part struct {
	Loc  Loc
	Size uint32 // bytes
}
