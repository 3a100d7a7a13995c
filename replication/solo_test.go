package replication

import (
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

func TestSoloMembershipKeepsOneVoterAndEndsTheOthers(t *testing.T) {
	old := firstMembership(map[uint64]string{1: "a:1", 2: "b:1", 3: "c:1"})
	old.raft.Learners, old.removed = []uint64{5}, []uint64{4}
	conf, err := SoloMembership(old.encode(), 2, "d:1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeMembership(conf)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got.removed)
	if !slices.Equal(got.ids(), []uint64{2}) || !got.voter(2) || got.addresses[2] != "d:1" || !slices.Equal(got.removed, []uint64{1, 3, 4, 5}) {
		t.Errorf("got voters %v, addresses %v, removed %v", got.raft.GetVoters(), got.addresses, got.removed)
	}
}

func TestSoloMembershipOfAStrangerIsRefused(t *testing.T) {
	old := membership{raft: &pb.ConfState{Voters: []uint64{1}, AutoLeave: new(false)}}
	if _, err := SoloMembership(old.encode(), 2, "d:1"); err == nil {
		t.Error("node 2, no member, was made the only voter")
	}
}
