package replication

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/understudy-mq/understudy/replication/transport"
)

const (
	// lendTicks are between two words of a leader's to the others.
	lendTicks = 10
	// lentElections is for how many election times after a leader's last word the log is kept: another one is found in that time, which
	// says the same.
	lentElections = 4
)

// loan is a leader's word to the others of a debt of its own. They keep that log too: should one of them lead, while the follower installs
// its snapshot, it goes on from there.
type loan struct {
	term uint64
	to   uint64 // the follower
	from uint64 // the entry before the first that is kept
	sent int64  // bytes of the snapshot
	tick uint64 // the receiver's, when it came
}

func (l loan) encode() []byte {
	var b []byte
	for _, v := range [...]uint64{l.term, l.to, l.from, uint64(l.sent)} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func decodeLoan(b []byte) (loan, error) {
	r := reader{b: b}
	return loan{term: r.uvarint(), to: r.uvarint(), from: r.uvarint(), sent: int64(r.uvarint())}, r.end()
}

// lend tells the others what log is owed.
func (g *Group) lend() {
	for _, id := range slices.Sorted(maps.Keys(g.snapshots.owed)) {
		d := g.snapshots.owed[id]
		word := loan{term: g.term, to: id, from: max(d.index, d.match), sent: d.seen}.encode()
		for _, other := range g.members.ids() {
			if other != g.env.self && other != id {
				g.env.network.Send(other, transport.Frame{Kind: transport.Lent, Group: g.id, Urgent: true, Payload: slices.Clone(word)})
			}
		}
	}
}

// takeLoan takes a leader's word, unless there is one of a later leader.
func (g *Group) takeLoan(l loan) {
	s := &g.snapshots
	if s.lent == nil {
		s.lent = map[uint64]loan{}
	}
	if l.term >= s.lent[l.to].term && g.members.member(l.to) {
		l.tick = g.ticks
		s.lent[l.to] = l
	}
}

// lasting are the loans that still count.
func (g *Group) lasting() map[uint64]loan {
	old := lentElections * uint64(g.env.opts.ElectionTicks)
	maps.DeleteFunc(g.snapshots.lent, func(_ uint64, l loan) bool { return g.ticks-l.tick > old })
	return g.snapshots.lent
}

// kept is the lowest entry that is kept for others on a leader's word, less one; all if there is none, or no room.
func (g *Group) kept() uint64 {
	low := ^uint64(0)
	for _, l := range g.lasting() {
		low = min(low, l.from)
	}
	if low != ^uint64(0) && g.env.pressed() {
		return ^uint64(0)
	}
	return low
}

// takeOver makes the former leader's debts this one's.
func (g *Group) takeOver() {
	for id, l := range g.lasting() {
		if id == g.env.self {
			continue
		}
		d := g.owe(id, l.from)
		d.sent.Store(l.sent)
		d.sending, d.seen, d.goal = false, l.sent, g.commit
	}
	g.snapshots.lent = nil
}
