package replication

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/understudy-mq/understudy/replication/log"
	"github.com/understudy-mq/understudy/replication/transport"
)

// firstIndex and firstTerm are where every first member's state begins: the membership itself, written by each alike.
const firstIndex, firstTerm = 1, 1

var errDamage = errors.New("entries are missing")

func errOrDamage(err error) error {
	if err != nil {
		return err
	}
	return errDamage
}

// storage is the log as raft sees it at boot: what is applied was committed, whatever the lazily written commit says.
type storage struct {
	GroupLog
	applied uint64
}

func (s storage) InitialState() (*pb.HardState, *pb.ConfState, error) {
	hard, conf, err := s.GroupLog.InitialState()
	if err != nil {
		return nil, nil, err
	}
	if hard.GetCommit() < s.applied {
		hard = &pb.HardState{Term: new(hard.GetTerm()), Vote: new(hard.GetVote()), Commit: new(s.applied)}
	}
	return hard, conf, nil
}

// bootstrap writes the first membership where there is no data yet. Every first member does the same, so no entry is
// needed; a crash between the two writes is made good at the next start.
func (g *Group) bootstrap() error {
	o := g.env.opts
	applied, _ := g.machine.Applied()
	last, err := g.log.LastIndex()
	if err != nil {
		return fmt.Errorf("read the log's end: %w", err)
	}
	if last == 0 && applied > firstIndex && o.Seeded {
		return g.beginAfter(applied)
	}
	if last != 0 || applied > firstIndex || o.Join {
		return nil
	}
	if applied == 0 {
		first := firstMembership(o.Peers)
		if err := g.machine.ApplyConf(firstIndex, firstTerm, first.encode()); err != nil {
			return fmt.Errorf("write the first membership: %w", err)
		}
	}
	return g.beginAfter(firstIndex)
}

// beginAfter makes the empty log begin after what the machine has applied.
func (g *Group) beginAfter(index uint64) error {
	_, term := g.machine.Applied()
	done := make(chan struct{})
	g.log.Append(log.Write{
		HardState:     &pb.HardState{Term: new(term), Vote: new(uint64(0)), Commit: new(index)},
		SnapshotIndex: index, SnapshotTerm: term, Sync: true,
	}, func() { close(done) })
	<-done
	return nil
}

// finishInstall installs a snapshot that the log decided on but the machine had not taken over before a crash.
func (g *Group) finishInstall() error {
	first, err := g.log.FirstIndex()
	if err != nil {
		return fmt.Errorf("read the log's beginning: %w", err)
	}
	applied, _ := g.machine.Applied()
	if first == 0 || first-1 <= applied {
		return nil
	}
	term, err := g.log.Term(first - 1)
	if err != nil {
		return fmt.Errorf("read the term before the log's beginning: %w", err)
	}
	g.logger.Warn("finishing the installation of a snapshot", "index", first-1)
	if err := g.machine.Install(first-1, term); err != nil {
		return fmt.Errorf("install the snapshot at %d: %w", first-1, err)
	}
	return nil
}

// storageAppend gives the log what raft wants on disk, and the responses that wait for it.
func (g *Group) storageAppend(m *pb.Message) {
	w := log.Write{Entries: m.GetEntries()}
	// A commit index alone is not written: it comes back by itself, and on a follower it would cost a sync each.
	if hard := g.hardState(m); hard != nil || len(w.Entries) > 0 || !raft.IsEmptySnap(m.GetSnapshot()) {
		w.Sync = true
		if m.Term != nil {
			w.HardState = &pb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
		}
	}
	g.appended.add(m.GetEntries(), g.env.opts.FollowerLagBytes)
	responses, snap := g.told.news(m.GetResponses(), g.ticks), m.GetSnapshot()
	if raft.IsEmptySnap(snap) {
		if w.Sync || len(responses) > 0 {
			g.log.Append(w, func() { g.logged(responses) })
		}
		return
	}
	meta := snap.GetMetadata()
	w.SnapshotIndex, w.SnapshotTerm = meta.GetIndex(), meta.GetTerm()
	conf := g.snapshots.stagedConf(w.SnapshotIndex)
	g.log.Append(w, func() { g.apply.put(work{install: meta, conf: conf, responses: responses}) })
}

