package replication

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/understudy-mq/understudy/replication/transport"
)

// standApartTicks is how far apart the voters stand for election when a leader has hung up, or none is there yet.
const standApartTicks = 3

// Group is one raft group as this node takes part in it. Its fields belong to the group's goroutine (turn), but for
// those that say otherwise.
type Group struct {
	id      uint64
	env     *env
	logger  *slog.Logger
	log     GroupLog
	machine Machine // called by the apply goroutine; elsewhere only what is safe
	in      *inbox
	apply   *applier
	submits *submitter

	raw     *raft.RawNode
	hard    *pb.HardState // term and vote as the log has them, or will before anything else
	events  []event
	members membership
	clock   stampClock

	// What raft's last Ready said.
	term   uint64
	commit uint64
	leader uint64
	role   raft.StateType

	standAt uint64 // tick at which to stand for election because the leader has hung up, 0 for none
	contact int    // ticks since a leader was heard from
	ticks   uint64
	lead    *leadership // nil unless this node leads
	target  target
	me      registration
	taken   []batch
	flight  []batch // sealed and unapplied, ascending and without gaps
	last    report  // the newest
	// blank: the group has nothing on this node's disk yet. It does not register then, for a peer that meets a voter that has
	// registered and has no data takes it for one that has lost them (admit).
	blank   bool
	err     error  // why the group stopped
	standby bool   // the group originates nothing
	hashes  hashes // safe from any goroutine

	snapshots snapshots
	waiters   []*waiter
	inquiries inquiries

	watched sync.Mutex // guards watch
	watch   []uint64   // the nodes whose registrations the apply goroutine reports

	statusLock    sync.Mutex // guards status and changed
	status        Status
	changed       chan struct{} // closed when status changes; nil if nobody waits for that
	registrations []uint64      // every node that was ever registered, as far as applied; guarded too

	appended appended
	told     told
}

// target is where the node's batches go: the leader that named the sequence it expects.
type target struct {
	leader, term, incarnation uint64
	next                      uint64 // seq of the next batch to send
}

// newGroup opens a group over its log and machine. Its goroutines are the caller's to run.
func newGroup(id uint64, e *env, l GroupLog, m Machine) (*Group, error) {
	g := &Group{
		id: id, env: e, log: l, machine: m,
		logger: e.logger.With("group", id),
		in:     newInbox(), apply: newApplier(m),
	}
	g.submits = newSubmitter(g.in.signal)
	g.apply.stored = g.stored
	g.apply.report = func(r *report) { g.in.put(event{kind: eventReport, report: r}) }
	g.apply.watch = g.watching
	g.me.renew()
	if err := g.recover(); err != nil {
		return nil, fmt.Errorf("group %d: %w", id, err)
	}
	g.publish()
	return g, nil
}

// recover brings log and machine to the point where raft can start.
func (g *Group) recover() error {
	if err := g.bootstrap(); err != nil {
		return err
	}
	if err := g.finishInstall(); err != nil {
		return err
	}
	members, err := decodeMembership(g.machine.Conf())
	if err != nil {
		return err
	}
	applied, _ := g.machine.Applied()
	last, err := g.log.LastIndex()
	if err != nil || last < applied {
		return fmt.Errorf("the log ends at entry %d, the state at %d: the data folder is not whole (%w)", last, applied, errOrDamage(err))
	}
	g.blank = last <= firstIndex
	g.clock.observe(g.machine.Stamp(), g.env.mono())
	g.last.index = applied
	g.setMembers(members)
	g.apply.survey(&g.last)
	g.standby = g.standsBy(&g.last)
	g.log.SetConfState(members.raft)
	g.log.SetSnapshot(g.snapshot)
	hard, _, err := g.log.InitialState()
	g.hard = hard
	if err != nil {
		return fmt.Errorf("read the log's hard state: %w", err)
	}
	g.term, g.commit = hard.GetTerm(), max(hard.GetCommit(), applied)
	g.raw, err = raft.NewRawNode(g.config(applied))
	if err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	if v := members.raft.GetVoters(); len(v) == 1 && v[0] == g.env.self {
		return g.raw.Campaign()
	}
	return nil
}

func (g *Group) config(applied uint64) *raft.Config {
	o := g.env.opts
	return &raft.Config{
		ID:                        g.env.self,
		ElectionTick:              o.ElectionTicks,
		HeartbeatTick:             heartbeatTicks,
		Storage:                   storage{GroupLog: g.log, applied: applied},
		Applied:                   applied,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             1 << 20,
		MaxCommittedSizePerReady:  16 << 20,
		MaxUncommittedEntriesSize: 64 << 20,
		MaxInflightMsgs:           256,
		MaxInflightBytes:          64 << 20,
		CheckQuorum:               true,
		PreVote:                   true,
		ReadOnlyOption:            raft.ReadOnlySafe,
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
		Logger:                    raftLogger{to: g.logger},
	}
}

