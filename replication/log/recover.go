package log

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
)

// listing is what lies in a log's folder.
type listing struct{ segments, spares []uint64 }

func list(fs vfs.FS, dir string) (listing, error) {
	names, err := fs.List(dir)
	if err != nil {
		return listing{}, fmt.Errorf("log: listing %s: %w", dir, err)
	}
	var out listing
	for _, name := range names {
		if id, ok := parseName(name, segmentSuffix); ok {
			out.segments = append(out.segments, id)
		} else if id, ok := parseName(name, spareSuffix); ok {
			out.spares = append(out.spares, id)
		}
	}
	slices.Sort(out.segments)
	slices.Sort(out.spares)
	return out, nil
}

// recover reads the folder's segments and answers a writer that goes on after them, in a new segment.
func (l *Log) recover() (*writer, error) {
	found, err := list(l.o.FS, l.o.Dir)
	if err != nil {
		return nil, err
	}
	if err := l.adoptSpares(found.spares); err != nil {
		return nil, err
	}
	scanners, err := openScanners(l.o.FS, l.o.Dir, found.segments)
	for _, s := range scanners {
		l.segments = append(l.segments, &segment{id: s.header.id, header: s.header, file: s.file, size: s.limit,
			sealed: true, ranges: map[uint64]GroupRange{}})
	}
	if err != nil {
		return nil, err
	}
	scanners, ends := live(scanners)
	skim(scanners, ends, l.o.CheckBytes)
	for _, s := range scanners {
		end, sealed := ends[s.header.id]
		if err := l.replaySegment(l.segment(s.header.id), s, end, sealed); err != nil {
			return nil, err
		}
	}
	if err := l.removeDropped(ends); err != nil {
		return nil, err
	}
	w := &writer{log: l, next: 1}
	if n := len(scanners); n > 0 {
		if err := w.follow(scanners[n-1], l.segments[n-1]); err != nil {
			return nil, err
		}
	}
	return w, l.settleGroups()
}

// follow has the writer go on after the newest segment: in it, if the log was closed, else in a new one, since what lies behind the cut may
// be the rest of a torn write.
func (w *writer) follow(s *scanner, newest *segment) error {
	w.next, w.number = newest.id+1, s.barrier.index
	// What is kept of an unsynced write must be as durable as what was synced.
	if err := newest.file.Sync(); err != nil {
		return fmt.Errorf("log: fsync of %s: %w", s.path, err)
	}
	if s.barrier.term != barrierClosed || s.barrier.offset+barrierDataBytes != s.offset {
		return nil
	}
	f, err := w.log.o.FS.OpenReadWrite(s.path, category)
	if err != nil {
		return fmt.Errorf("log: opening %s: %w", s.path, err)
	}
	if err := newest.file.Close(); err != nil {
		return errors.Join(fmt.Errorf("log: closing %s: %w", s.path, err), f.Close())
	}
	newest.file, newest.sealed = f, false
	w.current, w.offset, w.durable, w.chain = newest, s.offset, s.offset, s.chain
	return nil
}

// adoptSpares takes over the spare files that lie in the folder; those of another size go.
func (l *Log) adoptSpares(numbers []uint64) error {
	for _, n := range numbers {
		l.spareNext = n
		info, err := l.o.FS.Stat(l.sparePath(n))
		if err == nil && info.Size() == l.o.SegmentBytes && len(l.spares) < sparesMax {
			l.spares = append(l.spares, n)
			continue
		}
		if err := l.o.FS.Remove(l.sparePath(n)); err != nil {
			return fmt.Errorf("log: removing a spare file: %w", err)
		}
	}
	return nil
}

// openScanners opens the segments; on an error it answers those opened so far, to be closed.
func openScanners(fs vfs.FS, dir string, ids []uint64) ([]*scanner, error) {
	var out []*scanner
	for _, id := range ids {
		s, err := openScanner(fs, fs.PathJoin(dir, segmentName(id)), id)
		if err != nil {
			return out, err
		}
		out = append(out, s)
	}
	return out, nil
}

// live answers the segments that the newest one's header names, that one itself last, and where they were sealed. The others were dropped.
func live(scanners []*scanner) ([]*scanner, map[uint64]seal) {
	if len(scanners) == 0 {
		return nil, nil
	}
	newest := scanners[len(scanners)-1].header
	ends := map[uint64]seal{}
	for _, e := range newest.seals {
		ends[e.id] = e
	}
	var out []*scanner
	for _, s := range scanners {
		if _, ok := ends[s.header.id]; ok || s.header == newest {
			out = append(out, s)
		}
	}
	return out, ends
}

// skim has the scanners of sealed segments pass over data, but for those in the last bytes of the log.
func skim(scanners []*scanner, ends map[uint64]seal, bytes int64) {
	for _, s := range slices.Backward(scanners) {
		end, sealed := ends[s.header.id]
		s.skims = sealed && bytes <= 0
		bytes -= end.end
	}
}

