package replication

import (
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/understudy-mq/understudy/replication/log"
)

// elected is a bare group whose raft, in memory, leads as its only voter; node 2 is a learner.
func elected(t *testing.T) *Group {
	t.Helper()
	g, _ := bare(1)
	disk := raft.NewMemoryStorage()
	conf := &pb.ConfState{Voters: []uint64{1}, Learners: []uint64{2}, AutoLeave: new(false)}
	err := disk.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{ConfState: conf, Index: new(uint64(1)), Term: new(uint64(1))}})
	if err == nil {
		g.raw, err = raft.NewRawNode(&raft.Config{ID: 1, ElectionTick: 10, HeartbeatTick: 1, Storage: disk, Applied: 1, MaxSizePerMsg: 1 << 20,
			MaxInflightMsgs: 256, Logger: raftLogger{to: g.logger}})
	}
	if err == nil {
		err = g.raw.Campaign()
	}
	for err == nil && g.raw.HasReady() {
		r := g.raw.Ready()
		err = disk.Append(r.Entries)
		g.raw.Advance(r)
	}
	if err != nil || g.raw.Status().RaftState != raft.StateLeader {
		t.Fatalf("not elected: %v", err)
	}
	g.setMembers(membership{raft: conf})
	g.term, g.leader = g.raw.Status().GetTerm(), 1
	g.startLeading()
	return g
}

func TestALearnerIsPromotedOnlyOnceItFollows(t *testing.T) {
	g := elected(t)
	promote := request{verb: verbPromote, node: 2}
	if err := g.admissible(promote); err != errCatchingUp {
		t.Errorf("a learner that nothing was heard of: %v, want %v", err, errCatchingUp)
	}
	last := g.raw.Status().Progress[1].Match
	if err := g.raw.Step(&pb.Message{Type: pb.MsgAppResp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(g.term), Index: new(last)}); err != nil {
		t.Fatal(err)
	}
	if err := g.admissible(promote); err != nil {
		t.Errorf("a learner that follows: %v", err)
	}
}

func TestALeaderHasABoundedAmountUnderWay(t *testing.T) {
	g := elected(t)
	g.lead.entriesBytes = windowBytes + 1
	g.pack()
	if len(g.lead.control) == 0 {
		t.Error("an entry was proposed though too much is under way")
	}
	g.lead.entriesBytes = windowBytes
	g.pack()
	if len(g.lead.control) != 0 {
		t.Error("no entry was proposed though there was room")
	}
}

func TestANodeThatIsNoMemberIsDeclaredDownThoughItIsHeard(t *testing.T) {
	g, _ := leading()
	now := time.Hour
	g.env.mono = func() time.Duration { return now }
	g.env.heard = func(uint64) time.Duration { return now }
	if g.tickLead(); len(g.lead.control) != 0 {
		t.Fatalf("a member that is heard: %q", g.lead.control)
	}
	g.setMembers(firstMembership(map[uint64]string{1: "a", 3: "c"}))
	if g.tickLead(); !strings.Contains(string(g.lead.control), "-\x02") {
		t.Errorf("a node that was removed: %q", g.lead.control)
	}
}

func TestASnapshotThatIsCutTooLateIsLetGoOf(t *testing.T) {
	g, _ := bare(1)
	pins := 1
	g.wasCut(cutAt(60), nil, func() { pins-- })
	if pins != 0 || g.snapshots.prepared != nil {
		t.Error("a node that leads no more keeps a snapshot, and the log behind it")
	}
}

type closer bool

func (c *closer) Close() error { *c = true; return nil }

func TestSnapshotsAreStagedOneAtATime(t *testing.T) {
	s, first, second := snapshots{}, new(closer), new(closer)
	if !s.begin(first) {
		t.Fatal("the first was refused")
	}
	if s.begin(second) || !bool(*first) || bool(*second) {
		t.Errorf("the second was taken beside the first, or that goes on: closed %v, %v", *first, *second)
	}
	s.release()
	if !s.begin(second) {
		t.Error("none is taken once the first has ended")
	}
}

func TestANodeRegistersWhereItIsAMemberOfNoStandby(t *testing.T) {
	g, net := bare(1)
	g.leader = 2
	if g.askRegistration(); len(net.sent) != 1 {
		t.Fatal("a member did not ask")
	}
	g.standby = true
	if g.askRegistration(); len(net.sent) != 1 {
		t.Error("a node of a standby asks")
	}
	g.standby = false
	g.setMembers(firstMembership(map[uint64]string{2: "b", 3: "c"}))
	if g.askRegistration(); len(net.sent) != 1 {
		t.Error("a node that was removed asks on")
	}
}

func TestAnEntryIsBoundedButForASingleBatch(t *testing.T) {
	g, _ := leading()
	small, big := arrival{2, forward{commands: make([]byte, entryBytes-100)}}, arrival{2, forward{commands: make([]byte, entryBytesMost)}}
	for _, c := range []struct {
		pending []arrival
		want    int
	}{{[]arrival{small, big}, 1}, {[]arrival{big, small}, 1}, {[]arrival{small, small, small}, 2}} {
		g.lead.pending = c.pending
		if n := g.fill(); n != c.want || len(g.lead.buffer) > entryBytesMost+100 {
			t.Errorf("%d batches in an entry of %d bytes, want %d", n, len(g.lead.buffer), c.want)
		}
	}
}

func TestOnlyTheLastVoterCannotBeRemoved(t *testing.T) {
	g := elected(t)
	if err := g.admissible(request{verb: verbRemove, node: 2}); err != nil {
		t.Errorf("a learner beside the only voter: %v", err)
	}
	if err := g.admissible(request{verb: verbRemove, node: 1}); err == nil {
		t.Error("the last voter may go")
	}
}

func TestLeadershipIsNotHandedToANodeThatIsSilent(t *testing.T) {
	g, _ := leading()
	g.env.mono = func() time.Duration { return time.Hour }
	heard := time.Hour
	g.env.heard = func(uint64) time.Duration { return heard }
	if err := g.admissible(request{verb: verbTransfer, node: 3}); err != nil {
		t.Errorf("a node that is heard: %v", err)
	}
	heard -= g.env.electionTime() + 1
	if err := g.admissible(request{verb: verbTransfer, node: 3}); err == nil {
		t.Error("a node that is silent is to lead")
	}
}

func TestAWordOfALaterTermIsNotTakenBack(t *testing.T) {
	g, _ := bare(1)
	g.term = 5 // raft may hear of the next term last
	g.expected(3, expectation{7, 1, 4})
	g.expected(2, expectation{6, 1, 1})
	if g.target.leader != 3 || g.target.next != 4 {
		t.Errorf("batches go to %+v", g.target)
	}
}

// keptLog keeps what is to be written.
type keptLog struct {
	GroupLog
	writes []log.Write
}

func (l *keptLog) Append(w log.Write, _ func()) { l.writes = append(l.writes, w) }

func TestASnapshotIsOnDiskBeforeItIsInstalled(t *testing.T) {
	g, _ := bare(1)
	l := &keptLog{}
	g.log = l
	g.storageAppend(&pb.Message{Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64(90)), Term: new(uint64(3))}}})
	if len(l.writes) != 1 || !l.writes[0].Sync || l.writes[0].SnapshotIndex != 90 || l.writes[0].SnapshotTerm != 3 {
		t.Errorf("the log is told %+v", l.writes)
	}
}