// Submit hands n encoded commands to the group. They are copied, and applied exactly once and in the order of Submit
// calls while the node stays registered. It blocks while too much of the node is under way. Errors: ErrUnregistered,
// or why the group takes nothing (it stopped, the disk is full). Safe from any goroutine.
func (g *Group) Submit(commands []byte, n int) error {
	if err := g.env.readOnly(); err != nil {
		return err
	}
	return g.submits.submit(commands, n, false)
}

// SubmitLater is Submit for commands that nobody waits for (acknowledgements): they may be held back for some
// milliseconds, to share an entry with what comes. Their place in the order of Submit calls is theirs all the same.
func (g *Group) SubmitLater(commands []byte, n int) error {
	if err := g.env.readOnly(); err != nil {
		return err
	}
	return g.submits.submit(commands, n, true)
}

// Control sends idempotent commands to the group's leader, as this node knows it, to be proposed once. No promise is made:
// without a leader they are dropped, as they are by one that has just lost its office. Whoever needs them repeats them until
// the machine shows their effect. Safe from any goroutine.
func (g *Group) Control(commands []byte) error {
	commands = slices.Clone(commands)
	g.in.put(event{kind: eventCall, call: func(g *Group) { g.sendControl(commands) }})
	return nil
}

// sendControl hands control commands to the leader, which may be this node.
func (g *Group) sendControl(commands []byte) { g.sendForward(forward{commands: commands}) }

func (g *Group) sendForward(f forward) {
	switch g.leader {
	case 0:
	case g.env.self:
		g.takeForward(g.env.self, f)
	default:
		g.env.network.Send(g.leader, transport.Frame{Kind: transport.Batch, Group: g.id, Payload: f.encode()})
	}
}

// ReadEntry is size bytes at offset of an entry's data, from memory or the log's file, checked. The caller must not
// change them. Safe from any goroutine.
func (g *Group) ReadEntry(index uint64, offset, size int) ([]byte, error) {
	return g.log.Bytes(index, offset, size)
}

// run is the group's goroutine.
func (g *Group) run(stop <-chan struct{}) {
	for {
		select {
		case <-g.in.wake:
			g.turn()
		case <-stop:
			return
		}
	}
}

// runApply is the group's apply goroutine.
func (g *Group) runApply(stop <-chan struct{}) {
	for {
		select {
		case <-g.apply.wake:
			for g.apply.step() {
			}
		case <-stop:
			return
		}
	}
}

// turn deals with everything that has come in, and with all that follows from it.
func (g *Group) turn() {
	events, ticks := g.in.take(g.events)
	for i := range events {
		g.handle(&events[i])
	}
	clear(events)
	g.events = events
	if g.err != nil {
		return
	}
	if ticks > 0 {
		g.tick()
	}
	for {
		g.pump()
		if !g.raw.HasReady() {
			break
		}
		g.ready(g.raw.Ready())
	}
	g.publish()
}

func (g *Group) handle(e *event) {
	if g.err != nil {
		if e.kind == eventCall {
			e.call(g)
		}
		return
	}
	switch e.kind {
	case eventStep:
		g.step(e.from, e.message)
	case eventStored:
		for _, m := range e.stored {
			g.mustStep(m)
		}
	case eventForward:
		g.takeForward(e.from, e.forward)
	case eventExpect:
		g.expected(e.from, e.expect)
	case eventReport:
		g.reported(e.report)
	case eventPeer:
		g.peerUp(e.from)
	case eventGone:
		g.peerGone(e.from)
	case eventCall:
		e.call(g)
	}
}

// step hands a peer's message to raft. What raft refuses (a message from no member) is none of our business.
func (g *Group) step(from uint64, m *pb.Message) {
	switch m.GetType() {
	case pb.MsgApp, pb.MsgHeartbeat, pb.MsgSnap:
		if m.GetTerm() >= g.term {
			g.contact, g.clock.live = 0, true
		}
	case pb.MsgReadIndex:
		if !g.knowsCommitted() {
			return // it is asked again
		}
	}
	if err := g.raw.Step(m); err != nil {
		g.logger.Debug("raft refused a message", "from", from, "type", m.GetType(), "error", err)
	}
}

func (g *Group) mustStep(m *pb.Message) {
	if err := g.raw.Step(m); err != nil {
		g.logger.Debug("raft refused a storage response", "type", m.GetType(), "error", err)
	}
}

func (g *Group) tick() {
	g.ticks++
	g.contact++
	if g.lead != nil {
		g.contact = 0
	}
	g.raw.Tick()
	g.tickElection()
	g.tickRegistration()
	g.tickSnapshots()
	g.tickWaiters()
	g.tickInquiries()
	if g.lead != nil {
		g.tickLead()
	}
}