// removeDropped finishes what a crash cut short: segments that were dropped before the newest began.
func (l *Log) removeDropped(ends map[uint64]seal) error {
	for _, s := range slices.Clone(l.segments) {
		if _, ok := ends[s.id]; ok || s == l.segments[len(l.segments)-1] {
			continue
		}
		l.o.Logger.Info("log segment had been dropped", "segment", s.id)
		if err := l.remove(s); err != nil {
			return err
		}
	}
	return nil
}

// replaySegment reads a segment into the groups: to its end if it was sealed, else to the first bytes that are no record.
func (l *Log) replaySegment(seg *segment, s *scanner, end seal, sealed bool) error {
	for _, state := range s.header.groups {
		l.Group(state.group).replayState(state)
	}
	if err := walk(s, end, sealed, func(r record) error { l.replay(seg, r); return nil }); err != nil {
		return err
	}
	seg.end, seg.chain = s.offset, s.chain
	return nil
}

// walk visits a segment's records up to its end. Damage to what was synced is a DamageError; a torn tail is not an error: the scanner stands at it.
func walk(s *scanner, end seal, sealed bool, visit func(record) error) error {
	for !sealed || s.offset < end.end {
		r, err := s.next()
		var bad *badRecord
		switch {
		case errors.As(err, &bad) && sealed:
			return &DamageError{File: s.path, Offset: s.offset, Reason: bad.reason}
		case errors.As(err, &bad):
			return s.endOrDamage(bad.reason)
		case err != nil:
			return err
		}
		if err := visit(r); err != nil {
			return err
		}
	}
	if s.offset != end.end || s.chain != end.chain {
		return &DamageError{File: s.path, Offset: s.offset, Reason: "it does not end as it was sealed"}
	}
	return nil
}

// endOrDamage decides what the first bytes that are no record mean, in a segment that was not sealed.
func (s *scanner) endOrDamage(reason string) error {
	at, err := s.vouched()
	if err != nil {
		return err
	}
	if at != 0 {
		return &DamageError{File: s.path, Offset: s.offset, Reason: fmt.Sprintf("%s, and a later write at %d says that it was synced", reason, at)}
	}
	return nil
}

// replay takes a record into its group.
func (l *Log) replay(seg *segment, r record) {
	if r.kind == KindBarrier {
		return
	}
	g := l.Group(r.group)
	p := position{r.index, r.term}
	switch r.kind {
	case KindEntry:
		s := makeSlot(r.term, raftpb.EntryType(r.entryType), int(r.size))
		s.segment, s.offset, s.crc = uint32(seg.id), uint32(r.offset), r.dataCRC
		seg.note(r.group, r.index)
		if r.index > g.index.truncated.index {
			g.index.put(r.index, s)
		}
	case KindHardState:
		g.hard = makeHardState(r.term, r.vote, r.index)
	case KindTruncate:
		g.index.truncate(p)
		g.trim()
	case KindSnapshot:
		if p.index > g.index.truncated.index {
			g.index.reset(p)
		}
	}
}

// replayState takes a group's state in a segment's header: what was written before it. Entries in segments since dropped are missing here;
// they must prove to be truncated, which settleGroups checks.
func (g *Group) replayState(s groupState) {
	if s.term != 0 || s.vote != 0 || s.commit != 0 {
		g.hard = makeHardState(s.term, s.vote, s.commit)
	}
	g.index.truncate(s.truncated)
	g.trim()
	if g.index.last() != s.last.index { // what is known is stale: its override, or its continuation, was dropped
		g.index.slots, g.index.base = nil, s.last.index+1
	}
}

// settleGroups checks and completes the groups once everything is replayed.
func (l *Log) settleGroups() error {
	for _, g := range l.allGroups() {
		x := &g.index
		if x.base > x.truncated.index+1 {
			return &DamageError{File: l.o.Dir, Offset: 0, Reason: fmt.Sprintf(
				"entries %d to %d of group %d are missing: a segment's file is gone", x.truncated.index+1, x.base-1, g.id)}
		}
		last := x.lastPosition()
		if g.hard != nil && g.hard.GetCommit() > last.index {
			g.hard = makeHardState(g.hard.GetTerm(), g.hard.GetVote(), last.index)
		}
		g.written = groupState{group: g.id, term: g.hard.GetTerm(), vote: g.hard.GetVote(), commit: g.hard.GetCommit(),
			truncated: x.truncated, last: last}
		g.durable.Store(x.truncated.index)
	}
	return nil
}

func makeHardState(term, vote, commit uint64) *raftpb.HardState {
	return &raftpb.HardState{Term: new(term), Vote: new(vote), Commit: new(commit)}
}
