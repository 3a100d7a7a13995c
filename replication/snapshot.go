package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// cut is a snapshot of the machine on its way to a follower.
type cut struct {
	snap    Snapshot
	members membership
	unpin   func()
	at      uint64 // tick at which it was made
}

func (c *cut) close() {
	_ = c.snap.Close()
	c.unpin()
}

// snapshots are a group's snapshots: as a leader those cut and streamed, as a follower the one staged.
type snapshots struct {
	cutting  bool
	prepared *cut
	handed   []*cut           // raft knows of them; their MsgSnap is yet to come out
	owed     map[uint64]*debt // by follower
	paused   uint64           // no snapshot is cut before this tick
	lent     map[uint64]loan  // by follower: of other nodes that lead

	staging  sync.Mutex // guards the five below: a stream's goroutine and the group's
	busy     bool       // from the beginning of a stage until its snapshot is installed or refused
	incoming io.Closer  // what is staged, until it has been read
	staged   uint64
	conf     []byte
	accepted bool // raft has taken the staged snapshot
}

var (
	errBusy    = errors.New("another snapshot is being received")
	errDeposed = errors.New("the group is in term")
)

// snapshot is raft's Storage.Snapshot: it tells of a prepared cut or has one made. A cut from before the latest
// membership change is made anew, for raft refuses one that does not know its receiver.
func (g *Group) snapshot() (*pb.Snapshot, error) {
	s := &g.snapshots
	c := s.prepared
	s.prepared = nil
	if c == nil || !g.serves(c) {
		if c != nil {
			c.close()
		}
		if g.ticks >= s.paused {
			g.cut()
		}
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	s.handed = append(s.handed, c)
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
		ConfState: c.members.raft, Index: new(c.snap.Index()), Term: new(c.snap.Term()),
	}}, nil
}

// serves says whether a follower that gets c can go on from the log.
func (g *Group) serves(c *cut) bool {
	first, err := g.log.FirstIndex()
	return err == nil && c.snap.Index()+1 >= first && c.members.raft.Equivalent(g.members.raft) == nil
}

func (g *Group) cut() {
	if g.snapshots.cutting {
		return
	}
	g.snapshots.cutting = true
	unpin := g.env.pin(g.id, 0) // the bodies that it refers to may be anywhere in the log
	g.apply.put(work{task: func(m Machine) {
		if m == nil {
			unpin()
			return
		}
		snap, err := m.Snapshot()
		g.in.put(event{kind: eventCall, call: func(g *Group) { g.wasCut(snap, err, unpin) }})
	}})
}

func (g *Group) wasCut(snap Snapshot, err error, unpin func()) {
	g.snapshots.cutting = false
	if err != nil {
		g.logger.Error("cannot cut a snapshot", "error", err)
		unpin()
		return
	}
	c := &cut{snap: snap, unpin: unpin, at: g.ticks}
	if c.members, err = decodeMembership(snap.Conf()); err != nil || g.lead == nil {
		c.close()
		return
	}
	if old := g.snapshots.prepared; old != nil {
		old.close()
	}
	g.snapshots.prepared = c
}

// stream sends the snapshot of a MsgSnap beside raft. Raft is always told how it ended: without, the follower would be
// waited for for ever.
func (g *Group) stream(m *pb.Message) {
	to, index := m.GetTo(), m.GetSnapshot().GetMetadata().GetIndex()
	c := g.snapshots.handedAt(index)
	header, err := proto.Marshal(m)
	if c == nil || err != nil {
		g.raw.ReportSnapshot(to, raft.SnapshotFailure)
		return
	}
	d := g.owe(to, index)
	g.logger.Info("sending a snapshot", "to", to, "index", index)
	d.stop = g.env.spawn(func(ctx context.Context) {
		err := g.env.network.Stream(ctx, to, g.id, header, counted{c.snap, &d.sent})
		c.close()
		g.in.put(event{kind: eventCall, call: func(g *Group) { g.streamed(to, d, err) }})
	})
}

func (g *Group) streamed(to uint64, d *debt, err error) {
	g.sent(to, d, err == nil)
	status := raft.SnapshotFinish
	if err != nil {
		status = raft.SnapshotFailure
		g.pause(0) // a cut costs a checkpoint, and what was in the way may stay for a while
		g.logger.Warn("a snapshot did not get through", "to", to, "index", d.index, "error", err)
	}
	g.raw.ReportSnapshot(to, status)
}

func (s *snapshots) handedAt(index uint64) *cut {
	for i, c := range s.handed {
		if c.snap.Index() == index {
			s.handed = append(s.handed[:i], s.handed[i+1:]...)
			return c
		}
	}
	return nil
}

