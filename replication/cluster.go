package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/understudy-mq/understudy/replication/transport"
)

const (
	balanceTicks = 300 // between two looks at who leads how much
	// askAgain is the pause before a change is asked again of a group that is without a leader.
	askAgain   = 50 * time.Millisecond
	answerMost = 10 * time.Second
)

// AddMember adds a node as a learner, in every group. Repeating it does nothing. It fails for an id that is a member at
// another address, and when ctx ends.
func (n *Node) AddMember(ctx context.Context, id uint64, address string) error {
	return n.changeAll(ctx, request{verb: verbAdd, node: id, address: address})
}

// PromoteMember makes a learner that has caught up a voter, in every group.
func (n *Node) PromoteMember(ctx context.Context, id uint64) error {
	return n.changeAll(ctx, request{verb: verbPromote, node: id})
}

// RemoveMember takes a node out of every group, voter or learner, but for the last voter.
func (n *Node) RemoveMember(ctx context.Context, id uint64) error {
	return n.changeAll(ctx, request{verb: verbRemove, node: id})
}

// TransferLeader makes a voter lead a group.
func (n *Node) TransferLeader(ctx context.Context, group, id uint64) error {
	g := n.groups[group]
	if g == nil {
		return fmt.Errorf("there is no group %d", group)
	}
	return n.ask(ctx, g, request{verb: verbTransfer, node: id})
}

func (n *Node) changeAll(ctx context.Context, q request) error {
	for _, id := range n.opts.Groups {
		if err := n.ask(ctx, n.groups[id], q); err != nil {
			return fmt.Errorf("group %d: %w", id, err)
		}
	}
	return nil
}

// ask asks the group's leader, wherever it is, until it answers yes or no.
func (n *Node) ask(ctx context.Context, g *Group, q request) error {
	var last error
	for {
		err, retry := n.askOnce(ctx, g, q)
		if err == nil || !retry {
			return err
		}
		last = err
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return errors.Join(last, ctx.Err())
		case <-n.ctx.Done():
			return errStopped
		}
	}
}

var (
	errStopped  = errors.New("the node is stopping")
	errNoLeader = errors.New("the group has no leader at present")
	errNoAnswer = errors.New("the group's leader does not answer")
)

func (n *Node) askOnce(ctx context.Context, g *Group, q request) (err error, retry bool) {
	answers := make(chan response, 1)
	switch leader := g.Status().Leader; leader {
	case 0:
		return errNoLeader, true
	case n.opts.NodeID:
		g.in.put(event{kind: eventCall, call: func(g *Group) {
			g.change(q, func(err error, retry bool) { answers <- respond(0, err, retry) })
		}})
	default:
		n.mu.Lock()
		n.number++
		q.number = n.number
		n.calls[q.number] = answers
		n.mu.Unlock()
		defer func() {
			n.mu.Lock()
			delete(n.calls, q.number)
			n.mu.Unlock()
		}()
		if !n.net.Send(leader, transport.Frame{Kind: transport.Request, Group: g.id, Urgent: true, Payload: q.encode()}) {
			return errNoAnswer, true
		}
	}
	select {
	case a := <-answers:
		if a.text == "" {
			return nil, false
		}
		return errors.New(a.text), a.retry
	case <-time.After(answerMost):
		return errNoAnswer, true
	case <-ctx.Done():
		return ctx.Err(), false
	case <-n.ctx.Done():
		return errStopped, false
	}
}

func respond(number uint64, err error, retry bool) response {
	if err == nil {
		return response{number: number}
	}
	return response{number: number, retry: retry, text: err.Error()}
}

// serve carries out a peer's request and sends the answer.
func (n *Node) serve(g *Group, from uint64, q request) {
	g.in.put(event{kind: eventCall, call: func(g *Group) {
		g.change(q, func(err error, retry bool) {
			n.net.Send(from, transport.Frame{
				Kind: transport.Response, Group: g.id, Urgent: true, Payload: respond(q.number, err, retry).encode(),
			})
		})
	}})
}

func (n *Node) answered(payload []byte) error {
	a, err := decodeResponse(payload)
	if err != nil {
		return err
	}
	n.mu.Lock()
	answers := n.calls[a.number]
	delete(n.calls, a.number)
	n.mu.Unlock()
	if answers != nil {
		answers <- a
	}
	return nil
}

// membersChanged connects to new members and lets go of removed ones, once no group has them.
func (n *Node) membersChanged(group uint64, m membership) {
	n.mu.Lock()
	old := n.conf[group]
	n.conf[group] = m
	gone := []uint64{}
	for _, id := range old.ids() {
		if !n.memberLocked(id) {
			gone = append(gone, id)
		}
	}
	n.mu.Unlock()
	for _, id := range gone {
		if n.letGoAtOnce {
			n.net.RemovePeer(id)
		} else {
			n.wait.Go(func() { n.letGo(id) })
		}
	}
	for _, id := range m.ids() {
		if id != n.opts.NodeID {
			n.net.SetPeer(id, m.addresses[id])
		}
	}
}

