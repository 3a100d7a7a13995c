package node

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/jsontable"
	"github.com/understudy-mq/understudy/core"
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

// QueueRefs lists the names of queues, by name in each vhost.
func (n *Node) QueueRefs(vhost string) []api.QueueRef {
	refs := []api.QueueRef{}
	for _, name := range n.vhostsToList(vhost) {
		home, ok := n.accounts.homes.of(name)
		if !ok {
			continue
		}
		var queues []string
		n.states[home.Group].View(func(m *core.Machine) { queues = m.QueueNames(name) })
		slices.Sort(queues)
		refs = slices.Grow(refs, len(queues))
		for _, q := range queues {
			refs = append(refs, api.QueueRef{Name: q, Vhost: name})
		}
	}
	return refs
}

// A listing of very many queues has no hurry, and those who wait for a confirm have: it would keep a processor busy for seconds.
const (
	queuesAtOnce  = 64                     // are read in one look into a group's state, which waits meanwhile
	queuesInHaste = 1024                   // are listed without a pause,
	queuesPause   = 500 * time.Microsecond // and then there is one between two looks
)

// QueuesAt makes rows of the queues among refs that are there, each with its ref's place. It reads them as it goes.
func (n *Node) QueuesAt(refs []api.QueueRef) iter.Seq2[int, api.Queue] {
	return func(yield func(int, api.Queue) bool) {
		row := n.queueRows()
		var queues [queuesAtOnce]core.QueueInfo
		for from, to := 0, 0; from < len(refs); from = to {
			for to < len(refs) && to-from < queuesAtOnce && refs[to].Vhost == refs[from].Vhost {
				to++
			}
			if from >= queuesInHaste {
				time.Sleep(queuesPause)
			}
			group := n.readQueues(refs[from:to], queues[:])
			for i := range to - from {
				if queues[i].Name != "" && !yield(from+i, row(group, &queues[i])) {
					return
				}
			}
		}
	}
}

// readQueues reads queues of one vhost, and leaves one that is gone without a name.
func (n *Node) readQueues(refs []api.QueueRef, into []core.QueueInfo) (group uint64) {
	clear(into)
	home, ok := n.vhostHome(refs[0].Vhost)
	if ok {
		n.states[home.Group].View(func(m *core.Machine) {
			for i, ref := range refs {
				into[i], _ = m.Queue(ref.Vhost, ref.Name)
			}
		})
	}
	return home.Group
}

// Queue is one queue's row.
func (n *Node) Queue(vhost, name string) (api.Queue, bool) {
	for _, row := range n.QueuesAt([]api.QueueRef{{Name: name, Vhost: vhost}}) {
		return row, true
	}
	return api.Queue{}, false
}

// queueRows answers what makes rows of queues; the rows of one listing are of the same moment.
func (n *Node) queueRows() func(group uint64, q *core.QueueInfo) api.Queue {
	now := time.Now()
	members, online := n.memberNames()
	effective := n.effectivePolicies()
	return func(group uint64, q *core.QueueInfo) api.Queue {
		row := n.queueRow(now, group, q)
		row.EffectivePolicyDefinition = effective(q)
		if row.Type == "quorum" {
			row.Leader, row.Members, row.Online = row.Node, members, online
		}
		return row
	}
}

func (n *Node) queueRow(now time.Time, group uint64, q *core.QueueInfo) api.Queue {
	arguments := jsontable.Decode(q.Arguments)
	kind, _ := arguments["x-queue-type"].(string)
	if kind == "" {
		kind = "classic"
	}
	counts := totalCounts(uint64(q.Ready), uint64(q.Unacknowledged))
	key := q.Vhost + "\x00" + q.Name
	depths := n.rates.stats(now, "depths\x00"+key, counts)
	row := api.Queue{
		QueueBasics: api.QueueBasics{
			Name: q.Name, Vhost: q.Vhost, Type: kind, Durable: q.Durable, AutoDelete: q.AutoDelete, Exclusive: q.Exclusive,
			Arguments: arguments, State: "running", Node: n.leaderName(group),
		},
		QueueTotals: api.QueueTotals{
			Messages: uint64(q.Ready + q.Unacknowledged), MessagesReady: uint64(q.Ready), MessagesUnacknowledged: uint64(q.Unacknowledged),
		},
		MessagesDetails: rateOf(depths, "messages"), MessagesReadyDetails: rateOf(depths, "messages_ready"),
		MessagesUnacknowledgedDetails: rateOf(depths, "messages_unacknowledged"),
		Consumers:                     q.Consumers,
		QueueBytes: api.QueueBytes{
			MessageBytes: q.ReadyBytes + q.UnacknowledgedBytes, MessageBytesReady: q.ReadyBytes,
			MessageBytesUnacknowledged: q.UnacknowledgedBytes, MessageBytesPersistent: q.ReadyBytes + q.UnacknowledgedBytes,
		},
		Policy: orNull(q.Policy), OperatorPolicy: orNull(q.OperatorPolicy),
		SingleActiveConsumerTag: orNull(q.Active), MessageStats: n.rates.stats(now, "queue\x00"+key, queueCounts(&q.Counters)),
	}
	if row.Node == "" {
		row.State = "down"
	}
	return row
}

// memberNames are the nodes that keep what is in a queue: all.
func (n *Node) memberNames() (members, online []string) {
	for _, m := range n.Cluster().Members {
		name := admin.NodeName(m.ID)
		members = append(members, name)
		if m.Running || m.ID == n.cfg.NodeID {
			online = append(online, name)
		}
	}
	return members, online
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
	now := time.Now()
	return gather(n, vhost, (*core.Machine).Exchanges, func(_ uint64, x core.ExchangeInfo) api.Exchange {
		return api.Exchange{
			Name: x.Name, Vhost: x.Vhost, Type: x.Type, Durable: x.Durable, AutoDelete: x.AutoDelete, Internal: x.Internal,
			Arguments: jsontable.Decode(x.Arguments), Policy: orNull(x.Policy), OperatorPolicy: orNull(x.OperatorPolicy),
			MessageStats: n.rates.stats(now, "exchange\x00"+x.Vhost+"\x00"+x.Name, []count{
				{name: "publish_in", value: x.Counters.In}, {name: "publish_out", value: x.Counters.Out},
			}),
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
	rows := []api.Binding{}
	for _, name := range n.vhostsToList(vhost) {
		for _, q := range n.QueueRefs(name) {
			rows = append(rows, bindingRow(0, core.BindingInfo{Vhost: name, Destination: q.Name, ToQueue: true, Key: q.Name}))
		}
		rows = append(rows, gather(n, name, (*core.Machine).Bindings, bindingRow)...)
	}
	return rows
}

func bindingRow(_ uint64, b core.BindingInfo) api.Binding {
	row := api.Binding{
		Source: b.Source, Vhost: b.Vhost, Destination: b.Destination, DestinationType: "exchange", RoutingKey: b.Key,
		Arguments: jsontable.Decode(b.Arguments), PropertiesKey: propertiesKeyOf(b.Key, b.Arguments),
	}
	if b.ToQueue {
		row.DestinationType = "queue"
	}
	return row
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
			PrefetchCount: c.Prefetch, Active: c.Active, ActivityStatus: status, Arguments: jsontable.Decode(c.Arguments),
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