// hardState takes note of a term or vote that differs from what the log has, and answers it; nil if neither does.
func (g *Group) hardState(m *pb.Message) *pb.HardState {
	if m.Term == nil || m.GetTerm() == g.hard.GetTerm() && m.GetVote() == g.hard.GetVote() {
		return nil
	}
	g.hard = &pb.HardState{Term: m.Term, Vote: m.Vote}
	return g.hard
}

// logged runs on the log's goroutine. Raft's own responses wait behind an install, for it wants them in order. What goes to peers need not: the
// snapshot is decided and on disk, and while its installation takes its time this node may be one that a majority needs.
func (g *Group) logged(responses []*pb.Message) {
	if g.apply.holding() {
		g.apply.put(work{held: true, responses: g.toPeers(responses)})
		return
	}
	g.stored(responses)
}

// stored delivers responses of the log or of the apply goroutine; it runs on theirs.
func (g *Group) stored(responses []*pb.Message) {
	if own := g.toPeers(responses); len(own) > 0 {
		g.in.put(event{kind: eventStored, stored: own})
	}
}

// toPeers sends what is for peers, and answers the rest.
func (g *Group) toPeers(responses []*pb.Message) (own []*pb.Message) {
	n := 0
	for _, m := range responses {
		if m.GetTo() == g.env.self {
			n++
		} else {
			g.sendRaft(m)
		}
	}
	if n == len(responses) {
		return responses
	}
	own = make([]*pb.Message, 0, n)
	for _, m := range responses {
		if m.GetTo() == g.env.self {
			own = append(own, m)
		}
	}
	return own
}

// storageApply hands committed entries to the apply goroutine. Membership changes take effect in raft here already:
// they are committed, and raft must not see a later entry first.
func (g *Group) storageApply(m *pb.Message) {
	var confs [][]byte
	for _, e := range m.GetEntries() {
		if e.GetType() == pb.EntryNormal {
			continue
		}
		change, err := decodeChange(e)
		if err != nil {
			g.env.fatal(fmt.Errorf("group %d: entry %d: %w", g.id, e.GetIndex(), err))
			return
		}
		cs := g.raw.ApplyConfChange(change)
		g.setMembers(g.members.changed(cs, change))
		confs = append(confs, g.members.encode())
		g.checkWaiters()
	}
	g.apply.put(work{entries: m.GetEntries(), confs: confs, responses: m.GetResponses()})
}

func decodeChange(e *pb.Entry) (*pb.ConfChangeV2, error) {
	if e.GetType() == pb.EntryConfChangeV2 {
		var c pb.ConfChangeV2
		err := proto.Unmarshal(e.GetData(), &c)
		return &c, err
	}
	var c pb.ConfChange
	err := proto.Unmarshal(e.GetData(), &c)
	return c.AsV2(), err
}

// sendRaft sends a message to a peer; false if it was dropped. Safe from any goroutine.
func (g *Group) sendRaft(m *pb.Message) bool {
	if m.GetType() == pb.MsgSnap {
		g.in.put(event{kind: eventCall, call: func(g *Group) { g.stream(m) }})
		return true
	}
	if m.GetType() == pb.MsgTransferLeader {
		return true // lost its leadership between the request and here; who asked will ask the new leader
	}
	if m.GetType() == pb.MsgReadIndex && m.GetFrom() != g.env.self {
		return true // raft passes on what another node asks of one that leads no more: it will ask the new leader
	}
	f := transport.Frame{Kind: transport.Raft, Group: g.id, Urgent: urgent(m)}
	var err error
	if m.GetType() == pb.MsgApp && len(m.GetEntries()) > 0 {
		f.Kind = transport.Append
		f.Payload, f.Rest, err = encodeAppend(m)
	} else {
		f.Payload, err = proto.Marshal(m)
	}
	if err != nil {
		g.env.fatal(fmt.Errorf("encode a raft message: %w", err))
		return false
	}
	return g.env.network.Send(m.GetTo(), f)
}

// urgent messages have a connection of their own past bulk data, lest a full pipe looks like a dead node.
func urgent(m *pb.Message) bool {
	switch m.GetType() {
	case pb.MsgHeartbeat, pb.MsgHeartbeatResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgTimeoutNow,
		pb.MsgReadIndex, pb.MsgReadIndexResp:
		return true
	}
	return false
}
