package gate

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// Group is what the gate needs of a data group on this node; *store.Group is one.
type Group interface {
	Applied() (index, term uint64)
	View(f func(*core.Machine))
}

// Options configure a Gate.
type Options struct {
	Groups   map[uint64]Group // data groups
	System   Group
	Dispatch func(group uint64, fx *core.Effects) // where effects go; session.Broker's
	// Leads says whether this node leads a group; Propose has a command about local facts proposed in it.
	Leads   func(group uint64) bool
	Propose func(group uint64, cmd entry.Command) error
	Cluster func() string // this cluster's UUID
	Now     func() time.Time
	// Changed hears of each change of a group's gate that was applied here; may be nil.
	Changed func(group uint64, state entry.GateState, standby, why string)
}

// Gate is a node's. See the package's documentation.
type Gate struct {
	o      Options
	groups map[uint64]*group

	mu       sync.Mutex // guards standbys; inside a group's
	standbys map[string]*standby
}

// standby is how far one is.
type standby struct {
	covered map[uint64]uint64 // by group, the system group included
	heard   time.Time
}

// group is a data group's gate.
type group struct {
	gate *Gate
	id   uint64
	g    Group
	on   atomic.Bool // a vhost has a policy: something may have to wait, or to be slowed

	mu       sync.Mutex
	link     core.Link
	confirms []core.Confirm
	behind   map[string]bool // vhosts whose standby is too far behind at present
	sync     map[string]bool // vhosts whose replies wait at present
	waits    map[uint64]bool // sessions, whether of such a vhost; as far as met
	held     []item
	gone     uint64             // items let go; the number of held[0]
	last     map[channel]uint64 // number of the newest item of each channel that waits
	samples  []sample           // what was applied when, and is not covered
	fx       core.Effects       // scratch
	decided  decision
}

type channel struct {
	session uint64
	number  uint16
}

// item is an effect that waits for the entries up to index, and the system group's up to system.
type item struct {
	index, system uint64
	effect        core.Effect
}

type sample struct {
	index uint64
	at    time.Time
}

// New makes a node's gate; it knows of policies and of gates that are up already.
func New(o Options) *Gate {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Changed == nil {
		o.Changed = func(uint64, entry.GateState, string, string) {}
	}
	x := &Gate{o: o, groups: map[uint64]*group{}, standbys: map[string]*standby{}}
	for id, g := range o.Groups {
		x.groups[id] = &group{gate: x, id: id, g: g, last: map[channel]uint64{}, waits: map[uint64]bool{}}
		x.groups[id].refresh()
	}
	return x
}

// Dispatch passes on a run of effects of a group, or parts of it later. Like session.Broker's it is called from the apply
// goroutine.
func (x *Gate) Dispatch(id uint64, fx *core.Effects) {
	g := x.groups[id]
	if g == nil {
		x.o.Dispatch(id, fx)
		return
	}
	if fx.Linked {
		g.refresh() // ahead of the run's other effects: at worst one waits that need not
	}
	if !g.on.Load() {
		x.o.Dispatch(id, fx)
		return
	}
	g.dispatch(fx)
}

// Covered takes a standby's word: it has a group's entries up to index for good. It says whether that is more than was known.
func (x *Gate) Covered(name string, id, index uint64) (more bool) {
	x.mu.Lock()
	s := x.standbys[name]
	if s == nil {
		x.forgetSilent()
		s = &standby{covered: map[uint64]uint64{}}
		x.standbys[name] = s
	}
	s.heard = x.o.Now()
	more = index > s.covered[id]
	s.covered[id] = max(s.covered[id], index)
	x.mu.Unlock()
	if !more {
		return false
	}
	for group, g := range x.groups {
		if g.on.Load() && (group == id || id == systemGroup) {
			g.release(false)
		}
	}
	return true
}

// standbysMost bounds how many names are remembered, beyond those heard of lately.
const (
	standbysMost = 64
	silentAfter  = 2 * time.Second
)

