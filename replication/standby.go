package replication

import (
	"encoding/binary"
	"errors"

	"github.com/understudy-mq/understudy/replication/transport"
)

// A standby's group originates nothing. Its leader proposes what it is handed for it, the source's entries (Replay) and
// local facts (ControlLocal), stamped with the last stamp applied; no Tick, NodeUp, NodeDown or LeaderUp, and no batch. That
// ends when the machine says that the group was promoted.

const (
	// replaysInFlight source entries, and windowBytes of them, may be proposed and not yet applied.
	replaysInFlight = 1024
	// replayBytesMost of them wait at the leader; what comes beyond is dropped, and comes again.
	replayBytesMost = 32 << 20
)

// ErrNoLeader is what Replay answers while the node knows no leader of the group.
var ErrNoLeader = errors.New("the group has no leader at present")

// Replay hands entries of the source, wrapped for this cluster (entry.AppendReplay), to the group's leader, wherever it
// is. They are consecutive in the source's log, the first at index first. They must not be changed afterwards.
//
// The leader takes only what continues what it has taken, and nothing is promised: lost entries show by the position (the
// machine's Standing) not moving on, and are to be handed over again from there. Repeating them does no harm. Error:
// ErrNoLeader. Safe from any goroutine.
func (g *Group) Replay(first uint64, envelopes [][]byte) error {
	if g.Status().Leader == 0 {
		return ErrNoLeader
	}
	g.in.put(event{kind: eventCall, call: func(g *Group) {
		for i, e := range envelopes {
			g.sendReplay(first+uint64(i), e)
		}
	}})
	return nil
}

func (g *Group) sendReplay(index uint64, envelope []byte) {
	switch g.leader {
	case 0:
	case g.env.self:
		g.takeReplay(index, envelope)
	default:
		g.env.network.Send(g.leader, transport.Frame{
			Kind: transport.Replay, Group: g.id, Payload: binary.AppendUvarint(nil, index), Rest: [][]byte{envelope},
		})
	}
}

// receiveReplay reads a frame of sendReplay's. The envelope is copied.
func receiveReplay(from uint64, payload []byte) (event, error) {
	index, n := binary.Uvarint(payload)
	if n <= 0 {
		return event{}, errFrame
	}
	envelope := append([]byte(nil), payload[n:]...)
	return event{kind: eventCall, from: from, size: len(payload), call: func(g *Group) { g.takeReplay(index, envelope) }}, nil
}

// ControlLocal is Control for local facts (commands of the standby link, ClusterInit, NodeAddress): the only commands that a standby's
// leader takes.
func (g *Group) ControlLocal(commands []byte) error {
	commands = append([]byte(nil), commands...)
	g.in.put(event{kind: eventCall, call: func(g *Group) { g.sendForward(forward{seq: controlLocal, commands: commands}) }})
	return nil
}

// controlLocal is the sequence number that marks local facts among control commands.
const controlLocal = 1

// Changed is closed when this node has applied more of the group, or something else of its Status has changed. Safe from
// any goroutine.
func (g *Group) Changed() <-chan struct{} {
	g.statusLock.Lock()
	defer g.statusLock.Unlock()
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.changed
}

// standsBy says whether the group originates nothing, as far as the machine has applied: it is a standby, or will be one
// as soon as it is attached to its source.
func (g *Group) standsBy(r *report) bool {
	o := g.env.opts
	return r.standby || r.since == 0 && (o.Seeded || o.Standby && r.stamp == 0)
}

// replays is a standby's leader's part of leadership.
type replays struct {
	next    uint64 // index of the source entry that is taken next, 0 if that is to be learnt
	pending [][]byte
	bytes   int // of pending
}

func (g *Group) takeReplay(index uint64, envelope []byte) {
	l := g.lead
	if l == nil || !g.standby || !l.ready {
		return
	}
	r := &l.replays
	if index != r.next && l.entries == 0 && len(r.pending) == 0 {
		r.next = g.last.position + 1
	}
	if index != r.next || r.bytes > replayBytesMost {
		return
	}
	r.next++
	r.pending = append(r.pending, envelope)
	r.bytes += len(envelope)
}

// packReplays proposes what is pending, an entry each. Those that raft does not take wait.
func (g *Group) packReplays() {
	l := g.lead
	r := &l.replays
	n := 0
	for n < len(r.pending) && l.entries < replaysInFlight && l.entriesBytes <= windowBytes && g.env.readOnly() == nil {
		e := r.pending[n]
		if g.raw.Propose(e) != nil || g.lead != l {
			break
		}
		l.entries++
		l.entriesBytes += len(e)
		r.bytes -= len(e)
		n++
	}
	rest := copy(r.pending, r.pending[n:])
	clear(r.pending[rest:])
	r.pending = r.pending[:rest]
}

// standing takes over whether the group is a standby from now on.
func (g *Group) standing(r *report) {
	was := g.standby
	g.standby = g.standsBy(r)
	switch {
	case g.standby == was:
	case g.standby:
		g.unregister("this cluster is now the standby of another", ErrUnregistered)
		if l := g.lead; l != nil {
			l.control, l.pending, l.bytes = nil, nil, 0
			clear(l.nodes)
		}
	default:
		g.logger.Info("the group was promoted")
		if l := g.lead; l != nil {
			l.replays = replays{}
			g.takeOffice()
		}
		g.askRegistration()
	}
}
