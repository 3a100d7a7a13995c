package rawclient

import (
	"encoding/binary"
	"math/bits"
)

// Properties are a message's. Zero values are not sent, but for a Priority that is pointed to.
type Properties struct {
	ContentType, ContentEncoding     string
	Headers                          Table
	DeliveryMode                     byte
	Priority                         *byte
	CorrelationID, ReplyTo           string
	Expiration, MessageID            string
	Timestamp                        *uint64
	Type, UserID, AppID, ReservedID  string
	Raw                              []byte // flags and values as they stand on the wire; if set, they alone are sent
	HasHeaders, HasExpiration, Empty bool   // of what came: a property was there, none was there
}

// Append appends the property flags and values.
func (p *Properties) Append(b []byte) []byte {
	if p.Raw != nil {
		return append(b, p.Raw...)
	}
	at, flags := len(b), uint16(0)
	b = append(b, 0, 0)
	set := func(place int, is bool, v ...byte) {
		if is {
			flags |= 1 << place
			b = append(b, v...)
		}
	}
	text := func(place int, s string) { set(place, s != "", short(s)...) }
	text(15, p.ContentType)
	text(14, p.ContentEncoding)
	set(13, p.Headers != nil, AppendTable(nil, p.Headers)...)
	set(12, p.DeliveryMode != 0, p.DeliveryMode)
	if p.Priority != nil {
		set(11, true, *p.Priority)
	}
	text(10, p.CorrelationID)
	text(9, p.ReplyTo)
	set(8, p.Expiration != "" || p.HasExpiration, short(p.Expiration)...)
	text(7, p.MessageID)
	if p.Timestamp != nil {
		set(6, true, binary.BigEndian.AppendUint64(nil, *p.Timestamp)...)
	}
	text(5, p.Type)
	text(4, p.UserID)
	text(3, p.AppID)
	text(2, p.ReservedID)
	binary.BigEndian.PutUint16(b[at:], flags)
	return b
}

func (p *Properties) parse(c *cursor) {
	p.Raw = append([]byte{}, c.b...)
	flags := c.u16()
	p.Empty = bits.OnesCount16(flags) == 0
	has := func(place int) bool { return flags&(1<<place) != 0 }
	text := func(place int, s *string) {
		if has(place) {
			*s = c.short()
		}
	}
	text(15, &p.ContentType)
	text(14, &p.ContentEncoding)
	if p.HasHeaders = has(13); p.HasHeaders {
		p.Headers = c.table()
	}
	if has(12) {
		p.DeliveryMode = c.u8()
	}
	if has(11) {
		v := c.u8()
		p.Priority = &v
	}
	text(10, &p.CorrelationID)
	text(9, &p.ReplyTo)
	p.HasExpiration = has(8)
	text(8, &p.Expiration)
	text(7, &p.MessageID)
	if has(6) {
		v := c.u64()
		p.Timestamp = &v
	}
	text(5, &p.Type)
	text(4, &p.UserID)
	text(3, &p.AppID)
	text(2, &p.ReservedID)
}