// forgetSilent makes room for a name. x.mu is held.
func (x *Gate) forgetSilent() {
	if len(x.standbys) < standbysMost {
		return
	}
	for name, s := range x.standbys {
		if x.o.Now().Sub(s.heard) > silentAfter {
			delete(x.standbys, name)
		}
	}
}

// Wants says whether anything waits for standbys in a group: positions should be told at once then. The system group's
// count wherever one's do.
func (x *Gate) Wants(id uint64) bool {
	if g := x.groups[id]; g != nil {
		return g.on.Load()
	}
	for _, g := range x.groups {
		if g.on.Load() {
			return true
		}
	}
	return false
}

// covers answers how far a standby is in a group and in the system group.
func (x *Gate) covers(name string, id uint64) (index, system uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.standbys[name]
	if s == nil {
		return 0, 0
	}
	return s.covered[id], s.covered[systemGroup]
}

const systemGroup = 0

// Refresh has the gate look at a group anew that has changed without effects: a snapshot was installed.
func (x *Gate) Refresh(id uint64) {
	if g := x.groups[id]; g != nil {
		g.refresh()
	}
}

// refresh looks at the group's policies and gate anew.
func (g *group) refresh() {
	g.mu.Lock()
	was := g.link
	g.g.View(func(m *core.Machine) { g.link, g.confirms = m.Link(), m.Confirms() })
	g.set(g.gate.o.Now())
	clear(g.waits)
	g.on.Store(len(g.confirms) > 0 || len(g.held) > 0)
	now, nobody := g.link, len(g.sync) == 0
	changed := now.Confirms != was.Confirms || now.ConfirmsFor != was.ConfirmsFor
	if changed {
		g.decided = decision{} // it was applied, or overtaken
	}
	g.mu.Unlock()
	if changed {
		g.gate.o.Changed(g.id, now.Confirms, now.ConfirmsFor, now.ConfirmsWhy)
	}
	g.release(nobody)
}

// set finds out which vhosts wait: those in mode sync, and those in mode bounded while the standby is too far behind. It
// says whether that has changed. g.mu is held.
func (g *group) set(now time.Time) (changed bool) {
	next, behind := map[string]bool{}, map[string]bool{}
	for _, c := range g.confirms {
		if !g.holds(&c) {
			continue
		}
		if g.late(&c, now) {
			behind[c.Vhost] = true
		}
		if c.Mode == core.ConfirmSync || behind[c.Vhost] {
			next[c.Vhost] = true
		}
	}
	g.behind = behind
	if maps.Equal(next, g.sync) {
		return false
	}
	g.sync = next
	clear(g.waits)
	return true
}

// holds says whether a standby holds the gate of a vhost.
func (g *group) holds(c *core.Confirm) bool {
	return g.link.Role != core.RoleStandby &&
		(g.link.Confirms == entry.GateUp || g.link.Confirms == entry.GateDegraded && c.Degrade < 0)
}

// late says whether the standby is further behind than a vhost's policy has it. Once it was, it has to come to half of that: at
// the bound publishers would be stopped and let go at every look.
func (g *group) late(c *core.Confirm, now time.Time) bool {
	bound := time.Duration(c.MaxLag) * time.Millisecond
	if g.behind[c.Vhost] {
		bound /= 2
	}
	return g.lag(now) > bound
}

// dispatch passes on what need not wait and keeps the rest.
func (g *group) dispatch(fx *core.Effects) {
	g.mu.Lock()
	defer g.mu.Unlock()
	index, _ := g.g.Applied()
	system, _ := g.gate.o.System.Applied()
	if len(g.sync) == 0 && len(g.held) == 0 {
		g.gate.o.Dispatch(g.id, fx)
		return
	}
	g.fx.List = g.fx.List[:0]
	for i := range fx.List {
		if e := &fx.List[i]; g.mustWait(e) {
			g.keep(e, index, system)
		} else {
			g.fx.List = append(g.fx.List, *e)
		}
	}
	g.pass()
	g.let(false) // another node may have been ahead of this one
}

