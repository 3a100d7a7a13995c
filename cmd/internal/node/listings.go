package node

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/message"
)

// gather lists something of one vhost, or with "" of all. The groups' goroutines wait only while list reads; making rows of
// it comes after.
func gather[T, R any](n *Node, vhost string, list func(m *core.Machine, vhost string) []T, row func(group uint64, item T) R) []R {
	rows := []R{}
	for _, name := range n.vhostsToList(vhost) {
		home, ok := n.accounts.homes.of(name)
		if !ok {
			continue
		}
		var items []T
		n.states[home.Group].View(func(m *core.Machine) { items = list(m, name) })
		for _, item := range items {
			rows = append(rows, row(home.Group, item))
		}
	}
	return rows
}

func (n *Node) vhostsToList(vhost string) []string {
	if vhost == "" {
		return n.VhostNames()
	}
	return []string{vhost}
}

// Queues lists queues.
func (n *Node) Queues(vhost string) []api.Queue {
	return gather(n, vhost, (*core.Machine).Queues, func(group uint64, q core.QueueInfo) api.Queue {
		arguments := tableOf(q.Arguments)
		kind, _ := arguments["x-queue-type"].(string)
		if kind == "" {
			kind = "classic"
		}
		row := api.Queue{
			Name: q.Name, Vhost: q.Vhost, Type: kind, Durable: q.Durable, AutoDelete: q.AutoDelete, Exclusive: q.Exclusive,
			Arguments: arguments, State: "running", Node: n.leaderName(group), Messages: uint64(q.Ready + q.Unacknowledged),
			MessagesReady: uint64(q.Ready), MessagesUnacknowledged: uint64(q.Unacknowledged), Consumers: q.Consumers,
			MessageBytesReady: q.ReadyBytes, Policy: orNull(q.Policy), OperatorPolicy: orNull(q.OperatorPolicy),
		}
		if row.Node == "" {
			row.State = "down"
		}
		return row
	})
}

// leaderName is the node that leads a group, "" for none.
func (n *Node) leaderName(group uint64) string {
	if leader := n.raft.Group(group).Status().Leader; leader != 0 {
		return admin.NodeName(leader)
	}
	return ""
}

// Exchanges lists exchanges.
func (n *Node) Exchanges(vhost string) []api.Exchange {
	return gather(n, vhost, (*core.Machine).Exchanges, func(_ uint64, x core.ExchangeInfo) api.Exchange {
		return api.Exchange{
			Name: x.Name, Vhost: x.Vhost, Type: x.Type, Durable: x.Durable, AutoDelete: x.AutoDelete, Internal: x.Internal,
			Arguments: tableOf(x.Arguments), Policy: orNull(x.Policy), OperatorPolicy: orNull(x.OperatorPolicy),
		}
	})
}

// orNull makes no name JSON's null.
func orNull(name string) *string {
	if name == "" {
		return nil
	}
	return &name
}

// Bindings lists bindings, those by which the default exchange reaches every queue included.
func (n *Node) Bindings(vhost string) []api.Binding {
	list := func(m *core.Machine, vhost string) []core.BindingInfo {
		var all []core.BindingInfo
		for _, q := range m.Queues(vhost) {
			all = append(all, core.BindingInfo{Vhost: vhost, Destination: q.Name, ToQueue: true, Key: q.Name})
		}
		return append(all, m.Bindings(vhost)...)
	}
	return gather(n, vhost, list, func(_ uint64, b core.BindingInfo) api.Binding {
		row := api.Binding{
			Source: b.Source, Vhost: b.Vhost, Destination: b.Destination, DestinationType: "exchange", RoutingKey: b.Key,
			Arguments: tableOf(b.Arguments), PropertiesKey: propertiesKeyOf(b.Key, b.Arguments),
		}
		if b.ToQueue {
			row.DestinationType = "queue"
		}
		return row
	})
}

