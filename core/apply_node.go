package core

import (
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
)

func (m *Machine) node(id uint64) *node {
	for _, n := range m.nodes {
		if n.Node == id {
			return n
		}
	}
	return nil
}

// applyNodeUp gives a node that has started its next incarnation, once per nonce. A node that was marked down since must
// come with a new nonce: its sessions are gone, and it has to notice.
func (m *Machine) applyNodeUp(x *entry.NodeUp) {
	n := m.node(x.Node)
	if n == nil {
		n = &node{nodeRow: nodeRow{Node: x.Node}}
		at, _ := slices.BinarySearchFunc(m.nodes, x.Node, func(n *node, id uint64) int { return compare(n.Node, id) })
		m.nodes = slices.Insert(m.nodes, at, n)
	} else if n.Nonce == x.Nonce {
		return
	}
	m.detachNode(x.Node, "node was started again")
	n.Incarnation++
	n.Nonce, n.Seq, n.Up, n.Alarms = x.Nonce, 0, true, 0
	m.touch(n)
	m.fx.List = append(m.fx.List, Effect{Kind: EffectNode, Node: x.Node, Incarnation: n.Incarnation, Request: x.Nonce})
}

func (m *Machine) applyNodeDown(x *entry.NodeDown) {
	n := m.node(x.Node)
	if n == nil || n.Incarnation != x.Incarnation || !n.Up {
		return
	}
	n.Up, n.Alarms = false, 0
	m.touch(n)
	m.detachNode(x.Node, "node is down")
	m.fx.List = append(m.fx.List, Effect{Kind: EffectNode, Node: x.Node, Request: n.Nonce})
}

// detachNode ends the attachment of every session that the node holds.
func (m *Machine) detachNode(id uint64, reason string) {
	m.detachWhere(reason, func(s *session) bool { return s.Node == id })
}

// detachAll ends every attachment.
func (m *Machine) detachAll(reason string) {
	m.detachWhere(reason, func(s *session) bool { return s.Node != 0 })
}

func (m *Machine) detachWhere(reason string, meant func(*session) bool) {
	var held []*session
	m.sessions.each(func(s *session) {
		if meant(s) {
			held = append(held, s)
		}
	})
	for _, s := range held {
		if e := m.emit(s, EffectDetached, 0); e != nil {
			e.Text = reason
		}
		m.detach(s)
	}
}

func (m *Machine) applyLeaderUp(x *entry.LeaderUp) {
	m.header.Leader, m.header.Term = x.Node, x.Term
	m.touch(&m.header)
	for _, v := range m.vhosts {
		for _, q := range v.queues {
			m.use(q) // nobody could while there was no leader
		}
	}
	m.restartTimers()
}

func (m *Machine) applyClusterInit(x *entry.ClusterInit) {
	if !m.replaying && m.local.ClusterID == x.Former { // both empty: the first
		m.local.ClusterID = x.ID
		m.touch(&m.local)
	}
}
