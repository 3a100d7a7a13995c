package replication

import (
	"errors"
	"maps"
	"slices"
	"time"

	"go.etcd.io/raft/v3"

	"github.com/understudy-mq/understudy/replication/transport"
)

const (
	// entriesInFlight own entries may be unapplied before the leader waits for a full one.
	entriesInFlight = 4
	entryBytes      = 256 << 10 // an entry is closed at this size
	entryBytesMost  = 1 << 20   // and holds no more than this, but for a single batch that is bigger
	packBytesKept   = 2 << 20
)

// leadership is what a leader keeps for the length of its term; all of it dies with the term.
type leadership struct {
	term  uint64
	since time.Duration
	// ready: the leader has applied its own LeaderUp, so its machine has every batch of earlier terms.
	ready   bool
	nodes   map[uint64]*intake
	pending []arrival
	bytes   int    // of pending
	control []byte // control commands waiting

	entries, entriesBytes int // own entries, proposed and not yet applied
	replays               replays
	tickStamp             int64 // of a Tick that is proposed and not yet applied, 0 for none
	alarm                 int64 // the deadline that a wake-up is set for
	buffer                []byte
}

// intake is what the leader takes next from a node. It moves when a batch is taken in, never when raft drops an entry:
// taken batches stay pending until raft has them.
type intake struct {
	incarnation uint64
	next        uint64
	told        uint64 // the gap that the node was last told of
	untold      bool   // the word could not be sent
	downAt      uint64 // tick at which its NodeDown was proposed
}

type arrival struct {
	node uint64
	forward
}

func (g *Group) startLeading() {
	g.lead = &leadership{term: g.term, since: g.env.mono(), nodes: map[uint64]*intake{}}
	g.takeOver()
	if !g.standby {
		g.takeOffice()
	}
}

// takeOffice begins what a leader does of itself.
func (g *Group) takeOffice() {
	g.lead.control = append(g.lead.control, g.env.opts.Codec.LeaderUp(g.env.self, g.term)...)
	if step := g.clock.lead(g.env.mono(), g.env.wallMillis()); step > 0 {
		g.logger.Info("time moves forward, almost to this node's clock", "step", (time.Duration(step) * time.Millisecond).String())
	}
	g.clock.raise(g.last.stamp)
}

func (g *Group) stopLeading() {
	if g.lead == nil {
		return
	}
	g.lead = nil
	g.snapshots.drop()
	g.failWaiters()
}

// takeForward takes a node's batch in, if it is the next one. A repetition is ignored; a gap is answered, once, with
// what is expected instead.
func (g *Group) takeForward(from uint64, f forward) {
	l := g.lead
	if l == nil {
		return
	}
	if g.standby && (f.incarnation != 0 || f.seq != controlLocal) {
		return
	}
	if f.incarnation == 0 {
		l.control = append(l.control, f.commands...)
		return
	}
	n := l.nodes[from]
	if !l.ready || n == nil || n.incarnation != f.incarnation || f.seq < n.next {
		return
	}
	if f.seq > n.next {
		if n.told != n.next {
			n.told = n.next
			g.tell(from)
		}
		return
	}
	n.next++
	n.told = 0
	l.pending = append(l.pending, arrival{from, f})
	l.bytes += len(f.commands)
}

// tell names the batch that the leader expects next to its node.
func (g *Group) tell(node uint64) {
	n := g.lead.nodes[node]
	if n == nil {
		return
	}
	e := expectation{term: g.lead.term, incarnation: n.incarnation, seq: n.next}
	if node == g.env.self {
		g.expected(node, e)
		return
	}
	// On the bulk connection, like the batches: its coming up is what tell is repeated at.
	n.untold = !g.env.network.Send(node, transport.Frame{Kind: transport.Expect, Group: g.id, Payload: e.encode()})
}

