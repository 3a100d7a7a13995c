package replication

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// told is the newest acknowledgement of entries that this node has for a leader: it is sent once they are on disk.
//
// raft answers every append, also those that only say how far to apply: what the leader learns from that it knows already, and
// at a few messages a second a tenth of all CPU goes into it.
type told struct{ leader, term, index, tick uint64 }

// news is responses without the acknowledgements that repeat what their leader was told in this tick or the last. After that one is
// sent again, for the first may have been lost: raft asks for it with each heartbeat.
func (t *told) news(responses []*pb.Message, tick uint64) []*pb.Message {
	return slices.DeleteFunc(responses, func(m *pb.Message) bool {
		if m.GetType() != pb.MsgAppResp || m.GetReject() {
			return false
		}
		if m.GetTo() == t.leader && m.GetTerm() == t.term && m.GetIndex() <= t.index && tick <= t.tick+1 {
			return true
		}
		*t = told{leader: m.GetTo(), term: m.GetTerm(), index: m.GetIndex(), tick: tick}
		return false
	})
}