// pass hands on what is in g.fx. g.mu is held, so that nothing overtakes it.
func (g *group) pass() {
	if len(g.fx.List) > 0 {
		g.gate.o.Dispatch(g.id, &g.fx)
		clear(g.fx.List)
	}
}

// mustWait says whether an effect has to wait: a promise to a client of a vhost that waits, or anything behind one on its
// channel. The end of a session's attachment does not: nobody hears what would come before it.
func (g *group) mustWait(e *core.Effect) bool {
	if e.Session == 0 || e.Kind == core.EffectDetached || e.Kind == core.EffectAttached {
		return false
	}
	if _, behind := g.last[channel{e.Session, e.Channel}]; behind {
		return true
	}
	switch e.Kind {
	case core.EffectReply:
		return !reads(e.Command) && g.waiting(e.Session)
	case core.EffectConfirmed, core.EffectNacked, core.EffectReturned:
		return g.waiting(e.Session)
	}
	return false
}

// reads says whether a command's reply promises nothing that a standby could lack: reading goes on whatever the standby does.
func reads(k entry.Kind) bool {
	switch k {
	case entry.KindChannelOpen, entry.KindQos, entry.KindConsume, entry.KindCancel, entry.KindConfirmSelect, entry.KindTxSelect:
		return true
	}
	return false
}

// waiting says whether a session's vhost waits.
func (g *group) waiting(session uint64) bool {
	is, known := g.waits[session]
	if !known {
		g.g.View(func(m *core.Machine) { is = g.sync[m.SessionVhost(session)] })
		if len(g.waits) >= sessionsKept {
			clear(g.waits)
		}
		g.waits[session] = is
	}
	return is
}

const (
	sessionsKept = 1 << 16
	// heldMost effects wait one by one; beyond, confirms of a channel in a row are made one.
	heldMost = 4096
)

// keep has an effect wait. Its record lies in an entry that the effect keeps in memory; a delivery's is read anew later.
func (g *group) keep(e *core.Effect, index, system uint64) {
	at := channel{e.Session, e.Channel}
	if n, ok := g.last[at]; ok && len(g.held) > heldMost && e.Kind == core.EffectConfirmed {
		if x := &g.held[n-g.gone]; x.effect.Kind == core.EffectConfirmed && x.effect.Epoch == e.Epoch {
			x.effect.Count += e.Count
			x.index, x.system = index, system
			return
		}
	}
	x := item{index, system, *e}
	if e.Kind == core.EffectDelivered || e.Kind == core.EffectGot {
		x.effect.Record = nil
	}
	g.last[at] = g.gone + uint64(len(g.held))
	g.held = append(g.held, x)
}

// release lets go of what the standby has, or of everything.
func (g *group) release(all bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.let(all)
}

// let is release with g.mu held.
func (g *group) let(all bool) {
	index, system := g.gate.covers(g.link.ConfirmsFor, g.id)
	if n := slices.IndexFunc(g.samples, func(s sample) bool { return s.index > index }); n < 0 {
		g.samples = g.samples[:0]
	} else {
		g.samples = slices.Delete(g.samples, 0, n)
	}
	n := 0
	g.fx.List = g.fx.List[:0]
	for n < len(g.held) && (all || g.held[n].index <= index && g.held[n].system <= system) {
		e := &g.held[n].effect
		g.fx.List = append(g.fx.List, *e)
		if at := (channel{e.Session, e.Channel}); g.last[at] == g.gone+uint64(n) {
			delete(g.last, at)
		}
		n++
	}
	g.pass()
	g.gone += uint64(n)
	g.held = slices.Delete(g.held, 0, n)
	if len(g.held) == 0 && len(g.confirms) == 0 {
		g.on.Store(false)
	}
}

// Held is how many effects of a group wait.
func (x *Gate) Held(id uint64) int {
	g := x.groups[id]
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.held)
}