// floor is the lowest entry that a follower that gets a snapshot, or has just got one, will ask for next, less one; all if there is none.
func (s *snapshots) floor() uint64 {
	low := ^uint64(0)
	for _, d := range s.owed {
		low = min(low, max(d.index, d.match))
	}
	for _, c := range s.handed {
		low = min(low, c.snap.Index())
	}
	if s.prepared != nil {
		low = min(low, s.prepared.snap.Index())
	}
	return low
}

// drop lets go of all snapshots, and of the log behind them: a follower takes none of a leader that was deposed.
func (s *snapshots) drop() {
	for _, d := range s.owed {
		if d.sending {
			d.stop()
		}
	}
	s.owed, s.paused = nil, 0
	if s.prepared != nil {
		s.prepared.close()
		s.prepared = nil
	}
	for _, c := range s.handed {
		c.close()
	}
	s.handed = nil
}

// tickSnapshots drops cuts that raft has not asked for in a while, for they hold files, and looks after who was sent one.
func (g *Group) tickSnapshots() {
	s, old := &g.snapshots, uint64(10*g.env.opts.ElectionTicks)
	if len(s.owed) > 0 {
		g.settle(g.followers())
		if g.ticks%lendTicks == 0 {
			g.lend()
		}
	}
	if c := s.prepared; c != nil && g.ticks-c.at > old {
		c.close()
		s.prepared = nil
	}
	for len(s.handed) > 0 && g.ticks-s.handed[0].at > old {
		s.handed[0].close()
		s.handed = s.handed[1:]
	}
}

// receiveSnapshot stages a snapshot that a leader streams and hands its MsgSnap to raft. It runs on the stream's
// goroutine. The answer is nil once the snapshot is kept on disk; raft decides whether it is installed. One that is still being read ends
// when another one comes: its leader has begun anew or was followed by another one, which may be known here before its end is.
func (g *Group) receiveSnapshot(ctx context.Context, from uint64, header []byte, r io.ReadCloser) error {
	m := new(pb.Message)
	if err := proto.Unmarshal(header, m); err != nil || m.GetType() != pb.MsgSnap || m.GetFrom() != from || m.GetTo() != g.env.self {
		return fmt.Errorf("snapshot from node %d: %w", from, errFrame)
	}
	if now := g.Status().Term; m.GetTerm() < now {
		return fmt.Errorf("snapshot from node %d, which led in term %d: %w %d", from, m.GetTerm(), errDeposed, now)
	}
	s := &g.snapshots
	if !s.begin(r) {
		return errBusy
	}
	index, term, conf, err := g.machine.Stage(ctx, r)
	if meta := m.GetSnapshot().GetMetadata(); err == nil && (index != meta.GetIndex() || term != meta.GetTerm()) {
		err = fmt.Errorf("snapshot at %d of term %d was announced as %d of term %d", index, term, meta.GetIndex(), meta.GetTerm())
	}
	if err != nil {
		s.release()
		return err
	}
	s.staging.Lock()
	s.staged, s.conf, s.incoming = index, conf, nil
	s.staging.Unlock()
	g.in.put(event{kind: eventCall, call: func(g *Group) { g.stepSnapshot(from, m) }})
	return nil
}

// begin takes the place of the one that receives a snapshot. While it is taken this answers false, and who has it is interrupted if it
// still reads.
func (s *snapshots) begin(r io.Closer) bool {
	s.staging.Lock()
	defer s.staging.Unlock()
	if s.busy {
		if s.incoming != nil {
			_ = s.incoming.Close()
		}
		return false
	}
	s.busy, s.accepted, s.incoming = true, false, r
	return true
}

func (g *Group) stepSnapshot(from uint64, m *pb.Message) {
	if g.err != nil {
		g.snapshots.release()
		return
	}
	g.step(from, m)
	for g.raw.HasReady() {
		g.ready(g.raw.Ready())
	}
	s := &g.snapshots
	s.staging.Lock()
	refused := !s.accepted
	s.staging.Unlock()
	if refused {
		s.release()
	}
}

// stagedConf is the membership of the staged snapshot, which raft has now taken.
func (s *snapshots) stagedConf(index uint64) []byte {
	s.staging.Lock()
	defer s.staging.Unlock()
	if s.staged != index {
		return nil
	}
	s.accepted = true
	return s.conf
}

func (s *snapshots) release() {
	s.staging.Lock()
	defer s.staging.Unlock()
	s.busy, s.staged, s.conf, s.incoming = false, 0, nil, nil
}

// installed: the machine is now the snapshot's. Clients are closed, for effects between the two states never happened
// here; their sessions resume.
func (g *Group) installed(r *report) {
	g.snapshots.release()
	m, err := decodeMembership(r.conf)
	if err != nil {
		g.fail(fmt.Errorf("the snapshot at %d: %w", r.installed.GetIndex(), err))
		return
	}
	g.setMembers(m)
	g.logger.Info("a snapshot was installed", "index", r.installed.GetIndex())
	g.unregister("a snapshot was installed", ErrUnregistered)
	g.askRegistration()
}
