package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/alarm"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/telemetry"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/replication"
)

// memberTimeout bounds a change of the membership, in all groups together.
const memberTimeout = 20 * time.Second

// serveAdmin serves the admin port and its metrics.
func (n *Node) serveAdmin() error {
	err := n.metrics.Watch(
		telemetry.Identity{Node: n.Name(), Version: n.o.Version, RabbitMQ: admin.CompatibleVersion, Data: n.cfg.Data},
		telemetry.Sources{
			Messages: n.messages, Totals: n.totals, Sessions: n.sessionCounts, Groups: n.groupMetrics, Log: n.logStats, ClusterID: n.ClusterID,
			Alarms: n.alarmMetrics,
			Ready:  func() bool { return n.Ready() == nil },
		})
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if err := n.metrics.WatchLink(n.linkMetrics); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	var page http.Handler = admin.New(admin.Options{
		State: n, Cluster: n, Connections: n, Accounts: n.accounts, Policies: n, Objects: n, Vhosts: n, Messages: n, Definitions: n,
		Link: n, Sessions: n, Login: n.login, Ready: n.Ready,
		Metrics: n.metrics.Handler(), Version: n.o.Version, Logger: n.log,
	})
	n.adminHandler.Store(&page)
	n.openAdmin()
	return nil
}

// showMeanwhile answers on the admin port while the node is not started yet: that it lives, that it is not ready and why, and pages by path.
func (n *Node) showMeanwhile(reason string, pages map[string]http.HandlerFunc) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentTypeJSON)
		if show := pages[r.URL.Path]; show != nil {
			show(w, r)
			return
		}
		if r.URL.Path == "/health/live" {
			_ = json.NewEncoder(w).Encode(api.Health{Status: "ok"})
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(api.Health{Status: "failed", Reason: reason})
	})
	n.adminHandler.Store(new(http.Handler(page)))
	n.openAdmin()
}

// openAdmin serves the admin port, by what adminHandler is at the moment.
func (n *Node) openAdmin() {
	if n.admin != nil {
		return
	}
	n.admin = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*n.adminHandler.Load()).ServeHTTP(w, r) }),
		ReadHeaderTimeout: adminHeaderTimeout,
		ReadTimeout:       adminReadTimeout,
		IdleTimeout:       adminIdleTimeout,
	}
	for _, l := range n.listeners {
		if l.protocol != protocolHTTP {
			continue
		}
		n.background.Go(func() {
			if err := n.admin.Serve(l.Listener); !errors.Is(err, http.ErrServerClosed) {
				n.o.Fatal(fmt.Errorf("admin port: %w", err))
			}
		})
	}
}

// Name is the node as listings name it.
func (n *Node) Name() string { return admin.NodeName(n.cfg.NodeID) }

// ClusterID is the cluster's UUID, "" while it forms.
func (n *Node) ClusterID() string { return *n.clusterID.Load() }

// Describe says in one line what is served where.
func (n *Node) Describe() string {
	s := fmt.Sprintf("node %d of cluster %s", n.cfg.NodeID, n.ClusterID())
	for _, l := range n.listeners {
		s += fmt.Sprintf(", %s on %s", l.protocol, l.Addr())
	}
	return s
}

// Listeners are the open ports.
func (n *Node) Listeners() []api.Listener {
	rows := make([]api.Listener, 0, len(n.listeners)+1)
	add := func(protocol, address string) {
		host, port := hostPort(address)
		rows = append(rows, api.Listener{Node: n.Name(), Protocol: protocol, IPAddress: host, Port: port})
	}
	for _, l := range n.listeners {
		add(l.protocol, l.Addr().String())
	}
	add("clustering", n.cfg.Peer)
	return rows
}

// statuses are the groups as this node sees them, by id.
func (n *Node) statuses() []replication.Status {
	list := make([]replication.Status, len(n.groups))
	for i, id := range n.groups {
		list[i] = n.raft.Group(id).Status()
	}
	return list
}

// Cluster is the cluster as the system group has it.
func (n *Node) Cluster() api.Cluster {
	all := n.statuses()
	up, short := map[uint64]bool{}, map[uint64]alarm.Alarms{}
	n.states[systemGroup].View(func(m *core.Machine) {
		for _, x := range m.Nodes() {
			up[x.Node], short[x.Node] = x.Up, alarm.Alarms(x.Alarms)
		}
	})
	c := api.Cluster{ID: n.ClusterID(), Node: n.cfg.NodeID, Groups: len(n.groups) - 1, Ready: true, Version: n.o.Version}
	if err := n.Ready(); err != nil {
		c.Ready, c.Reason = false, err.Error()
	}
	if full, why := n.raft.ReadOnly(); full {
		c.ReadOnly = why
	}
	short[n.cfg.NodeID] = n.alarms.own()
	c.Members = make([]api.Member, 0)
	for _, id := range slices.Concat(all[0].Voters, all[0].Learners) {
		m := api.Member{ID: id, Address: all[0].Addresses[id], Role: "voter", Running: up[id], Leads: []uint64{}, Alarms: short[id].Names()}
		if slices.Contains(all[0].Learners, id) {
			m.Role = "learner"
		}
		for _, s := range all {
			if s.Leader == id {
				m.Leads = append(m.Leads, s.Group)
			}
		}
		c.Members = append(c.Members, m)
	}
	return c
}

