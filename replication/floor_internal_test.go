package replication

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// durableTo is a machine whose newest checkpoint is after an entry.
type durableTo struct {
	Machine
	index uint64
}

func (d durableTo) Durable() (index, term uint64) { return d.index, 1 }

// snapAt is a snapshot at an entry.
type snapAt struct {
	Snapshot
	index uint64
}

func (c snapAt) Index() uint64 { return c.index }

// none is the floor of a leader that owes nothing.
const none = ^uint64(0)

func TestLogIsKeptBehindSnapshotsThatAreOnTheirWay(t *testing.T) {
	g, _ := bare(1)
	g.machine = durableTo{index: 100}
	g.env.opts.FollowerLagBytes = 1
	const much = 1 << 30 // of log after the entries: no follower holds them
	for _, step := range []struct {
		what  string
		begin func()
		want  uint64
	}{
		{"nothing is on its way", func() {}, 100},
		{"one has been sent", func() { g.snapshots.owed = map[uint64]*debt{2: {index: 80, match: 90}} }, 90},
		{"raft knows of an older one", func() { g.snapshots.handed = []*cut{{snap: snapAt{index: 70}}} }, 70},
		{"a still older one is there for whom it may need", func() { g.snapshots.prepared = &cut{snap: snapAt{index: 50}} }, 50},
	} {
		step.begin()
		if got := g.needlessBefore(much); got != step.want {
			t.Errorf("%s: nobody needs the entries up to %d, want %d", step.what, got, step.want)
		}
	}
}

// sending is a leader that sends node 2 a snapshot at entry index.
func sending(lag int64, elections int, index uint64) (*Group, *debt) {
	g, _ := bare(1)
	g.env.opts.FollowerLagBytes, g.env.opts.ElectionTicks = lag, elections
	g.appended = appended{bytes: 5000, samples: []sample{{index, 5000}}}
	g.ticks = 300
	return g, g.owe(2, index)
}

// write lets the leader append bytes, the last of them entry index's.
func (g *Group) write(index uint64, bytes int64) {
	g.appended.bytes += bytes
	g.appended.samples = append(g.appended.samples, sample{index, g.appended.bytes})
}

func TestLogIsOwedToAFollowerFromItsSnapshotUntilItHasCaughtUpOrIsGivenUp(t *testing.T) {
	const lag, elections, index, goal = 1000, 10, 90, 120
	for _, c := range []struct {
		what    string
		happens func(g *Group) (match uint64)
		want    uint64
	}{
		{"it installs", func(g *Group) uint64 { return 7 }, index},
		{"it has installed", func(g *Group) uint64 { return index }, index},
		{"it is on its way to what was committed", func(g *Group) uint64 { return goal - 1 }, goal - 1},
		{"it has caught up", func(g *Group) uint64 { return goal }, none},
		{"it has what was committed then, but is far behind by now", func(g *Group) uint64 {
			g.write(goal+1, 1)
			g.write(goal+2, owedLags*lag-1)
			return goal
		}, goal},
		{"it will never catch up", func(g *Group) uint64 { g.write(goal, owedLags*lag+1); return goal - 1 }, none},
		{"it is as far behind, after a snapshot that was as long", func(g *Group) uint64 {
			g.snapshots.owed[2].sent.Add(1)
			g.write(goal, owedLags*lag+1)
			return goal - 1
		}, goal - 1},
		{"it takes its time", func(g *Group) uint64 { g.ticks += owedElections * elections; return 7 }, index},
		{"it has made no progress for long", func(g *Group) uint64 { g.ticks += owedElections*elections + 1; return 7 }, none},
		{"it has made progress after long", func(g *Group) uint64 { g.ticks += owedElections*elections + 1; return index + 1 }, index + 1},
		{"the volume is too full, and not because of it", func(g *Group) uint64 {
			g.env.pressed = func() bool { return true }
			g.write(goal, lag)
			return 7
		}, index},
		{"the volume is too full", func(g *Group) uint64 { g.env.pressed = func() bool { return true }; g.write(goal, lag+1); return 7 }, none},
	} {
		g, d := sending(lag, elections, index)
		d.match, g.commit = 7, goal
		g.settle([]progress{{node: 2, match: 7}})
		if got := g.snapshots.floor(); got != index {
			t.Fatalf("%s: while it is sent the floor is %d", c.what, got)
		}
		g.sent(2, d, true)
		match := c.happens(g)
		g.settle([]progress{{node: 2, match: match}})
		if got := g.snapshots.floor(); got != c.want {
			t.Errorf("%s: the floor is %d, want %d", c.what, got, c.want)
		}
	}
}

