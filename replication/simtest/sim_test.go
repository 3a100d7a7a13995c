package simtest

import (
	"flag"
	"slices"
	"testing"
	"testing/cryptotest"

	"github.com/understudy-mq/understudy/replication"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run only the simulation of this seed")
	runsFlag = flag.Uint64("runs", 40, "how many seeds to run")
)

// TestSimulatedClusterAppliesEverythingOnceAndInOrder is the whole of replication under crashes, partitions, broken
// connections, slow nodes, leader transfers and snapshots.
func TestSimulatedClusterAppliesEverythingOnceAndInOrder(t *testing.T) {
	from, to := uint64(1), *runsFlag+1
	if *seedFlag != 0 {
		from, to = *seedFlag, *seedFlag+1
	}
	var met Sim
	for seed := from; seed < to; seed++ {
		s := runSeed(t, seed)
		met.Crashes += s.Crashes
		met.Cuts += s.Cuts
		met.Partitions += s.Partitions
		met.Snapshots += s.Snapshots
		met.Broken += s.Broken
		met.Unregistered += s.Unregistered
		met.Submitted += s.Submitted
		met.MemberChanges += s.MemberChanges
		met.Full += s.Full
		met.Asked, met.Proven = met.Asked+s.Asked, met.Proven+s.Proven
	}
	t.Logf("crashes %d, disks full %d, cuts %d, partitions %d, snapshots %d, of them broken off %d, registrations lost %d, member changes %d, values %d, asked %d times, answered %d",
		met.Crashes, met.Full, met.Cuts, met.Partitions, met.Snapshots, met.Broken, met.Unregistered, met.MemberChanges, met.Submitted, met.Asked, met.Proven)
	if *seedFlag == 0 && (met.Crashes == 0 || met.Full == 0 || met.Partitions == 0 || met.Snapshots == 0 || met.Broken == 0 || met.Unregistered == 0 || met.MemberChanges < 3 ||
		met.Proven < met.Asked/2 || met.Proven == met.Asked) {
		t.Error("the simulation did not meet with what it is for")
	}
}

func runSeed(t *testing.T, seed uint64) (s *Sim) {
	replay := func(what any) {
		t.Fatalf("%v\nreplay: go test ./replication/simtest -run Simulated -seed %d", what, seed)
	}
	defer func() {
		if p := recover(); p != nil {
			replay(p)
		}
	}()
	cryptotest.SetGlobalRandom(t, seed) // raft draws its election time-outs from there
	s = New(seed, 3)
	if err := s.Run(400); err != nil {
		replay(err)
	}
	return s
}

// TestSimulatedStandbyFollowsItsSourceAndOriginatesNothing is the same for a standby, which is promoted at the end.
func TestSimulatedStandbyFollowsItsSourceAndOriginatesNothing(t *testing.T) {
	from, to := uint64(1), *runsFlag+1
	if *seedFlag != 0 {
		from, to = *seedFlag, *seedFlag+1
	}
	crashes, snapshots, entries := 0, 0, 0
	for seed := from; seed < to; seed++ {
		cryptotest.SetGlobalRandom(t, seed)
		s := NewStandby(seed, 3)
		if err := s.RunStandby(200); err != nil {
			t.Fatalf("%v\nreplay: go test ./replication/simtest -run SimulatedStandby -seed %d", err, seed)
		}
		crashes, snapshots, entries = crashes+s.Crashes, snapshots+s.Snapshots, entries+len(s.source.entries)
	}
	t.Logf("crashes %d, snapshots %d, entries of the source %d", crashes, snapshots, entries)
	if *seedFlag == 0 && (crashes == 0 || snapshots == 0) {
		t.Error("the simulation did not meet with what it is for")
	}
}

// leader is the node that leads, when all is quiet.
func (s *Sim) leader() *simNode {
	for _, id := range s.ids {
		if n := s.nodes[id]; n.node.Group(0).Status().Role == "leader" {
			return n
		}
	}
	return nil
}

func TestBatchesThatRaftDropsMoveNoExpectation(t *testing.T) {
	s, leader := formed(t, 3)
	term := leader.node.Group(0).Status().Term
	to := leader.id%3 + 1
	for _, l := range s.net.order { // the heir hears nothing, so that raft drops proposals until it gives the transfer up
		l.blocked = l.to == to || l.from == to
	}
	leader.node.Change(0, replication.Transfer, to, "", func(error) {})
	s.tick(0)
	before := len(leader.machine.Values())
	for range 20 {
		leader.submit()
	}
	s.tick(0)
	if n := len(leader.machine.Values()); n != before {
		t.Fatalf("%d values were applied during the transfer: nothing was dropped", n-before)
	}
	for range 30 {
		s.tick(0)
	}
	if now := leader.node.Group(0).Status().Term; now != term {
		t.Fatalf("term %d, was %d", now, term)
	}
	if n := len(leader.machine.Values()); n != before+20 {
		t.Errorf("%d of 20 values applied in the same term", n-before)
	}
	s.heal()
	s.endsWell(t)
}

