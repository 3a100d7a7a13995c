package simtest

import (
	"flag"
	"testing"
	"testing/cryptotest"
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
		met.Unregistered += s.Unregistered
		met.Submitted += s.Submitted
		met.MemberChanges += s.MemberChanges
	}
	t.Logf("crashes %d, cuts %d, partitions %d, snapshots %d, registrations lost %d, member changes %d, values %d",
		met.Crashes, met.Cuts, met.Partitions, met.Snapshots, met.Unregistered, met.MemberChanges, met.Submitted)
	if *seedFlag == 0 && (met.Crashes == 0 || met.Partitions == 0 || met.Snapshots == 0 || met.Unregistered == 0 || met.MemberChanges < 3) {
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
