package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/core"
)

// promotionFile holds what the node knew when its cluster was promoted.
const promotionFile = "promotion.json"

// sessionsInterval is how old the count of live sessions in a report may be: counting takes looking at each.
const sessionsInterval = 2 * time.Second

// cutPatience is how long the report, and with it the first client, waits for a group that is not promoted yet.
const cutPatience = 5 * time.Second

// reports is what the node last knew of its source before the promotion.
type reports struct {
	keeping sync.Mutex // held while the file is written
	mu      sync.Mutex
	last    api.Promotion
}

func (r *reports) get() api.Promotion {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (r *reports) set(p api.Promotion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = p
}

// fenced notes that a node of the former source has confirmed the fence.
func (r *reports) fenced(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := maps.Clone(r.last.FencesDelivered)
	if m == nil {
		m = map[string]bool{}
	}
	m[address] = true
	r.last.FencesDelivered = m
}

// FenceTaken implements link.Cluster: after a restart it is not asked for any more whether two clusters may serve.
func (s standbyCluster) FenceTaken(address string) {
	s.n.linkage.reports.fenced(address)
	s.n.keepReport()
}

// watchPromotion makes the report at the promotion, and sees to it that the node then serves.
func (n *Node) watchPromotion(ctx context.Context) {
	g := n.raft.Group(systemGroup)
	var live map[uint64]int
	var counted time.Time
	for n.linkState(systemGroup).Role != core.RolePromoted {
		if n.standsBy() && time.Since(counted) > sessionsInterval {
			live, counted = n.liveSessions(), time.Now()
		}
		select {
		case <-g.Changed():
		case <-time.After(time.Second):
		case <-ctx.Done():
			return
		}
	}
	fresh := n.linkage.reports.get().At == 0
	whole := n.promotedWhole(ctx, cutPatience)
	if fresh {
		n.keepForFormer()
		n.report(live)
	}
	n.serveAsPromoted(ctx)
	if !whole && fresh && n.promotedWhole(ctx, 0) {
		n.keepForFormer()
		n.report(live)
	}
}

// promotedWhole waits until every group is promoted here, for at most patience (0: no bound): until then a group may replay
// what is still under way, and where it is cut is not known.
func (n *Node) promotedWhole(ctx context.Context, patience time.Duration) bool {
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	for _, g := range n.groups {
		for n.linkState(g).Role != core.RolePromoted {
			select {
			case <-n.raft.Group(g).Changed():
			case <-time.After(formInterval): // what changed before Changed was asked for
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}

// serveAsPromoted waits until the node serves as one of an ordinary cluster: what waits for that may go on. Where the source was lost
// before its first vhost or its first user came, they are made as in any new cluster.
func (n *Node) serveAsPromoted(ctx context.Context) {
	tick := time.NewTicker(formInterval)
	defer tick.Stop()
	var proposed proposal
	for {
		if err := n.learn(); err != nil {
			n.o.Fatal(err)
			return
		}
		if _, deaf := n.registered.missing(n.groups); n.formed.Load() && !deaf {
			break
		}
		if !n.formed.Load() {
			n.propose(&proposed)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	n.served.Store(true)
	n.log.Warn("this cluster was promoted and serves now")
}

// liveSessions counts, by data group, the sessions that are attached to a node of the source.
func (n *Node) liveSessions() map[uint64]int {
	live := map[uint64]int{}
	for _, g := range n.groups[1:] {
		n.states[g].View(func(m *core.Machine) {
			for _, v := range m.Vhosts() {
				for _, s := range m.Sessions(v.Name) {
					if s.Attached || s.Key == "" {
						live[g]++
					}
				}
			}
		})
	}
	return live
}

// report writes down what the node knows at the cut.
func (n *Node) report(live map[uint64]int) {
	first, now := n.linkState(systemGroup), time.Now()
	p := api.Promotion{
		Kind: "forced", Cluster: n.ClusterID(), Source: first.Source, Generation: first.Generation.Number, At: now.UnixMilli(),
		FencesDelivered: n.linkage.reports.get().FencesDelivered,
	}
	if first.SwitchState == core.SwitchAccepted {
		p.Kind, p.NothingCanMissing = "planned", true
	}
	for _, f := range n.linkage.follow.Followers() {
		row := api.PromotionGroup{
			Group: f.Group, Position: linkPosition(f), Fingerprint: fmt.Sprintf("%016x", n.linkState(f.Group).Print),
			LagEntries: f.Lag.Entries, ContactAge: age(f.Lag.ContactAge), Sessions: live[f.Group],
		}
		p.SessionsLive += row.Sessions
		if f.Lag.ContactAge >= 0 {
			row.LastContact = new(p.At - int64(f.Lag.ContactAge*1000))
		}
		if !f.Lag.CaughtUp.IsZero() && !p.NothingCanMissing {
			row.MissingSince = new(moment(f.Lag.CaughtUp, now.Sub(f.Lag.CaughtUp), now))
		}
		p.Groups = append(p.Groups, row)
	}
	n.linkage.reports.set(p)
	n.keepReport()
}

// moment is a moment in Unix ms: what the wall clock read then, or what it reads now less the time that has passed by the monotonic
// clock, whichever is earlier. The wall clock may have been set back since; the monotonic one stands still while a machine is suspended.
func moment(read time.Time, passed time.Duration, now time.Time) int64 {
	return min(read.UnixMilli(), now.Add(-passed).UnixMilli())
}

// recallReport reads what an earlier process of this node kept.
func (n *Node) recallReport() {
	if b, err := n.folder.readFile(promotionFile); err == nil {
		var p api.Promotion
		if json.Unmarshal(b, &p) == nil {
			n.linkage.reports.set(p)
		}
	}
}

// keepReport writes the report to the data folder.
func (n *Node) keepReport() {
	n.linkage.reports.keeping.Lock()
	defer n.linkage.reports.keeping.Unlock()
	b, err := json.MarshalIndent(n.linkage.reports.get(), "", "  ")
	if err == nil {
		err = n.folder.replace(promotionFile, b)
	}
	if err != nil {
		n.log.Error("the promotion's report could not be kept", "error", err)
	}
}
