package message

import "errors"

// ErrProperties says that bytes are no property list of a 0-9-1 content header; wrapped with what is wrong.
var ErrProperties = errors.New("malformed properties")

// CheckProperties validates the property flags and list of a content header, without allocating.
func CheckProperties(b []byte) error { return nil }

// PropertiesHeaders decodes the headers table of a property list; nil where there is none.
func PropertiesHeaders(props []byte) (Table, error) { return nil, nil }

// Property is a presence flag of Properties: the bit of the property in the content header's flags.
type Property uint16

// The properties, in the order of their values on the wire.
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
)

// Properties is a decoded property list. Only what Set names is present.
type Properties struct {
	Set             Property
	ContentType     string
	ContentEncoding string
	Headers         []byte // a field table's content, without its length; a view
	DeliveryMode    uint8
	Priority        uint8
	CorrelationID   string
	ReplyTo         string
	Expiration      string
	MessageID       string
	Timestamp       Timestamp
	Type            string
	UserID          string
	AppID           string
	ClusterID       string
}

// Has says whether all of p are present.
func (x *Properties) Has(p Property) bool { return x.Set&p == p }

// ParseProperties decodes a property list.
func ParseProperties(b []byte) (Properties, error) { return Properties{}, nil }

// AppendProperties encodes what x.Set names.
func AppendProperties(dst []byte, x *Properties) []byte { return dst }
