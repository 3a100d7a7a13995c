package core_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

var (
	storms     = coretest.NewWalks("storm", "./core -run TestEverythingTogether", 20_000, 400)
	stormPairs = flag.Bool("storm-pairs", false, "print how often what was at work together in one queue")
)

// TestEverythingTogether drives the machine with random commands about everything that it knows, all in one life. No model tells what
// must come; what must never come is judged: core.Audit recounts each machine after each entry, coretest.Driver compares the
// machine, which restarts, with a replica, which does not, and with a standby, calm looks at what became of each message, and an inquest at what died.
func TestEverythingTogether(t *testing.T) {
	together, seen := &core.Together{}, inquests{}
	storms.Run(func(seed uint64, operations int) {
		x := newStorm(t, seed)
		x.calm.seen = &seen
		if *stormPairs {
			x.d.Audit = together.Audit
		}
		x.run(operations)
	})
	if n := storms.Operations(); n >= 20_000 && (seen.letters < n/100 || seen.unknown > seen.letters/20 || min(seen.destinations, seen.deaths, seen.ordered) < seen.letters/10) {
		t.Errorf("too little was looked at: %+v", seen)
	}
	if *stormPairs {
		fmt.Printf("%v\ninquests: %+v\n", together, seen)
	}
}

// storm is one random run.
type storm struct {
	*testing.T
	seed uint64
	r    *rand.Rand
	d    *coretest.Driver
	calm calm
	log  []string
	made int // names, ids and bodies so far
}

func newStorm(t *testing.T, seed uint64) *storm {
	x := &storm{T: t, seed: seed, r: rand.New(rand.NewPCG(seed, 2))}
	x.d = coretest.NewOf(x, pick(x, core.New, core.NewFrugal, core.NewNarrow))
	x.d.Audit = core.Audit
	x.calm = calm{t: x, d: x.d, taken: map[published]int64{}, records: map[message.Loc]taken{}, entered: map[published]message.Loc{}, seen: &inquests{}}
	return x
}

func (x *storm) source() *rand.Rand { return x.r }

// Fatalf tells what was done, and how to do it again.
func (x *storm) Fatalf(format string, args ...any) {
	x.Helper()
	x.T.Fatalf("%s\n%s\n%s", strings.Join(x.log[max(0, len(x.log)-60):], "\n"), fmt.Sprintf(format, args...), storms.Again(x.seed))
}

// Fatal is Fatalf for coretest.
func (x *storm) Fatal(args ...any) { x.Helper(); x.Fatalf("%s", fmt.Sprint(args...)) }

func (x *storm) run(steps int) {
	x.control(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.NodeUp{Node: 2, Nonce: 7}, &entry.VhostCreate{ID: "v1", Name: "/"})
	x.entry(1, &entry.Attach{Vhost: "/", User: "u"})
	ref := entry.Ref{Session: 1, Epoch: 1, Channel: 3}
	for range 6 {
		x.entry(1, &entry.ChannelClose{Ref: ref}, &entry.ChannelOpen{Ref: ref}, x.declareQueue(ref), x.declareExchange(ref))
		x.entry(1, &entry.ChannelClose{Ref: ref}, &entry.ChannelOpen{Ref: ref}, x.deadLettering(ref, x.queue()))
	}
	for range 2 {
		x.entry(1, &entry.ChannelClose{Ref: ref}, &entry.ChannelOpen{Ref: ref}, x.sink(ref))
	}
	for range steps {
		x.step()
	}
	changePlaces(x.d)
}

func (x *storm) one(n int) int { return x.r.IntN(n) }

func (x *storm) coin(n int) bool { return x.r.IntN(n) == 0 }

func (x *storm) fresh(prefix string) string {
	x.made++
	return fmt.Sprint(prefix, x.made)
}

func (x *storm) control(cmds ...entry.Command) { x.entry(0, cmds...) }

