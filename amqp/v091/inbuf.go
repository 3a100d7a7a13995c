package v091

import "github.com/understudy-mq/understudy/amqp/v091/wire"

// Sizes of the buffer that a socket is read into. It grows with what comes, so that an idle connection is cheap.
const (
	readBytesMin = 8<<10 + 256
	readBytesMax = 128<<10 + 256
	// smallReadsMax is how many small reads in a row make a big buffer small again.
	smallReadsMax = 16
)

// inbuf is what was read from a socket and not taken yet.
type inbuf struct {
	buf        []byte
	start, end int
	small      int // reads in a row that a small buffer would have held
}

// room is where the next read goes. It is never empty behind arrange.
func (b *inbuf) room() []byte { return b.buf[b.end:] }

// octets is what was read and not taken.
func (b *inbuf) octets() []byte { return b.buf[b.start:b.end] }

// filled says that a read has put n octets into the room.
func (b *inbuf) filled(n int) {
	b.end += n
	if b.small++; n > readBytesMin/2 {
		b.small = 0
	}
}

func (b *inbuf) taken(n int) { b.start += n }

// arrange makes room: by moving what is left to the front, and by a bigger buffer when the frame at hand, or what comes at
// once, does not fit. frameMax is the most that a frame takes, in octets.
func (b *inbuf) arrange(frameMax int) {
	left := b.octets()
	if len(left) == 0 {
		b.start, b.end = 0, 0
		if b.buf == nil || len(b.buf) > readBytesMin && b.small >= smallReadsMax {
			b.buf = make([]byte, readBytesMin)
		}
		return
	}
	if b.end < len(b.buf) && wire.Want(left) <= len(b.buf)-b.start {
		return
	}
	next := b.buf
	if limit := max(readBytesMax, frameMax); b.start < len(b.buf)/2 && len(b.buf) < limit {
		next = make([]byte, min(4*len(b.buf), limit))
	}
	b.start, b.end = 0, copy(next, left)
	b.buf = next
}
