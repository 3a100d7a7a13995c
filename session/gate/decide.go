package gate

import (
	"fmt"
	"time"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

const (
	// caughtUp is how far behind a standby may be that comes to hold the gate.
	caughtUp = time.Second
	// proposalPause passes before a change that was not applied is proposed again.
	proposalPause = 2 * time.Second
	samplesMost   = 1024
)

// decision is what was proposed last.
type decision struct {
	state   entry.GateState
	standby string
	at      time.Time
}

// Decide looks at every group, as is to be done a few times a second: it takes note of how far the standby is behind, and
// where this node leads the group has changes of the gate proposed.
func (x *Gate) Decide() {
	for _, g := range x.groups {
		if g.on.Load() {
			g.decide(x.o.Now())
		}
	}
}

func (g *group) decide(now time.Time) {
	g.mu.Lock()
	g.sample(now)
	letGo := g.set(now) && len(g.sync) == 0
	state, standby, why := g.judge(now)
	changes := (state != g.link.Confirms || standby != g.link.ConfirmsFor) && g.link.Role != core.RoleStandby
	d := decision{state, standby, now}
	again := d.state == g.decided.state && d.standby == g.decided.standby && now.Sub(g.decided.at) < proposalPause
	changes = changes && !again && g.gate.o.Leads(g.id)
	if changes {
		g.decided = d
	}
	g.mu.Unlock()
	if letGo {
		g.release(true)
	}
	if changes {
		_ = g.gate.o.Propose(g.id, &entry.LinkGate{Cluster: g.gate.o.Cluster(), Standby: standby, State: state, Text: why})
	}
}

// sample takes note of what is applied by now.
func (g *group) sample(now time.Time) {
	index, _ := g.g.Applied()
	if n := len(g.samples); n > 0 && g.samples[n-1].index == index {
		return
	}
	if covered, _ := g.gate.covers(g.link.ConfirmsFor, g.id); covered >= index {
		return
	}
	if len(g.samples) >= samplesMost { // the oldest tells the lag, the newest the end
		g.samples = append(g.samples[:1], g.samples[samplesMost/2:]...)
	}
	g.samples = append(g.samples, sample{index, now})
}

// lag is for how long the oldest entry that the standby has not has been there.
func (g *group) lag(now time.Time) time.Duration {
	if len(g.samples) == 0 {
		return 0
	}
	return now.Sub(g.samples[0].at)
}

// judge says what the gate should be.
func (g *group) judge(now time.Time) (state entry.GateState, standby, why string) {
	l := &g.link
	switch {
	case len(g.confirms) == 0:
		return entry.GateOff, "", "no policy asks for it"
	case l.Confirms == entry.GateOff:
		if name, ok := g.candidate(now); ok {
			return entry.GateUp, name, "the standby has caught up"
		}
	case l.Confirms == entry.GateUp:
		if after, ok := g.patience(); ok && g.lag(now) > after {
			return entry.GateDegraded, l.ConfirmsFor, fmt.Sprintf("the standby is more than %v behind", after)
		}
	case l.Confirms == entry.GateDegraded:
		if g.gate.present(l.ConfirmsFor, now) && g.lag(now) < caughtUp {
			return entry.GateUp, l.ConfirmsFor, "the standby has caught up again"
		}
	}
	return l.Confirms, l.ConfirmsFor, ""
}

// patience is the shortest time after which a vhost's policy gives a standby up; false if none does.
func (g *group) patience() (shortest time.Duration, ok bool) {
	for _, c := range g.confirms {
		if d := time.Duration(c.Degrade) * time.Millisecond; c.Degrade >= 0 && (!ok || d < shortest) {
			shortest, ok = d, true
		}
	}
	return shortest, ok
}

// candidate is a standby that has all that is applied, or had it a moment ago; of several the first by name.
func (g *group) candidate(now time.Time) (string, bool) {
	applied, _ := g.g.Applied()
	x := g.gate
	x.mu.Lock()
	defer x.mu.Unlock()
	best := ""
	for name, s := range x.standbys {
		at := s.covered[g.id]
		near := at >= applied
		for i := 0; !near && i < len(g.samples); i++ {
			near = g.samples[i].index > at && now.Sub(g.samples[i].at) < caughtUp
			if g.samples[i].index > at {
				break
			}
		}
		if near && now.Sub(s.heard) < silentAfter && (best == "" || name < best) {
			best = name
		}
	}
	return best, best != ""
}

// present says whether a standby was heard of lately.
func (x *Gate) present(name string, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.standbys[name]
	return s != nil && now.Sub(s.heard) < silentAfter
}

// Slow names the vhosts whose publishers have to wait, and why: confirms wait for a standby in some way, and it is further
// behind than the policy's bound, as of the last look. A new map.
func (x *Gate) Slow() map[string]string {
	slow := map[string]string{}
	for _, g := range x.groups {
		if g.on.Load() {
			g.slow(slow)
		}
	}
	return slow
}

func (g *group) slow(slow map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.confirms {
		if g.behind[c.Vhost] {
			slow[c.Vhost] = fmt.Sprintf("%s is more than %v behind (link-max-lag)", g.link.ConfirmsFor, time.Duration(c.MaxLag)*time.Millisecond)
		}
	}
}
