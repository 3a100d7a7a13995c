package replication

const (
	// owedLags bounds, in FollowerLagBytes, how much a leader's log grows for a follower that has been sent a snapshot. Many, for an
	// installation takes its time and another one would take as much; not without end, for a follower that catches up more slowly than clients
	// write never does.
	owedLags = 8
	// owedElections is for how many election times a follower may be without progress before its log is not kept any longer: it has
	// died or hangs. Five minutes by default, for while it installs it makes none.
	owedElections = 200
)

// debt is the log that a leader owes a follower to which it has sent, or sends, a snapshot: if that were cut before the
// follower has caught up, it would need another snapshot, and under steady load one after the other.
type debt struct {
	index   uint64 // of the snapshot
	sending bool   // its stream goes on; what follows is known when it has ended
	goal    uint64 // what was committed by then
	bytes   int64  // of log by then
	match   uint64 // how far the follower was known to be
	tick    uint64 // when that was last more than before
}

// owe keeps the log behind a snapshot that is sent to a follower.
func (s *snapshots) owe(to, index uint64) {
	if s.owed == nil {
		s.owed = map[uint64]*debt{}
	}
	s.owed[to] = &debt{index: index, sending: true}
}

// sent says how the stream of a snapshot to a follower has ended.
func (g *Group) sent(to, index uint64, arrived bool) {
	d := g.snapshots.owed[to]
	switch {
	case d == nil || d.index != index: // a newer one is under way, or this node led no more for a while
	case !arrived:
		delete(g.snapshots.owed, to)
	default:
		d.sending, d.goal, d.bytes, d.tick = false, g.commit, g.appended.bytes, g.ticks
	}
}

// settle lets go of the log of followers that have caught up, are gone, or are not waited for any longer.
func (g *Group) settle(followers []progress) {
	match := make(map[uint64]uint64, len(followers))
	for _, p := range followers {
		match[p.node] = p.match
	}
	lag := g.env.opts.FollowerLagBytes
	for id, d := range g.snapshots.owed {
		now, member := match[id]
		if now > d.match {
			d.match, d.tick = now, g.ticks
		}
		caughtUp := now >= max(d.goal, g.appended.behind(lag))
		givenUp := g.ticks-d.tick > owedElections*uint64(g.env.opts.ElectionTicks) || g.appended.bytes-d.bytes > owedLags*lag
		if !member || !d.sending && (caughtUp || givenUp) {
			delete(g.snapshots.owed, id)
		}
	}
}
