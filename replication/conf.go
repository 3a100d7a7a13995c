package replication

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// confVersion is the format of a membership blob.
const confVersion = 1

// confMost bounds each list of a blob read from a peer or from disk.
const confMost = 1024

// membership is a group's members: raft's own record, their peer addresses, and the ids that were removed, so that a
// leader can end a removed node's registration. It is what the machine keeps, opaque to it, as Conf.
type membership struct {
	raft      *pb.ConfState
	addresses map[uint64]string
	removed   []uint64
}

// firstMembership is the same on every first member: all are voters.
func firstMembership(peers map[uint64]string) membership {
	return membership{
		raft:      &pb.ConfState{Voters: slices.Sorted(maps.Keys(peers)), AutoLeave: new(false)},
		addresses: maps.Clone(peers),
	}
}

// ids are all members, voters first.
func (m membership) ids() []uint64 {
	if m.raft == nil {
		return nil
	}
	ids := slices.Concat(m.raft.GetVoters(), m.raft.GetVotersOutgoing(), m.raft.GetLearners(), m.raft.GetLearnersNext())
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (m membership) voter(id uint64) bool {
	return m.raft != nil && slices.Contains(m.raft.GetVoters(), id)
}
func (m membership) learner(id uint64) bool {
	return m.raft != nil && slices.Contains(m.raft.GetLearners(), id)
}
func (m membership) member(id uint64) bool { return slices.Contains(m.ids(), id) }

// changed is the membership after a change that gave raft state cs; address is the added node's, or empty.
func (m membership) changed(cs *pb.ConfState, change *pb.ConfChangeV2) membership {
	next := membership{raft: cs, addresses: maps.Clone(m.addresses), removed: slices.Clone(m.removed)}
	if next.addresses == nil {
		next.addresses = map[uint64]string{}
	}
	for _, c := range change.GetChanges() {
		id := c.GetNodeId()
		if c.GetType() == pb.ConfChangeRemoveNode {
			delete(next.addresses, id)
			if !slices.Contains(next.removed, id) {
				next.removed = append(next.removed, id)
			}
			continue
		}
		next.removed = slices.DeleteFunc(next.removed, func(r uint64) bool { return r == id })
		if a := string(change.GetContext()); a != "" {
			next.addresses[id] = a
		}
	}
	if n := len(next.removed); n > confMost {
		next.removed = next.removed[n-confMost:]
	}
	return next
}

// encode writes the blob: version, five id lists of raft's, auto-leave, addresses, removed ids.
func (m membership) encode() []byte {
	b := []byte{confVersion}
	for _, ids := range [][]uint64{m.raft.GetVoters(), m.raft.GetLearners(), m.raft.GetVotersOutgoing(), m.raft.GetLearnersNext(), m.removed} {
		b = binary.AppendUvarint(b, uint64(len(ids)))
		for _, id := range ids {
			b = binary.AppendUvarint(b, id)
		}
	}
	leave := byte(0)
	if m.raft.GetAutoLeave() {
		leave = 1
	}
	b = append(b, leave)
	b = binary.AppendUvarint(b, uint64(len(m.addresses)))
	for _, id := range slices.Sorted(maps.Keys(m.addresses)) {
		b = binary.AppendUvarint(b, id)
		b = appendString(b, m.addresses[id])
	}
	return b
}

// decodeMembership reads what encode wrote; nothing at all is no members.
func decodeMembership(b []byte) (membership, error) {
	m := membership{raft: &pb.ConfState{AutoLeave: new(false)}, addresses: map[uint64]string{}}
	if len(b) == 0 {
		return m, nil
	}
	if b[0] != confVersion {
		return m, fmt.Errorf("membership of version %d: written by a newer understudy", b[0])
	}
	r := reader{b: b[1:]}
	for _, ids := range []*[]uint64{&m.raft.Voters, &m.raft.Learners, &m.raft.VotersOutgoing, &m.raft.LearnersNext, &m.removed} {
		n := r.count(confMost)
		for range n {
			*ids = append(*ids, r.uvarint())
		}
	}
	m.raft.AutoLeave = new(r.octet() != 0)
	for n := r.count(confMost); n > 0; n-- {
		id := r.uvarint()
		m.addresses[id] = string(r.bytes())
	}
	if r.failed || len(r.b) != 0 {
		return m, errors.New("membership is damaged")
	}
	return m, nil
}
