package node

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/alarm"
	"github.com/understudy-mq/understudy/cmd/internal/telemetry"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

const (
	alarmInterval = 500 * time.Millisecond // between looks at the gauges
	alarmAgain    = 2 * time.Second        // before the others are told again of what their state does not show
)

// alarms is what a node knows of its own shortages.
type alarms struct {
	gauges alarm.Gauges
	limits alarm.Limits
	now    atomic.Uint32 // alarm.Alarms
	told   time.Time     // when the others were told last
}

func newAlarms(o Options) *alarms {
	a := &alarms{gauges: o.Gauges, limits: o.Config.Alarms()}
	if a.gauges == nil {
		a.gauges = alarm.System(o.Config.Data)
	}
	return a
}

func (a *alarms) own() alarm.Alarms { return alarm.Alarms(a.now.Load()) }

// watchAlarms judges the gauges, tells the other nodes, and makes publishers wait or lets them go on, until ctx is done.
func (n *Node) watchAlarms(ctx context.Context) {
	tick := time.NewTicker(alarmInterval)
	defer tick.Stop()
	for {
		n.judgeAlarms()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (n *Node) judgeAlarms() {
	a := n.alarms
	r := a.gauges()
	r.DiskFull, _ = n.raft.ReadOnly()
	before := a.own()
	own := a.limits.Judge(before, r)
	if own != before {
		a.now.Store(uint32(own))
		n.log.Warn("alarms of this node have changed", "alarms", own.Names(), "before", before.Names(), "memory_used", r.MemoryUsed,
			"memory_limit", a.limits.MemoryBytes(r), "disk_free", r.DiskFree, "disk_free_limit", a.limits.DiskBytes(r))
	}
	var nodes []core.NodeInfo
	n.states[systemGroup].View(func(m *core.Machine) { nodes = m.Nodes() })
	n.tellAlarm(own, nodes)
	reason := blockReason(n.cfg.NodeID, own, n.raft.Group(systemGroup).Status().Voters, nodes)
	switch was := n.broker.Flow().All(); {
	case was == reason:
	case reason != "":
		n.log.Warn("publishers of this node have to wait", "reason", reason)
	default:
		n.log.Info("publishers of this node go on")
	}
	n.broker.Flow().SetAll(reason)
}

// tellAlarm has the system group note this node's alarms, where it shows others.
func (n *Node) tellAlarm(own alarm.Alarms, nodes []core.NodeInfo) {
	at := slices.IndexFunc(nodes, func(x core.NodeInfo) bool { return x.Node == n.cfg.NodeID })
	if at < 0 || !nodes[at].Up || nodes[at].Alarms == uint8(own) || time.Since(n.alarms.told) < alarmAgain {
		return
	}
	cmd := entry.NodeAlarm{Node: n.cfg.NodeID, Incarnation: nodes[at].Incarnation, Alarms: uint8(own)}
	if err := n.raft.Group(systemGroup).Control(entry.Append(nil, &cmd)); err != nil {
		n.log.Debug("alarms not told", "error", err)
		return
	}
	n.alarms.told = time.Now()
}

// blockReason answers why a node's publishers have to wait, "" if they have not: for the node's own alarms, or because so
// many others have some, or are down, that the rest is no majority of the voters.
func blockReason(self uint64, own alarm.Alarms, voters []uint64, nodes []core.NodeInfo) string {
	if own != 0 {
		return own.Reason()
	}
	well := 0
	var others alarm.Alarms
	for _, v := range voters {
		at := slices.IndexFunc(nodes, func(x core.NodeInfo) bool { return x.Node == v })
		switch {
		case v == self || at >= 0 && nodes[at].Up && nodes[at].Alarms == 0:
			well++
		case at >= 0:
			others |= alarm.Alarms(nodes[at].Alarms)
		}
	}
	if well > len(voters)/2 || len(voters) == 0 {
		return ""
	}
	return others.Reason()
}

// alarmMetrics are this node's alarms and its limits.
func (n *Node) alarmMetrics() telemetry.Alarms {
	r, own := n.alarms.gauges(), n.alarms.own()
	return telemetry.Alarms{
		Memory: own&alarm.Memory != 0, Disk: own&alarm.Disk != 0, PublishersWait: n.broker.Flow().All() != "",
		MemoryLimitBytes: n.alarms.limits.MemoryBytes(r), DiskLimitBytes: n.alarms.limits.DiskBytes(r),
	}
}
