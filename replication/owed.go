package replication

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"
)

const (
	// owedLags bounds, in FollowerLagBytes, how much more log a leader keeps for a follower that it has sent a snapshot than it has sent of
	// it. Many, for an installation takes its time and another one would take as much. What was sent counts, for a follower
	// that takes a long snapshot in faster than clients write takes in faster, too, what was written meanwhile.
	owedLags = 8
	// owedElections is for how many election times a follower may be without progress before its log is not kept any longer: it has
	// died or hangs. Five minutes by default, for while it installs it makes none.
	owedElections = 200
	// pauseElections is for how many election times at most no snapshot is cut after a follower was given up.
	pauseElections = 40
)

// debt is the log that a leader owes a follower to which it has sent, or sends, a snapshot: if that were cut before the
// follower has caught up, it would need another snapshot, and under steady load one after the other.
type debt struct {
	index   uint64       // of the snapshot
	sent    atomic.Int64 // bytes of it
	stop    func()       // ends its stream
	sending bool         // its stream goes on; what follows is known when it has ended
	goal    uint64       // what was committed by then
	written int64        // bytes that the node's log had written when the stream began
	began   uint64       // tick of that
	match   uint64       // how far the follower was known to be
	seen    int64        // sent, when it was looked at last
	tick    uint64       // when either was last more than before
}

// owe keeps the log behind a snapshot that is sent to a follower.
func (g *Group) owe(to, index uint64) *debt {
	s := &g.snapshots
	if s.owed == nil {
		s.owed = map[uint64]*debt{}
	}
	if old := s.owed[to]; old != nil && old.sending {
		old.stop()
	}
	d := &debt{index: index, sending: true, stop: func() {}, written: g.env.written(), began: g.ticks, tick: g.ticks}
	s.owed[to] = d
	return d
}

// sent says how the stream of a snapshot to a follower has ended.
func (g *Group) sent(to uint64, d *debt, arrived bool) {
	switch {
	case g.snapshots.owed[to] != d: // a newer one is under way, or this node led no more for a while
	case !arrived:
		delete(g.snapshots.owed, to)
	default:
		d.sending, d.goal, d.tick = false, g.commit, g.ticks
		g.lend()
	}
}

// settle lets go of the log of followers that have caught up, are gone, or are not waited for any longer.
func (g *Group) settle(followers []progress) {
	match := make(map[uint64]uint64, len(followers))
	for _, p := range followers {
		match[p.node] = p.match
	}
	for _, id := range slices.Sorted(maps.Keys(g.snapshots.owed)) {
		d := g.snapshots.owed[id]
		now, member := match[id]
		d.look(now, g.ticks)
		switch {
		case !member:
			g.letGo(id, d)
		case !d.sending && now >= max(d.goal, g.appended.behind(g.env.opts.FollowerLagBytes)):
			delete(g.snapshots.owed, id)
		default:
			if why := g.tooMuch(d); why != "" {
				g.logger.Warn("the log is not kept any longer for a follower that needs a snapshot", "node", id, "index", d.index, "reason", why)
				g.pause(g.ticks - d.began)
				g.letGo(id, d)
			}
		}
	}
}

// look takes note of a follower's progress.
func (d *debt) look(match, tick uint64) {
	if sent := d.sent.Load(); match > d.match || sent > d.seen {
		d.match, d.seen, d.tick = max(d.match, match), sent, tick
	}
}

// tooMuch says why a follower is not waited for any longer; "" while it is.
func (g *Group) tooMuch(d *debt) string {
	lag, elections := g.env.opts.FollowerLagBytes, uint64(g.env.opts.ElectionTicks)
	switch {
	case g.ticks-d.tick > owedElections*elections:
		return fmt.Sprintf("it has made no progress for %d election times", owedElections)
	case g.appended.after(max(d.index, d.match)) > owedLags*lag+d.seen:
		return "it takes less than is written"
	case g.env.written()-d.written > lag && g.env.pressed():
		return "the volume is too full"
	}
	return ""
}

// pause has no snapshot cut for a while after one that was for nothing: for as long as that took, lest more than half of the time goes into
// them, but from one to pauseElections election times.
func (g *Group) pause(took uint64) {
	t := uint64(g.env.opts.ElectionTicks)
	g.snapshots.paused = max(g.snapshots.paused, g.ticks+min(max(took, t), pauseElections*t))
}

// letGo ends a debt, and with it the stream that it is for.
func (g *Group) letGo(to uint64, d *debt) {
	delete(g.snapshots.owed, to)
	if d.sending {
		d.stop()
	}
}

// WriteTo implements io.WriterTo: it counts what is taken of a snapshot.
func (c counted) WriteTo(w io.Writer) (int64, error) { return c.snap.WriteTo(counter{w, c.sent}) }

type counted struct {
	snap io.WriterTo
	sent *atomic.Int64
}

type counter struct {
	to   io.Writer
	sent *atomic.Int64
}

// Write implements io.Writer.
func (c counter) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.sent.Add(int64(n))
	return n, err
}