// owned is a consumer with its session.
type owned struct {
	core.ConsumerInfo
	session core.SessionInfo
}

// Consumers lists consumers.
func (n *Node) Consumers(vhost string) []api.Consumer {
	list := func(m *core.Machine, vhost string) []owned {
		sessions := map[uint64]core.SessionInfo{}
		for _, s := range m.Sessions(vhost) {
			sessions[s.ID] = s
		}
		var all []owned
		for _, c := range m.Consumers(vhost) {
			all = append(all, owned{c, sessions[c.Session]})
		}
		return all
	}
	return gather(n, vhost, list, func(_ uint64, c owned) api.Consumer {
		status, peer := "up", connectionRef(c.session.Connection)
		if !c.Active {
			status = "waiting"
		}
		return api.Consumer{
			ConsumerTag: c.Tag, Queue: api.QueueRef{Name: c.Queue, Vhost: c.Vhost}, AckRequired: !c.NoAck, Exclusive: c.Exclusive,
			PrefetchCount: c.Prefetch, Active: c.Active, ActivityStatus: status, Arguments: tableOf(c.Arguments),
			ChannelDetails: api.ChannelRef{
				Name:           channelName(c.session.Connection, c.Channel),
				ConnectionName: c.session.Connection, Node: admin.NodeName(c.session.Node), Number: c.Channel, User: c.session.User,
				PeerHost: peer.PeerHost, PeerPort: peer.PeerPort,
			},
		}
	})
}

// Channels lists the channels of clients, those of the admin API's own sessions left out.
func (n *Node) Channels(vhost string) []api.Channel {
	list := func(m *core.Machine, vhost string) []core.ChannelInfo {
		return slices.DeleteFunc(m.Channels(vhost), func(c core.ChannelInfo) bool { return c.Session.Connection == errandName })
	}
	return gather(n, vhost, list, func(_ uint64, c core.ChannelInfo) api.Channel {
		s := &c.Session
		row := api.Channel{
			Name: channelName(s.Connection, c.Number), Number: c.Number, Node: admin.NodeName(s.Node), User: s.User, UserWhoPerformedAction: s.User,
			Vhost: s.Vhost, State: "running", Confirm: c.Confirm, Transactional: c.Tx, PrefetchCount: c.Prefetch,
			GlobalPrefetchCount: c.GlobalPrefetch, ConsumerCount: c.Consumers, MessagesUnacknowledged: c.Unacknowledged,
			MessagesUncommitted: c.PendingPublishes, AcksUncommitted: c.PendingSettles, ConnectionDetails: connectionRef(s.Connection),
		}
		return row
	})
}

// channelName is what listings call a channel.
func channelName(connection string, number uint16) string {
	return fmt.Sprintf("%s (%d)", connection, number)
}

// connectionRef reads the client's address off a connection's name, "peer -> local".
func connectionRef(connection string) api.ConnectionRef {
	peer, _, _ := strings.Cut(connection, " -> ")
	host, port := hostPort(peer)
	return api.ConnectionRef{Name: connection, PeerHost: host, PeerPort: port}
}

// tableOf renders a field table for JSON; empty for none. The machine holds only tables that it could read.
func tableOf(b []byte) map[string]any {
	t, err := message.ParseTable(b)
	if err != nil {
		return map[string]any{}
	}
	return plainTable(t)
}

func plainTable(t message.Table) map[string]any {
	out := make(map[string]any, len(t))
	for _, f := range t {
		out[f.Key] = plain(f.Value)
	}
	return out
}

// plain makes a table's value one that JSON has.
func plain(v any) any {
	switch v := v.(type) {
	case message.Table:
		return plainTable(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case message.Timestamp:
		return time.Unix(int64(v), 0).UTC().Format(time.RFC3339)
	case message.Decimal:
		return float64(v.Value) / math.Pow10(int(v.Scale))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
	case float32:
		return plain(float64(v))
	}
	return v
}
