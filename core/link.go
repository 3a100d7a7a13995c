package core

import (
	"github.com/understudy-mq/understudy/core/entry"
)

// A group's part in the standby link is one row of local facts: outside the fingerprint, and not carried by the link. The
// source's position moves in the same step as what was replayed, which makes replaying exactly once.

// Role is what a group is to the standby link.
type Role uint8

// The roles. A group that was promoted is an ordinary one for good; only its generation tells.
const (
	RolePrimary Role = iota
	RoleStandby
	RolePromoted
)

// String is the role as the API names it.
func (r Role) String() string {
	return [...]string{"primary", "standby", "promoted"}[min(r, RolePromoted)]
}

// Gate says what a group is held back from by a switch to another cluster. A source has one of its own; a standby keeps
// the same for its source, since the entries behind a fence must be refused there as well.
type Gate struct {
	Switch   string // UUID of the switch that drains or has fenced
	Drain    int64  // stamp (Unix ms) until which nothing is delivered, 0 for none
	Fenced   bool   // nothing counts but registrations and the cancel
	FencedAt uint64 // index of the fence in the source's log
	Hosts    string // where clients are to go, separated by commas
	// By is who was promoted in this cluster's place: the fence stays for good. Zero for a fence of a planned switch.
	By entry.Generation
	// Cancelled is the switch that was taken back last: what of it comes late does nothing.
	Cancelled string
}

// Holds says whether nothing may be delivered, and nothing is to be published.
func (g *Gate) Holds() bool { return g.Fenced || g.Drain != 0 }

// SwitchState is how far a standby is with a planned switch.
type SwitchState uint8

// The states of a switch.
const (
	SwitchNone      SwitchState = iota
	SwitchAccepted              // the standby promotes itself once it has every fence
	SwitchCancelled             // it never will for this switch
)

// Link is a group's part in the standby link.
type Link struct {
	Role       Role
	Generation entry.Generation // the cluster's own; of a cluster never promoted the zero one
	// Of a standby, and as they were at its promotion.
	Source           string // cluster UUID
	SourceGeneration entry.Generation
	Position         entry.Position // what was replayed last; a promoted group's cut
	Stamp            int64          // of the cut (Unix ms)
	Print            uint64         // of a promoted group: the fingerprint of its state at the cut
	Diverged         uint64         // index in the source's log after which the states differ; 0 for none. Nothing is replayed any more
	Rewound          bool           // the state is the source's at its own cut: what is replayed next is the source's promotion
	SourceGate       Gate
	Switch           string
	SwitchState      SwitchState
	// Since is the index in the group's own log at which it was promoted: what lies before is another cluster's.
	Since uint64

	Gate Gate // of this cluster's own
	// Confirms says whether, and for which standby (its cluster UUID), confirms wait.
	Confirms    entry.GateState
	ConfirmsFor string
	ConfirmsWhy string
}

type linkRow Link

type link struct {
	meta
	linkRow
}

func (*link) key(dst []byte) []byte { return keyOf(dst, tableLink) }
func (l *linkRow) code(c *rowCoder) {
	c.u8((*uint8)(&l.Role))
	c.generation(&l.Generation)
	c.str(&l.Source)
	c.generation(&l.SourceGeneration)
	c.position(&l.Position)
	c.i64(&l.Stamp)
	c.u64(&l.Print)
	c.u64(&l.Diverged)
	c.boolean(&l.Rewound)
	l.SourceGate.code(c)
	c.str(&l.Switch)
	c.u8((*uint8)(&l.SwitchState))
	c.u64(&l.Since)
	l.Gate.code(c)
	c.u8((*uint8)(&l.Confirms))
	c.str(&l.ConfirmsFor)
	c.str(&l.ConfirmsWhy)
}

func (g *Gate) code(c *rowCoder) {
	c.str(&g.Switch)
	c.i64(&g.Drain)
	c.boolean(&g.Fenced)
	c.u64(&g.FencedAt)
	c.str(&g.Hosts)
	c.generation(&g.By)
	c.str(&g.Cancelled)
}

func (c *rowCoder) generation(g *entry.Generation) { c.u64(&g.Number); c.str(&g.Cluster) }

func (c *rowCoder) position(p *entry.Position) { c.u64(&p.Index); c.u64(&p.Term); c.u64(&p.Hash) }

// LocalRow says whether a row that Checkpoint reported is a local fact: a snapshot that seeds another cluster leaves it
// out.
func LocalRow(key []byte) bool {
	return len(key) > 0 && (table(key[0]) == tableLocal || table(key[0]) == tableLink)
}

// Link is the group's part in the standby link.
func (m *Machine) Link() Link { return Link(m.link.linkRow) }

// EmptyFingerprint is the fingerprint of a machine to which nothing was applied.
func EmptyFingerprint() uint64 { return New(0).Fingerprint() }

