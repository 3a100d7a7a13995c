package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/link"
)

// promotionTimeout bounds a promotion that a caller waits for; it goes on by itself.
const promotionTimeout = 2 * time.Minute

var _ admin.Link = (*Node)(nil)

// Link is the node's and its cluster's part in the standby link.
func (n *Node) Link() api.Link {
	first := n.linkState(systemGroup)
	l := api.Link{
		Role: first.Role.String(), Cluster: n.ClusterID(), Generation: first.Generation.Number, GenerationCluster: first.Generation.Cluster,
		Source: first.Source, Fenced: n.fenced(),
		Groups: n.linkGroups(), Sources: n.linkSources(), Readers: n.linkReaders(), Holds: []api.LinkHold{},
	}
	if n.standsBy() {
		l.Role = core.RoleStandby.String()
	}
	if l.Fenced {
		l.FencedReason = first.Gate.Reason()
	}
	l.SplitBrain, l.SplitBrainReason = n.splitBrain()
	l.Level, l.Switch = n.levels(), n.planned()
	for _, h := range n.raft.Holds() {
		l.Holds = append(l.Holds, api.LinkHold{
			Name: h.Name, State: string(h.State), Holding: h.Holding, Reason: h.Reason, Silent: h.Silent, Held: h.Held, Left: h.Left, Level: h.Level,
		})
	}
	return l
}

// planned is the planned switch that is under way or was the last: the source's by its own gates, a standby's by those that it has
// replayed, and by its own word.
func (n *Node) planned() *api.LinkSwitch {
	first, now, fenced := n.linkState(systemGroup), api.LinkSwitch{}, 0
	for _, g := range n.groups {
		l := n.linkState(g)
		gate := l.Gate
		if l.Role == core.RoleStandby {
			gate = l.SourceGate
		}
		if gate.Switch != "" {
			now.ID = gate.Switch
		}
		if gate.Switch != "" && gate.Fenced {
			fenced++
		}
	}
	judged := first.Switch != "" && (now.ID == "" || now.ID == first.Switch)
	switch {
	case judged && first.SwitchState == core.SwitchCancelled:
		now = api.LinkSwitch{ID: first.Switch, Step: "cancelled"}
	case judged:
		now = api.LinkSwitch{ID: first.Switch, Step: "accepted"}
	case now.ID == "":
		return nil
	case fenced == len(n.groups):
		now.Step = "fenced"
	case fenced > 0:
		now.Step = "fencing"
	default:
		now.Step = "draining"
	}
	return &now
}

// splitBrain says whether two clusters may serve at once, and why that is thought.
func (n *Node) splitBrain() (bool, string) {
	first := n.linkState(systemGroup)
	if first.Gate.Fenced {
		return false, "" // this one serves nobody
	}
	if why := n.linkage.handover.suspected.Load(); why != nil {
		return true, "another cluster says that it was promoted in this one's place: " + *why
	}
	if n.linkage.conductor != nil && first.Role == core.RolePromoted && n.raft.Group(systemGroup).Status().Leader == n.cfg.NodeID && !n.sourceIsFenced() {
		return true, "the former source has not confirmed that it is fenced"
	}
	return false, ""
}

// sourceIsFenced says whether one of the former source's nodes has confirmed the fence, which is its whole cluster's, or other
// clusters are at the addresses of all of them.
func (n *Node) sourceIsFenced() bool {
	if len(n.linkage.reports.get().FencesDelivered) > 0 {
		return true
	}
	fences := n.linkage.conductor.Fences()
	replaced := 0
	for _, d := range fences {
		if d.Replaced {
			replaced++
		}
	}
	return replaced > 0 && replaced == len(n.cfg.LinkSources())
}

func (n *Node) linkGroups() []api.LinkGroup {
	rows := []api.LinkGroup{}
	if n.linkage.follow == nil {
		return rows
	}
	follows := n.standsBy()
	for _, f := range n.linkage.follow.Followers() {
		row := api.LinkGroup{
			Group: f.Group, Role: n.linkState(f.Group).Role.String(), State: string(f.State), SourceNode: f.Source, Mismatches: f.Mismatches,
			Position:   linkPosition(f),
			LagEntries: f.Lag.Entries, LagSeconds: f.Lag.Seconds, ContactAge: age(f.Lag.ContactAge),
		}
		if f.Error != "" {
			row.Error = &f.Error
		}
		if !follows { // there is nothing to lag behind
			row.LagEntries, row.LagSeconds, row.ContactAge = 0, 0, nil
		} else if at := f.Lag.CaughtUp; !at.IsZero() {
			row.CompleteAge = age(time.Since(at).Seconds())
		}
		rows = append(rows, row)
	}
	return rows
}

