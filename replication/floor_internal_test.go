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
		{"one is sent", func() { g.snapshots.streaming = map[uint64]int{90: 1} }, 90},
		{"raft knows of an older one", func() { g.snapshots.handed = []*cut{{snap: snapAt{index: 70}}} }, 70},
		{"a still older one is there for whom it may need", func() { g.snapshots.prepared = &cut{snap: snapAt{index: 50}} }, 50},
	} {
		step.begin()
		if got := g.needlessBefore(much); got != step.want {
			t.Errorf("%s: nobody needs the entries up to %d, want %d", step.what, got, step.want)
		}
	}
}
