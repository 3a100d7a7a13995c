package simtest

import (
	"io"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/understudy-mq/understudy/replication"
)

const (
	// lagBytes is what a log is kept for a slow follower (Sim's options), owedLags how many times that for one that was sent a snapshot
	// (replication.Options), entryBytes less than an entry with one value takes.
	lagBytes, owedLags, entryBytes = 2048, 8, 16
	// loadBytes a tick are written by write; a stream of pace 1 takes pieceBytes in each of a tick's turnsTick, which is somewhat more.
	loadBytes = 300
)

// goOn lets a leader append so many bytes while it gives back what it may of its log.
func (s *Sim) goOn(leader *simNode, bytes int) {
	before := last(leader)
	for step := 0; s.err == nil && last(leader)-before < uint64(bytes/entryBytes); step++ {
		if step > bytes {
			s.fail("node %d does not get on", leader.id)
		}
		leader.submit()
		s.tick(0)
		leader.reclaim()
	}
}

// write lets a leader append loadBytes in a tick, likewise.
func (s *Sim) write(leader *simNode) {
	if err := leader.node.Group(0).Submit(Bytes(loadBytes), 1); err != nil {
		s.fail("node %d leads but submits with %v", leader.id, err)
	}
	s.tick(0)
	leader.reclaim()
}

// reclaim gives back what a node may of its log.
func (n *simNode) reclaim() {
	n.machine.Checkpoint(func(error) {})
	n.node.Truncate(0)
}

// kept is how many bytes of entries a node's log has.
func (n *simNode) kept() (sum int) {
	for _, e := range n.disk.seen.entries {
		sum += len(e.GetData())
	}
	return sum
}

// sendSnapshot leaves a follower behind while so much is written, and lets it come back and get a snapshot. The follower begins to install
// it and does not come to an end.
func (s *Sim) sendSnapshot(t *testing.T, leader, follower *simNode, bytes int) {
	t.Helper()
	s.cutOff(follower.id)
	s.goOn(leader, bytes)
	if first, _ := leader.disk.FirstIndex(); first <= last(follower)+1 {
		t.Fatalf("the leader has the log from entry %d on, the follower up to %d: it needs no snapshot", first, last(follower))
	}
	s.uncut()
	follower.busy = true
	for step := 0; s.Snapshots == 0 && step < 500; step++ {
		s.tick(0)
	}
	if s.err != nil || s.Snapshots != 1 {
		t.Fatalf("%d snapshots were sent: %v", s.Snapshots, s.err)
	}
}

func (s *Sim) uncut() {
	for _, l := range s.net.order {
		l.blocked = false
	}
}

// gets says whether the follower has come by with so many snapshots sent to it, of which it has installed one.
func (s *Sim) gets(t *testing.T, follower *simNode, snapshots int) {
	t.Helper()
	s.settle(1500)
	if s.err != nil || follower.machine.Installed != 1 || s.Snapshots != snapshots {
		t.Errorf("%d snapshots sent, not %d, %d installed: %v", s.Snapshots, snapshots, follower.machine.Installed, s.err)
	}
}

func TestFollowerThatInstallsWhileTheLeaderGoesOnNeedsNoOtherSnapshot(t *testing.T) {
	s, leader := quiet(t, 3)
	follower := s.nodes[leader.id%3+1]
	s.sendSnapshot(t, leader, follower, 4*lagBytes)
	s.goOn(leader, 4*lagBytes)
	if follower.machine.Installed != 0 {
		t.Fatal("the snapshot was installed at once: this tests nothing")
	}
	follower.busy = false
	s.gets(t, follower, 1)
	if !leader.leads() {
		t.Error("another node leads")
	}
}

func TestFollowerThatInstallsWhileTheLeaderChangesNeedsNoOtherSnapshot(t *testing.T) {
	const writes = lagBytes / loadBytes
	for what, end := range map[string]func(leader, heir *simNode){
		"handing over": func(leader, heir *simNode) {
			leader.node.Change(0, replication.Transfer, heir.id, "", func(error) {})
		},
		"dying": func(leader, _ *simNode) { leader.crash() },
	} {
		t.Run(what, func(t *testing.T) {
			s, leader := quiet(t, 3)
			follower, heir := s.nodes[leader.id%3+1], s.nodes[(leader.id+1)%3+1]
			s.sendSnapshot(t, leader, follower, 4*lagBytes)
			for range 4 * lagBytes / loadBytes {
				s.write(leader)
				heir.reclaim()
			}
			end(leader, heir)
			s.until(200, "the heir does not lead", heir.leads)
			before := s.known
			for range writes {
				s.write(heir)
			}
			if follower.machine.Installed != 0 {
				t.Fatal("the snapshot was installed too early: this tests nothing")
			}
			if s.known < before+writes/2 { // without the former leader that takes the follower
				t.Errorf("%d entries were committed while the follower installs", s.known-before)
			}
			if leader.node == nil {
				leader.start()
			}
			follower.busy = false
			s.gets(t, follower, 1)
		})
	}
}

