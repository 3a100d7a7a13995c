package replication_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/replication"
	"github.com/understudy-mq/understudy/replication/simtest"
)

// place is where a reader of a group's log is.
type place struct{ index, term, hash uint64 }

// origin is where the log of a group begins.
func origin() place {
	return place{1, 1, simtest.Codec().Hash(1, 1, nil)}
}

func (m *member) read(at place, bytesMax int) replication.LinkRead {
	m.t.Helper()
	r, err := m.group().ReadLink(at.index, at.term, at.hash, bytesMax)
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

// readAll reads on until there is nothing more, and checks what it reads.
func (m *member) readAll(at place) (list []replication.LinkEntry, end place) {
	m.t.Helper()
	for {
		r := m.read(at, 1000)
		if r.Status != replication.ReadEntries {
			m.t.Fatalf("after entry %d: status %d", at.index, r.Status)
		}
		if len(r.Entries) == 0 {
			return list, at
		}
		for _, e := range r.Entries {
			if e.Index != at.index+1 || e.Own != (len(e.Data) == 0) {
				m.t.Fatalf("after entry %d comes %d, raft's own %v with %d bytes", at.index, e.Index, e.Own, len(e.Data))
			}
			at = place{e.Index, e.Term, at.hash + simtest.Codec().Hash(e.Index, e.Term, e.Data)}
			if e.Hash != at.hash {
				m.t.Fatalf("the rolling hash at entry %d is %x, not %x", e.Index, e.Hash, at.hash)
			}
		}
		list = append(list, r.Entries...)
	}
}

func TestALinkReadsEveryEntryWithItsRollingHash(t *testing.T) {
	m := options(t, 1)
	m.start()
	defer m.stop()
	<-m.reg
	m.mustSubmit(0, 3000)
	eventually(t, "applied", func() bool { return m.machine.Count() == 3000 })
	list, end := m.readAll(origin())
	if applied, hash := m.machine.RollingHash(); end.index != applied || end.hash != hash || len(list) < 3 {
		t.Errorf("read to entry %d with hash %x, applied %d with %x", end.index, end.hash, applied, hash)
	}
	half := list[len(list)/2]
	if r := m.read(place{half.Index, half.Term, half.Hash}, 1); len(r.Entries) != 1 || r.Entries[0].Index != half.Index+1 {
		t.Errorf("a read from the middle: %+v", r)
	}
}

func TestALinkIsToldThatItsPlaceIsUnknown(t *testing.T) {
	m := options(t, 1)
	m.start()
	defer m.stop()
	<-m.reg
	m.mustSubmit(0, 10)
	eventually(t, "applied", func() bool { return m.machine.Count() == 10 })
	_, end := m.readAll(origin())
	for _, c := range []struct {
		what string
		at   place
		want replication.ReadStatus
	}{
		{"another term", place{end.index, end.term + 1, end.hash}, replication.ReadMismatch},
		{"another hash", place{end.index, end.term, end.hash + 1}, replication.ReadMismatch},
		{"beyond what is applied", place{end.index + 1, end.term, end.hash}, replication.ReadAhead},
		{"before the log's beginning", place{}, replication.ReadPurged},
	} {
		if r := m.read(c.at, 1000); r.Status != c.want || len(r.Entries) > 0 {
			t.Errorf("%s: status %d with %d entries, want %d", c.what, r.Status, len(r.Entries), c.want)
		}
	}
	if r := m.read(place{end.index, end.term, end.hash + 1}, 1000); r.Term != end.term || r.Hash != end.hash {
		t.Errorf("a mismatch names term %d and hash %x, want %d and %x", r.Term, r.Hash, end.term, end.hash)
	}
}

func TestTheRollingHashIsKnownAfterARestart(t *testing.T) {
	m := options(t, 1)
	m.start()
	<-m.reg
	m.mustSubmit(0, 2000)
	eventually(t, "applied", func() bool { return m.machine.Count() == 2000 })
	before, _ := m.readAll(origin())
	m.stop() // makes a checkpoint: nothing is replayed
	m.start()
	defer m.stop()
	<-m.reg
	if after, _ := m.readAll(origin()); len(after) <= len(before) || after[len(before)-1].Hash != before[len(before)-1].Hash {
		t.Errorf("%d entries before, %d after the restart, or another hash", len(before), len(after))
	}
}

// standby is a member that is to follow another cluster.
func standby(t *testing.T) *member {
	m := options(t, 1)
	m.opts.Standby = true
	m.start()
	eventually(t, "attached", func() bool {
		_ = m.group().ControlLocal(simtest.Attach(origin().index))
		is, _, _ := m.machine.Standing()
		return is
	})
	return m
}

// follow replays what the source has.
func (m *member) follow(source *member) {
	m.t.Helper()
	list, end := source.readAll(origin())
	eventually(m.t, "the standby has caught up", func() bool {
		changed := m.group().Changed()
		_, at, _ := m.machine.Standing()
		if at == end.index {
			return true
		}
		var envelopes [][]byte
		for _, e := range list[at-origin().index:] {
			envelopes = append(envelopes, simtest.Replay(e.Index, e.Data))
		}
		if err := m.group().Replay(at+1, envelopes); err != nil {
			return false
		}
		select {
		case <-changed:
		case <-time.After(time.Second):
		}
		return false
	})
}

func TestAStandbyFollowsAndServesOnceItIsPromoted(t *testing.T) {
	source := options(t, 1)
	source.start()
	defer source.stop()
	<-source.reg
	source.mustSubmit(0, 500)
	eventually(t, "applied", func() bool { return source.machine.Count() == 500 })

	m := standby(t)
	m.follow(source)
	if got := m.machine.Values(); !slices.Equal(got, numbers(0, 500)) || m.machine.Own() > 0 || m.machine.Ticks() > 0 {
		t.Fatalf("%d values, %d entries and %d ticks of its own", len(got), m.machine.Own(), m.machine.Ticks())
	}
	if s := m.group().Status(); !s.Standby || s.Position == 0 {
		t.Errorf("status %+v", s)
	}
	m.stop() // what it is outlives the process
	m.start()
	defer m.stop()
	source.mustSubmit(500, 600)
	eventually(t, "applied", func() bool { return source.machine.Count() == 600 })
	m.follow(source)
	eventually(t, "promoted", func() bool {
		_ = m.group().ControlLocal(simtest.Promote())
		_, _, since := m.machine.Standing()
		return since > 0
	})
	<-m.reg
	m.mustSubmit(600, 700)
	eventually(t, "applied", func() bool { return m.machine.Count() == 700 })
	if got := m.machine.Values(); !slices.Equal(got, numbers(0, 700)) {
		t.Errorf("%d values, or others than the source's and its own", len(got))
	}
	_, _, since := m.machine.Standing()
	if r := m.read(origin(), 1000); r.Status != replication.ReadPurged || r.First != since {
		t.Errorf("what a promoted cluster replayed is handed out as its own log: %+v", r)
	}
}

func TestAnExportIsCutWhereItSaysItIs(t *testing.T) {
	m := options(t, 1)
	m.start()
	defer m.stop()
	<-m.reg
	m.mustSubmit(0, 100)
	eventually(t, "applied", func() bool { return m.machine.Count() == 100 })
	e, err := m.group().Export(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m.mustSubmit(100, 200)
	eventually(t, "applied", func() bool { return m.machine.Count() == 200 })
	if r := m.read(place{e.Index(), e.Term(), e.Hash}, 1000); r.Status != replication.ReadEntries || len(r.Entries) == 0 {
		t.Errorf("the log does not go on from the export at entry %d: %+v", e.Index(), r)
	}
}

// TestTheLogIsKeptForAStandby: what a standby has not read stays, although nothing else needs it, until the standby is
// forgotten.
func TestTheLogIsKeptForAStandby(t *testing.T) {
	m := options(t, 1)
	m.opts.SegmentBytes, m.opts.CheckpointBytes, m.opts.LogBytesMax = 64<<10, 16<<10, 64<<10
	m.opts.HoldDiskPercent = 100 // however full the machine is that runs this
	m.start()
	defer m.stop()
	<-m.reg
	m.node.Hold("standby", 0, 0, origin().index)
	for range 40 {
		if err := m.group().Submit(simtest.Bytes(10<<10), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.group().Submit(simtest.Settle(), 1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "applied", func() bool { return m.machine.Count() == 40 })
	eventually(t, "the log is longer because of the hold", func() bool {
		h := m.node.Holds()
		return len(h) == 1 && h[0].State == replication.HoldExtended && h[0].Holding && h[0].Held > 300<<10
	})
	list, _ := m.readAll(origin())
	size := 0
	for _, e := range list {
		size += len(e.Data)
	}
	if size < 400<<10 {
		t.Errorf("%d bytes of entries are left", size)
	}
	m.node.Hold("standby", 0, 0, m.group().Status().Applied)
	eventually(t, "the log is cut", func() bool { return m.group().Status().FirstIndex > 2 })
	m.node.Hold("standby", 0, 0, origin().index)
	if h := m.node.Holds(); len(h) != 1 || h[0].State != replication.HoldLost || h[0].Holding {
		t.Errorf("the standby's next entry is gone: %+v", h)
	}
	if r := m.read(origin(), 1000); r.Status != replication.ReadPurged || r.First != m.group().Status().FirstIndex {
		t.Errorf("a read of what is gone: %+v", r)
	}
}

// TestTheLogIsKeptForAnImage: content that was live when an image was begun stays although nothing else needs it, until a newer
// image has taken its place.
func TestTheLogIsKeptForAnImage(t *testing.T) {
	m := options(t, 1)
	m.opts.SegmentBytes, m.opts.CheckpointBytes = 64<<10, 16<<10
	m.opts.HoldDiskPercent, m.opts.ImageInterval = 100, time.Millisecond
	m.opts.ImageDir = filepath.Join(t.TempDir(), "images")
	m.opts.Image = func(dir string) error { return os.MkdirAll(dir, 0o755) }
	var rounds atomic.Int64
	m.opts.Fenced = func() bool { rounds.Add(1); return false }
	m.start()
	defer m.stop()
	<-m.reg
	reach := func() { m.node.Hold("standby", 0, 0, m.group().Status().LastIndex) }
	submit := func(commands ...[]byte) {
		t.Helper()
		for _, c := range commands {
			if err := m.group().Submit(c, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill := slices.Repeat([][]byte{simtest.Bytes(10 << 10)}, 20)
	first := m.group().Status().LastIndex + 1 // with content
	submit(fill...)
	eventually(t, "applied", func() bool { return m.machine.Count() == 20 })
	eventually(t, "there is an image", func() bool {
		reach()
		list, err := filepath.Glob(filepath.Join(m.opts.ImageDir, "*.json"))
		return err == nil && len(list) > 0
	})
	submit(append(fill, simtest.Settle())...) // the standby does not come to that
	eventually(t, "settled", func() bool { return m.machine.Count() == 40 && m.live(1<<40) == 0 })
	for seen := rounds.Load(); rounds.Load() < seen+10; {
		time.Sleep(time.Millisecond)
	}
	if now := m.group().Status().FirstIndex; now > first {
		t.Errorf("the log begins at entry %d, and there is an image whose state needs what was before", now)
	}
	eventually(t, "the log is cut", func() bool {
		reach()
		submit(simtest.Value(7))
		return m.group().Status().FirstIndex > first
	})
}

func TestEveryNodeHearsHowFarAStandbyIs(t *testing.T) {
	type word struct {
		name         string
		group, index uint64
	}
	heard := make([]chan word, 3)
	ms := cluster(t, 3, func(m *member) {
		to := make(chan word, 8)
		heard[m.opts.NodeID-1] = to
		m.opts.Observer.Covered = func(name string, group, index uint64) { to <- word{name, group, index} }
	})
	for _, m := range ms {
		<-m.reg // connected
	}
	want := word{"standby", 0, 77}
	ms[1].node.Covered(want.name, want.group, want.index)
	for i, to := range heard {
		select {
		case got := <-to:
			if got != want {
				t.Errorf("node %d heard %+v, want %+v", i+1, got, want)
			}
		case <-time.After(patience):
			t.Fatalf("node %d heard nothing", i+1)
		}
	}
	ms[1].node.Hold("another", 7, 0, 5) // one node hears of it, all hold
	for _, m := range ms {
		eventually(t, "every node holds", func() bool {
			return slices.ContainsFunc(m.node.Holds(), func(h replication.Hold) bool { return h.Name == "another" && h.Level == 7 && h.Positions[0] == 5 })
		})
	}
}

// TestAnyNodeOfAStandbyHandsOverWhatItHasRead: the leader proposes what the others forward.
func TestAnyNodeOfAStandbyHandsOverWhatItHasRead(t *testing.T) {
	source := options(t, 1)
	source.start()
	defer source.stop()
	<-source.reg
	source.mustSubmit(0, 200)
	eventually(t, "applied", func() bool { return source.machine.Count() == 200 })
	ms := cluster(t, 3, func(m *member) { m.opts.Standby = true })
	for _, m := range ms {
		eventually(t, "attached", func() bool {
			_ = m.group().ControlLocal(simtest.Attach(origin().index))
			is, _, _ := m.machine.Standing()
			return is
		})
	}
	leader := leaderOf(ms)
	follower := ms[leader%3+1]
	follower.follow(source)
	for _, m := range ms {
		eventually(t, "all have it", func() bool { return m.machine.Count() == 200 })
		if m.machine.Own() > 0 || len(m.reg) > 0 {
			t.Errorf("node %d: the standby made %d entries of its own; registered %v", m.opts.NodeID, m.machine.Own(), len(m.reg) > 0)
		}
	}
}

// TestASourceRestoredFromABackupIsNotFollowed: its log was rewound and has grown again, to the same index in the same term,
// but it is another log.
func TestASourceRestoredFromABackupIsNotFollowed(t *testing.T) {
	m := options(t, 1)
	m.start()
	<-m.reg
	m.mustSubmit(0, 100)
	eventually(t, "applied", func() bool { return m.machine.Count() == 100 })
	m.stop()
	backup := options(t, 1)
	if err := os.CopyFS(backup.opts.Dir, os.DirFS(m.opts.Dir)); err != nil {
		t.Fatal(err)
	}
	restore(t, m.machine, backup.machine)

	lives := func(m *member, from uint64) place {
		m.start()
		<-m.reg
		m.mustSubmit(from, from+1)
		eventually(t, "applied", func() bool { return m.machine.Count() == 101 })
		_, end := m.readAll(origin())
		return end
	}
	standby := lives(m, 1000)
	m.stop()
	defer backup.stop()
	if end := lives(backup, 2000); end.index < standby.index || end.term != standby.term {
		t.Fatalf("the restored log ends at %+v, the standby is at %+v: this tests nothing", end, standby)
	}
	if r := backup.read(standby, 1000); r.Status != replication.ReadMismatch || r.Term != standby.term || r.Hash == standby.hash {
		t.Errorf("a restored source answers %+v to the place %+v", r, standby)
	}
}

// restore makes one machine's state another's.
func restore(t *testing.T, from, to *simtest.Machine) {
	t.Helper()
	s, err := from.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := s.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	index, term, _, err := to.Stage(context.Background(), &b)
	if err == nil {
		err = to.Install(index, term)
	}
	if err != nil {
		t.Fatal(err)
	}
}
