package message

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// ErrProperties says that bytes are no property list of a 0-9-1 content header; it is wrapped with what is wrong and where.
var ErrProperties = errors.New("malformed properties")

// Property is a presence flag of Properties: the property's bit in the content header's flags.
type Property uint16

// The properties of class basic, in the order of their values on the wire.
const (
	PropContentType Property = 1 << (15 - iota)
	PropContentEncoding
	PropHeaders
	PropDeliveryMode
	PropPriority
	PropCorrelationID
	PropReplyTo
	PropExpiration
	PropMessageID
	PropTimestamp
	PropType
	PropUserID
	PropAppID
	PropClusterID

	propLast = PropClusterID
)

// Properties is a decoded property list. Only what Set names is present. Strings have at most 255 bytes.
type Properties struct {
	Set             Property
	ContentType     string
	ContentEncoding string
	Headers         []byte // a field table's content, without its length (ParseTable reads it)
	DeliveryMode    uint8  // 2 is persistent
	Priority        uint8
	CorrelationID   string
	ReplyTo         string
	Expiration      string // milliseconds, as text
	MessageID       string
	Timestamp       Timestamp
	Type            string
	UserID          string
	AppID           string
	ClusterID       string
}

// Has says whether all of p are present.
func (x *Properties) Has(p Property) bool { return x.Set&p == p }

// text is where the property's short string is kept; nil for the properties that are none.
func (x *Properties) text(p Property) *string {
	switch p {
	case PropContentType:
		return &x.ContentType
	case PropContentEncoding:
		return &x.ContentEncoding
	case PropCorrelationID:
		return &x.CorrelationID
	case PropReplyTo:
		return &x.ReplyTo
	case PropExpiration:
		return &x.Expiration
	case PropMessageID:
		return &x.MessageID
	case PropType:
		return &x.Type
	case PropUserID:
		return &x.UserID
	case PropAppID:
		return &x.AppID
	case PropClusterID:
		return &x.ClusterID
	}
	return nil
}

// CheckProperties validates the property flags and the property list of a content header (AMQP 0-9-1 section 4.2.6.1),
// headers table included, without allocating. Flags without a property and the continuation flag (there are 14 properties,
// and one flag word holds them) are refused. Errors: ErrProperties, ErrTable.
func CheckProperties(b []byte) error {
	w, err := walkProperties(b)
	for err == nil && w.next(&err) {
		if w.property == PropHeaders {
			err = Check(w.value)
		}
	}
	return err
}

// PropertiesHeaders decodes the headers table of a property list, nil where there is none. Errors: as CheckProperties, as
// far as it has to read.
func PropertiesHeaders(props []byte) (Table, error) {
	w, err := walkProperties(props)
	for err == nil && w.flags >= PropHeaders && w.next(&err) {
		if w.property == PropHeaders {
			return ParseTable(w.value)
		}
	}
	return nil, err
}

// ParseProperties decodes a property list. Headers is a view into b; it is not checked (CheckProperties does). Errors:
// ErrProperties.
func ParseProperties(b []byte) (Properties, error) {
	var x Properties
	w, err := walkProperties(b)
	x.Set = w.flags
	for err == nil && w.next(&err) {
		switch w.property {
		case PropHeaders:
			x.Headers = w.value
		case PropDeliveryMode:
			x.DeliveryMode = w.value[0]
		case PropPriority:
			x.Priority = w.value[0]
		case PropTimestamp:
			x.Timestamp = Timestamp(binary.BigEndian.Uint64(w.value))
		default:
			*x.text(w.property) = string(w.value)
		}
	}
	if err != nil {
		return Properties{}, err
	}
	return x, nil
}

// AppendProperties encodes what x.Set names behind dst. It panics on a string longer than 255 bytes: the caller bounds
// them.
func AppendProperties(dst []byte, x *Properties) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(x.Set))
	for p := PropContentType; p >= propLast; p >>= 1 {
		if x.Set&p == 0 {
			continue
		}
		switch p {
		case PropHeaders:
			dst = binary.BigEndian.AppendUint32(dst, uint32(len(x.Headers)))
			dst = append(dst, x.Headers...)
		case PropDeliveryMode:
			dst = append(dst, x.DeliveryMode)
		case PropPriority:
			dst = append(dst, x.Priority)
		case PropTimestamp:
			dst = binary.BigEndian.AppendUint64(dst, uint64(x.Timestamp))
		default:
			dst = appendShort(dst, *x.text(p))
		}
	}
	return dst
}

func appendShort(dst []byte, s string) []byte {
	if len(s) > math.MaxUint8 {
		panic(fmt.Sprintf("message: property of %d bytes", len(s)))
	}
	dst = append(dst, byte(len(s)))
	return append(dst, s...)
}

// propertyWalk takes the values of a property list one after the other.
type propertyWalk struct {
	b        []byte
	at       int
	flags    Property // still to come
	property Property // the one at hand, and
	value    []byte   // its bytes, without their length
}

func walkProperties(b []byte) (propertyWalk, error) {
	if len(b) < 2 {
		return propertyWalk{}, fmt.Errorf("%w: no flags", ErrProperties)
	}
	flags := Property(binary.BigEndian.Uint16(b))
	if flags&(propLast-1) != 0 {
		return propertyWalk{}, fmt.Errorf("%w: unknown flags 0x%04x", ErrProperties, uint16(flags))
	}
	return propertyWalk{b: b, at: 2, flags: flags}, nil
}

// next steps to the next value; false at the end or on a fault, which it stores in err.
func (w *propertyWalk) next(err *error) bool {
	if w.flags == 0 {
		if w.at < len(w.b) {
			*err = fmt.Errorf("%w: %d bytes too many", ErrProperties, len(w.b)-w.at)
		}
		return false
	}
	w.property = 1 << (bits.Len16(uint16(w.flags)) - 1)
	w.flags &^= w.property
	prefix, n := w.width()
	if prefix+n > len(w.b)-w.at {
		*err = fmt.Errorf("%w: truncated at byte %d", ErrProperties, w.at)
		return false
	}
	w.value = w.b[w.at+prefix : w.at+prefix+n]
	w.at += prefix + n
	return true
}

// width is how many bytes the length and the value of the property at hand take.
func (w *propertyWalk) width() (prefix, n int) {
	rest := w.b[w.at:]
	switch w.property {
	case PropDeliveryMode, PropPriority:
		return 0, 1
	case PropTimestamp:
		return 0, 8
	case PropHeaders:
		if len(rest) < 4 {
			return 4, 0
		}
		return 4, int(min(binary.BigEndian.Uint32(rest), math.MaxInt32-4))
	}
	if len(rest) == 0 {
		return 1, 0
	}
	return 1, int(rest[0])
}

// HasAny says whether a property list has any of p, without looking further than its flags.
func HasAny(props []byte, p Property) bool {
	return len(props) >= 2 && Property(binary.BigEndian.Uint16(props))&p != 0
}

// Marks reads the priority (0 where there is none) and the expiration (a view; empty where there is none) of a property
// list, without allocating.
func Marks(props []byte) (priority uint8, expiration []byte) {
	w, err := walkProperties(props)
	for err == nil && w.next(&err) {
		switch w.property {
		case PropPriority:
			priority = w.value[0]
		case PropExpiration:
			return priority, w.value
		}
	}
	return priority, nil
}
