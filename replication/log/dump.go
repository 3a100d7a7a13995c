package log

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
)

// Record is a record as Dump finds it. Which fields mean something depends on Kind.
type Record struct {
	Segment uint64
	Offset  int64 // of the record in the segment's file; 0 for what the segment's header says
	Kind    Kind
	Group   uint64
	Index   uint64 // commit index for KindHardState, number of the write for KindBarrier
	Term    uint64
	Type    raftpb.EntryType // of KindEntry
	Vote    uint64           // of KindHardState
	Durable int64            // of KindBarrier: up to here the segment was synced when it was written
	Data    []byte           // of KindEntry; valid during the visit
}

// Dump visits every record of the log in dir, oldest first, without changing anything: what each segment's header says of the groups, then
// its records. It is for a log that no process has open. A torn tail is no error. At damage it goes on with the next
// segment; the error then joins a DamageError for each. An error of visit ends it.
func Dump(fs vfs.FS, dir string, visit func(Record) error) error {
	found, err := list(fs, dir)
	if err != nil {
		return err
	}
	scanners, err := openScanners(fs, dir, found.segments)
	defer func() {
		for _, s := range scanners {
			s.file.Close() //nolint:errcheck // it was only read
		}
	}()
	if err != nil {
		return err
	}
	current, ends := live(scanners)
	var damage []error
	for _, s := range current {
		end, sealed := ends[s.header.id]
		err := dumpSegment(s, end, sealed, visit)
		if d := (*DamageError)(nil); err != nil && !errors.As(err, &d) {
			return err
		}
		damage = append(damage, err)
	}
	return errors.Join(damage...)
}

func dumpSegment(s *scanner, end seal, sealed bool, visit func(Record) error) error {
	for _, g := range s.header.groups {
		for _, r := range [...]Record{
			{Kind: KindHardState, Index: g.commit, Term: g.term, Vote: g.vote},
			{Kind: KindTruncate, Index: g.truncated.index, Term: g.truncated.term},
		} {
			r.Segment, r.Group = s.header.id, g.group
			if err := visit(r); err != nil {
				return err
			}
		}
	}
	return walk(s, end, sealed, func(r record) error {
		out := Record{Segment: s.header.id, Offset: r.offset - recordHeaderBytes, Kind: r.kind, Group: r.group, Index: r.index,
			Term: r.term, Vote: r.vote, Durable: r.barrier.durable}
		if r.kind == KindEntry {
			out.Type, out.Data = raftpb.EntryType(r.entryType), make([]byte, r.size)
			if err := s.read(out.Data, r.offset); err != nil {
				return err
			}
		}
		return visit(out)
	})
}