// entry applies commands of a node as one entry, 0 for control commands, and what is due then.
func (x *storm) entry(node uint64, cmds ...entry.Command) {
	for _, c := range cmds {
		x.log = append(x.log, fmt.Sprintf("%d: node %d %T %+v", x.d.Stamp, node, c, c))
	}
	x.calm.before(node, cmds)
	var effects []core.Effect
	if node == 0 {
		effects = x.d.Control(cmds...)
	} else {
		effects = x.d.Batch(node, cmds...)
	}
	for i := range effects {
		x.log = append(x.log, "    "+coretest.Format(&effects[i]))
	}
	x.calm.after(effects)
	x.ticks()
}

// ticks plays the leader: mostly it is there.
func (x *storm) ticks() {
	for due := x.d.Machine.NextDeadline(); due != 0 && due <= x.d.Stamp && !x.coin(8); due = x.d.Machine.NextDeadline() {
		if x.coin(20) {
			x.restart()
		}
		x.log = append(x.log, fmt.Sprintf("%d: tick", x.d.Stamp))
		x.calm.before(0, []entry.Command{&entry.Tick{}})
		x.calm.after(x.d.Control(&entry.Tick{}))
	}
}

func (x *storm) wait() {
	end := x.d.Stamp + pick(x, int64(1), 10, 20, 50, 300, 1000, 6000, 31_000, 61_000, 700_000)
	for x.d.Stamp < end {
		at := end
		if due := x.d.Machine.NextDeadline(); due != 0 && !x.coin(10) { // else the leader is late
			at = max(x.d.Stamp, min(end, due))
		}
		if at == x.d.Stamp {
			at = x.d.Stamp + 1
		}
		x.d.Stamp = at
		x.ticks()
	}
}

func (x *storm) restart() {
	if x.coin(3) {
		x.d.Checkpoint()
		return
	}
	x.log = append(x.log, "restart")
	x.d.Restart()
}

// step does one thing.
func (x *storm) step() {
	type step struct {
		weight int
		do     func()
	}
	steps := []step{{4, x.attach}, {3, x.leave}, {6, x.wait}, {3, x.restart}, {1, x.node}, {1, x.leader}, {1, x.vhost}, {4, x.policy}, {1, x.gate}, {1, x.stale}, {3, x.resume}, {6, x.reject},
		{12, x.topology}, {80, x.client}}
	all := 0
	for _, s := range steps {
		all += s.weight
	}
	n := x.one(all)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			s.do()
			return
		}
	}
}

// sessions are those that are attached, or all.
func (x *storm) sessions(attached bool) []core.SessionInfo {
	var all []core.SessionInfo
	for _, v := range x.d.Machine.Vhosts() {
		all = append(all, x.d.Machine.Sessions(v.Name)...)
	}
	return slices.DeleteFunc(all, func(s core.SessionInfo) bool { return attached && s.Node == 0 })
}

// client has one client do something on an open channel of its own.
func (x *storm) client() {
	all := x.sessions(true)
	if len(all) == 0 {
		x.attach()
		return
	}
	s := pick(x, all...)
	ref := entry.Ref{Session: s.ID, Epoch: s.Epoch, Channel: uint16(1 + x.one(2))}
	look, failed := core.LookAt(x.d.Machine, s.ID, ref.Channel)
	switch {
	case failed:
		x.entry(s.Node, &entry.Detach{Ref: ref})
		return
	case look.There && look.Dead:
		x.entry(s.Node, &entry.ChannelClose{Ref: ref, Reply: x.coin(2)}, &entry.ChannelOpen{Ref: ref})
		return
	case !look.There:
		x.entry(s.Node, &entry.ChannelOpen{Ref: ref})
		return
	}
	cmds := x.command(ref, &look)
	for x.coin(4) { // several in one batch
		cmds = append(cmds, x.command(ref, &look)...)
	}
	x.entry(s.Node, cmds...)
}

// topology has a client change exchanges, queues or bindings.
func (x *storm) topology() {
	all := x.sessions(true)
	if len(all) == 0 {
		return
	}
	s := pick(x, all...)
	ref := entry.Ref{Session: s.ID, Epoch: s.Epoch, Channel: 3}
	x.entry(s.Node, &entry.ChannelClose{Ref: ref, Reply: true}, &entry.ChannelOpen{Ref: ref}, x.change(ref))
}