// Groups are the raft groups as this node sees them.
func (n *Node) Groups() []api.Group {
	all := n.statuses()
	rows := make([]api.Group, len(all))
	for i, s := range all {
		rows[i] = api.Group{
			Group: s.Group, Leader: s.Leader, Term: s.Term, Applied: s.Applied, Role: s.Role, Commit: s.Commit,
			Fingerprint: fmt.Sprintf("%016x", s.Fingerprint), FirstIndex: s.FirstIndex, LastIndex: s.LastIndex, Error: s.Error,
			Voters: orEmpty(s.Voters), Learners: orEmpty(s.Learners),
		}
	}
	return rows
}

func orEmpty(ids []uint64) []uint64 {
	if ids == nil {
		return []uint64{}
	}
	return ids
}

// AddMember adds a node as a learner.
func (n *Node) AddMember(ctx context.Context, id uint64, address string) error {
	return n.change(ctx, func(ctx context.Context) error { return n.raft.AddMember(ctx, id, address) })
}

// PromoteMember makes a learner a voter.
func (n *Node) PromoteMember(ctx context.Context, id uint64) error {
	return n.change(ctx, func(ctx context.Context) error { return n.raft.PromoteMember(ctx, id) })
}

// RemoveMember takes a node out of the cluster.
func (n *Node) RemoveMember(ctx context.Context, id uint64) error {
	return n.change(ctx, func(ctx context.Context) error { return n.raft.RemoveMember(ctx, id) })
}

// TransferLeader makes a node the leader of a group.
func (n *Node) TransferLeader(ctx context.Context, group, id uint64) error {
	return n.change(ctx, func(ctx context.Context) error { return n.raft.TransferLeader(ctx, group, id) })
}

// change bounds a change in time and classes its error: not now (unavailable) or not at all (conflict).
func (n *Node) change(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	err := do(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return admin.Unavailable{Err: err}
	}
	return admin.Conflict{Err: err}
}

func (n *Node) messages() telemetry.Messages {
	out := telemetry.Messages{SessionsAttached: n.broker.Stats.Attached.Load()}
	for _, s := range n.statuses()[1:] {
		n.states[s.Group].View(func(m *core.Machine) {
			for _, v := range m.Vhosts() {
				counters, buried := m.Counters(v.Name)
				for _, c := range counters {
					if c.Node == n.cfg.NodeID || c.Node == 0 && s.Leader == n.cfg.NodeID {
						out.Counters.Add(&c)
					}
				}
				if s.Leader == n.cfg.NodeID {
					out.Buried.Add(buried)
				}
			}
		})
	}
	return out
}

// sessionCounts add up what the groups' states have counted here since the start.
func (n *Node) sessionCounts() telemetry.Sessions {
	var t telemetry.Sessions
	for _, id := range n.groups {
		n.states[id].View(func(m *core.Machine) {
			c := m.SessionCounts()
			t.Resumed += c.Resumed
			t.TakenOver += c.TakenOver
			t.Expired += c.Expired
			t.Redelivered += c.Redelivered
			t.Duplicates += c.Duplicates
		})
	}
	return t
}

// totals are what the groups hold that this node leads, and its own clients.
func (n *Node) totals() telemetry.Totals {
	var t telemetry.Totals
	for _, s := range n.statuses() {
		if s.Leader != n.cfg.NodeID {
			continue
		}
		n.states[s.Group].View(func(m *core.Machine) {
			for _, v := range m.Vhosts() {
				t.Queues += uint64(v.Queues)
				t.Ready += v.Ready
				t.Unacked += v.Unacknowledged
				t.Consumers += uint64(v.Consumers)
			}
			attached, detached := m.NamedSessions()
			t.SessionsAttached += uint64(attached)
			t.SessionsDetached += uint64(detached)
		})
	}
	for _, c := range n.clients.Connections() {
		t.Connections++
		t.Channels += uint64(c.Channels)
	}
	for _, id := range n.groups[1:] {
		n.states[id].View(func(m *core.Machine) {
			publishers, consumers := m.ClientsOf(n.cfg.NodeID)
			t.Publishers += uint64(publishers)
			t.OwnConsumers += uint64(consumers)
		})
	}
	return t
}

func (n *Node) groupMetrics() []telemetry.Group {
	all := n.statuses()
	rows := make([]telemetry.Group, len(all))
	for i, s := range all {
		rows[i] = telemetry.Group{
			Group: s.Group, Leader: s.Leader, Term: s.Term, Commit: s.Commit, Applied: s.Applied, First: s.FirstIndex, Last: s.LastIndex,
			Leads: s.Leader == n.cfg.NodeID, Stopped: s.Error != "", CommitLatency: s.CommitLatency,
		}
	}
	return rows
}

// logStats are the log's own counters.
func (n *Node) logStats() telemetry.Log {
	s := n.raft.Stats()
	return telemetry.Log{Bytes: s.Bytes, Writes: s.Writes, Syncs: s.Syncs, Segments: s.Segments, SegmentBytes: s.SegmentBytes}
}
