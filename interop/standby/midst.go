package standby

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// step is how far a take-over is.
type step int

// The steps; a promotion without a planned switch begins with the first and goes on with promoting.
const (
	begun     step = iota
	draining       // the source holds its deliveries
	fencing        // some groups of the source are fenced
	fenced         // all of them
	accepted       // the standby is bound to promote itself
	promoting      // some of its groups are promoted
	promoted       // all of them
)

var stepNames = [...]string{"begun", "draining", "fencing", "fenced", "accepted", "promoting", "promoted"}

func (s step) String() string { return stepNames[s] }

// stepOf is the step that a node of either cluster tells of.
func stepOf(l harness.Link) step {
	done := 0
	for _, g := range l.Groups {
		if g.Role == "promoted" {
			done++
		}
	}
	switch {
	case done > 0 && done == len(l.Groups):
		return promoted
	case done > 0:
		return promoting
	case l.Switch == nil:
		return begun
	}
	for s, name := range stepNames {
		if name == l.Switch.Step {
			return step(s)
		}
	}
	return begun // cancelled
}

// now is the furthest step that one node of each cluster tells of: the first that answers.
func (r *round) now(ctx context.Context) (at step) {
	for _, c := range []*harness.Cluster{r.Source, r.Standby} {
		for _, n := range c.Running() {
			if n.Paused() {
				continue
			}
			asking, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			l, err := n.LinkStatus(asking)
			cancel()
			if err == nil {
				at = max(at, stepOf(l))
				break
			}
		}
	}
	return at
}

