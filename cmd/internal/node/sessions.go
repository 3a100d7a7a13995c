package node

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/audit"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session"
)

// sessionPolicy answers what a vhost's policies say of the session of a connection.
func (n *Node) sessionPolicy(vhost, user, connectionName string) core.SessionPolicy {
	policy := session.NoPolicy
	if home, ok := n.vhostHome(vhost); ok {
		n.states[home.Group].View(func(m *core.Machine) { policy = m.SessionPolicy(vhost, user, connectionName) })
	}
	return policy
}

// Sessions lists named sessions.
func (n *Node) Sessions(vhost string) []api.Session {
	list := func(m *core.Machine, vhost string) []core.SessionInfo {
		return slices.DeleteFunc(m.Sessions(vhost), func(s core.SessionInfo) bool { return s.Key == "" })
	}
	return gather(n, vhost, list, func(_ uint64, s core.SessionInfo) api.Session {
		row := api.Session{
			ID: s.Key, User: s.User, Vhost: s.Vhost, State: "attached", Connection: s.Connection, Epoch: s.Epoch, InFlight: s.InFlight,
			Channels: s.Channels, Expiry: s.Expiry, Node: admin.NodeName(s.Node),
		}
		if !s.Attached {
			row.State, row.Node, row.ExpiresAt = "detached", "", &s.ExpiresAt
		}
		return row
	})
}

// CloseSession ends a session, attached or not.
func (n *Node) CloseSession(ctx context.Context, by string, s api.Session) error {
	is := func(x core.SessionInfo) bool { return x.Key == s.ID && x.User == s.User }
	find := func(m *core.Machine) (core.SessionInfo, bool) {
		list := m.Sessions(s.Vhost)
		if i := slices.IndexFunc(list, is); i >= 0 {
			return list[i], true
		}
		return core.SessionInfo{}, false
	}
	home, ok := n.vhostHome(s.Vhost)
	if !ok {
		return noVhost(s.Vhost)
	}
	var found core.SessionInfo
	n.states[home.Group].View(func(m *core.Machine) { found, ok = find(m) })
	if !ok {
		return admin.NotFound{Err: fmt.Errorf("session '%s' of user '%s' not found", s.ID, s.User)}
	}
	cmd := &entry.SessionClose{Session: found.ID, Text: "session closed by user '" + by + "'"}
	what := audit.Event{Event: "session_closed", By: by, Vhost: s.Vhost, User: s.User, Text: s.ID}
	return n.recorded(ctx, what, cmd, func(m *core.Machine) bool {
		x, there := find(m)
		return !there || x.ID != found.ID
	})
}

var _ admin.Sessions = (*Node)(nil)

const (
	announceLook  = 100 * time.Millisecond // between looks whether the cluster knows this node's address
	announceAgain = 2 * time.Second        // before it is told again
)

// announce tells the cluster at which address clients find this node, and what it reads, until it knows. A standby is told too: its
// source is to send clients there once it has handed over.
func (n *Node) announce(ctx context.Context) {
	look := time.NewTicker(announceLook)
	defer look.Stop()
	var told time.Time
	for own := (core.NodeAddress{Node: n.cfg.NodeID, Address: n.clientAddress(), Level: n.level()}); !slices.Contains(n.told(), own); {
		if n.Ready() == nil && time.Since(told) >= announceAgain {
			told = time.Now()
			cmd := &entry.NodeAddress{Cluster: n.ClusterID(), Node: own.Node, Address: own.Address, Level: own.Level}
			if err := n.raft.Group(systemGroup).ControlLocal(entry.Append(nil, cmd)); err != nil {
				n.log.Debug("cannot tell the cluster what this node is", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// clientAddress is where clients find this node: as configured, or the AMQP port at the host where the other nodes find it.
func (n *Node) clientAddress() string {
	if n.cfg.AMQPAdvertise != "" {
		return n.cfg.AMQPAdvertise
	}
	host, _ := hostPort(n.cfg.Peer)
	for _, l := range n.listeners {
		if l.protocol != protocolAMQP {
			continue
		}
		own, port := hostPort(l.Addr().String())
		if ip := net.ParseIP(own); ip != nil && !ip.IsUnspecified() {
			host = own
		}
		return net.JoinHostPort(host, strconv.Itoa(port))
	}
	return ""
}

func (n *Node) addresses() map[uint64]string {
	known := map[uint64]string{}
	for _, a := range n.told() {
		known[a.Node] = a.Address
	}
	return known
}

// told is what the nodes have told of themselves.
func (n *Node) told() (list []core.NodeAddress) {
	n.states[systemGroup].View(func(m *core.Machine) { list = m.Addresses() })
	return list
}

// hosts are the addresses of the cluster's nodes for clients, this node's first.
func (n *Node) hosts() []string {
	known := n.addresses()
	var hosts []string
	add := func(id uint64) {
		if known[id] != "" {
			hosts = append(hosts, known[id])
		}
	}
	add(n.cfg.NodeID)
	for _, id := range n.members() {
		if id != n.cfg.NodeID {
			add(id)
		}
	}
	return hosts
}

// members are the nodes of the cluster.
func (n *Node) members() []uint64 {
	s := n.raft.Group(systemGroup).Status()
	return slices.Concat(s.Voters, s.Learners)
}
