package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// A snapshot's bytes: the magic, then frames of kind (1 byte), length (4 bytes, big endian) and payload:
//
//	h  group, index, term (8 each), 1 if there is a membership, the membership
//	r  length of the key (4), the key, the value: every row, keys ascending
//	c  Loc (8), the bytes: every content that the rows refer to, each once, Locs ascending
//	e  rows, contents (8 each), xxhash64 of everything before these last 8 bytes
const streamMagic = "understudy snapshot 1\n"

const (
	frameHeader  = 'h'
	frameRow     = 'r'
	frameContent = 'c'
	frameEnd     = 'e'
)

// frameBytesMax bounds a frame's payload: contents are no longer than an entry (16 MiB), and rows are kept far smaller.
const frameBytesMax = 32 << 20

const streamBufferBytes = 256 << 10

// ErrSnapshot says that bytes are no snapshot: truncated, damaged, oversized, of another group or a newer version.
var ErrSnapshot = errors.New("unreadable snapshot")

// streamWriter writes a snapshot's bytes and sums them up.
type streamWriter struct {
	w     *bufio.Writer
	sum   *xxhash.Digest
	bytes int64
	err   error // the first
}

func newStreamWriter(w io.Writer) *streamWriter {
	s := &streamWriter{w: bufio.NewWriterSize(w, streamBufferBytes), sum: xxhash.New()}
	s.write([]byte(streamMagic))
	return s
}

func (s *streamWriter) write(b []byte) {
	if s.err != nil {
		return
	}
	s.sum.Write(b) // never fails
	n, err := s.w.Write(b)
	s.bytes, s.err = s.bytes+int64(n), err
}

// frame writes a frame whose payload is head and body.
func (s *streamWriter) frame(kind byte, head, body []byte) error {
	size := len(head) + len(body)
	if size > frameBytesMax && s.err == nil {
		s.err = fmt.Errorf("snapshot frame %q of %d bytes is larger than %d", kind, size, frameBytesMax)
	}
	var b [5]byte
	b[0] = kind
	binary.BigEndian.PutUint32(b[1:], uint32(size))
	s.write(b[:])
	s.write(head)
	s.write(body)
	return s.err
}

// end writes the last frame and hands everything on.
func (s *streamWriter) end(rows, contents uint64) error {
	b := []byte{frameEnd, 0, 0, 0, 24}
	b = binary.BigEndian.AppendUint64(b, rows)
	s.write(binary.BigEndian.AppendUint64(b, contents))
	s.write(binary.BigEndian.AppendUint64(nil, s.sum.Sum64()))
	if s.err == nil {
		s.err = s.w.Flush()
	}
	return s.err
}

// streamReader reads a snapshot's bytes.
type streamReader struct {
	r   *bufio.Reader
	sum *xxhash.Digest
	buf []byte
}

func newStreamReader(r io.Reader) (*streamReader, error) {
	s := &streamReader{r: bufio.NewReaderSize(r, streamBufferBytes), sum: xxhash.New()}
	b, err := s.take(len(streamMagic))
	if err != nil {
		return nil, err
	}
	if string(b) != streamMagic {
		return nil, fmt.Errorf("%w: it begins with %q: not one of this version", ErrSnapshot, b)
	}
	return s, nil
}

// next reads a frame; payload is valid until the next call.
func (s *streamReader) next() (kind byte, payload []byte, err error) {
	b, err := s.take(5)
	if err != nil {
		return 0, nil, err
	}
	kind = b[0]
	size := binary.BigEndian.Uint32(b[1:])
	if size > frameBytesMax {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes, at most %d are allowed", ErrSnapshot, size, frameBytesMax)
	}
	if kind == frameEnd {
		payload, err = s.takeEnd(int(size))
		return kind, payload, err
	}
	payload, err = s.take(int(size))
	return kind, payload, err
}

// takeEnd reads the last frame's payload and checks the sum.
func (s *streamReader) takeEnd(size int) ([]byte, error) {
	if size != 24 {
		return nil, fmt.Errorf("%w: a last frame of %d bytes", ErrSnapshot, size)
	}
	counts, err := s.take(16)
	if err != nil {
		return nil, err
	}
	counts = slices.Clone(counts)
	want := s.sum.Sum64()
	sum, err := s.take(8)
	if err != nil {
		return nil, err
	}
	if got := binary.BigEndian.Uint64(sum); got != want {
		return nil, fmt.Errorf("%w: checksum %016x, its bytes have %016x", ErrSnapshot, got, want)
	}
	return counts, nil
}

// takeStep bounds how much memory is taken ahead of the bytes that fill it.
const takeStep = 1 << 20

// take reads n bytes.
func (s *streamReader) take(n int) ([]byte, error) {
	s.buf = s.buf[:0]
	for len(s.buf) < n {
		at := len(s.buf)
		step := min(n-at, takeStep)
		s.buf = slices.Grow(s.buf, step)[:at+step]
		if _, err := io.ReadFull(s.r, s.buf[at:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("%w: it ends early: %w", ErrSnapshot, err)
		}
	}
	s.sum.Write(s.buf)
	return s.buf, nil
}
