package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/understudy-mq/understudy/core/entry"
)

// magic begins an answer; its digit is the format's version.
const magic = "understudy link 1\n"

// FrameBytesMax bounds a frame's payload: an entry of the log is no longer than 16 MiB.
const FrameBytesMax = 16<<20 + 256

// The kinds of frame.
const (
	frameHead  = 'h'
	frameEntry = 'e'
	frameEnd   = 'z'
)

// ErrDamaged says that an answer is not what was written: truncated, changed, reordered, oversized or of another version.
var ErrDamaged = errors.New("the answer over the link is damaged")

// Status is what an answer to a read is.
type Status uint8

// The kinds of answer.
const (
	Entries  Status = 1 // the entries after the position, none if there are none yet
	Purged   Status = 2 // this node has no longer what comes after the position; First is the first that it has
	Mismatch Status = 3 // this node has another entry, or another history, at the position: Term and Hash are its own
	Ahead    Status = 4 // this node has not come to the position yet
)

func (s Status) String() string {
	return [...]string{"", "entries", "purged", "mismatch", "ahead"}[min(int(s), 4)]
}

// Head begins an answer: who answers, and how far it is.
type Head struct {
	Status     Status
	Cluster    string
	Generation entry.Generation
	Node       uint64
	Applied    uint64 // the newest entry of the group that this node has applied, and its stamp (Unix ms)
	Stamp      int64
	First      uint64 // the first entry that it has
	Term, Hash uint64 // Mismatch: what it has at the position
}

