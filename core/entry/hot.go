package entry

// PublisherBytesMax is the longest name of a publisher.
const PublisherBytesMax = 128

// What a Publish's flags say; most have none.
const (
	publishMandatory = 1 << iota
	publishFragmented
	publishDedupID
	publishSequence
)

// head codes all of a Publish but its record.
func (x *Publish) head(c *coder) {
	x.Ref.code(c)
	flags := uint8(0)
	if c.encoding {
		flags = x.flags()
	}
	c.u8(&flags)
	if !c.encoding {
		x.Mandatory, x.Fragmented = flags&publishMandatory != 0, flags&publishFragmented != 0
		x.DedupID, x.Publisher, x.Sequence = nil, nil, 0
	}
	if flags&publishDedupID != 0 {
		c.bytes(&x.DedupID)
	}
	if flags&publishSequence != 0 {
		c.bytes(&x.Publisher)
		c.u64(&x.Sequence)
	}
}

// Marked says whether the publish tells how to recognise it.
func (x *Publish) Marked() bool { return len(x.DedupID) > 0 || len(x.Publisher) > 0 || x.Sequence > 0 }

func (x *Publish) flags() (flags uint8) {
	if x.Mandatory {
		flags |= publishMandatory
	}
	if x.Fragmented {
		flags |= publishFragmented
	}
	if len(x.DedupID) > 0 {
		flags |= publishDedupID
	}
	if len(x.Publisher) > 0 || x.Sequence > 0 {
		flags |= publishSequence
	}
	return flags
}

// The commands that come once per message have decoders and encoders of their own: through the Command interface the
// coder would escape to the heap.

// DecodePublish is Decode for a *Publish, without allocation.
func DecodePublish(b []byte, x *Publish) ([]byte, error) {
	c := coder{buf: b[1:]}
	x.code(&c)
	return c.buf, c.err
}

// DecodeSettle is Decode for a *Settle, without allocation.
func DecodeSettle(b []byte, x *Settle) ([]byte, error) {
	c := coder{buf: b[1:]}
	x.code(&c)
	return c.buf, c.err
}

// DecodeWritten is Decode for a *Written, without allocation.
func DecodeWritten(b []byte, x *Written) ([]byte, error) {
	c := coder{buf: b[1:]}
	x.code(&c)
	return c.buf, c.err
}

// AppendPublish is Append for a *Publish, without allocation beyond dst's growth.
func AppendPublish(dst []byte, x *Publish) []byte {
	c := coder{buf: append(dst, byte(KindPublish)), encoding: true}
	x.code(&c)
	return c.buf
}

// AppendPublishHead encodes a Publish up to its record, of which recordBytes bytes are to follow: so that a record is
// built in place. x.Record is not looked at.
func AppendPublishHead(dst []byte, x *Publish, recordBytes int) []byte {
	c := coder{buf: append(dst, byte(KindPublish)), encoding: true}
	x.head(&c)
	n := uint64(recordBytes)
	c.u64(&n)
	return c.buf
}

// AppendSettle is Append for a *Settle, without allocation beyond dst's growth.
func AppendSettle(dst []byte, x *Settle) []byte {
	c := coder{buf: append(dst, byte(KindSettle)), encoding: true}
	x.code(&c)
	return c.buf
}
