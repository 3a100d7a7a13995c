package entry

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed says that bytes are no entry, batch or command: damage, since they were checked by the log's CRC.
var ErrMalformed = errors.New("malformed entry")

// ErrUnknown says that a newer version wrote this entry. The group that meets it stops.
var ErrUnknown = errors.New("entry of an unknown version or kind")

// coder walks the fields of a command in one order for both directions, so that a command's format is written down once.
type coder struct {
	buf      []byte // encoding: what is written so far; decoding: what is left to read
	encoding bool
	err      error
}

func (c *coder) fail(what string) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	c.buf = nil
}

func (c *coder) u64(v *uint64) {
	if c.encoding {
		c.buf = binary.AppendUvarint(c.buf, *v)
		return
	}
	x, n := binary.Uvarint(c.buf)
	if n <= 0 {
		c.fail("varint")
		return
	}
	*v, c.buf = x, c.buf[n:]
}

func (c *coder) i64(v *int64) {
	u := uint64(*v)
	c.u64(&u)
	*v = int64(u)
}

func (c *coder) u32(v *uint32) { narrow(c, v, 1<<32-1) }
func (c *coder) u16(v *uint16) { narrow(c, v, 1<<16-1) }

func narrow[T uint16 | uint32](c *coder, v *T, most uint64) {
	u := uint64(*v)
	c.u64(&u)
	if u > most {
		c.fail("number too large")
		return
	}
	*v = T(u)
}

func (c *coder) u8(v *uint8) {
	if c.encoding {
		c.buf = append(c.buf, *v)
		return
	}
	if len(c.buf) == 0 {
		c.fail("octet")
		return
	}
	*v, c.buf = c.buf[0], c.buf[1:]
}

func (c *coder) boolean(v *bool) {
	var b uint8
	if *v {
		b = 1
	}
	c.u8(&b)
	*v = b != 0
}

// bytes reads a view into the entry, without copying.
func (c *coder) bytes(v *[]byte) {
	n := uint64(len(*v))
	c.u64(&n)
	if c.encoding {
		c.buf = append(c.buf, *v...)
		return
	}
	if c.err != nil {
		return
	}
	if n > uint64(len(c.buf)) {
		c.fail("length")
		return
	}
	*v, c.buf = c.buf[:n:n], c.buf[n:]
}

func (c *coder) str(v *string) {
	if c.encoding {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*v)))
		c.buf = append(c.buf, *v...)
		return
	}
	var b []byte
	c.bytes(&b)
	*v = string(b)
}