func TestNodeThatIsElectedWithAFullDiskGivesWay(t *testing.T) {
	s, old := formed(t, 3)
	heir := s.nodes[old.id%3+1]
	heir.fill(true)
	old.node.Change(0, replication.Transfer, heir.id, "", func(error) {})
	elected := false
	for range 100 {
		s.tick(0)
		elected = elected || heir.node.Group(0).Status().Role == "leader"
	}
	if !elected {
		t.Fatal("it never was elected")
	}
	if now := s.leader(); now == nil || now == heir {
		t.Fatalf("it still leads, and can take nothing: %s", s.describe())
	}
	before := len(old.machine.Values())
	old.submit()
	for range 20 {
		s.tick(0)
	}
	if n := len(old.machine.Values()); n != before+1 {
		t.Errorf("%d of 1 values applied without it", n-before)
	}
	heir.fill(false)
	s.endsWell(t)
}

func TestLeaderThatHangsUpIsNotWaitedFor(t *testing.T) {
	s, old := formed(t, 3)
	old.crash()
	s.ids = slices.DeleteFunc(s.ids, func(id uint64) bool { return id == old.id })
	for range 12 { // an election time-out is 15 ticks
		s.tick(0)
	}
	if s.leader() == nil {
		t.Errorf("no leader: %s", s.describe())
	}
}

func TestSnapshotThatFailsOnItsWayIsReportedAndSentAgain(t *testing.T) {
	s, leader := formed(t, 3)
	down := s.nodes[leader.id%3+1]
	down.crash()
	for range 60 {
		for range 20 {
			leader.submit()
		}
		s.tick(0)
		leader.machine.Checkpoint(func(error) {})
		leader.node.Truncate(0)
	}
	last, _ := down.disk.LastIndex()
	if first, _ := leader.disk.FirstIndex(); first <= last+1 {
		t.Fatalf("the leader's log begins at %d, the follower's ends at %d: no snapshot is needed", first, last)
	}
	s.net.torn = 3
	down.start()
	s.settle(600) // a failure that is not reported leaves the follower waiting for ever
	if s.err == nil {
		s.err = s.check()
	}
	if s.err != nil || s.net.torn != 0 || down.machine.Installed != 1 {
		t.Errorf("%v; %d failures left, %d installed", s.err, s.net.torn, down.machine.Installed)
	}
}

func TestNodesThatMeetElectALeaderAtOnce(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	s := New(1, 3)
	s.net.rush = true
	for range 12 {
		s.tick(0)
	}
	if s.leader() == nil {
		t.Errorf("no leader: %s", s.describe())
	}
}

// TestCheckerFindsWhatItIsFor: a checker that finds nothing proves nothing.
func TestCheckerFindsWhatItIsFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(place map[uint64]int)
	}{
		{"a lost value", func(p map[uint64]int) { delete(p, 2) }},
		{"swapped values", func(p map[uint64]int) { p[1], p[2] = p[2], p[1] }},
		{"a hole", func(p map[uint64]int) { delete(p, 1) }},
	} {
		place := map[uint64]int{1: 0, 2: 1, 3: 2}
		r := &registration{node: 1, values: []uint64{1, 2, 3}}
		if err := checkRegistration(r, true, place); err != nil {
			t.Fatal(err)
		}
		c.spoil(place)
		if checkRegistration(r, true, place) == nil {
			t.Errorf("%s is not found", c.name)
		}
	}
}

// TestAStandbysLeaderThatLostItsQuorumForAWhileGoesOn: it still leads afterwards, and must propose what it is handed.
func TestAStandbysLeaderThatLostItsQuorumForAWhileGoesOn(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	s := NewStandby(1, 3)
	for _, n := range s.nodes {
		n.reads = true
	}
	s.source.grow(1)
	s.until(300, "the standby does not follow", s.caughtUp)
	leader := s.leader()
	if s.err != nil || leader == nil {
		t.Fatal(s.err)
	}
	term := leader.node.Group(0).Status().Term
	for _, l := range s.net.order {
		l.blocked = l.to == leader.id || l.from == leader.id
	}
	for range 10 { // an election time-out is 15 ticks
		s.source.grow(1)
		s.tick(0)
	}
	for _, l := range s.net.order {
		l.blocked = false
	}
	s.until(300, "the standby does not follow any more", s.caughtUp)
	if now := leader.node.Group(0).Status(); s.err != nil || now.Role != "leader" || now.Term != term {
		t.Errorf("%v; the leader of term %d is %s of term %d", s.err, term, now.Role, now.Term)
	}
}

// endsWell lets the cluster settle and judges what it has done.
func (s *Sim) endsWell(t *testing.T) {
	t.Helper()
	s.settle(1500)
	if s.err == nil {
		s.err = s.check()
	}
	if s.err != nil {
		t.Error(s.err)
	}
}
