package store

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/understudy-mq/understudy/core/message"
)

// Snapshot is replication.Snapshot, which this package may not import.
type Snapshot = interface {
	Index() uint64
	Term() uint64
	Conf() []byte
	io.WriterTo
	io.Closer
}

// snapshot is a cut of a group: Pebble's own for rows and for contents that were moved out, the log for the rest.
type snapshot struct {
	g     *Group
	p     *pebble.Snapshot
	state stateMeta
	floor uint64 // contents of entries below are in p
}

// Snapshot cuts the state as it is now. Nothing is copied: until Close the log must keep every entry that it has now,
// whatever is evacuated meanwhile, since the snapshot reads contents there. It waits for a checkpoint
// under way to be in Pebble, not on disk.
// WriteTo may run in any goroutine, once.
func (g *Group) Snapshot() (Snapshot, error) {
	g.settle()
	g.awaitCommit()
	g.machineMu.Lock()
	g.m.Exact() // every content that a row of the cut refers to is there to be sent
	g.machineMu.Unlock()
	b, gone := g.collect()
	defer b.Close()
	if err := g.db.apply(b); err != nil {
		return nil, err
	}
	if gone != nil {
		g.db.wantCompaction(*gone)
	}
	at := g.where.Load()
	return &snapshot{
		g: g, p: g.db.p.NewSnapshot(), floor: at.floor,
		state: stateMeta{generation: at.generation, index: g.applied.index, term: g.applied.term, hash: g.applied.hash, conf: g.conf},
	}, nil
}

func (s *snapshot) Index() uint64 { return s.state.index }
func (s *snapshot) Term() uint64  { return s.state.term }
func (s *snapshot) Conf() []byte  { return s.state.conf }
func (s *snapshot) Close() error  { return s.p.Close() }

// WriteTo streams the snapshot. It takes 16 bytes of memory for each reference to a content.
func (s *snapshot) WriteTo(w io.Writer) (int64, error) {
	out := newStreamWriter(w)
	if err := out.frame(frameHeader, s.header(), s.state.conf); err != nil {
		return out.bytes, err
	}
	rows, refs, err := s.writeRows(out)
	if err != nil {
		return out.bytes, err
	}
	sortRefs(refs)
	refs = distinct(refs)
	if err := s.writeContents(out, refs); err != nil {
		return out.bytes, err
	}
	err = out.end(rows, uint64(len(refs)))
	return out.bytes, err
}

const headerBytes = 4*8 + 1

func (s *snapshot) header() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, headerBytes), s.g.id)
	b = binary.BigEndian.AppendUint64(b, s.state.index)
	b = binary.BigEndian.AppendUint64(b, s.state.term)
	b = binary.BigEndian.AppendUint64(b, s.state.hash)
	if s.state.conf == nil {
		return append(b, 0)
	}
	return append(b, 1)
}

func (s *snapshot) writeRows(out *streamWriter) (rows uint64, refs []ref, err error) {
	it, err := s.p.NewIter(&pebble.IterOptions{
		LowerBound: rowPrefix(s.g.id, s.state.generation), UpperBound: rowEnd(s.g.id, s.state.generation),
	})
	if err != nil {
		return 0, nil, err
	}
	defer func() {
		if e := it.Close(); err == nil && e != nil {
			err = fmt.Errorf("group %d: reading its rows: %w", s.g.id, e)
		}
	}()
	var head []byte
	for ok := it.First(); ok; ok = it.Next() {
		key := it.Key()[rowPrefixBytes:]
		value, err := it.ValueAndErr()
		if err == nil {
			err = s.g.db.kind.rowContents(key, value, func(loc message.Loc, size uint32) { refs = append(refs, ref{loc, size}) })
		}
		if err != nil {
			return 0, nil, fmt.Errorf("group %d: the row %x cannot be read: %w", s.g.id, key, err)
		}
		head = append(binary.BigEndian.AppendUint32(head[:0], uint32(len(key))), key...)
		if err := out.frame(frameRow, head, value); err != nil {
			return 0, nil, err
		}
		rows++
	}
	return rows, refs, nil
}

func (s *snapshot) writeContents(out *streamWriter, refs []ref) error {
	var head [8]byte
	write := func(c ref, b []byte) error {
		binary.BigEndian.PutUint64(head[:], uint64(c.loc))
		return out.frame(frameContent, head[:], b)
	}
	for len(refs) > 0 && refs[0].loc.Index() < s.floor {
		b, err := s.g.movedContent(s.p, s.state.generation, refs[0])
		if err != nil {
			return err
		}
		if err := write(refs[0], b); err != nil {
			return err
		}
		refs = refs[1:]
	}
	return s.g.readLog(refs, write)
}
