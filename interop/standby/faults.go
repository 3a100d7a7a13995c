package standby

import (
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// fault is something bad that happens for a while, and is made good.
type fault struct {
	name string
	do   func(*round) error
}

var faults = []fault{
	{"kill-source", func(r *round) error { return r.killOne(r.Source) }},
	{"kill-standby", func(r *round) error { return r.killOne(r.Standby) }},
	{"pause-source", func(r *round) error { return r.pauseOne(r.Source) }},
	{"pause-standby", func(r *round) error { return r.pauseOne(r.Standby) }},
	{"part-source", func(r *round) error { return r.partOne(r.Source) }},
	{"part-standby", func(r *round) error { return r.partOne(r.Standby) }},
	{"cut-link", func(r *round) error {
		r.CutLinksOf(1 + r.rng.IntN(3))
		r.last()
		r.HealLinks()
		return nil
	}},
	{"cut-links", func(r *round) error {
		r.CutLinks()
		r.last()
		r.HealLinks()
		return nil
	}},
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
