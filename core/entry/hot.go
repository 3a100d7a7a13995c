package entry

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
	x.Ref.code(&c)
	c.boolean(&x.Mandatory)
	c.boolean(&x.Fragmented)
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
