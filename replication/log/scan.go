package log

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
)

const scanBufferBytes = 256 << 10

// badRecord says why the bytes at a scanner's offset are not the next record.
type badRecord struct{ reason string }

func (e *badRecord) Error() string { return e.reason }

// scanner reads a segment's records in order, each checked. Its memory is bounded whatever the file says.
type scanner struct {
	file   vfs.File
	path   string
	header *header
	limit  int64 // nothing beyond is read
	offset int64 // of the next record
	chain  uint32
	skims  bool // entries' data is passed over unread
	buf    []byte
	// barrier is the last one seen.
	barrier record
}

// record is what a scanner found.
type record struct {
	recordHeader
	offset  int64 // of its data
	barrier barrier
	vote    uint64
}

// openScanner opens a segment's file and reads its header. A header that is not right is damage: it was on disk before the file had its name.
func openScanner(fs vfs.FS, path string, id uint64) (*scanner, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("log: opening %s: %w", path, err)
	}
	s := &scanner{file: f, path: path, buf: make([]byte, scanBufferBytes)}
	if err := s.readHeader(id); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

func (s *scanner) readHeader(id uint64) error {
	info, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("log: %s: %w", s.path, err)
	}
	damage := func(reason string) error { return &DamageError{File: s.path, Offset: 0, Reason: reason} }
	s.limit = info.Size()
	if s.limit < headerBlock {
		return damage("it is too short for a segment")
	}
	b := make([]byte, headerFixedBytes)
	if err := s.read(b, 0); err != nil {
		return err
	}
	size, err := headerSize(b, s.limit)
	if err != nil {
		return damage(err.Error())
	}
	b = make([]byte, size)
	if err := s.read(b, 0); err != nil {
		return err
	}
	if s.header, err = parseHeader(b); err != nil {
		return damage(err.Error())
	}
	if s.header.id != id {
		return damage(fmt.Sprintf("it says that it is segment %d", s.header.id))
	}
	s.offset, s.chain = s.header.bytes, s.header.chain
	return nil
}

func (s *scanner) read(b []byte, offset int64) error {
	if n, err := s.file.ReadAt(b, offset); n < len(b) {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("log: reading %s at %d: %w", s.path, offset, err)
	}
	return nil
}

// next reads the next record and steps over it. At bytes that are no record it answers a *badRecord and stays.
func (s *scanner) next() (record, error) {
	if s.limit-s.offset < recordHeaderBytes {
		return record{}, &badRecord{"the file ends"}
	}
	head := s.buf[:recordHeaderBytes]
	if err := s.read(head, s.offset); err != nil {
		return record{}, err
	}
	seed := s.chain
	if Kind(head[16]) == KindBarrier {
		seed = s.header.barrierSeed()
	}
	h, ok := parseRecordHeader(head, seed)
	r := record{recordHeader: h, offset: s.offset + recordHeaderBytes}
	switch {
	case !ok:
		return r, &badRecord{"the record's checksum is wrong"}
	case h.generation != s.header.generation():
		return r, &badRecord{"the record is of an older use of the file"}
	case int64(payloadBytes(int(h.size))) > s.limit-r.offset:
		return r, &badRecord{"the record is longer than the file"}
	}
	if err := s.checkData(&r); err != nil {
		return r, err
	}
	if r.kind == KindBarrier {
		s.barrier = r
	}
	s.offset, s.chain = r.offset+int64(payloadBytes(int(h.size))), h.chain
	return r, nil
}

// checkData reads a record's data piece by piece and checks it.
func (s *scanner) checkData(r *record) error {
	if s.skims && r.kind == KindEntry {
		return s.checkShape(r)
	}
	size := int(r.size)
	crc, stored := uint32(0), s.chunkSums(r)
	for done := 0; done < size; {
		b := s.buf[:min(size-done, len(s.buf))]
		if err := s.read(b, r.offset+int64(done)); err != nil {
			return err
		}
		if done == 0 {
			r.parse(b)
		}
		done += len(b)
		if chunksOf(size) == 0 {
			crc = checksum(b)
			break
		}
		for ; len(b) > 0; b = b[min(chunkBytes, len(b)):] {
			sum := checksum(b[:min(chunkBytes, len(b))])
			want, err := stored()
			if err != nil {
				return err
			}
			if want != sum {
				return &badRecord{"the checksum of a piece of the record's data is wrong"}
			}
			crc = addChunk(crc, sum)
		}
	}
	if crc != r.dataCRC {
		return &badRecord{"the checksum of the record's data is wrong"}
	}
	return s.checkShape(r)
}

