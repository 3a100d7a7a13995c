package replication

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
)

// SoloMembership is the membership conf (a Machine's Conf) with every node but id taken out and id as the only voter: for
// a group that has lost its majority for ever. It is only safe while no other member runs, or will run again with its
// old data. address is where peers to come reach the node. It fails if the node is no member.
func SoloMembership(conf []byte, id uint64, address string) ([]byte, error) {
	m, err := decodeMembership(conf)
	if err != nil {
		return nil, err
	}
	if !m.member(id) {
		return nil, fmt.Errorf("node %d is no member of the group", id)
	}
	solo := membership{
		raft:      &pb.ConfState{Voters: []uint64{id}, AutoLeave: new(false)},
		addresses: map[uint64]string{id: address},
		removed:   m.removed,
	}
	for _, other := range m.ids() {
		if other != id {
			solo.removed = append(solo.removed, other)
		}
	}
	return solo.encode(), nil
}
