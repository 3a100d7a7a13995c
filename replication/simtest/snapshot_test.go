package simtest

import "testing"

// lagBytes is what a log is kept for a slow follower (Sim's options), entryBytes less than an entry with one value takes.
const lagBytes, entryBytes = 2048, 16

// goOn lets a leader append so many bytes while it gives back what it may of its log.
func (s *Sim) goOn(leader *simNode, bytes int) {
	before := last(leader)
	for step := 0; s.err == nil && last(leader)-before < uint64(bytes/entryBytes); step++ {
		if step > bytes {
			s.fail("node %d does not get on", leader.id)
		}
		leader.submit()
		s.tick(0)
		leader.machine.Checkpoint(func(error) {})
		leader.node.Truncate(0)
	}
}

// sendSnapshot leaves a follower behind, and lets it come back and get a snapshot. The follower begins to install it and does not come
// to an end.
func (s *Sim) sendSnapshot(t *testing.T, leader, follower *simNode) {
	t.Helper()
	s.cutOff(follower.id)
	s.goOn(leader, 4*lagBytes)
	if first, _ := leader.disk.FirstIndex(); first <= last(follower)+1 {
		t.Fatalf("the leader has the log from entry %d on, the follower up to %d: it needs no snapshot", first, last(follower))
	}
	for _, l := range s.net.order {
		l.blocked = false
	}
	follower.busy = true
	for step := 0; s.Snapshots == 0 && step < 500; step++ {
		s.tick(0)
	}
	if s.err != nil || s.Snapshots != 1 {
		t.Fatalf("%d snapshots were sent: %v", s.Snapshots, s.err)
	}
}

func TestFollowerThatInstallsWhileTheLeaderGoesOnNeedsNoOtherSnapshot(t *testing.T) {
	s, leader := quiet(t, 3)
	follower := s.nodes[leader.id%3+1]
	s.sendSnapshot(t, leader, follower)
	s.goOn(leader, 4*lagBytes)
	if follower.machine.Installed != 0 {
		t.Fatal("the snapshot was installed at once: this tests nothing")
	}
	follower.busy = false
	s.settle(300)
	if s.err != nil || !leader.leads() || follower.machine.Installed != 1 || s.Snapshots != 1 {
		t.Errorf("%d snapshots sent, %d installed: %v", s.Snapshots, follower.machine.Installed, s.err)
	}
}