// letGo closes the connections to a removed member, once it has had time to hear of its removal.
func (n *Node) letGo(id uint64) {
	select {
	case <-time.After(time.Duration(n.opts.ElectionTicks) * n.opts.TickInterval):
	case <-n.ctx.Done():
		return
	}
	n.mu.Lock()
	member := n.memberLocked(id)
	n.mu.Unlock()
	if !member {
		n.net.RemovePeer(id)
	}
}

func (n *Node) memberLocked(id uint64) bool {
	for _, m := range n.conf {
		if m.member(id) {
			return true
		}
	}
	return false
}

// fresh says whether this node has no data in any group.
func (n *Node) fresh() bool {
	for _, id := range n.opts.Groups {
		if last, err := n.log.Group(id).LastIndex(); err != nil || last > firstIndex {
			return false
		}
	}
	return true
}

// admit judges a peer by the membership. A voter that has registered before, or is known otherwise, and comes back without data would vote
// against what it has promised; it has to come back as another node.
func (n *Node) admit(h transport.Hello) error {
	select { // a node that starts would take whoever comes first for one that invites it
	case <-n.opened:
	case <-n.ctx.Done():
		return errStopped
	}
	n.mu.Lock()
	known, voter := false, false
	for _, m := range n.conf {
		known = known || len(m.ids()) > 0
		voter = voter || m.voter(h.From)
	}
	member := n.memberLocked(h.From)
	n.mu.Unlock()
	if !known { // a joiner: it answers who invites it
		n.net.SetPeer(h.From, h.Address)
		return nil
	}
	if !member {
		return fmt.Errorf("node %d is not a member of this cluster", h.From)
	}
	if h.Fresh && voter && (n.wasRegistered(h.From) || n.opts.Known != nil && n.opts.Known(h.From)) {
		return fmt.Errorf("node %d is a voter but has lost its data: remove it, and add it under a new id", h.From)
	}
	return nil
}

func (n *Node) wasRegistered(id uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range n.groups {
		if g.seen(id) {
			return true
		}
	}
	return false
}

// HandOver moves the leadership of every group that this node leads to the follower that is furthest. It returns when others
// lead, or when two elections' time has passed.
func (n *Node) HandOver(ctx context.Context) {
	ask := event{kind: eventCall, call: (*Group).giveWay}
	for _, g := range n.groups {
		g.in.put(ask)
	}
	wait, cancel := context.WithTimeout(ctx, 2*time.Duration(n.opts.ElectionTicks)*n.opts.TickInterval)
	defer cancel()
	for _, g := range n.groups {
		for s := g.Status(); (s.Leader == n.opts.NodeID || s.Leader == 0) && len(s.Voters) > 1; s = g.Status() {
			select {
			case <-time.After(n.opts.TickInterval / 4):
				g.in.put(ask)
			case <-wait.Done():
				return
			}
		}
	}
}

// balance hands one group over where this node leads more than its share.
func (n *Node) balance() {
	loads, mine := map[uint64]int{}, []*Group{}
	voters := []uint64{}
	for _, g := range n.groups {
		s := g.Status()
		loads[s.Leader]++
		voters = s.Voters
		if s.Leader == n.opts.NodeID {
			mine = append(mine, g)
		}
	}
	if len(voters) < 2 || len(mine) <= (len(n.groups)+len(voters)-1)/len(voters) {
		return
	}
	mine[0].in.put(event{kind: eventCall, call: func(g *Group) { g.handTo(loads) }})
}

// heirs are the followers that leadership can be handed to: voters that were heard of three heartbeats ago at the latest. Until one
// that has died would have answered, an election's time, the group takes no proposal.
func (g *Group) heirs() []progress {
	return slices.DeleteFunc(g.followers(), func(p progress) bool {
		return !p.voter || g.env.silence(p.node) > 3*heartbeatTicks*g.env.opts.TickInterval
	})
}

// giveWay hands leadership to the heir whose log reaches furthest, if there is one and that is not under way.
func (g *Group) giveWay() {
	if g.lead == nil || g.raw.BasicStatus().LeadTransferee != 0 {
		return
	}
	best := progress{}
	for _, p := range g.heirs() {
		if best.node == 0 || p.match > best.match {
			best = p
		}
	}
	if best.node != 0 {
		g.raw.TransferLeader(best.node)
	}
}

// handTo hands leadership to the heir that leads least and follows closely; not while a follower is sent a snapshot, which would be for
// nothing.
func (g *Group) handTo(loads map[uint64]int) {
	if g.lead == nil || len(g.snapshots.owed) > 0 {
		return
	}
	best := progress{}
	for _, p := range g.heirs() {
		if p.match >= g.commit && (best.node == 0 || loads[p.node] < loads[best.node]) {
			best = p
		}
	}
	if best.node != 0 && loads[best.node]+1 < loads[g.env.self] {
		g.logger.Info("balancing leaders", "to", best.node)
		g.raw.TransferLeader(best.node)
	}
}