// await waits until the take-over has come to a step, or has ended with ctx, and answers where it is.
func (r *round) await(ctx context.Context, want step) step {
	for {
		if at := r.now(ctx); at >= want || ctx.Err() != nil {
			return at
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// upset is something bad that happens in the midst of a take-over, to one node, to a cluster or to the link, and is made good.
type upset struct {
	name      string
	power     string // its name where the power is cut instead; "" where it has none to cut
	of        victim
	hit, heal func(*round, *harness.Node) error
}

// victim is whom an upset hits.
type victim int

const (
	everybody victim = iota
	standbyNode
	sourceNode
)

func kill(r *round, n *harness.Node) error {
	if r.powered {
		return r.cutPower([]*harness.Node{n})
	}
	n.Kill9()
	return nil
}

func rise(_ *round, n *harness.Node) error   { return n.Start() }
func pause(_ *round, n *harness.Node) error  { return n.Pause() }
func resume(_ *round, n *harness.Node) error { return n.Resume() }

func healLinks(r *round, _ *harness.Node) error { r.HealLinks(); return nil }

// cutting is an upset of the link.
func cutting(name string, of victim, cut func(*round, *harness.Node)) upset {
	return upset{name, "", of, func(r *round, n *harness.Node) error { cut(r, n); return nil }, healLinks}
}

// switchUpsets are those of a planned switch. Those without a deed are carried out by who asks for the switch.
var switchUpsets = []upset{
	{name: "twice"}, // it is asked of two nodes at once
	{"kill-standby", "power-one-standby", standbyNode, kill, rise},
	{"pause-source", "", sourceNode, pause, resume},
	cutting("cut-link", standbyNode, func(r *round, n *harness.Node) { r.CutLinksOf(n.ID) }),
	{"fell-source", "power-source", everybody, func(r *round, _ *harness.Node) error { return r.loseSource() }, (*round).startSource},
	{name: "give-up"},
	cutting("cut-links", everybody, func(r *round, _ *harness.Node) { r.CutLinks() }),
	{"kill-source", "power-one-source", sourceNode, kill, rise},
	cutting("cut-answers", everybody, func(r *round, _ *harness.Node) { r.CutAnswers() }),
	{name: "force"}, // the link is cut, and the standby promoted as if the source were lost
	{"part-source", "", sourceNode, func(r *round, n *harness.Node) error { r.Source.Isolate(n.ID); return nil },
		func(r *round, _ *harness.Node) error { r.Source.Heal(); return nil }},
	{"pause-standby", "", standbyNode, pause, resume},
	cutting("cut-asks", everybody, func(r *round, _ *harness.Node) { r.CutAsks() }),
}

// crashUpsets are those of a promotion whose source is out of reach; the first is none.
var crashUpsets = []upset{{name: ""}, {"kill-standby", "power-one-standby", standbyNode, kill, rise}, {"pause-standby", "", standbyNode, pause, resume}}

// ending is what becomes of a source that does not hand over.
type ending string

const (
	dead      ending = "dead"      // all nodes are killed, and started again when the other cluster serves
	returning ending = "returning" // all nodes are killed, and started again just before the standby is promoted
	alive     ending = "alive"     // the link is cut, and healed when the other cluster has served for a while
	mute      ending = "mute"      // it hears the standby, which does not hear it; likewise
	surfacing ending = "surfacing" // the link is cut, and healed in the midst of the promotion
)

var endings = []ending{dead, alive, returning, mute, surfacing}

// plan is what a round's take-over meets with.
type plan struct {
	end    ending // of the source; "" for one that hands over
	upset  upset
	step   step // from which on
	victim int
	lasts  time.Duration
	drain  time.Duration // of a planned switch
}

// planOf chooses in turn, so that consecutive seeds meet with everything.
func (r *round) planOf(turn uint64) plan {
	p := plan{
		step: []step{draining, fencing, accepted}[r.rng.IntN(3)], victim: 1 + r.rng.IntN(nodes),
		lasts: time.Duration(300+r.rng.IntN(1200)) * time.Millisecond, drain: []time.Duration{0, 1200 * time.Millisecond}[r.rng.IntN(2)],
	}
	if r.kind.whole {
		p.upset = switchUpsets[turn%uint64(len(switchUpsets))]
		if p.upset.heal != nil && p.upset.of != standbyNode { // the source has no part in what comes later
			p.step = min(p.step, fencing)
		}
		return p
	}
	p.end, p.upset = endings[turn%uint64(len(endings))], crashUpsets[turn/uint64(len(endings))%uint64(len(crashUpsets))]
	p.step = []step{begun, promoting}[r.rng.IntN(2)]
	return p
}

// note adds to what the round's line tells of its take-over.
func (r *round) note(format string, args ...any) {
	r.noting.Lock()
	defer r.noting.Unlock()
	r.res.midst = append(r.res.midst, fmt.Sprintf(format, args...))
}

// upsets carries out the plan's upset once the take-over has come to its step. over ends with the take-over.
func (r *round) upsets(over context.Context) error {
	u := r.plan.upset
	if u.hit == nil {
		return nil
	}
	victim, name := r.Standby.Node(r.plan.victim), u.name
	if u.of == sourceNode {
		victim = r.Source.Node(r.plan.victim)
	}
	if r.powered && u.power != "" {
		name = u.power
	}
	if u.of != everybody {
		name = fmt.Sprintf("%s %d", name, r.plan.victim)
	}
	at := r.await(over, r.plan.step)
	if over.Err() != nil {
		r.note("%s came too late", name)
		return nil
	}
	if err := u.hit(r, victim); err != nil {
		return err
	}
	time.Sleep(r.plan.lasts)
	healed := r.now(context.Background())
	err := u.heal(r, victim)
	r.note("%s at %v, until %v", name, at, healed)
	return err
}

// startSource starts all of the source's nodes.
func (r *round) startSource(*harness.Node) error {
	for _, n := range r.Source.Members() {
		if err := n.Start(); err != nil {
			return err
		}
	}
	return nil
}

// givesUp has somebody ask for a planned switch and give up at the plan's step. Either the switch is cancelled, and then the source serves
// again and the standby follows it, or it had come too far for that.
func (r *round) givesUp(ctx context.Context) error {
	asking, giveUp := context.WithCancel(ctx)
	defer giveUp()
	over, end := context.WithCancel(ctx)
	defer end()
	answered := make(chan error, 1)
	go func() {
		defer end()
		_, err := r.Standby.Node(r.plan.victim).Switchover(asking, r.plan.drain)
		answered <- err
	}()
	at := r.await(over, r.plan.step)
	giveUp()
	<-answered
	since := time.Now()
	cancelled, err := r.outcome()
	if err != nil || !cancelled {
		r.note("given up at %v, too late: it was carried out", at)
		return err
	}
	err = harness.Await(harness.Patience, func(ctx context.Context) error {
		for _, n := range r.Source.Members() {
			if l, err := n.LinkStatus(ctx); err != nil || l.Switch != nil || l.Fenced {
				return errors.Join(fmt.Errorf("the switch was cancelled, and source node %d is still at %v", n.ID, stepOf(l)), err)
			}
		}
		if err := r.h.flowing(since); err != nil {
			return err
		}
		return r.Within(ctx, 30)
	})
	r.note("given up at %v, cancelled; the source serves again after %.1f s", at, time.Since(since).Seconds())
	return err
}

// outcome waits until the standby has judged a switch that was given up, and answers whether it is cancelled.
func (r *round) outcome() (cancelled bool, err error) {
	err = harness.Await(harness.Patience, func(ctx context.Context) error {
		for _, n := range r.Standby.Members() {
			l, err := n.LinkStatus(ctx)
			if err != nil {
				return err
			}
			cancelled = l.Switch != nil && l.Switch.Step == "cancelled"
			if cancelled || l.Role == "promoted" {
				return nil
			}
		}
		return errors.New("the switch was given up, and the standby has neither cancelled it nor promoted itself")
	})
	return cancelled, err
}

// forces has somebody ask for a planned switch, and cuts the link at the plan's step, so that the standby is to be promoted without
// the source's word.
func (r *round) forces(ctx context.Context) {
	over, end := context.WithCancel(ctx)
	defer end()
	r.asks(ctx, r.Standby.Node(r.plan.victim), end)
	at := r.await(over, r.plan.step)
	r.CutLinks()
	r.forced = true
	r.note("forced at %v", at)
}

// asks asks a node for a planned switch besides; r.other tells what became of that.
func (r *round) asks(ctx context.Context, n *harness.Node, done func()) {
	other := make(chan error, 1)
	r.other = other
	go func() {
		_, err := n.Switchover(ctx, r.plan.drain)
		other <- err
		done()
	}()
}