// Standing is what replication needs of Link: whether the group is a standby, the index in its source's log up to which it
// has replayed, and Since.
func (m *Machine) Standing() (standby bool, position, since uint64) {
	return m.link.Role == RoleStandby, m.link.Position.Index, m.link.Since
}

// mutedGate is what a standby's own entries meet: only local facts count.
func mutedGate() Gate { return Gate{Fenced: true} }

// passes says whether a command counts at a gate that is fenced.
func (m *Machine) passes(k entry.Kind) bool {
	switch {
	case m.replaying && m.gate == &m.muted: // the source's promotion
		return k == entry.KindLinkPromote
	case k >= entry.KindLinkAttach && k <= entry.KindLinkGate, k == entry.KindClusterInit, k == entry.KindNodeAddress:
		return true
	case m.gate == &m.muted:
		return false
	}
	return k == entry.KindNodeUp || k == entry.KindNodeDown || k == entry.KindLeaderUp
}

// applyFenced is applyNext behind a fence: what does not pass does nothing. A client that attaches is told.
func (m *Machine) applyFenced(b []byte) (rest []byte, err error) {
	m.begin()
	cmd, rest, err := entry.Next(b)
	if err != nil {
		return nil, err
	}
	if m.passes(cmd.Kind()) {
		m.apply(cmd)
	} else if x, ok := cmd.(*entry.Attach); ok && m.gate != &m.muted {
		m.refuseAttach(x, CodeConnectionForced, m.gate.Reason())
	}
	return rest, nil
}

// Reason is what clients of a fenced group are told.
func (g *Gate) Reason() string {
	text := "this cluster has handed over to another one"
	if g.By.Number > 0 {
		text = "another cluster was promoted in this one's place"
	}
	if g.Hosts != "" {
		text += ": connect to " + g.Hosts
	}
	return text
}

// applyReplay applies a source's entry, if it is the next one, and moves the position. Its effects go nowhere: the
// clients that they are for are the source's.
func (m *Machine) applyReplay(index uint64, data []byte) error {
	x, err := entry.ReadReplay(data)
	if err != nil {
		return m.failed(index, err)
	}
	if !m.continues(&x) {
		return nil
	}
	m.link.Position = x.Position
	m.touch(&m.link)
	if len(x.Inner) > 0 && !entry.IsReplay(x.Inner) {
		r, err := entry.ReadAt(data, len(data)-len(x.Inner))
		if err != nil {
			return m.failed(index, err)
		}
		m.replaying, m.gate = true, &m.link.SourceGate
		if m.link.Rewound { // the source was a standby when it applied this
			m.gate, r.Stamp = &m.muted, 0
		}
		m.nowhere.Node, m.nowhere.List = ^uint64(0), m.nowhere.List[:0]
		err = m.run(index, data, r, &m.nowhere)
		m.replaying = false
		if err != nil {
			return err
		}
	}
	m.settleRows()
	if x.Fingerprint != 0 && x.Fingerprint != m.fingerprint {
		m.link.Diverged = x.Position.Index
	}
	return nil
}

// continues says whether a replay is the one after the position: of the group's source, next by index, and with the
// rolling hash that this very entry leads to.
func (m *Machine) continues(x *entry.Replay) bool {
	l := &m.link
	return l.Role == RoleStandby && l.Diverged == 0 && x.Source == l.Source && x.Generation == l.SourceGeneration &&
		x.Group == m.group && l.Position.Next(x.Position.Term, x.Inner) == x.Position
}

// applyLink applies a command of the standby link; false if it is none. Of a source's those that close or open its gate
// count, for the source's gate.
func (m *Machine) applyLink(cmd entry.Command) bool {
	switch x := cmd.(type) {
	case *entry.LinkDrain:
		m.applyLinkDrain(x)
	case *entry.LinkFence:
		m.applyLinkFence(x)
	case *entry.LinkFenceCancel:
		m.applyLinkFenceCancel(x)
	case *entry.LinkFenced:
		m.applyLinkFenced(x)
	case *entry.LinkAttach:
		m.applyLinkAttach(x)
	case *entry.LinkAccept:
		m.applyLinkSwitch(x.Cluster, x.Switch, SwitchAccepted, x.Kind())
	case *entry.LinkCancel:
		m.applyLinkSwitch(x.Cluster, x.Switch, SwitchCancelled, x.Kind())
	case *entry.LinkPromote:
		m.applyLinkPromote(x)
	case *entry.LinkGate:
		m.applyLinkGate(x)
	default:
		return false
	}
	return true
}

// ours says whether a command of this cluster's own link names it. Data groups do not know the cluster's UUID.
func (m *Machine) ours(cluster string) bool {
	return !m.replaying && (m.local.ClusterID == "" || m.local.ClusterID == cluster)
}

