package node

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/source"
	"github.com/understudy-mq/understudy/link/wire"
)

// fenceAt is what a cluster would say that was promoted where n is now.
func fenceAt(t *testing.T, n *Node) wire.Fence {
	t.Helper()
	f := wire.Fence{Cluster: n.ClusterID(), Generation: entry.Generation{Number: 1, Cluster: "another"}}
	for _, g := range n.groups {
		at, term := n.states[g].Applied()
		p := entry.Position{Index: at, Term: term}
		r, err := n.raft.Group(g).ReadLink(p.Index, p.Term, 0, 1) // answers the hash there
		if err != nil {
			t.Fatal(err)
		}
		p.Hash = r.Hash
		f.Cuts = append(f.Cuts, wire.Position{Group: g, Position: p})
	}
	return f
}

// A fence is believed only where its cuts are places of this cluster's own history.
func TestAFenceThatDoesNotFitThisClustersHistoryFencesNothing(t *testing.T) {
	from, _ := pair(t)
	n := start(t, from)
	ready(t, n)
	c := dial(t, n)
	send(t, c, "work", "before")
	for name, c := range map[string]struct {
		change func(*wire.Fence)
		reason string
		doubt  bool // it may be that two clusters serve
	}{
		"of no cluster":           {func(f *wire.Fence) { f.Cluster = "" }, "it is cluster", false},
		"of no later generation":  {func(f *wire.Fence) { f.Generation = entry.Generation{} }, "generation", true},
		"without a group":         {func(f *wire.Fence) { f.Cuts = f.Cuts[1:] }, "no cut of group 0", true},
		"with another history":    {func(f *wire.Fence) { f.Cuts[1].Hash++ }, "not of its history", true},
		"with another term":       {func(f *wire.Fence) { f.Cuts[1].Term++ }, "not of its history", true},
		"beyond what is here":     {func(f *wire.Fence) { f.Cuts[1].Index += 1000 }, "has not come to the cut", true},
		"with cuts and no places": {func(f *wire.Fence) { f.Cuts = []wire.Position{{}, {}} }, "", true},
	} {
		f := fenceAt(t, n)
		n.linkage.handover.suspected.Store(nil)
		c.change(&f)
		a, err := n.linkage.handover.Fence(t.Context(), f)
		if err == nil || a.Fenced || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		if n.Link().Fenced || n.Link().SplitBrain != c.doubt {
			t.Errorf("%s: fenced %v, two clusters suspected %v", name, n.Link().Fenced, n.Link().SplitBrain)
		}
	}
	n.linkage.handover.suspected.Store(nil)
	other := fenceAt(t, n)
	other.Cluster = "a-third"
	if a, err := n.linkage.handover.Fence(t.Context(), other); err != nil || a.Fenced || a.Cluster != n.ClusterID() || n.Link().SplitBrain {
		t.Errorf("a fence for another cluster: %+v, %v", a, err)
	}
	send(t, c, "work", "after")
	if a, err := n.linkage.handover.Fence(t.Context(), fenceAt(t, n)); err != nil || !a.Fenced || n.Link().SplitBrain {
		t.Errorf("a fence that fits: %+v, %v", a, err)
	}
}

func TestADrainThatIsNotForThisClusterIsRefusedAndNothingWaits(t *testing.T) {
	from, to := pair(t)
	n, standby := start(t, from), start(t, to)
	ready(t, n, standby)
	follows(t, n, standby)
	for name, c := range map[string]struct {
		node *Node
		d    wire.Drain
	}{
		"of another cluster": {n, wire.Drain{Cluster: "a-third", Switch: "s"}},
		"of no cluster":      {n, wire.Drain{Switch: "s"}},
		"of no switch":       {n, wire.Drain{Cluster: n.ClusterID()}},
		"of a standby":       {standby, wire.Drain{Cluster: standby.ClusterID(), Switch: "s"}},
	} {
		h := &handover{n: c.node}
		if _, err := h.Drain(context.Background(), c.d); !errors.Is(err, source.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
		if c.node.linkState(systemGroup).Gate.Drain != 0 {
			t.Errorf("%s: it drains", name)
		}
	}
	send(t, dial(t, n), "work", "after")
}

// Two switches that are asked for at the same time, on two nodes: each would fence the groups that the other has not come to.
func TestOfTwoSwitchesTheOneThatHasFencedTheSystemGroupFencesTheOthers(t *testing.T) {
	from, _ := pair(t)
	n := start(t, from)
	ready(t, n)
	h := n.linkage.handover
	first := &entry.LinkFence{Cluster: n.ClusterID(), Switch: "first"}
	if err := n.raft.Group(systemGroup).ControlLocal(entry.Append(nil, first)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the system group is fenced", func() bool { return n.linkState(systemGroup).Gate.Fenced })
	if a, err := h.Drain(t.Context(), wire.Drain{Cluster: n.ClusterID(), Switch: "second"}); !errors.Is(err, source.ErrConflict) {
		t.Errorf("the second switch: %+v, %v", a, err)
	}
	for _, g := range n.groups[1:] {
		if gate := n.linkState(g).Gate; gate.Fenced {
			t.Errorf("group %d is fenced for the switch %s", g, gate.Switch)
		}
	}
	if a, err := h.Drain(t.Context(), wire.Drain{Cluster: n.ClusterID(), Switch: "first"}); err != nil || len(a.Fences) != len(n.groups) {
		t.Errorf("the first switch: %+v, %v", a, err)
	}
	if err := h.fencedFor("first", n.groups); err != nil {
		t.Error(err)
	}
	if s := n.Link().Switch; s == nil || *s != (api.LinkSwitch{ID: "first", Step: "fenced"}) {
		t.Errorf("it says of the switch: %+v", s)
	}
}
