package node

import (
	"context"
	"time"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session/gate"
)

// gateInterval is the time between looks at how far the standby is behind.
const gateInterval = 100 * time.Millisecond

// openGate puts the gate between the machines and the broker: confirms that wait for a standby wait there.
func (n *Node) openGate() {
	groups := map[uint64]gate.Group{}
	for id, g := range n.states {
		if id != systemGroup {
			groups[id] = g
		}
	}
	n.gate = gate.New(gate.Options{
		Groups: groups, System: n.states[systemGroup], Dispatch: n.broker.Dispatch,
		Leads: func(group uint64) bool { return n.raft.Group(group).Status().Leader == n.cfg.NodeID },
		Propose: func(group uint64, cmd entry.Command) error {
			return n.raft.Group(group).ControlLocal(entry.Append(nil, cmd))
		},
		Cluster: n.ClusterID, Changed: n.gateChanged,
	})
}

// watchGate has the gate look at the clock, and publishers wait where it or a switch says so, until ctx is done.
func (n *Node) watchGate(ctx context.Context) {
	tick := time.NewTicker(gateInterval)
	defer tick.Stop()
	var waits map[string]string
	for {
		select {
		case <-tick.C:
			n.gate.Decide()
			waits = n.slowPublishers(waits)
		case <-ctx.Done():
			return
		}
	}
}

// handingOver is what publishers hear while a planned switch drains this cluster.
const handingOver = "this cluster is handing over to another one"

// slowPublishers has the publishers of those vhosts wait, by vhost why, whose standby is too far behind or that are handed
// over to it, and tells of what differs from before. Behind a fence they wait until their connections are closed: what
// they publish would be dropped.
func (n *Node) slowPublishers(before map[string]string) (now map[string]string) {
	now = n.gate.Slow()
	for _, g := range n.groups[1:] {
		n.states[g].View(func(m *core.Machine) {
			if l := m.Link(); l.Gate.Holds() {
				for _, v := range m.Vhosts() {
					now[v.Name] = handingOver
				}
			}
		})
	}
	n.broker.Flow().SetVhosts(now)
	for vhost, reason := range now {
		if before[vhost] != reason {
			n.log.Warn("publishers of a vhost have to wait", "vhost", vhost, "reason", reason)
		}
	}
	for vhost := range before {
		if _, still := now[vhost]; !still {
			n.log.Info("publishers of a vhost go on", "vhost", vhost)
		}
	}
	return now
}

// gateChanged tells of each change of what confirms wait for.
func (n *Node) gateChanged(group uint64, state entry.GateState, standby, why string) {
	n.linkage.degraded.changed(group, state == entry.GateDegraded)
	switch state {
	case entry.GateUp:
		n.log.Info("confirms wait for a standby, as the vhosts' policies say", "group", group, "standby", standby, "reason", why)
	case entry.GateDegraded:
		n.log.Warn("confirms wait for the standby no longer", "group", group, "standby", standby, "reason", why)
	case entry.GateOff:
		n.log.Info("confirms wait for no standby", "group", group, "reason", why)
	}
}

// covered takes a standby's word of how far it is, and passes it on at once where somebody waits for it.
func (n *Node) covered(name string, group, index uint64) {
	if n.gate.Covered(name, group, index) && n.gate.Wants(group) {
		n.raft.Covered(name, group, index)
	}
}
