package replication

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// The verbs of a request.
const (
	verbAdd = iota + 1
	verbPromote
	verbRemove
	verbTransfer
)

var (
	errNotLeader   = errors.New("this node does not lead the group")
	errCatchingUp  = errors.New("the learner is still catching up: try again later")
	errUnfinished  = errors.New("the change was not carried out in time: is a majority of the voters up?")
	errLostLeading = errors.New("the group's leader changed meanwhile")
)

// waiter is a change that was asked of this leader. answer is called once.
type waiter struct {
	request
	since  uint64
	answer func(err error, retry bool)
}

// change asks this node, as the group's leader, for a change; it is carried out or refused in its own time.
func (g *Group) change(q request, answer func(err error, retry bool)) {
	if g.err != nil {
		answer(g.err, false)
		return
	}
	if g.satisfied(q) {
		answer(nil, false)
		return
	}
	if g.lead == nil {
		answer(errNotLeader, true)
		return
	}
	if err := g.admissible(q); err != nil {
		answer(err, errors.Is(err, errCatchingUp))
		return
	}
	w := &waiter{request: q, since: g.ticks, answer: answer}
	g.waiters = append(g.waiters, w)
	g.proposeChange(w)
}

// satisfied says whether there is nothing to do: a change repeated after a lost answer succeeds.
func (g *Group) satisfied(q request) bool {
	m := g.members
	switch q.verb {
	case verbAdd:
		return m.member(q.node) && m.addresses[q.node] == q.address
	case verbPromote:
		return m.voter(q.node)
	case verbRemove:
		return !m.member(q.node) && slices.Contains(m.removed, q.node)
	case verbTransfer:
		return g.leader == q.node
	}
	return false
}

// admissible says why a change cannot be made.
func (g *Group) admissible(q request) error {
	m := g.members
	switch q.verb {
	case verbAdd:
		if q.node == 0 || q.address == "" {
			return errors.New("a node needs an id above 0 and a peer address")
		}
		if m.member(q.node) {
			return fmt.Errorf("node %d is a member already, at %s: remove it first", q.node, m.addresses[q.node])
		}
	case verbPromote:
		if !m.learner(q.node) {
			return fmt.Errorf("node %d is no learner of the cluster: add it first", q.node)
		}
		return g.caughtUp(q.node)
	case verbRemove:
		if !m.member(q.node) {
			return fmt.Errorf("node %d is not a member of the cluster", q.node)
		}
		if v := m.raft.GetVoters(); len(v) == 1 && v[0] == q.node {
			return fmt.Errorf("node %d is the last voter of the cluster: it cannot be removed", q.node)
		}
	case verbTransfer:
		if !m.voter(q.node) {
			return fmt.Errorf("node %d is not a voter of the cluster", q.node)
		}
		if silent := g.env.silence(q.node); silent > g.env.electionTime() {
			return fmt.Errorf("node %d cannot lead: nothing has come from it for %v", q.node, silent.Round(time.Millisecond))
		}
	default:
		return fmt.Errorf("unknown change %d: asked by a newer understudy", q.verb)
	}
	return nil
}

// caughtUp says whether a learner follows closely enough to vote without holding the group up.
func (g *Group) caughtUp(node uint64) error {
	err := errCatchingUp
	g.raw.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if id == node && p.State == tracker.StateReplicate {
			err = nil
		}
	})
	return err
}

func (g *Group) proposeChange(w *waiter) {
	if w.verb == verbTransfer {
		g.raw.TransferLeader(w.node)
		return
	}
	kind := map[uint64]pb.ConfChangeType{
		verbAdd: pb.ConfChangeAddLearnerNode, verbPromote: pb.ConfChangeAddNode, verbRemove: pb.ConfChangeRemoveNode,
	}[w.verb]
	c := &pb.ConfChangeV2{
		Changes: []*pb.ConfChangeSingle{{Type: kind.Enum(), NodeId: new(w.node)}},
		Context: []byte(w.address),
	}
	if err := g.raw.ProposeConfChange(c); err != nil {
		g.logger.Info("a membership change has to wait", "error", err)
	}
}

// checkWaiters answers the changes that have been carried out.
func (g *Group) checkWaiters() {
	kept := g.waiters[:0]
	for _, w := range g.waiters {
		if g.satisfied(w.request) {
			w.answer(nil, false)
		} else {
			kept = append(kept, w)
		}
	}
	clear(g.waiters[len(kept):])
	g.waiters = kept
}

// tickWaiters proposes again what raft let fall (it takes one change at a time) and gives up what takes too long.
func (g *Group) tickWaiters() {
	if len(g.waiters) == 0 {
		return
	}
	g.checkWaiters()
	t := uint64(g.env.opts.ElectionTicks)
	kept := g.waiters[:0]
	for _, w := range g.waiters {
		switch age := g.ticks - w.since; {
		case w.verb == verbTransfer && age > t: // not asked again: raft drops proposals meanwhile
			w.answer(fmt.Errorf("node %d did not take the leadership over in time", w.node), false)
			continue
		case age > 4*t:
			w.answer(errUnfinished, true)
			continue
		case age > 0 && age%t == 0:
			g.proposeChange(w)
		}
		kept = append(kept, w)
	}
	clear(g.waiters[len(kept):])
	g.waiters = kept
}

func (g *Group) failWaiters() {
	for _, w := range g.waiters {
		w.answer(errLostLeading, true)
	}
	g.waiters = nil
}