// leadApplied: own entries have been applied, the leader is ready, nodes have registered or gone.
func (g *Group) leadApplied(r *report) {
	l := g.lead
	g.clock.raise(r.stamp)
	l.ready = l.ready || g.standby && r.term == l.term // at raft's own first entry
	if r.leadTerm == l.term {
		l.ready = true
		l.entries = max(0, l.entries-r.entries)
		l.entriesBytes = max(0, l.entriesBytes-r.bytes)
	}
	if l.tickStamp != 0 && r.stamp >= l.tickStamp {
		l.tickStamp = 0
	}
	if !l.ready || g.standby {
		return
	}
	for _, at := range r.lanes {
		n := l.nodes[at.node]
		switch {
		case at.nonce == 0:
			delete(l.nodes, at.node)
		case n == nil || n.incarnation != at.incarnation:
			l.nodes[at.node] = &intake{incarnation: at.incarnation, next: at.seq + 1}
			g.tell(at.node)
		}
	}
}

// tickLead proposes what is due: NodeDown of nodes that are silent or no longer members, and Tick.
func (g *Group) tickLead() {
	l := g.lead
	if g.env.readOnly() != nil {
		g.giveWay() // also before it is ready: on a full disk it would never apply its LeaderUp
	}
	if !l.ready || g.standby {
		return
	}
	t := g.env.electionTime()
	for _, id := range slices.Sorted(maps.Keys(l.nodes)) {
		n := l.nodes[id]
		if n.untold {
			g.tell(id)
		}
		silent := id != g.env.self && g.env.mono()-max(g.env.heard(id), l.since) > 3*t
		if !silent && g.members.member(id) {
			continue
		}
		if n.downAt == 0 || g.ticks-n.downAt > uint64(g.env.opts.ElectionTicks) {
			n.downAt = g.ticks
			reason := "it is silent"
			if !g.members.member(id) {
				reason = "it is no member any more"
			}
			g.logger.Warn("declaring a node down", "node", id, "reason", reason)
			l.control = append(l.control, g.env.opts.Codec.NodeDown(id, n.incarnation)...)
		}
	}
}

// proposeTick proposes Tick when the machine's next deadline has come, and sees to it that it is looked at again when
// it comes before the next tick of the node does.
func (g *Group) proposeTick() {
	l, due := g.lead, g.last.deadline
	if !l.ready || g.standby || due <= 0 || l.tickStamp != 0 {
		return
	}
	now := g.stampNow()
	if now >= due {
		l.tickStamp = now
		l.control = append(l.control, g.env.opts.Codec.Tick()...)
		return
	}
	if wait := time.Duration(due-now) * time.Millisecond; wait < g.env.opts.TickInterval && l.alarm != due {
		l.alarm = due
		g.env.after(wait, g.in.signal)
	}
}

// pack makes entries of what is pending while few are in flight, or a full one is there.
func (g *Group) pack() {
	l := g.lead
	for g.lead == l {
		if len(l.control) == 0 && len(l.pending) == 0 {
			return
		}
		if l.entries >= entriesInFlight && l.bytes < entryBytes || l.entriesBytes > windowBytes {
			return
		}
		if g.env.readOnly() != nil {
			return
		}
		n := g.fill()
		if err := g.raw.Propose(l.buffer); err != nil {
			if !errors.Is(err, raft.ErrProposalDropped) {
				g.logger.Warn("raft refused an entry", "error", err)
			}
			return
		}
		g.packed(n)
	}
}

// fill encodes control commands and the first n pending batches as one entry.
func (g *Group) fill() (n int) {
	l, codec := g.lead, &g.env.opts.Codec
	stamp := g.last.stamp
	if !g.standby {
		stamp = g.stampNow()
	}
	b := codec.AppendHeader(l.buffer[:0], stamp)
	if len(l.control) > 0 {
		b = codec.AppendBatch(b, g.env.self, 0, 0, l.control)
	}
	for n < len(l.pending) && len(b) < entryBytes {
		p := &l.pending[n]
		if n > 0 && len(b)+len(p.commands) > entryBytesMost {
			break
		}
		b = codec.AppendBatch(b, p.node, p.incarnation, p.seq, p.commands)
		n++
	}
	l.buffer = b
	return n
}

// packed: raft has the entry of the first n pending batches.
func (g *Group) packed(n int) {
	l := g.lead
	l.entries++
	l.entriesBytes += len(l.buffer)
	for _, p := range l.pending[:n] {
		l.bytes -= len(p.commands)
	}
	l.pending = slices.Delete(l.pending, 0, n)
	l.control = nil
	if cap(l.buffer) > packBytesKept {
		l.buffer = nil
	}
}
