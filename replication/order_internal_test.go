package replication

import (
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/understudy-mq/understudy/replication/log"
)

// lateLog is a log whose writes come to the disk, one after the other, when the test says so.
type lateLog struct {
	GroupLog
	done []func()
}

func (l *lateLog) Append(_ log.Write, done func()) { l.done = append(l.done, done) }

func (l *lateLog) sync() {
	l.done[0]()
	l.done = l.done[1:]
}

// slowInstall is a machine that has something happen while it installs a snapshot.
type slowInstall struct {
	Machine
	meanwhile func()
}

func (m slowInstall) Install(_, _ uint64) error      { m.meanwhile(); return nil }
func (slowInstall) Round()                           {}
func (slowInstall) Applied() (index, term uint64)    { return 90, 1 }
func (slowInstall) Standing() (bool, uint64, uint64) { return false, 0, 0 }
func (slowInstall) Stamp() int64                     { return 0 }
func (slowInstall) NextDeadline() int64              { return 0 }
func (slowInstall) Fingerprint() uint64              { return 0 }

// storedResponse is a response to raft, told from others by its number.
func storedResponse(n uint64) []*pb.Message {
	return []*pb.Message{{Type: pb.MsgStorageAppendResp.Enum(), To: new(uint64(1)), Index: new(n)}}
}

// installing is a group whose apply goroutine has something left to do, with response 9. Behind that it has handed its log a snapshot,
// whose response is 1, and three more writes with responses 2 to 4.
func installing() (*Group, *lateLog) {
	g, _ := bare(1)
	l := &lateLog{}
	g.log = l
	g.apply = newApplier(slowInstall{meanwhile: func() {}})
	g.apply.stored = g.stored
	g.apply.report = func(r *report) { g.in.put(event{kind: eventReport, report: r}) }
	g.apply.watch = func() []uint64 { return nil }
	g.apply.put(work{responses: storedResponse(9)})
	for n := range uint64(4) {
		m := &pb.Message{
			Entries:   []*pb.Entry{{Index: new(90 + n), Term: new(uint64(1))}},
			Responses: storedResponse(1 + n),
		}
		if n == 0 {
			m.Entries, m.Snapshot = nil, &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64(90)), Term: new(uint64(1))}}
		}
		g.storageAppend(m)
	}
	return g, l
}

// inOrder is what has come to the group's goroutine: responses by their numbers, and 0 for what it installed.
func inOrder(g *Group) (out []uint64) {
	events, _ := g.in.take(nil)
	for _, e := range events {
		if e.report != nil && e.report.installed != nil {
			out = append(out, 0)
		}
		for _, m := range e.stored {
			out = append(out, m.GetIndex())
		}
	}
	return out
}

func TestResponsesOfTheLogDoNotOvertakeAnInstallation(t *testing.T) {
	for _, c := range []struct {
		what string
		// How many writes come to the disk before the installation begins, while it goes on, and while its response is handed over.
		ahead, meanwhile, told int
	}{
		{"all are there before", 3, 0, 0},
		{"all come during it", 0, 3, 0},
		{"all come as its response is handed over", 0, 0, 3},
		{"one before, one during it, and one after, while that waits still", 1, 1, 0},
		{"one during it, two after", 0, 1, 0},
	} {
		g, l := installing()
		syncs := func(n int) {
			for range n {
				l.sync()
			}
		}
		g.apply.machine = slowInstall{meanwhile: func() { syncs(c.meanwhile) }}
		g.apply.stored = func(responses []*pb.Message) {
			if responses[0].GetIndex() == 1 {
				syncs(c.told)
			}
			g.stored(responses)
		}
		syncs(1 + c.ahead)
		if got := inOrder(g); len(got) != 0 {
			t.Errorf("%s: before the installation raft is told %v", c.what, got)
		}
		g.apply.step()
		syncs(len(l.done))
		for g.apply.step() {
		}
		if got, want := inOrder(g), []uint64{9, 0, 1, 2, 3, 4}; !slices.Equal(got, want) {
			t.Errorf("%s: raft is told %v, want %v", c.what, got, want)
		}
		if g.apply.holding() {
			t.Errorf("%s: responses of the log are held up for ever", c.what)
		}
	}
}
