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
}

var faults = []fault{
	{name: "kill-source", do: func(r *round) error { return r.killOne(r.Source) }},
	{name: "kill-standby", do: func(r *round) error { return r.killOne(r.Standby) }},
	{name: "fell-source", do: func(r *round) error { return r.fell(r.Source) }},
	{name: "fell-standby", do: func(r *round) error { return r.fell(r.Standby) }},
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
func faultsFor(seeded bool) []fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return seeded && f.between })
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
	return c.WaitReady(time.Minute)
}

// fell kills all nodes of a cluster at the same moment, as when the power of their room goes.
func (r *round) fell(c *harness.Cluster) error {
	c.KillAll()
	r.last()
	for _, n := range c.Members() {
		if err := n.Start(); err != nil {
			return err
		}
	}
	return c.WaitReady(time.Minute)
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