func TestStreamOfASnapshotIsGivenUpWithTheLogBehindIt(t *testing.T) {
	const lag, elections, index = 1000, 10, 90
	for _, c := range []struct {
		what    string
		happens func(g *Group, d *debt)
		goesOn  bool
	}{
		{"it is slow", func(g *Group, _ *debt) { g.ticks += owedElections * elections; g.write(index+1, owedLags*lag) }, true},
		{"it takes less than is written", func(g *Group, _ *debt) { g.write(index+1, owedLags*lag+1) }, false},
		{"it takes as much as is written", func(g *Group, d *debt) { d.sent.Add(100 * lag); g.write(index+1, (100+owedLags)*lag) }, true},
		{"it stands still", func(g *Group, _ *debt) { g.ticks += owedElections*elections + 1 }, false},
		{"it moves", func(g *Group, d *debt) { g.ticks += owedElections*elections + 1; d.sent.Add(1) }, true},
		{"the volume is too full", func(g *Group, _ *debt) { g.env.pressed = func() bool { return true }; g.write(index+1, lag+1) }, false},
		{"this node leads no more", func(g *Group, _ *debt) { g.lead = &leadership{}; g.stopLeading() }, false},
	} {
		g, d := sending(lag, elections, index)
		stopped := false
		d.stop = func() { stopped = true }
		c.happens(g, d)
		g.settle([]progress{{node: 2}})
		if got := g.snapshots.floor() == index; got != c.goesOn || stopped == c.goesOn {
			t.Errorf("%s: the log is kept: %v, the stream was stopped: %v", c.what, got, stopped)
		}
	}
}

func TestLeadershipIsNotHandedOverForBalanceWhileAFollowerIsSentASnapshot(t *testing.T) {
	g, _ := sending(1000, 10, 90)
	g.lead = &leadership{}
	g.handTo(map[uint64]int{1: 3}) // it would ask raft, which there is none of
}

func TestNoLogIsOwedToAFollowerThatGotNoSnapshotOrIsGone(t *testing.T) {
	const index = 90
	for what, happens := range map[string]func(g *Group, d *debt){
		"the stream failed":        func(g *Group, d *debt) { g.sent(2, d, false) },
		"it is no longer a member": func(g *Group, _ *debt) { g.settle([]progress{{node: 3, match: 7}}) },
		"another node leads":       func(g *Group, _ *debt) { g.lead = &leadership{}; g.stopLeading() },
	} {
		g, d := sending(1000, 10, index)
		happens(g, d)
		if got := g.snapshots.floor(); got != none {
			t.Errorf("%s: the floor is %d", what, got)
		}
	}
}

func TestAStreamThatEndsLateDoesNotEndTheDebtOfANewerOne(t *testing.T) {
	g, old := sending(1000, 10, 80)
	stopped := false
	old.stop = func() { stopped = true }
	g.owe(2, 90)
	g.sent(2, old, false)
	if d := g.snapshots.owed[2]; d == nil || !d.sending || d.index != 90 || !stopped {
		t.Errorf("the newer snapshot's debt is %+v, the older one was stopped: %v", d, stopped)
	}
}

// TestPlacesInTheLogAreRememberedFarBackAndWithinBounds holds what is remembered against the truth.
func TestPlacesInTheLogAreRememberedFarBackAndWithinBounds(t *testing.T) {
	const lag, size = 1 << 20, 1500
	var a appended
	total := int64(0)
	ends := []int64{0} // by index
	for index := uint64(1); index <= 400*lag/size; index++ {
		total += size
		ends = append(ends, total)
		a.add([]*pb.Entry{{Index: new(index), Data: make([]byte, size)}}, lag)
	}
	if len(a.samples) > samplesMost {
		t.Errorf("%d places are remembered", len(a.samples))
	}
	for index := uint64(1); index < uint64(len(ends)); index += 97 {
		truth := total - ends[index]
		if got, most := a.after(index), truth+max(truth/(sampleShare/4), 2*lag/sampleParts); got < truth || got > most {
			t.Fatalf("%d bytes after entry %d, of %d: not from %d to %d", got, index, len(ends), truth, most)
		}
		if at := a.behind(truth); at > index {
			t.Fatalf("entry %d has %d bytes after it, not %d", at, total-ends[at], truth)
		}
	}
}

func TestWhatWasOverwrittenInTheLogIsNotAPlaceInIt(t *testing.T) {
	var a appended
	entry := func(index uint64) []*pb.Entry { return []*pb.Entry{{Index: new(index), Data: make([]byte, 100)}} }
	for _, index := range []uint64{1, 2, 3, 2} {
		a.add(entry(index), sampleParts)
	}
	if got := a.after(1); got != 300 {
		t.Errorf("%d bytes came after entry 1", got)
	}
	if got := a.behind(100); got != 1 {
		t.Errorf("entry %d is 100 bytes back", got)
	}
}
