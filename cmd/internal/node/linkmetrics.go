package node

import (
	"sync"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/telemetry"
	"github.com/understudy-mq/understudy/core/entry"
)

// degradation counts for how long confirms have not waited for the standby that they should wait for, by data group.
type degradation struct {
	mu    sync.Mutex
	since map[uint64]time.Time // of those that are degraded now
	total map[uint64]time.Duration
}

func (d *degradation) changed(group uint64, degraded bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since == nil {
		d.since, d.total = map[uint64]time.Time{}, map[uint64]time.Duration{}
	}
	at, was := d.since[group]
	switch {
	case degraded && !was:
		d.since[group] = time.Now()
	case !degraded && was:
		d.total[group] += time.Since(at)
		delete(d.since, group)
	}
}

func (d *degradation) seconds(group uint64) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := d.total[group]
	if at, now := d.since[group]; now {
		sum += time.Since(at)
	}
	return sum.Seconds()
}

var gateWords = map[entry.GateState]string{entry.GateOff: "off", entry.GateUp: "up", entry.GateDegraded: "degraded"}

// linkMetrics is the node's part in the standby link for /metrics.
func (n *Node) linkMetrics() telemetry.Link {
	l := n.Link()
	out := telemetry.Link{
		Role: l.Role, Generation: l.Generation, Fenced: l.Fenced, SplitBrain: l.SplitBrain, Seed: n.linkage.seeding.ratio(),
		Waiting: n.broker.Flow().Vhosts(),
	}
	for _, g := range l.Groups {
		row := telemetry.LinkGroup{
			Group: g.Group, State: g.State, Position: g.Position.Index, LagEntries: g.LagEntries, LagSeconds: g.LagSeconds,
			ContactAge: -1, CompleteAge: -1, Mismatches: g.Mismatches,
		}
		if g.ContactAge != nil {
			row.ContactAge = *g.ContactAge
		}
		if g.CompleteAge != nil {
			row.CompleteAge = *g.CompleteAge
		}
		out.Groups = append(out.Groups, row)
	}
	for _, r := range l.Readers {
		for _, p := range r.Positions {
			out.Readers = append(out.Readers, telemetry.LinkReader{Name: r.Name, Group: p.Group, Behind: p.Behind})
		}
	}
	for _, h := range l.Holds {
		out.Holds = append(out.Holds, telemetry.LinkHold{Name: h.Name, State: h.State, Bytes: h.Held, Left: h.Left})
	}
	for _, g := range n.groups[1:] {
		out.Confirms = append(out.Confirms, telemetry.LinkConfirms{
			Group: g, Mode: gateWords[n.linkState(g).Confirms], DegradedSeconds: n.linkage.degraded.seconds(g),
		})
	}
	return out
}