// linked notes that the group's part in the link has changed.
func (m *Machine) linked(cmd entry.Kind, text string) {
	m.touch(&m.link)
	m.fx.List = append(m.fx.List, Effect{Kind: EffectLink, Command: cmd, Text: text})
	m.fx.Linked = true
}

func (m *Machine) applyLinkAttach(x *entry.LinkAttach) {
	l := &m.link
	if !m.ours(x.Cluster) || l.Role != RolePrimary || m.fingerprint != x.Fingerprint {
		return
	}
	l.Role, l.Source, l.SourceGeneration, l.Position, l.Rewound = RoleStandby, x.Source, x.Generation, x.Position, x.Rewound
	m.gate = &m.muted
	m.linked(x.Kind(), "")
}

// applyLinkSwitch records how far a standby is with a switch. A cancelled one stays cancelled.
func (m *Machine) applyLinkSwitch(cluster, id string, state SwitchState, kind entry.Kind) {
	l := &m.link
	if !m.ours(cluster) || l.Role != RoleStandby || id == "" || l.Switch == id && l.SwitchState >= state {
		return
	}
	l.Switch, l.SwitchState = id, state
	m.linked(kind, "")
}

func (m *Machine) applyLinkGate(x *entry.LinkGate) {
	l := &m.link
	if !m.ours(x.Cluster) || l.Role == RoleStandby {
		return
	}
	l.Confirms, l.ConfirmsFor, l.ConfirmsWhy = x.State, x.Standby, x.Text
	m.linked(x.Kind(), x.Text)
}

// gated answers whether a command that closes or opens a gate counts for the gate at hand.
func (m *Machine) gated(cluster string) bool {
	if m.replaying {
		return cluster == m.link.Source
	}
	return m.ours(cluster) && m.link.Role != RoleStandby
}

func (m *Machine) applyLinkDrain(x *entry.LinkDrain) {
	g := m.gate
	if !m.gated(x.Cluster) || g.Fenced || g.takenBack(x.Switch) {
		return
	}
	until := m.header.Stamp + min(max(x.Millis, 1), expiryMax)
	if g.Drain == 0 || until < g.Drain {
		g.Drain = until
	}
	g.Switch = x.Switch
	m.linked(x.Kind(), "")
}

func (m *Machine) applyLinkFence(x *entry.LinkFence) {
	g := m.gate
	if !m.gated(x.Cluster) || g.Fenced || g.takenBack(x.Switch) {
		return
	}
	*g = Gate{Switch: x.Switch, Fenced: true, Hosts: x.Hosts, FencedAt: m.sourceIndex(), Cancelled: g.Cancelled}
	m.linked(x.Kind(), g.Reason())
}

// sourceIndex is the index of the entry at hand in the log of the cluster that made it.
func (m *Machine) sourceIndex() uint64 {
	if m.replaying {
		return m.link.Position.Index
	}
	return m.index
}

// takenBack says whether a switch was cancelled before: drains, fences and the cancel come over several nodes, and may overtake
// one another.
func (g *Gate) takenBack(id string) bool { return id != "" && g.Cancelled == id }

func (m *Machine) applyLinkFenceCancel(x *entry.LinkFenceCancel) {
	g := m.gate
	if !m.gated(x.Cluster) || g.takenBack(x.Switch) {
		return
	}
	g.Cancelled = x.Switch
	if g.Switch != x.Switch || g.By.Number > 0 {
		m.touch(&m.link)
		return
	}
	if g.Fenced { // the clients were closed, and could not say so
		m.detachAll("the hand-over to another cluster was taken back")
	}
	m.openGate(g)
	m.linked(x.Kind(), "")
}

func (m *Machine) applyLinkFenced(x *entry.LinkFenced) {
	g := m.gate
	if !m.gated(x.Cluster) || !x.Generation.Over(m.ownGeneration()) || !x.Generation.Over(g.By) {
		return
	}
	*g = Gate{Fenced: true, Hosts: x.Hosts, FencedAt: m.sourceIndex(), By: x.Generation}
	m.linked(x.Kind(), g.Reason())
}

// ownGeneration is the generation of the cluster that made the entry at hand.
func (m *Machine) ownGeneration() entry.Generation {
	if m.replaying {
		return m.link.SourceGeneration
	}
	return m.link.Generation
}

// openGate lets deliveries go on.
func (m *Machine) openGate(g *Gate) {
	*g = Gate{Cancelled: g.Cancelled}
	m.touch(&m.link)
	for _, v := range m.vhosts {
		for _, q := range v.queues {
			m.wait(q)
			for _, c := range q.consumers {
				if c.Owed > 0 {
					m.awaitResend(c)
				}
			}
		}
	}
}

// drained ends a drain whose time is up.
func (m *Machine) drained() {
	if g := m.gate; g.Drain != 0 && !g.Fenced && g.Drain <= m.header.Stamp {
		m.openGate(g)
		m.serve()
	}
}
