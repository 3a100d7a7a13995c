package core

import (
	"github.com/understudy-mq/understudy/core/entry"
)

// gapWide and gapNarrow are how far counters jump at a promotion, so that nothing is minted again that the lost tail of the
// source's log had minted: numbers of 64 and of 32 bits.
const (
	gapWide   = 1 << 40
	gapNarrow = 1 << 20
)

// applyLinkPromote cuts a standby's group at its position: from here on it is an ordinary one. What was attached to the
// source's nodes is not any more, and their registrations mean nothing here.
func (m *Machine) applyLinkPromote(x *entry.LinkPromote) {
	l := &m.link
	if m.replaying {
		m.replayPromotion(x)
		return
	}
	if !m.ours(x.Cluster) || l.Role != RoleStandby || x.Switch != "" && l.Switch == x.Switch && l.SwitchState == SwitchCancelled {
		return
	}
	l.Role, l.Generation, l.Since, l.Stamp, l.Print = RolePromoted, x.Generation, m.index, m.header.Stamp, m.fingerprint
	l.Confirms, l.ConfirmsFor, l.ConfirmsWhy = entry.GateOff, "", "" // no standby follows yet: nobody may wait for one
	m.gate, l.SourceGate = &l.Gate, Gate{}
	fx := m.fx
	m.fx = &m.nowhere
	m.nowhere.Node, m.nowhere.List = ^uint64(0), m.nowhere.List[:0]
	m.beginPromoted(x.Generation.Number)
	m.fx = fx
	m.linked(x.Kind(), "")
}

// replayPromotion does what the source's promotion did to its state, where this one was wound back to the source's cut.
// Every other promotion of a source is its local fact.
func (m *Machine) replayPromotion(x *entry.LinkPromote) {
	l := &m.link
	if !l.Rewound || x.Generation != l.SourceGeneration {
		return
	}
	l.Rewound, l.SourceGate = false, Gate{}
	m.gate = &l.SourceGate
	m.beginPromoted(x.Generation.Number)
}

// beginPromoted makes of a source's state at the cut the one with which the promoted cluster begins.
func (m *Machine) beginPromoted(generation uint64) {
	m.disown()
	m.promoteSessions(generation)
	m.jump()
	m.openGate(m.gate)
	m.serve()
}

// disown detaches every session and forgets the source's nodes.
func (m *Machine) disown() {
	m.detachAll("")
	for _, n := range m.nodes {
		n.gone = true
		m.touch(n)
	}
	m.nodes = nil
}

// jump moves every counter past what the source may have minted after the cut.
func (m *Machine) jump() {
	m.header.Sessions += gapWide
	m.header.Vhosts += gapNarrow
	m.touch(&m.header)
	for _, v := range m.vhosts {
		v.Messages += gapWide
		v.Held += gapWide
		v.Queues += gapNarrow
		v.Consumers += gapNarrow
		m.touch(v)
	}
}
