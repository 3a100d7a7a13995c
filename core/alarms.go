package core

import "github.com/understudy-mq/understudy/core/entry"

// applyNodeAlarm notes what a node is short of. Nothing in the machine depends on it: it is how nodes tell each other.
func (m *Machine) applyNodeAlarm(x *entry.NodeAlarm) {
	n := m.node(x.Node)
	if n == nil || !n.Up || n.Incarnation != x.Incarnation || n.Alarms == x.Alarms {
		return
	}
	n.Alarms = x.Alarms
	m.touch(n)
}
