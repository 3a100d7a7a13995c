package replication

import "testing"

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
			g.appended.samples = append(g.appended.samples, sample{goal + 1, g.appended.bytes})
			g.appended.bytes += owedLags * lag
			return goal
		}, goal},
		{"it will never catch up", func(g *Group) uint64 { g.appended.bytes += owedLags*lag + 1; return goal - 1 }, none},
		{"it takes its time", func(g *Group) uint64 { g.ticks += owedElections * elections; return 7 }, index},
		{"it has made no progress for long", func(g *Group) uint64 { g.ticks += owedElections*elections + 1; return 7 }, none},
		{"it has made progress after long", func(g *Group) uint64 { g.ticks += owedElections*elections + 1; return index + 1 }, index + 1},
	} {
		g, _ := bare(1)
		g.env.opts.FollowerLagBytes, g.env.opts.ElectionTicks = lag, elections
		g.appended.bytes, g.ticks, g.commit = 5000, 300, goal
		g.snapshots.owe(2, index)
		g.snapshots.owed[2].match = 7
		g.ticks += 2 * owedElections * elections // a stream takes as long as it takes
		g.settle([]progress{{node: 2, match: 7}})
		if got := g.snapshots.floor(); got != index {
			t.Fatalf("%s: while it is sent the floor is %d", c.what, got)
		}
		g.sent(2, index, true)
		g.settle([]progress{{node: 2, match: c.happens(g)}})
		if got := g.snapshots.floor(); got != c.want {
			t.Errorf("%s: the floor is %d, want %d", c.what, got, c.want)
		}
	}
}

func TestNoLogIsOwedToAFollowerThatGotNoSnapshotOrIsGone(t *testing.T) {
	const index = 90
	for what, happens := range map[string]func(g *Group){
		"the stream failed":        func(g *Group) { g.sent(2, index, false) },
		"it is no longer a member": func(g *Group) { g.settle([]progress{{node: 3, match: 7}}) },
		"another node leads":       func(g *Group) { g.lead = &leadership{}; g.stopLeading() },
	} {
		g, _ := bare(1)
		g.snapshots.owe(2, index)
		happens(g)
		if got := g.snapshots.floor(); got != none {
			t.Errorf("%s: the floor is %d", what, got)
		}
	}
}

func TestAStreamThatEndsLateDoesNotEndTheDebtOfANewerOne(t *testing.T) {
	g, _ := bare(1)
	g.snapshots.owe(2, 80)
	g.snapshots.owe(2, 90)
	g.sent(2, 80, false)
	if d := g.snapshots.owed[2]; d == nil || !d.sending {
		t.Errorf("the newer snapshot's debt is %+v", d)
	}
}
