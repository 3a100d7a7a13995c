package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/source"
	"github.com/understudy-mq/understudy/link/wire"
	"github.com/understudy-mq/understudy/replication"
)

const (
	// drainSlack is how much longer than the drain that was asked for deliveries stay held: the fence comes before it ends.
	drainSlack = 15 * time.Second
	drainMost  = time.Hour
	// handoverStep bounds one request of the other side; it asks again.
	handoverStep = 5 * time.Second
)

// handover carries out, on a source, what a standby that takes over asks for. Every step is an entry, so any node goes on
// where another stopped.
type handover struct {
	n *Node
	// suspected is why a cluster that claims to have been promoted in this one's place was not believed; nil for none.
	suspected atomic.Pointer[string]
}

var _ source.Switch = (*handover)(nil)

// Drain implements source.Switch.
func (h *handover) Drain(ctx context.Context, d wire.Drain) (wire.DrainAnswer, error) {
	if err := h.fits(d); err != nil {
		return wire.DrainAnswer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, handoverStep)
	defer cancel()
	if d.Cancelled {
		err := h.carriedOut(ctx, h.n.groups, func(uint64, core.Link) entry.Command {
			return &entry.LinkFenceCancel{Cluster: d.Cluster, Switch: d.Switch}
		}, func(l core.Link) bool { return l.Gate.Cancelled == d.Switch })
		return wire.DrainAnswer{State: "cancelled"}, err
	}
	drain := &entry.LinkDrain{Cluster: d.Cluster, Switch: d.Switch, Millis: (h.length(d) + drainSlack).Milliseconds()}
	err := h.carriedOut(ctx, h.n.groups, func(uint64, core.Link) entry.Command { return drain },
		// Another switch's drain does not do: of two the shorter counts, and the machine tells which that is.
		func(l core.Link) bool { return l.Gate.Drain != 0 && l.Gate.Switch == d.Switch || l.Gate.Fenced })
	if err != nil {
		return wire.DrainAnswer{State: "draining"}, err
	}
	if !h.drained(d) {
		return wire.DrainAnswer{State: "draining"}, nil
	}
	return h.fence(ctx, d)
}

// fence fences every group for a switch. Of switches that are asked for at the same time the one counts that has fenced the system group: were
// every group fenced for whichever came first there, none could be completed, and the cluster would serve nobody.
func (h *handover) fence(ctx context.Context, d wire.Drain) (wire.DrainAnswer, error) {
	fence := &entry.LinkFence{Cluster: d.Cluster, Switch: d.Switch, Hosts: strings.Join(d.Hosts, ",")}
	for _, groups := range [][]uint64{{systemGroup}, h.n.groups} {
		err := h.carriedOut(ctx, groups, func(uint64, core.Link) entry.Command { return fence }, func(l core.Link) bool { return l.Gate.Fenced })
		if err != nil {
			return wire.DrainAnswer{State: "fencing"}, err
		}
		if err := h.fencedFor(d.Switch, groups); err != nil {
			return wire.DrainAnswer{}, err
		}
	}
	a := wire.DrainAnswer{State: "fenced"}
	for _, g := range h.n.groups {
		a.Fences = append(a.Fences, wire.Position{Group: g, Position: entry.Position{Index: h.n.linkState(g).Gate.FencedAt}})
	}
	return a, nil
}

// fits says why this cluster does not drain for the request.
func (h *handover) fits(d wire.Drain) error {
	role := h.n.linkState(systemGroup).Role
	switch {
	case d.Switch == "" || d.Cluster == "" || d.Cluster != h.n.ClusterID():
		return fmt.Errorf("%w: it is cluster %s, not %s", source.ErrConflict, h.n.ClusterID(), d.Cluster)
	case role == core.RoleStandby:
		return fmt.Errorf("%w: %s", source.ErrConflict, source.ReasonStandby)
	}
	for _, g := range h.n.groups {
		if by := h.n.linkState(g).Gate.By; by.Number > 0 && !d.Cancelled {
			return fmt.Errorf("%w: cluster %s was promoted in its place already", source.ErrConflict, by.Cluster)
		}
	}
	return nil
}

func (h *handover) length(d wire.Drain) time.Duration {
	return min(max(time.Duration(d.Millis)*time.Millisecond, 0), drainMost)
}

