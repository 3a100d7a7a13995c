package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/understudy-mq/understudy/core/message"
)

var errStaging = errors.New("a snapshot is being staged or installed")

// Stage reads a snapshot's bytes from r up to its end and keeps them aside, on disk, in place of any staged before;
// nothing changes yet. Errors: ErrSnapshot, ctx's, r's; nothing is staged then. r is read ahead of the snapshot's end.
// Safe from any goroutine, one at a time.
func (g *Group) Stage(ctx context.Context, r io.Reader) (index, term uint64, conf []byte, err error) {
	if !g.staging.TryLock() {
		return 0, 0, nil, fmt.Errorf("group %d: %w", g.id, errStaging)
	}
	defer g.staging.Unlock()
	state, err := g.stage(ctx, r, nil)
	return state.index, state.term, state.conf, err
}

// stage is Stage, or with a conf for Seed: that is then the membership, and the snapshot's local facts stay out. The
// group's staging is held.
func (g *Group) stage(ctx context.Context, r io.Reader, conf []byte) (stateMeta, error) {
	s := &stager{g: g, generation: g.where.Load().generation + 1, seeds: conf != nil, out: bulk{db: g.db, b: g.db.p.NewBatch()}}
	defer func() { s.out.close() }()
	s.clear()
	state, err := s.read(ctx, r)
	if conf != nil {
		state.conf = conf
	}
	if err == nil {
		err = s.keep(state)
	}
	if err != nil {
		s.out.b.Reset()
		s.clear()
		return stateMeta{}, errors.Join(fmt.Errorf("group %d: staging a snapshot: %w", g.id, err), s.out.commit())
	}
	return state, nil
}

// Seed makes another cluster's snapshot, read from r, the state of a group that has none yet: with the membership conf, and
// without what only that cluster knows of itself. It is on disk when it returns. Errors: as Stage; a group that has a
// state of its own. A seed that failed, or was broken off by a crash, left the group empty.
func (g *Group) Seed(ctx context.Context, r io.Reader, conf []byte) error {
	if index, _ := g.Applied(); index > 0 {
		return fmt.Errorf("group %d: it has a state of its own, at entry %d", g.id, index)
	}
	if !g.staging.TryLock() {
		return fmt.Errorf("group %d: %w", g.id, errStaging)
	}
	state, err := g.stage(ctx, r, conf)
	g.staging.Unlock()
	if err != nil {
		return err
	}
	return g.Install(state.index, state.term)
}

// stager reads one snapshot.
type stager struct {
	g          *Group
	generation uint64
	seeds      bool // another cluster: local facts stay out
	out        bulk
	state      stateMeta
	lastKey    []byte
	rows       uint64
	refs       []ref // what the rows refer to; once contents come: what is still to come, in order
	contents   uint64
}

// clear deletes what was staged before.
func (s *stager) clear() {
	s.out.b.Delete(metaKey(s.g.id, metaStaged), nil)
	s.out.b.DeleteRange(dataKey(s.g.id, s.generation), dataEnd(s.g.id), nil)
}

// keep makes the staged rows count, once they are complete: the row that says so goes last.
func (s *stager) keep(state stateMeta) error {
	if err := s.out.set(metaKey(s.g.id, metaStaged), state.encode()); err != nil {
		return err
	}
	if err := s.out.commit(); err != nil {
		return err
	}
	return s.g.db.flush()
}

func (s *stager) read(ctx context.Context, r io.Reader) (stateMeta, error) {
	in, err := newStreamReader(r)
	if err != nil {
		return s.state, err
	}
	for take := s.first; take != nil; {
		if err := ctx.Err(); err != nil {
			return s.state, err
		}
		kind, b, err := in.next()
		if err != nil {
			return s.state, err
		}
		if err := take(kind, b); err != nil {
			return s.state, err
		}
		take = s.next
		if kind == frameEnd {
			take = nil
		}
	}
	return s.state, nil
}

// first takes the first frame.
func (s *stager) first(kind byte, b []byte) error {
	if kind != frameHeader {
		return fmt.Errorf("%w: it begins with a frame %q", ErrSnapshot, kind)
	}
	return s.header(b)
}

// next takes any later frame.
func (s *stager) next(kind byte, b []byte) error {
	switch kind {
	case frameRow:
		return s.row(b)
	case frameContent:
		return s.content(b)
	case frameEnd:
		return s.end(b)
	}
	return fmt.Errorf("%w: a frame of unknown kind %q", ErrSnapshot, kind)
}

func (s *stager) header(b []byte) error {
	if len(b) < headerBytes {
		return fmt.Errorf("%w: a header of %d bytes", ErrSnapshot, len(b))
	}
	if group := binary.BigEndian.Uint64(b); group != s.g.id {
		return fmt.Errorf("%w: it is of group %d", ErrSnapshot, group)
	}
	s.state = stateMeta{generation: s.generation, index: binary.BigEndian.Uint64(b[8:]), term: binary.BigEndian.Uint64(b[16:]),
		hash: binary.BigEndian.Uint64(b[24:])}
	if b[headerBytes-1] == 1 {
		s.state.conf = append([]byte{}, b[headerBytes:]...)
	}
	return nil
}