// Item is one entry of a log. Raft's own entries (empty, membership) have no data: they only move the position.
type Item struct {
	entry.Position
	Fingerprint uint64 // of the source's state after the entry, 0 where it is not told
	Data        []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes an answer.
type Writer struct {
	w    io.Writer
	sum  uint32
	head [64]byte
	err  error
}

// NewWriter begins an answer.
func NewWriter(w io.Writer, h Head) *Writer {
	x := &Writer{w: w}
	x.write([]byte(magic))
	b := []byte{byte(h.Status)}
	b = appendString(b, h.Cluster)
	b = binary.AppendUvarint(b, h.Generation.Number)
	b = appendString(b, h.Generation.Cluster)
	for _, v := range [...]uint64{h.Node, h.Applied, uint64(h.Stamp), h.First, h.Term, h.Hash} {
		b = binary.AppendUvarint(b, v)
	}
	x.frame(frameHead, b, nil)
	return x
}

// Item writes one item. The data is not kept.
func (x *Writer) Item(i Item) error {
	b := binary.AppendUvarint(x.head[:0], i.Index)
	b = binary.AppendUvarint(b, i.Term)
	b = binary.LittleEndian.AppendUint64(b, i.Hash)
	b = binary.LittleEndian.AppendUint64(b, i.Fingerprint)
	return x.frame(frameEntry, b, i.Data)
}

// End makes the answer whole.
func (x *Writer) End() error { return x.frame(frameEnd, nil, nil) }

// frame writes kind, length, payload (two parts) and the checksum of all frames so far.
func (x *Writer) frame(kind byte, a, b []byte) error {
	var head [5]byte
	head[0] = kind
	binary.LittleEndian.PutUint32(head[1:], uint32(len(a)+len(b)))
	x.write(head[:])
	x.write(a)
	x.write(b)
	x.seal()
	return x.err
}

// seal writes the checksum. It is no part of the next one: a CRC that covers its own value forgets all before it.
func (x *Writer) seal() {
	if x.err != nil {
		return
	}
	var sum [4]byte
	binary.LittleEndian.PutUint32(sum[:], x.sum)
	_, x.err = x.w.Write(sum[:])
}

func (x *Writer) write(b []byte) {
	if x.err != nil || len(b) == 0 {
		return
	}
	x.sum = crc32.Update(x.sum, castagnoli, b)
	_, x.err = x.w.Write(b)
}

// Reader reads an answer.
type Reader struct {
	r   io.Reader
	sum uint32
	Head
	ended bool
}

// NewReader reads the head. Errors: ErrDamaged, wrapped, or what reading failed with.
func NewReader(r io.Reader) (*Reader, error) {
	x := &Reader{r: r}
	var m [len(magic)]byte
	if err := x.fill(m[:]); err != nil {
		return nil, err
	}
	if string(m[:]) != magic {
		return nil, fmt.Errorf("%w: it does not begin as one of this version", ErrDamaged)
	}
	kind, payload, err := x.frame()
	if err != nil {
		return nil, err
	}
	p := parser{b: payload}
	if kind != frameHead || !x.readHead(&p) {
		return nil, fmt.Errorf("%w: no head", ErrDamaged)
	}
	return x, nil
}

func (x *Reader) readHead(p *parser) bool {
	x.Status = Status(p.octet())
	x.Cluster = p.text()
	x.Generation.Number = p.uvarint()
	x.Generation.Cluster = p.text()
	var stamp uint64
	for _, v := range [...]*uint64{&x.Node, &x.Applied, &stamp, &x.First, &x.Term, &x.Hash} {
		*v = p.uvarint()
	}
	x.Stamp = int64(stamp)
	return p.whole() && x.Status >= Entries && x.Status <= Ahead
}

// Next answers the next item; io.EOF once the answer is whole. The item's data is its own. Errors: ErrDamaged, wrapped.
func (x *Reader) Next() (Item, error) {
	if x.ended {
		return Item{}, io.EOF
	}
	kind, payload, err := x.frame()
	if err != nil {
		return Item{}, err
	}
	p := parser{b: payload}
	switch kind {
	case frameEntry:
		i := Item{Position: entry.Position{Index: p.uvarint(), Term: p.uvarint(), Hash: p.fixed()}, Fingerprint: p.fixed()}
		i.Data = p.b
		if p.failed {
			return Item{}, fmt.Errorf("%w: an entry's head", ErrDamaged)
		}
		return i, nil
	case frameEnd:
		if len(payload) == 0 {
			x.ended = true
			return Item{}, io.EOF
		}
	}
	return Item{}, fmt.Errorf("%w: a frame of kind %d", ErrDamaged, kind)
}

// frame reads one frame and checks it.
func (x *Reader) frame() (kind byte, payload []byte, err error) {
	var head [5]byte
	if err := x.fill(head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if n > FrameBytesMax {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes", ErrDamaged, n)
	}
	if payload, err = x.payload(int(n)); err != nil {
		return 0, nil, err
	}
	want := x.sum
	var sum [4]byte
	if err := x.fill(sum[:]); err != nil {
		return 0, nil, err
	}
	x.sum = want
	if binary.LittleEndian.Uint32(sum[:]) != want {
		return 0, nil, fmt.Errorf("%w: a checksum is wrong", ErrDamaged)
	}
	return head[0], payload, nil
}

// growBytes is how much memory a length that has not been checked yet can claim at once.
const growBytes = 256 << 10

// payload reads n bytes, taking memory as they come.
func (x *Reader) payload(n int) ([]byte, error) {
	b := make([]byte, 0, min(n, growBytes))
	for len(b) < n {
		from := len(b)
		step := min(n-from, max(growBytes, from))
		b = append(b, make([]byte, step)...)
		if err := x.fill(b[from:]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (x *Reader) fill(b []byte) error {
	_, err := io.ReadFull(x.r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early", ErrDamaged)
	}
	if err != nil {
		return fmt.Errorf("reading an answer over the link: %w", err)
	}
	x.sum = crc32.Update(x.sum, castagnoli, b)
	return nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// parser walks a payload; after a failure it answers zeroes.
type parser struct {
	b      []byte
	failed bool
}

func (p *parser) fail() { p.failed, p.b = true, nil }

func (p *parser) octet() byte {
	if len(p.b) == 0 {
		p.fail()
		return 0
	}
	v := p.b[0]
	p.b = p.b[1:]
	return v
}

func (p *parser) uvarint() uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *parser) fixed() uint64 {
	if len(p.b) < 8 {
		p.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(p.b)
	p.b = p.b[8:]
	return v
}

func (p *parser) text() string {
	n := p.uvarint()
	if n > uint64(len(p.b)) {
		p.fail()
		return ""
	}
	s := string(p.b[:n])
	p.b = p.b[n:]
	return s
}

func (p *parser) whole() bool { return !p.failed && len(p.b) == 0 }
