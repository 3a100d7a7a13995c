package node

import (
	"context"
	"net"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// policyForConnections is what a policy applies to that gives sessions.
const policyForConnections = "connections"

// sessionPolicy answers what the policies of a vhost say about the sessions of a connection, nil for nothing. Of the policies
// whose pattern matches its name, and that are for its user or for all, the one with the highest priority counts; beside
// it one operator policy, whose keys come first.
func (n *Node) sessionPolicy(vhost, user, connectionName string) message.Table {
	group, ok := n.vhostHome(vhost)
	if !ok {
		return nil
	}
	var policies []core.PolicyInfo
	n.states[group].View(func(m *core.Machine) {
		for _, p := range m.Policies(vhost) {
			if p.ApplyTo == policyForConnections {
				policies = append(policies, p)
			}
		}
	})
	var own, operator *core.PolicyInfo
	var ownKeys, operatorKeys message.Table
	for i := range policies {
		p := &policies[i]
		best, keys := &own, &ownKeys
		if p.Operator {
			best, keys = &operator, &operatorKeys
		}
		if *best != nil && (*best).Priority >= p.Priority {
			continue
		}
		if definition, ok := appliesTo(p, user, connectionName); ok {
			*best, *keys = p, definition
		}
	}
	return slices.Concat(operatorKeys, ownKeys) // the first of a key counts
}

// appliesTo says whether a policy is for a connection of that user and name, and what it says.
func appliesTo(p *core.PolicyInfo, user, connectionName string) (message.Table, bool) {
	matches, err := regexp.MatchString(p.Pattern, connectionName)
	if err != nil || !matches {
		return nil, false
	}
	definition, err := message.ParseTable(p.Definition)
	if err != nil {
		return nil, false
	}
	whose, limited := definition.Get("session-user")
	return definition, !limited || whose == user
}

const (
	announceLook  = 100 * time.Millisecond // between looks whether the cluster knows this node's address
	announceAgain = 2 * time.Second        // before it is told again
)

// announce tells the cluster at which address clients find this node, until it knows.
func (n *Node) announce(ctx context.Context) {
	look := time.NewTicker(announceLook)
	defer look.Stop()
	var told time.Time
	for address := n.clientAddress(); n.addresses()[n.cfg.NodeID] != address; {
		if n.Ready() == nil && time.Since(told) >= announceAgain {
			told = time.Now()
			cmd := &entry.NodeAddress{Cluster: n.ClusterID(), Node: n.cfg.NodeID, Address: address}
			if err := n.raft.Group(systemGroup).Control(entry.Append(nil, cmd)); err != nil {
				n.log.Debug("cannot tell the cluster this node's address", "error", err)
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
	n.states[systemGroup].View(func(m *core.Machine) {
		for _, a := range m.Addresses() {
			known[a.Node] = a.Address
		}
	})
	return known
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
