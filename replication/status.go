package replication

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// progress is how far a follower's log is known to reach.
type progress struct {
	node  uint64
	voter bool
	match uint64
}

// Status is the group as this node sees it. Safe from any goroutine.
func (g *Group) Status() Status {
	g.statusLock.Lock()
	s := g.status
	s.Voters, s.Learners = slices.Clone(s.Voters), slices.Clone(s.Learners)
	g.statusLock.Unlock()
	s.FirstIndex, _ = g.log.FirstIndex()
	s.LastIndex, _ = g.log.LastIndex()
	s.CommitLatency = time.Duration(g.submits.latency.Load())
	return s
}

// publish makes Status answer what the group's goroutine knows now.
func (g *Group) publish() {
	g.statusLock.Lock()
	defer g.statusLock.Unlock()
	s := &g.status
	s.Group, s.Leader, s.Term = g.id, g.leader, g.term
	s.Commit = g.commit
	s.Applied, s.Fingerprint = g.last.index, g.last.print
	s.Voters, s.Learners = g.members.raft.GetVoters(), g.members.raft.GetLearners()
	s.Addresses = g.members.addresses
	s.Role = g.roleName()
	s.Standby, s.Position = g.standby, g.last.position
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
	for _, l := range g.last.lanes {
		// A standby's machine has its source's registrations: they say nothing of this cluster's nodes.
		if !g.standby && l.incarnation > 0 && !slices.Contains(g.registrations, l.node) {
			g.registrations = append(g.registrations, l.node)
		}
	}
	if g.err != nil {
		s.Error = g.err.Error()
	}
}

func (g *Group) roleName() string {
	switch {
	case g.role == raft.StateLeader:
		return "leader"
	case g.members.learner(g.env.self):
		return "learner"
	case g.role == raft.StateFollower:
		return "follower"
	}
	return "candidate"
}

// followers is what a leader knows of the others' logs.
func (g *Group) followers() []progress {
	var ps []progress
	g.raw.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		if id != g.env.self {
			ps = append(ps, progress{node: id, voter: kind == raft.ProgressTypePeer, match: p.Match})
		}
	})
	return ps
}

// seen says whether a node has ever registered, as far as this node has applied. Safe from any goroutine.
func (g *Group) seen(node uint64) bool {
	g.statusLock.Lock()
	defer g.statusLock.Unlock()
	return slices.Contains(g.registrations, node)
}
