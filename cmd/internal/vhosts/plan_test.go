package vhosts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

const dataGroups = 2

// world is the machines of a system group and its data groups. What one of them has applied is on disk; a crash is that
// nothing more of a sequence of steps is carried out.
type world struct {
	t        testing.TB
	machines [1 + dataGroups]*core.Machine
	index    uint64
	done     []Step // all that was ever carried out
}

func newWorld(t testing.TB) *world {
	w := &world{t: t}
	for g := range w.machines {
		w.machines[g] = core.New(uint64(g))
	}
	return w
}

func (w *world) apply(s Step) {
	w.t.Helper()
	w.index++
	data := entry.AppendBatch(entry.AppendHeader(nil, int64(w.index)), 0, 0, 0, entry.Append(nil, s.Command))
	if err := w.machines[s.Group].Apply(w.index, data, &core.Effects{}); err != nil {
		w.t.Fatal(err)
	}
	w.done = append(w.done, s)
}

func (w *world) plan() []Step {
	held := map[uint64][]core.HeldVhost{}
	for g := uint64(1); g <= dataGroups; g++ {
		held[g] = w.machines[g].HeldVhosts()
	}
	return Plan(0, w.machines[0].RegisteredVhosts(), held)
}

// settle plans and carries out until nothing is left.
func (w *world) settle() {
	w.t.Helper()
	for range 10 {
		plan := w.plan()
		if len(plan) == 0 {
			return
		}
		for _, s := range plan {
			w.apply(s)
		}
	}
	w.t.Fatalf("plans do not come to an end: %+v", w.plan())
}

// agreed fails unless the data groups hold exactly what is registered.
func (w *world) agreed(what string) string {
	w.t.Helper()
	var registered, held []string
	for _, v := range w.machines[0].RegisteredVhosts() {
		if !v.Buried {
			registered = append(registered, fmt.Sprint(v.Group, Held(v)))
		}
	}
	for g := range uint64(dataGroups) {
		for _, h := range w.machines[g+1].HeldVhosts() {
			held = append(held, fmt.Sprint(g+1, h))
		}
	}
	slices.Sort(registered)
	slices.Sort(held)
	if !slices.Equal(registered, held) {
		w.t.Fatalf("%s: registered %v, held %v", what, registered, held)
	}
	return strings.Join(held, " ")
}

// life is the steps of a node that makes and deletes vhosts; a is made anew under its name.
var life = []Step{
	{0, &entry.VhostPut{ID: "a1", Name: "a", Groups: dataGroups}},
	{1, &entry.VhostCreate{ID: "a1", Name: "a"}},
	{0, &entry.VhostPut{ID: "b1", Name: "b", Groups: dataGroups, QueueType: "quorum"}},
	{2, &entry.VhostCreate{ID: "b1", Name: "b", QueueType: "quorum"}},
	{0, &entry.VhostBury{ID: "a1"}},
	{1, &entry.VhostDelete{ID: "a1"}},
	{0, &entry.VhostPut{ID: "a2", Name: "a", Groups: dataGroups}},
	{1, &entry.VhostCreate{ID: "a2", Name: "a"}},
	{0, &entry.VhostPut{ID: "x", Name: "b", Groups: dataGroups}}, // changes the queue type
	{2, &entry.VhostCreate{ID: "b1", Name: "b"}},
	{0, &entry.VhostBury{ID: "b1"}},
	{2, &entry.VhostDelete{ID: "b1"}},
}

// after says which vhosts there are once the first n steps of life were begun.
func after(n int) string {
	switch {
	case n == 0:
		return ""
	case n < 3:
		return "1 {a1 a }"
	case n < 5:
		return "1 {a1 a } 2 {b1 b quorum}"
	case n < 7:
		return "2 {b1 b quorum}"
	case n < 9:
		return "1 {a2 a } 2 {b1 b quorum}"
	case n < 11:
		return "1 {a2 a } 2 {b1 b }"
	}
	return "1 {a2 a }"
}

