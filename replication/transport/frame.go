package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Kind says what a frame's payload is.
type Kind uint8

// The kinds of frame. Those below 16 are the transport's own.
const (
	kindHello   Kind = iota + 1
	kindRefusal      // of a hello or of a snapshot: the reason
	kindTaken        // a snapshot is on disk
	kindPing
	kindPong
	kindStream // begins a snapshot: its header
	kindChunk
	kindEnd

	Raft     Kind = iota + 16 - 8 // a raft message
	Append                        // a raft message with entries, their data behind
	Batch                         // a node's commands for a group's leader
	Expect                        // a leader's word which batch it takes next
	Request                       // a change asked of a group's leader
	Response                      // its answer
	Ask                           // a question to a node
	Tell                          // its answer
	Replay                        // a source's entry for a standby group's leader
	Covered                       // how far a standby is in a group
	Lent                          // a leader's word what log it keeps for a follower
	kindsEnd
)

// Frame is one unit between nodes. Payload belongs to the transport from Send on. The receiver gets Rest as the end of
// Payload.
type Frame struct {
	Kind    Kind
	Group   uint64
	Urgent  bool // goes past bulk data, on the other connection
	Payload []byte
	Rest    [][]byte // sent behind Payload without being copied; nobody may change it
}

// size is the length of the payload and its rest.
func (f *Frame) size() int {
	n := len(f.Payload)
	for _, r := range f.Rest {
		n += len(r)
	}
	return n
}

const (
	// frameBytesMost bounds a frame.
	frameBytesMost = 64 << 20
	// readStep is how much memory a frame is given before the bytes to fill it have come.
	readStep = 1 << 20
	// prefixBytes: length of what follows (4), its CRC32C (4), kind (1), group (8); length and CRC cover the last two.
	prefixBytes = 17
	coveredHead = 9
)

// ErrDamaged says that a frame's bytes are not what was sent.
var ErrDamaged = errors.New("a frame is damaged (checksum)")

// errTooLong says that a frame announces more than it may.
var errTooLong = errors.New("a frame is too long")

// castagnoli is a table, built once; hash/crc32 uses the processor's instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendPrefix writes what goes before f's payload.
func appendPrefix(dst []byte, f *Frame) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, uint32(coveredHead+f.size()))
	dst = append(dst, 0, 0, 0, 0, byte(f.Kind))
	dst = binary.BigEndian.AppendUint64(dst, f.Group)
	crc := crc32.Update(crc32.Checksum(dst[at+8:], castagnoli), castagnoli, f.Payload)
	for _, r := range f.Rest {
		crc = crc32.Update(crc, castagnoli, r)
	}
	binary.BigEndian.PutUint32(dst[at+4:], crc)
	return dst
}

func writeFrame(w io.Writer, f Frame) error {
	_, err := w.Write(append(appendPrefix(make([]byte, 0, prefixBytes+len(f.Payload)), &f), f.Payload...))
	return err
}

// frameReader reads frames into a buffer that it uses again.
type frameReader struct {
	r    *bufio.Reader
	most int
	buf  []byte
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 64<<10), most: frameBytesMost}
}

// next reads one frame; its payload is valid until the next call.
func (fr *frameReader) next() (Frame, error) {
	var p [prefixBytes]byte
	if _, err := io.ReadFull(fr.r, p[:]); err != nil {
		return Frame{}, err
	}
	n := int(binary.BigEndian.Uint32(p[:])) - coveredHead
	if n < 0 || n > fr.most {
		return Frame{}, fmt.Errorf("%w: %d bytes, at most %d", errTooLong, n, fr.most)
	}
	if err := fr.fill(n); err != nil {
		return Frame{}, err
	}
	crc := crc32.Update(crc32.Checksum(p[8:], castagnoli), castagnoli, fr.buf)
	if crc != binary.BigEndian.Uint32(p[4:]) {
		return Frame{}, ErrDamaged
	}
	return Frame{Kind: Kind(p[8]), Group: binary.BigEndian.Uint64(p[9:]), Payload: fr.buf}, nil
}

// fill reads n bytes. Memory grows with what has come, not with what was announced.
func (fr *frameReader) fill(n int) error {
	fr.buf = fr.buf[:0]
	for len(fr.buf) < n {
		step := min(n-len(fr.buf), max(readStep, len(fr.buf)))
		at := len(fr.buf)
		if cap(fr.buf) < at+step {
			grown := make([]byte, at, at+step)
			copy(grown, fr.buf)
			fr.buf = grown
		}
		fr.buf = fr.buf[:at+step]
		if _, err := io.ReadFull(fr.r, fr.buf[at:]); err != nil {
			return err
		}
	}
	return nil
}