// linkPosition is where a follower is, for people and scripts.
func linkPosition(f link.Follower) api.LinkPosition {
	return api.LinkPosition{Index: f.Position.Index, Term: f.Position.Term, Stamp: f.Stamp, Hash: fmt.Sprintf("%016x", f.Position.Hash)}
}

// age is a contact's, nil where there was none.
func age(seconds float64) *float64 {
	if seconds < 0 {
		return nil
	}
	return &seconds
}

func (n *Node) linkSources() []api.LinkSource {
	rows := []api.LinkSource{}
	if n.linkage.follow == nil {
		return rows
	}
	fences := n.linkage.conductor.Fences()
	for _, s := range n.linkage.follow.Sources() {
		if d, told := fences[s.Address]; told { // since the promotion it is not asked any more, but told
			s.Fenced, s.Error = d.Fenced, d.Error
		}
		row := api.LinkSource{Address: s.Address, Role: s.Role, Fenced: s.Fenced, Error: s.Error}
		if !s.Answered.IsZero() {
			row.ContactAge = age(time.Since(s.Answered).Seconds())
		}
		if h := s.Hold; h != nil {
			row.Hold = &api.LinkHold{
				Name: readerName(n.ClusterID()), State: h.State, Holding: h.Holding, Reason: h.Reason, Held: h.Held, Left: h.Left, Level: n.membersLevel(),
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func (n *Node) linkReaders() []api.LinkReader {
	rows := []api.LinkReader{}
	if n.linkage.source == nil {
		return rows
	}
	for _, r := range n.linkage.source.Readers() {
		row := api.LinkReader{Name: r.Name, Standby: r.Standby, Idle: time.Since(r.Seen).Seconds(), Positions: []api.ReaderPosition{}}
		for g, p := range r.Positions {
			applied := n.raft.Group(g).Status().Applied
			row.Positions = append(row.Positions, api.ReaderPosition{Group: g, Index: p.Index, Behind: applied - min(p.Index, applied)})
		}
		slices.SortFunc(row.Positions, func(a, b api.ReaderPosition) int { return cmp.Compare(a.Group, b.Group) })
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b api.LinkReader) int { return cmp.Compare(a.Name, b.Name) })
	return rows
}

// Promote makes the standby an ordinary cluster; it answers once that serves.
func (n *Node) Promote(ctx context.Context) (api.Promotion, error) {
	return n.promoted(ctx, func(ctx context.Context, c *link.Conductor) error { return c.Promote(ctx) })
}

// Switchover makes the source hand over; it answers once this cluster serves.
func (n *Node) Switchover(ctx context.Context, s api.Switchover) (api.Promotion, error) {
	drain := time.Duration(s.DrainSeconds * float64(time.Second))
	return n.promoted(ctx, func(ctx context.Context, c *link.Conductor) error { return c.Switchover(ctx, drain) })
}

func (n *Node) promoted(ctx context.Context, how func(context.Context, *link.Conductor) error) (api.Promotion, error) {
	if n.linkage.conductor == nil {
		return api.Promotion{}, admin.Conflict{Err: fmt.Errorf("%w (no --link-source is set)", link.ErrNoStandby)}
	}
	ctx, cancel := context.WithTimeout(ctx, promotionTimeout)
	defer cancel()
	err := how(ctx, n.linkage.conductor)
	switch {
	case err == nil:
		p, _ := n.Promotion()
		return p, nil
	case errors.Is(err, link.ErrNoStandby), errors.Is(err, link.ErrCancelled):
		return api.Promotion{}, admin.Conflict{Err: err}
	}
	return api.Promotion{}, admin.Unavailable{Err: err}
}

// Promotion is what this node knew at the cut; false if the cluster was never promoted.
func (n *Node) Promotion() (api.Promotion, bool) {
	if n.linkState(systemGroup).Role != core.RolePromoted {
		return api.Promotion{}, false
	}
	p := n.linkage.reports.get()
	if n.linkage.conductor != nil {
		delivered := map[string]bool{}
		for a, d := range n.linkage.conductor.Fences() {
			delivered[a] = d.Fenced
		}
		maps.Copy(delivered, p.FencesDelivered)
		p.FencesDelivered = delivered
	}
	return p, true
}
