package replication

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"

	"github.com/understudy-mq/understudy/replication/transport"
)

// registration is this node's standing in a group.
type registration struct {
	nonce       uint64 // what the node now registers with; new after each loss
	incarnation uint64 // 0: not registered
	askedAt     uint64 // tick of the last NodeUp
	lost        bool   // there was one, and people were told that it is lost
}

func (r *registration) renew() { *r = registration{nonce: nonce(), lost: r.lost} }

// nonce is a random number, not 0.
func nonce() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// tickRegistration asks again for a registration that has not come, and gives up one whose group has had no leader for
// 2T: clients are closed and what they sent is dropped here, so that none of it is applied long after they were told.
// (What is on its way to a leader already may still be applied; its sender was never told that it was.)
func (g *Group) tickRegistration() {
	t := g.env.opts.ElectionTicks
	if g.contact > 2*t && g.me.incarnation != 0 {
		g.unregister(fmt.Sprintf("group %d has had no leader for %v", g.id, 2*g.env.electionTime()), ErrUnregistered)
	}
	if g.me.incarnation == 0 && g.ticks-g.me.askedAt >= uint64(t) {
		g.askRegistration()
	}
}

// askRegistration sends NodeUp to the leader, if there is one and it is needed.
func (g *Group) askRegistration() {
	if g.standby || g.blank || g.leader == 0 || g.me.incarnation != 0 || !g.members.member(g.env.self) {
		return
	}
	g.me.askedAt = g.ticks
	g.sendControl(g.env.opts.Codec.NodeUp(g.env.self, g.me.nonce))
}

// registered looks at the node's own registration as applied: it came, it is as before (with batches applied), or it
// was lost.
func (g *Group) registered(r *report) {
	me, known := r.lane(g.env.self)
	if !known {
		return
	}
	switch {
	case me.nonce == g.me.nonce && g.me.incarnation == 0:
		g.me.incarnation = me.incarnation
		g.flight = nil
		g.submits.register(me.incarnation, me.seq)
		g.tellRegistered()
		if f := g.env.opts.Observer.Registered; f != nil {
			f(g.id, me.incarnation)
		}
	case g.me.incarnation == 0:
	case me.nonce == 0:
		g.unregister("this node was silent too long and was declared down", ErrUnregistered)
		g.askRegistration()
	case me.nonce != g.me.nonce:
		g.unregister("another process has registered under this node's id", ErrUnregistered)
		g.askRegistration()
	default:
		g.landed(me.seq)
	}
}

// tellRegistered is news for people where they were told of the loss.
func (g *Group) tellRegistered() {
	level := slog.LevelDebug
	if g.me.lost {
		level = slog.LevelInfo
	}
	g.me.lost = false
	g.logger.Log(context.Background(), level, "in service", "incarnation", g.me.incarnation)
}

// landed lets go of the batches that are applied.
func (g *Group) landed(seq uint64) {
	n := 0
	for n < len(g.flight) && g.flight[n].seq <= seq {
		n++
	}
	if n == 0 {
		return
	}
	g.submits.applied(g.flight[:n], true)
	rest := copy(g.flight, g.flight[n:])
	clear(g.flight[rest:])
	g.flight = g.flight[:rest]
}

// unregister gives the registration up, if there is one, and everything that waits under it.
func (g *Group) unregister(reason string, err error) {
	was := g.me.incarnation != 0
	g.me.renew()
	g.me.askedAt = g.ticks
	g.flight = nil
	g.submits.close(err)
	if !was {
		return
	}
	g.me.lost = true
	g.logger.Warn("out of service", "reason", reason)
	if f := g.env.opts.Observer.Unregistered; f != nil {
		f(g.id, reason)
	}
}

// expected takes a leader's word: from now on the node's batches go to it, from this sequence number on.
func (g *Group) expected(from uint64, e expectation) {
	if e.term < g.term || e.term < g.target.term {
		return
	}
	g.target = target{leader: from, term: e.term, incarnation: e.incarnation, next: e.seq}
}

// peerUp: what was under way on the old connection may be lost. Frames are re-sent here and never on a time-out.
func (g *Group) peerUp(peer uint64) {
	if g.leader == 0 && g.role != raft.StateLeader {
		g.stand(0)
	}
	if peer == g.leader {
		g.askRegistration()
	}
	if peer == g.target.leader {
		g.target.next = 0
	}
	if g.lead != nil && g.lead.ready {
		g.tell(peer)
	}
}

// pump seals what is open while few batches are in flight, sends what the leader does not have yet, and packs.
func (g *Group) pump() {
	g.taken = g.submits.take(g.taken[:0])
	g.flight = append(g.flight, g.taken...)
	clear(g.taken)
	g.sendFlight()
	g.beginRound()
	if g.lead != nil {
		g.proposeTick()
		g.packReplays()
		g.pack()
	}
}

func (g *Group) sendFlight() {
	t := &g.target
	if len(g.flight) == 0 || t.leader == 0 || t.term < g.term || t.incarnation != g.me.incarnation {
		return
	}
	first := g.flight[0].seq
	t.next = max(t.next, first)
	for i := t.next - first; i < uint64(len(g.flight)); i++ {
		if !g.sendBatch(t.leader, g.flight[i]) {
			return
		}
		t.next++
	}
}

func (g *Group) sendBatch(to uint64, b batch) bool {
	f := forward{incarnation: g.me.incarnation, seq: b.seq, commands: b.commands}
	if to == g.env.self {
		g.takeForward(to, f)
		return true
	}
	return g.env.network.Send(to, transport.Frame{Kind: transport.Batch, Group: g.id, Payload: f.encode()})
}

// lane is a node's registration in a report.
func (r *report) lane(node uint64) (lane, bool) {
	for _, l := range r.lanes {
		if l.node == node {
			return l, true
		}
	}
	return lane{}, false
}
