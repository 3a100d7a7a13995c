package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

const (
	readSpanBytes = 1 << 20 // adjacent entries are read together up to it
	readSpanGap   = 4 << 10
	entryOverhead = 24             // of an entry in a message, for Entries' maxSize
	readAhead     = 7 * chunkBytes // of an entry that is read in order, beyond what is asked for
)

// Bytes is size bytes at offset of the entry's data, from memory or from disk, checked. The slice aliases what is kept in memory:
// it must not be changed, and who keeps it long should copy it. Safe from any goroutine.
//
// Errors: raft.ErrCompacted below the first entry kept, raft.ErrUnavailable above the last, ErrBounds, DamageError.
func (g *Group) Bytes(index uint64, offset, size int) ([]byte, error) {
	g.mu.Lock()
	s, err := g.index.at(index)
	if err != nil {
		g.mu.Unlock()
		return nil, err
	}
	if n := s.bytes(); offset < 0 || size < 0 || offset > n || size > n-offset {
		g.mu.Unlock()
		return nil, fmt.Errorf("log: group %d entry %d has %d bytes, asked for %d at %d: %w", g.id, index, n, size, offset, ErrBounds)
	}
	if e := g.index.entry(index); e != nil {
		g.mu.Unlock()
		return e.Data[offset : offset+size : offset+size], nil
	}
	if data := g.verified.get(index, offset, size); data != nil || size == 0 {
		g.mu.Unlock()
		return data, nil
	}
	ahead := 0
	if g.verified.leadsTo(index, offset) {
		ahead = readAhead
	}
	g.mu.Unlock()

	data, from, err := g.readPiece(index, s, offset, size, ahead)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if now, err := g.index.at(index); err == nil && now == s {
		g.verified.put(index, from, data)
	}
	return data[offset-from : offset-from+size : offset-from+size], nil
}

// readPiece reads the chunks of an entry's data that size bytes at offset, and ahead bytes more, lie in, checked, and answers
// where they begin in it.
func (g *Group) readPiece(index uint64, s slot, offset, size, ahead int) (data []byte, from int, err error) {
	from = offset / chunkBytes * chunkBytes
	to := min((offset+size+ahead+chunkBytes-1)/chunkBytes*chunkBytes, s.bytes())
	data = make([]byte, to-from)
	if err := g.log.read(s.segment, int64(s.offset)+int64(from), data); err != nil {
		return nil, 0, err
	}
	n := chunksOf(s.bytes())
	if n == 0 {
		return data, from, g.check(index, s, checksum(data) == s.crc)
	}
	sums := make([]byte, 4*n)
	if err := g.log.read(s.segment, int64(s.offset)+int64(padded(s.bytes())), sums); err != nil {
		return nil, 0, err
	}
	ok := checksum(sums) == s.crc
	for at := 0; ok && at < len(data); at += chunkBytes {
		want := binary.LittleEndian.Uint32(sums[4*((from+at)/chunkBytes):])
		ok = checksum(data[at:min(at+chunkBytes, len(data))]) == want
	}
	return data, from, g.check(index, s, ok)
}

// check makes a failed comparison with what was written an error.
func (g *Group) check(index uint64, s slot, ok bool) error {
	if ok {
		return nil
	}
	return &DamageError{File: g.log.segmentPath(uint64(s.segment)), Offset: int64(s.offset),
		Reason: fmt.Sprintf("the data of group %d entry %d has a wrong checksum", g.id, index)}
}

// Entries implements raft.Storage: from memory where it can, else from disk, checked.
func (g *Group) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	g.mu.Lock()
	if lo <= g.index.truncated.index {
		g.mu.Unlock()
		return nil, raft.ErrCompacted
	}
	if lo >= hi || hi > g.index.last()+1 {
		g.mu.Unlock()
		return nil, raft.ErrUnavailable
	}
	out, old := g.choose(lo, hi, maxSize)
	g.mu.Unlock()
	if err := g.readEntries(lo, old, out); err != nil {
		return nil, err
	}
	return out, nil
}

// choose answers as many of the entries from lo on as maxSize allows, at least one. The first len(old) of them are not in
// memory: they are nil in out and their slots in old. g.mu is held.
func (g *Group) choose(lo, hi, maxSize uint64) (out []*raftpb.Entry, old []slot) {
	total := uint64(0)
	for i := lo; i < hi; i++ {
		s := g.index.slots[i-g.index.base]
		total += uint64(s.bytes()) + entryOverhead
		if i > lo && total > maxSize {
			break
		}
		e := g.index.entry(i)
		if e == nil {
			old = append(old, s)
		}
		out = append(out, e)
	}
	return out, old
}

// readEntries reads the entries from lo on, whose slots are given, into out.
func (g *Group) readEntries(lo uint64, slots []slot, out []*raftpb.Entry) error {
	for i := 0; i < len(slots); {
		n := span(slots[i:])
		from := int64(slots[i].offset)
		last := slots[i+n-1]
		buf := make([]byte, int64(last.offset)+int64(last.bytes())-from)
		if err := g.log.read(slots[i].segment, from, buf); err != nil {
			return err
		}
		for ; n > 0; n, i = n-1, i+1 {
			s := slots[i]
			at := int64(s.offset) - from
			data := buf[at : at+int64(s.bytes()) : at+int64(s.bytes())]
			if err := g.check(lo+uint64(i), s, dataChecksum(data) == s.crc); err != nil {
				return err
			}
			out[i] = makeEntry(lo+uint64(i), s, data)
		}
	}
	return nil
}

// span counts how many of the slots, from the first on, lie so close together that one read should fetch them.
func span(slots []slot) int {
	first := slots[0]
	end := int64(first.offset) + int64(first.bytes())
	for i, s := range slots[1:] {
		from, to := int64(s.offset), int64(s.offset)+int64(s.bytes())
		if s.segment != first.segment || from < end || from > end+readSpanGap || to-int64(first.offset) > readSpanBytes {
			return i + 1
		}
		end = to
	}
	return len(slots)
}

func makeEntry(i uint64, s slot, data []byte) *raftpb.Entry {
	if len(data) == 0 {
		data = nil // as it was proposed
	}
	t := s.entryType()
	return &raftpb.Entry{Index: new(i), Term: new(s.term), Type: &t, Data: data}
}

// read fills b from a segment's file. A segment that is gone answers raft.ErrCompacted.
func (l *Log) read(id uint32, offset int64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	s := l.segment(uint64(id))
	if s == nil {
		return raft.ErrCompacted
	}
	s.readers.RLock()
	defer s.readers.RUnlock()
	if s.file == nil {
		return raft.ErrCompacted
	}
	n, err := s.file.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return &DamageError{File: l.segmentPath(s.id), Offset: offset + int64(n), Reason: "the file ends too early"}
	}
	return fmt.Errorf("log: reading %s at %d: %w", l.segmentPath(s.id), offset, err)
}