func TestLogBehindAFollowerThatDoesNotTakeItsSnapshotIsBounded(t *testing.T) {
	s, leader := quiet(t, 3)
	follower := s.nodes[leader.id%3+1]
	s.net.pace = 0
	s.sendSnapshot(t, leader, follower, 4*lagBytes)
	for range 10 * owedLags * lagBytes / loadBytes {
		s.write(leader)
		if n, most := leader.kept(), (owedLags+4)*lagBytes; n > most {
			t.Fatalf("the log has %d bytes, not at most %d", n, most)
		}
	}
	if s.Snapshots > 7 { // half of the time goes into them
		t.Errorf("%d snapshots were begun meanwhile", s.Snapshots)
	}
	s.net.pace, follower.busy = paceMost, false
	s.settle(1500)
	if s.err != nil || follower.machine.Installed == 0 {
		t.Errorf("%d installed: %v", follower.machine.Installed, s.err)
	}
}

func TestFollowerThatTakesALongSnapshotAsFastAsTheLeaderGoesOnNeedsNoOtherOne(t *testing.T) {
	s, leader := quiet(t, 3)
	follower := s.nodes[leader.id%3+1]
	s.net.pace = 1
	s.sendSnapshot(t, leader, follower, 40*lagBytes)
	follower.busy = false
	ticks := 0
	for ; s.err == nil && follower.machine.Installed == 0 && s.Snapshots == 1; ticks++ {
		s.write(leader)
	}
	if n := leader.kept(); n < owedLags*lagBytes*3/2 {
		t.Fatalf("in %d ticks %d bytes were written: this tests nothing", ticks, n)
	}
	s.gets(t, follower, 1)
}

func TestSnapshotOfALeaderThatIsFollowedByAnotherIsNotInTheWay(t *testing.T) {
	for what, end := range map[string]func(s *Sim, leader, heir *simNode){
		"hands over": func(_ *Sim, leader, heir *simNode) {
			leader.node.Change(0, replication.Transfer, heir.id, "", func(error) {})
		},
		"dies":       func(_ *Sim, leader, _ *simNode) { leader.crash() },
		"is stopped": func(_ *Sim, leader, _ *simNode) { leader.speed = 0 },
	} {
		t.Run(what, func(t *testing.T) {
			s, leader := quiet(t, 3)
			follower, heir := s.nodes[leader.id%3+1], s.nodes[(leader.id+1)%3+1]
			s.net.pace = 1
			s.sendSnapshot(t, leader, follower, 10*lagBytes)
			follower.busy = false
			for range 5 {
				s.tick(0)
			}
			end(s, leader, heir)
			s.until(200, "the heir does not lead", heir.leads)
			heir.reclaim()
			s.net.pace = 4
			s.until(300, "the follower gets nothing of the heir", func() bool { return follower.machine.Installed == 1 })
			s.heal()
			s.settle(1500)
			if s.err != nil || s.Snapshots > 3 {
				t.Errorf("%d snapshots were sent: %v", s.Snapshots, s.err)
			}
		})
	}
}

// unread is a snapshot that nobody is to read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) { u.t.Error("it is read"); return 0, io.EOF }
func (unread) Close() error               { return nil }

func TestSnapshotOfALeaderThatWasDeposedIsRefusedAtItsBeginning(t *testing.T) {
	s, former := quiet(t, 3)
	term, heir := former.node.Group(0).Status().Term, s.nodes[former.id%3+1]
	former.node.Change(0, replication.Transfer, heir.id, "", func(error) {})
	s.until(200, "the heir does not lead", heir.leads)
	header, err := proto.Marshal(&pb.Message{Type: pb.MsgSnap.Enum(), From: new(former.id), To: new(heir.id), Term: new(term)})
	if err != nil {
		t.Fatal(err)
	}
	if err := heir.node.ReceiveSnapshot(former.id, 0, header, unread{t}); err == nil || !strings.Contains(err.Error(), "led in term") {
		t.Errorf("it is answered with %v", err)
	}
	s.endsWell(t)
}
