package standby

import (
	"slices"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// fault is something bad that happens for a while, and is made good.
type fault struct {
	name string
	do   func(*round) error
	// between: it needs the standby's nodes to reach one another through proxies, which those that have joined a seeded one do not.
	between bool
	power   bool // it needs nodes whose power can be cut
	dark    bool // likewise, and takes that of all of a cluster
}

var faults = []fault{
	{name: "kill-source", do: func(r *round) error { return r.killOne(r.Source) }},
	{name: "kill-standby", do: func(r *round) error { return r.killOne(r.Standby) }},
	{name: "fell-source", do: func(r *round) error { return r.fell(r.Source) }},
	{name: "fell-standby", do: func(r *round) error { return r.fell(r.Standby) }},
	{name: "power-source", do: func(r *round) error { return r.dark(r.Source, r.Source.Members()) }, power: true, dark: true},
	{name: "power-standby", do: func(r *round) error { return r.dark(r.Standby, r.Standby.Members()) }, power: true, dark: true},
	{name: "power-one-source", do: func(r *round) error { return r.dark(r.Source, []*harness.Node{r.one(r.Source)}) }, power: true},
	{name: "power-one-standby", do: func(r *round) error { return r.dark(r.Standby, []*harness.Node{r.one(r.Standby)}) }, power: true},
	{name: "pause-source", do: func(r *round) error { return r.pauseOne(r.Source) }},
	{name: "pause-standby", do: func(r *round) error { return r.pauseOne(r.Standby) }},
	{name: "part-source", do: func(r *round) error { return r.partOne(r.Source) }},
	{name: "part-standby", do: func(r *round) error { return r.partOne(r.Standby) }, between: true},
	{name: "deafen-source", do: func(r *round) error { return r.deafenOne(r.Source) }},
	{name: "deafen-standby", do: func(r *round) error { return r.deafenOne(r.Standby) }, between: true},
	{name: "cut-link", do: func(r *round) error {
		r.CutLinksOf(1 + r.rng.IntN(3))
		r.last()
		r.HealLinks()
		return nil
	}},
	{name: "cut-links", do: func(r *round) error {
		r.CutLinks()
		r.last()
		r.HealLinks()
		return nil
	}},
}

// faultsFor are those that bite.
func faultsFor(seeded, powered bool) []fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return seeded && f.between || !powered && f.power })
}

// choose draws the next fault. Where power can be cut, the first one cuts that of a whole cluster.
func (r *round) choose() fault {
	choice := faultsFor(r.seeded, r.powered)
	if r.powered && len(r.res.faults) == 0 {
		choice = slices.DeleteFunc(choice, func(f fault) bool { return !f.dark })
	}
	return choice[r.rng.IntN(len(choice))]
}

// last lets a fault last.
func (r *round) last() { time.Sleep(time.Duration(300+r.rng.IntN(1200)) * time.Millisecond) }

func (r *round) one(c *harness.Cluster) *harness.Node { return c.Node(1 + r.rng.IntN(3)) }

func (r *round) killOne(c *harness.Cluster) error {
	n := r.one(c)
	n.Kill9()
	r.last()
	if err := n.Start(); err != nil {
		return err
	}
	return c.WaitReady(harness.Patience)
}

// fell kills all nodes of a cluster at the same moment. What they have written and not synced stays with the kernel: dark takes that too.
func (r *round) fell(c *harness.Cluster) error {
	c.KillAll()
	r.last()
	for _, n := range c.Members() {
		if err := n.Start(); err != nil {
			return err
		}
	}
	return c.WaitReady(harness.Patience)
}

// dark cuts the power of nodes at the same moment.
func (r *round) dark(c *harness.Cluster, nodes []*harness.Node) error {
	if err := r.cutPower(nodes); err != nil {
		return err
	}
	r.last()
	for _, n := range nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	return c.WaitReady(harness.Patience)
}

func (r *round) cutPower(nodes []*harness.Node) error {
	loss, err := harness.CutPower(nodes, r.rng)
	r.res.power.Add(loss)
	return err
}

// loseSource is the end of the source: by a power cut where its power can be cut.
func (r *round) loseSource() error {
	if !r.powered {
		r.Source.KillAll()
		return nil
	}
	return r.cutPower(r.Source.Members())
}

func (r *round) pauseOne(c *harness.Cluster) error {
	n := r.one(c)
	if err := n.Pause(); err != nil {
		return err
	}
	r.last()
	return n.Resume()
}

func (r *round) partOne(c *harness.Cluster) error {
	c.Isolate(r.one(c).ID)
	r.last()
	c.Heal()
	return nil
}

// deafenOne lets a node speak to the others and not hear them.
func (r *round) deafenOne(c *harness.Cluster) error {
	deaf := r.one(c).ID
	for _, n := range c.Members() {
		if n.ID != deaf {
			c.CutOneWay(n.ID, deaf)
		}
	}
	r.last()
	c.Heal()
	return nil
}