// peerGone: a leader whose process has died is not waited for. This node forgets it, so that it may vote for another at
// once, and stands itself. If the leader is alive after all, the others that still hear it refuse.
func (g *Group) peerGone(peer uint64) {
	if peer != g.leader || g.role != raft.StateFollower {
		return
	}
	if err := g.raw.ForgetLeader(); err == nil {
		g.stand(peer)
	}
}

// stand readies this node to stand for election without waiting for the time-out: the voters but gone one after the
// other, so that votes are not split.
func (g *Group) stand(gone uint64) {
	if g.standAt != 0 || !g.members.voter(g.env.self) {
		return
	}
	rank := uint64(0)
	for _, id := range g.members.raft.GetVoters() {
		if id < g.env.self && id != gone {
			rank++
		}
	}
	g.standAt = g.ticks + 1 + standApartTicks*rank
}

func (g *Group) tickElection() {
	if g.standAt == 0 || g.ticks < g.standAt {
		return
	}
	g.standAt = 0
	if g.leader == 0 && g.role != raft.StateLeader {
		if err := g.raw.Campaign(); err != nil {
			g.logger.Debug("cannot stand for election", "error", err)
		}
	}
}

// ready carries out what raft wants done: peers' messages first, they do not wait for our disk.
func (g *Group) ready(rd raft.Ready) {
	g.follow(rd)
	for _, s := range rd.ReadStates {
		g.roundEnded(s)
	}
	var unreachable uint64
	for _, m := range rd.Messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			g.storageAppend(m)
		case raft.LocalApplyThread:
			g.storageApply(m)
		default:
			if !g.sendRaft(m) && m.GetType() == pb.MsgApp {
				unreachable = m.GetTo()
			}
		}
	}
	if unreachable != 0 {
		g.raw.ReportUnreachable(unreachable)
	}
}

// follow takes over role, leader and term.
func (g *Group) follow(rd raft.Ready) {
	term, leader, role := g.term, g.leader, g.role
	if !raft.IsEmptyHardState(rd.HardState) {
		term = rd.HardState.GetTerm()
		g.commit = rd.HardState.GetCommit()
	}
	if rd.SoftState != nil {
		leader, role = rd.SoftState.Lead, rd.SoftState.RaftState
	}
	if term == g.term && leader == g.leader && role == g.role {
		return
	}
	changed, former := leader != g.leader || term != g.term, g.leader
	g.term, g.leader, g.role = term, leader, role
	if g.target.term < term {
		g.target = target{}
	}
	if role != raft.StateLeader {
		g.stopLeading()
	} else if g.lead == nil || g.lead.term != term {
		g.startLeading()
	}
	if !changed {
		return
	}
	if leader != 0 {
		g.contact = 0
		g.askRegistration()
	}
	switch {
	case leader != 0:
		g.logger.Info("leader changed", "leader", leader, "term", term)
	case former != 0:
		g.logger.Debug("leader lost", "former", former, "term", term) // an election is under way; that it took too long is told by unregister
	}
	if f := g.env.opts.Observer.Leader; f != nil {
		f(g.id, leader, term)
	}
}

// reported takes over what the apply goroutine did.
func (g *Group) reported(r *report) {
	if r.err != nil {
		g.fail(r.err)
		return
	}
	if r.installed != nil {
		g.installed(r)
	}
	if (g.lead == nil || g.standby) && r.stamp != g.last.stamp {
		g.clock.observe(r.stamp, g.env.mono())
	}
	g.last = *r
	g.hashes.applied(r.index, r.print)
	g.standing(r)
	if g.blank && r.index > firstIndex {
		g.blank = false
		g.askRegistration()
	}
	g.registered(r)
	if g.lead != nil {
		g.leadApplied(r)
	}
}

// fail stops the group for good: an entry that this version cannot apply is never skipped.
func (g *Group) fail(err error) {
	g.err = err
	g.logger.Error("the group has stopped", "error", err)
	g.stopLeading()
	g.unregister("the group has stopped: "+err.Error(), fmt.Errorf("group %d has stopped: %w", g.id, err))
	g.publish()
}

func (g *Group) setMembers(m membership) {
	g.members = m
	watch := append(m.ids(), m.removed...)
	if !slices.Contains(watch, g.env.self) {
		watch = append(watch, g.env.self)
	}
	g.watched.Lock()
	g.watch = watch
	g.watched.Unlock()
	g.env.peers(g.id, m)
}

func (g *Group) watching() []uint64 {
	g.watched.Lock()
	defer g.watched.Unlock()
	return g.watch
}

// stampNow is the leader's stamp.
func (g *Group) stampNow() int64 {
	stamp, jumped := g.clock.now(g.env.mono(), g.env.wallMillis())
	if jumped != 0 {
		g.logger.Error("the wall clock is far from the cluster's time: check it; timers follow it by 1 % only",
			"ahead", time.Duration(jumped)*time.Millisecond)
	}
	return stamp
}