// drained says whether nothing is in flight any more, or the time for that is over.
func (h *handover) drained(d wire.Drain) bool {
	over, unsettled := false, uint64(0)
	for _, g := range h.n.groups {
		h.n.states[g].View(func(m *core.Machine) {
			until := m.Link().Gate.Drain
			over = over || until != 0 && time.Now().Add(drainSlack).UnixMilli() >= until
			for _, v := range m.Vhosts() {
				unsettled += v.Unacknowledged
			}
		})
	}
	return over || unsettled == 0
}

// fencedFor says why a switch cannot be completed: a group is fenced for another one.
func (h *handover) fencedFor(id string, groups []uint64) error {
	for _, g := range groups {
		if gate := h.n.linkState(g).Gate; gate.Switch != id {
			return fmt.Errorf("%w: it is fenced for another switch", source.ErrConflict)
		}
	}
	return nil
}

// carriedOut has groups carry out a command that they have not, and waits until this node sees that they have.
func (h *handover) carriedOut(ctx context.Context, groups []uint64, command func(uint64, core.Link) entry.Command, done func(core.Link) bool) error {
	for _, g := range groups {
		for asked := (time.Time{}); ; {
			l := h.n.linkState(g)
			if done(l) {
				break
			}
			if time.Since(asked) > controlAgain {
				asked = time.Now()
				if err := h.n.raft.Group(g).ControlLocal(entry.Append(nil, command(g, l))); err != nil {
					return err
				}
			}
			select {
			case <-time.After(controlLook):
			case <-ctx.Done():
				return fmt.Errorf("group %d has not carried it out yet: %w", g, ctx.Err())
			}
		}
	}
	return nil
}

// Fence implements source.Switch.
func (h *handover) Fence(ctx context.Context, f wire.Fence) (wire.FenceAnswer, error) {
	own := h.n.ClusterID()
	switch {
	case f.Cluster == "" || own == "":
		return wire.FenceAnswer{}, fmt.Errorf("%w: it is cluster %s, not %s", source.ErrConflict, own, f.Cluster)
	case f.Cluster != own:
		return wire.FenceAnswer{Cluster: own, Reason: "cluster " + own + " is here now"}, nil
	}
	cuts := map[uint64]entry.Position{}
	for _, c := range f.Cuts {
		cuts[c.Group] = c.Position
	}
	if err := h.verify(f, cuts); err != nil {
		text := err.Error()
		h.suspected.Store(&text)
		h.n.log.Error("another cluster says that it was promoted in this one's place; it is not believed", "cluster", f.Generation.Cluster, "reason", err)
		return wire.FenceAnswer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, handoverStep)
	defer cancel()
	err := h.carriedOut(ctx, h.n.groups, func(g uint64, _ core.Link) entry.Command {
		return &entry.LinkFenced{Cluster: f.Cluster, Generation: f.Generation, Cut: cuts[g], Hosts: strings.Join(f.Hosts, ",")}
	}, func(l core.Link) bool { return l.Gate.Fenced && !f.Generation.Over(l.Gate.By) })
	if err != nil {
		return wire.FenceAnswer{Reason: err.Error()}, nil
	}
	h.suspected.Store(nil)
	return wire.FenceAnswer{Fenced: true}, nil
}

// verify compares the cuts with this node's own log: one of a history that is not this cluster's fences nothing. What is no
// longer in the log says nothing either way, but one cut must be there.
func (h *handover) verify(f wire.Fence, cuts map[uint64]entry.Position) error {
	own := h.n.linkState(systemGroup).Generation
	if !f.Generation.Over(own) {
		return fmt.Errorf("%w: its generation %d is not below %d", source.ErrConflict, own.Number, f.Generation.Number)
	}
	found := 0
	for _, g := range h.n.groups {
		cut, ok := cuts[g]
		if !ok {
			return fmt.Errorf("%w: no cut of group %d is told", source.ErrConflict, g)
		}
		r, err := h.n.raft.Group(g).ReadLink(cut.Index, cut.Term, cut.Hash, 1)
		if err != nil {
			return err
		}
		switch r.Status {
		case replication.ReadMismatch:
			return fmt.Errorf("%w: the cut of group %d at entry %d is not of its history", source.ErrConflict, g, cut.Index)
		case replication.ReadAhead:
			return fmt.Errorf("this node has not come to the cut of group %d at entry %d: ask another", g, cut.Index)
		case replication.ReadEntries:
			found++
		}
	}
	if found == 0 {
		return errors.New("the log at the cuts is gone: the fence cannot be verified")
	}
	return nil
}