func (s *stager) row(b []byte) error {
	if s.contents > 0 {
		return fmt.Errorf("%w: a row after the contents", ErrSnapshot)
	}
	if len(b) < 4 || int(binary.BigEndian.Uint32(b)) > len(b)-4 {
		return fmt.Errorf("%w: a row's key does not fit its frame", ErrSnapshot)
	}
	n := int(binary.BigEndian.Uint32(b))
	key, value := b[4:4+n], b[4+n:]
	if s.rows > 0 && string(key) <= string(s.lastKey) {
		return fmt.Errorf("%w: row %x is out of order", ErrSnapshot, key)
	}
	s.lastKey = append(s.lastKey[:0], key...)
	s.rows++
	if s.seeds && s.g.db.kind.localRow(key) {
		return nil
	}
	err := s.g.db.kind.rowContents(key, value, func(loc message.Loc, size uint32) { s.refs = append(s.refs, ref{loc, size}) })
	if err != nil {
		return fmt.Errorf("%w: row %x: %w", ErrSnapshot, key, err)
	}
	return s.out.set(append(rowPrefix(s.g.id, s.generation), key...), value)
}

// startContents puts what the rows refer to in the order in which it comes.
func (s *stager) startContents() {
	if s.contents == 0 {
		sortRefs(s.refs)
		s.refs = distinct(s.refs)
	}
}

func (s *stager) content(b []byte) error {
	s.startContents()
	if len(b) < 8 {
		return fmt.Errorf("%w: a content of %d bytes", ErrSnapshot, len(b))
	}
	loc, b := message.Loc(binary.BigEndian.Uint64(b)), b[8:]
	if len(s.refs) == 0 || s.refs[0].loc != loc || int(s.refs[0].size) != len(b) {
		return fmt.Errorf("%w: the content at entry %d offset %d is not the one that its rows refer to",
			ErrSnapshot, loc.Index(), loc.Offset())
	}
	if loc.Index() > s.state.index {
		return fmt.Errorf("%w: the content at entry %d is newer than the snapshot", ErrSnapshot, loc.Index())
	}
	s.refs = s.refs[1:]
	s.contents++
	return s.out.set(contentKey(s.g.id, s.generation, loc), b)
}

func (s *stager) end(counts []byte) error {
	s.startContents()
	rows, contents := binary.BigEndian.Uint64(counts), binary.BigEndian.Uint64(counts[8:])
	if rows != s.rows || contents != s.contents || len(s.refs) > 0 {
		return fmt.Errorf("%w: %d rows and %d contents, %d contents missing, of %d and %d",
			ErrSnapshot, s.rows, s.contents, len(s.refs), rows, contents)
	}
	return nil
}

// Install makes the staged snapshot at index and term the state, on disk when it returns; effects not yet handed on are
// dropped. Nothing to do if the state is at index or beyond. An error leaves the state as it was. For a moment the old
// machine and the new one are both in memory. Idempotent: after a crash it is called again.
func (g *Group) Install(index, term uint64) error {
	if index <= g.applied.index {
		return nil
	}
	if !g.staging.TryLock() {
		return fmt.Errorf("group %d: %w", g.id, errStaging)
	}
	defer g.staging.Unlock()
	state, ok, err := readState(g.db.p, g.id, metaStaged)
	if err != nil {
		return err
	}
	if !ok || state.index != index || state.term != term {
		return fmt.Errorf("group %d: no snapshot at index %d of term %d is staged", g.id, index, term)
	}
	m, err := g.load(state.generation)
	if err != nil {
		return fmt.Errorf("installing a snapshot: %w", err)
	}
	g.awaitJob()
	g.abandon()
	if err := g.adopt(state); err != nil {
		return err
	}
	g.become(m, state)
	return nil
}

// adopt makes the staged generation the current one, on disk, in one step. Its contents are all in Pebble.
func (g *Group) adopt(state stateMeta) error {
	b := g.db.p.NewBatch()
	defer b.Close()
	b.Set(metaKey(g.id, metaState), state.encode(), nil)
	b.Set(metaKey(g.id, metaFloor), encodeIndex(state.index+1), nil)
	b.Set(metaKey(g.id, metaSwept), encodeIndex(state.index+1), nil)
	b.Delete(metaKey(g.id, metaStaged), nil)
	old := keyRange{dataKey(g.id, 0), dataKey(g.id, state.generation)}
	b.DeleteRange(old.start, old.end, nil)
	if err := g.db.apply(b); err != nil {
		return err
	}
	if err := g.db.flush(); err != nil {
		return err
	}
	g.db.wantCompaction(old)
	return nil
}

// become swaps the machine for the one of the installed snapshot.
func (g *Group) become(m machine, state stateMeta) {
	floor := state.index + 1
	g.machineMu.Lock()
	g.m = m
	g.refs = countReferences(m, floor)
	m.SetFloor(floor)
	g.machineMu.Unlock()
	g.evac = nil
	g.fx.List, g.fx.Linked = nil, false
	g.where.Store(&place{generation: state.generation, floor: floor})
	g.marks.Lock()
	g.applied, g.durable, g.conf = state.mark(), state.mark(), state.conf
	g.marks.Unlock()
}