func TestACrashAtEveryPointIsMadeGood(t *testing.T) {
	for n := range len(life) + 1 {
		w := newWorld(t)
		for _, s := range life[:n] {
			w.apply(s)
		}
		w.settle()
		if got := w.agreed(fmt.Sprintf("crash after %d steps", n)); got != after(n) {
			t.Errorf("crash after %d steps: %s, want %s", n, got, after(n))
		}
	}
}

func TestACrashInTheMiddleOfMakingGoodIsMadeGood(t *testing.T) {
	for n := range len(life) + 1 {
		for done := 0; ; done++ {
			w := newWorld(t)
			for _, s := range life[:n] {
				w.apply(s)
			}
			plan := w.plan()
			for _, s := range plan[:min(done, len(plan))] {
				w.apply(s)
			}
			w.settle()
			if got := w.agreed("crash while reconciling"); got != after(n) {
				t.Errorf("crash after %d steps and %d of the plan: %s, want %s", n, done, got, after(n))
			}
			if done >= len(plan) {
				break
			}
		}
	}
}

func TestCommandsThatComeLateAndTwiceChangeNothing(t *testing.T) {
	for n := range len(life) + 1 {
		w := newWorld(t)
		for _, s := range life[:n] {
			w.apply(s)
		}
		for _, s := range slices.Clone(w.done) {
			if s.Group != 0 { // those of the system group come once, in their batches
				w.apply(s)
				w.settle()
			}
		}
		w.settle()
		if got := w.agreed("late"); got != after(n) {
			t.Errorf("after %d steps and all again: %s, want %s", n, got, after(n))
		}
	}
}

func TestAVhostThatTheSystemGroupLostIsRegisteredAgain(t *testing.T) {
	w := newWorld(t)
	for _, s := range []Step{
		{1, &entry.VhostCreate{ID: "lost", Name: "a"}},
		{2, &entry.VhostCreate{ID: "other", Name: "a"}}, // made where nobody knew of the first
		{0, &entry.VhostPut{ID: "b", Name: "b", Group: 2}},
		{0, &entry.VhostBury{ID: "b"}},
		{2, &entry.VhostCreate{ID: "b", Name: "b"}},
	} {
		w.apply(s)
	}
	w.settle()
	if got, want := w.agreed("lost"), "1 {lost a } 2 {other a (other) }"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestNoStepIsAboutAGroupWhoseStateIsNotKnown(t *testing.T) {
	w := newWorld(t)
	w.apply(Step{0, &entry.VhostPut{ID: "a", Name: "a", Group: 2}})
	known := w.machines[0].RegisteredVhosts()
	if plan := Plan(0, known, map[uint64][]core.HeldVhost{1: nil}); len(plan) != 0 {
		t.Errorf("plan %+v", plan)
	}
	if plan := Plan(0, known, map[uint64][]core.HeldVhost{2: nil}); len(plan) != 1 || plan[0].Group != 2 {
		t.Errorf("plan %+v", plan)
	}
}

// Two nodes that plan from what they saw some time ago, and carry out some of it, come to the same end.
func TestOutdatedPlansComeToTheSameEnd(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		made := 0
		var old []Step
		for range 60 {
			switch r.IntN(5) {
			case 0:
				made++
				w.apply(Step{0, &entry.VhostPut{ID: fmt.Sprint("v", made), Name: fmt.Sprint("n", r.IntN(4)), Groups: dataGroups}})
			case 1:
				w.apply(Step{0, &entry.VhostBury{ID: fmt.Sprint("v", 1+r.IntN(made+1))}})
			case 2:
				old = append(old, w.plan()...)
			default:
				if len(old) > 0 {
					w.apply(old[r.IntN(len(old))])
				}
			}
		}
		w.settle()
		if w.agreed(fmt.Sprint("seed ", seed)); t.Failed() {
			return
		}
	}
}