// chunkSums answers a function that reads the checksums stored after a record's data, one by one.
func (s *scanner) chunkSums(r *record) func() (uint32, error) {
	at := r.offset + int64(padded(int(r.size)))
	in := bufio.NewReaderSize(io.NewSectionReader(s.file, at, int64(4*chunksOf(int(r.size)))), 512)
	return func() (uint32, error) {
		var b [4]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return 0, fmt.Errorf("log: reading %s at %d: %w", s.path, at, err)
		}
		return binary.LittleEndian.Uint32(b[:]), nil
	}
}

// impossible answers a record that is whole, its checksums right, but that cannot be: no crash makes one.
func (s *scanner) impossible(format string, args ...any) error {
	return &DamageError{File: s.path, Offset: s.offset, Reason: fmt.Sprintf(format, args...)}
}

// parse takes out of a record's data what recovery needs.
func (r *record) parse(data []byte) {
	switch {
	case r.kind == KindBarrier && len(data) >= barrierDataBytes:
		r.barrier = parseBarrier(data)
	case r.kind == KindHardState && len(data) >= 8:
		r.vote = binary.LittleEndian.Uint64(data)
	}
}

// checkShape refuses records that are whole but cannot be in this place.
func (s *scanner) checkShape(r *record) error {
	switch r.kind {
	case KindBarrier:
		b := r.barrier
		if r.size != barrierDataBytes || b.nonce != s.header.nonce || b.offset != s.offset || b.durable > s.offset {
			return &badRecord{"the barrier belongs elsewhere"}
		}
		if b.chain != s.chain {
			return &badRecord{"the barrier does not follow the record before it"}
		}
	case KindHardState:
		if r.size != 8 {
			return s.impossible("a hard state has %d bytes", r.size)
		}
	case KindEntry:
		if r.index == 0 || r.size > dataBytesMax || raftpb.EntryType(r.entryType) > raftpb.EntryType_EntryConfChangeV2 {
			return s.impossible("an entry has index %d, type %d and %d bytes", r.index, r.entryType, r.size)
		}
	case KindTruncate, KindSnapshot:
		if r.index == 0 || r.index == math.MaxUint64 {
			return s.impossible("a %s record has index %d", r.kind, r.index)
		}
	default:
		return s.impossible("a record has kind %d, which only a newer program can have written", r.kind)
	}
	return nil
}

// vouched looks, after the scanner's offset, for a barrier that says the segment was synced beyond it: then the bytes there are damaged, not
// torn. It answers that barrier's offset, or 0.
func (s *scanner) vouched() (int64, error) {
	const overlap = barrierBytes - recordAlign
	for at := s.offset; s.limit-at >= barrierBytes; at += int64(len(s.buf) - overlap) {
		b := s.buf[:min(int64(len(s.buf)), s.limit-at)]
		if err := s.read(b, at); err != nil {
			return 0, err
		}
		for i := 0; i+barrierBytes <= len(b); i += recordAlign {
			if s.vouches(b[i:i+barrierBytes], at+int64(i)) {
				return at + int64(i), nil
			}
		}
	}
	return 0, nil
}

// vouches says whether b, at an offset, is a barrier of this segment that names a durable offset beyond the scanner's.
func (s *scanner) vouches(b []byte, at int64) bool {
	if Kind(b[16]) != KindBarrier || binary.LittleEndian.Uint32(b[12:]) != s.header.generation() {
		return false
	}
	h, ok := parseRecordHeader(b, s.header.barrierSeed())
	data := b[recordHeaderBytes:]
	if !ok || h.size != barrierDataBytes || h.dataCRC != checksum(data) {
		return false
	}
	r := parseBarrier(data)
	return r.nonce == s.header.nonce && r.offset == at && r.durable > s.offset
}
