package core

import (
	"cmp"
	"slices"
)

// VhostInfo is a vhost, for listings.
type VhostInfo struct {
	Name, ID string
	Queues   int
	Sessions int
	// Consumers counts those of its queues.
	Consumers int
	// Ready and Unacknowledged count messages.
	Ready, Unacknowledged uint64
	// MaxQueues and MaxConnections are -1 for no limit.
	MaxQueues, MaxConnections int64
}

// PolicyInfo is a policy or operator policy, for listings.
type PolicyInfo struct {
	Vhost, Name, Pattern, ApplyTo string
	Priority                      int64
	Operator                      bool
	Definition                    []byte // a field table
}

// Policies lists a vhost's policies and then its operator policies, by name.
func (m *Machine) Policies(vhost string) []PolicyInfo {
	v := m.vhost[vhost]
	if v == nil {
		return nil
	}
	list := make([]PolicyInfo, 0, len(v.policies))
	for _, p := range v.policies {
		list = append(list, PolicyInfo{Vhost: v.Name, Name: p.Name, Pattern: p.Pattern, ApplyTo: p.ApplyTo, Priority: p.Priority,
			Operator: p.Operator, Definition: p.Definition})
	}
	return list
}

// QueueInfo is a queue, for listings.
type QueueInfo struct {
	Vhost, Name                    string
	Durable, Exclusive, AutoDelete bool
	Owner                          uint64 // session of an exclusive queue, 0 for others
	Ready                          int    // messages
	Unacknowledged                 int    // messages in flight that await a settlement
	ReadyBytes                     uint64 // that the ready messages are kept in, properties and all
	UnacknowledgedBytes            uint64 // likewise of those counted by Unacknowledged
	Consumers                      int
	Arguments                      []byte // a field table, as declared
	Policy, OperatorPolicy         string // names of those that count for it, "" for none
	Active                         string // tag of the consumer that alone is served, of a queue that serves one; "" for none
	Counters                       QueueCounters
}

// ExchangeInfo is an exchange, for listings.
type ExchangeInfo struct {
	Vhost, Name, Type             string
	Durable, AutoDelete, Internal bool
	Arguments                     []byte // a field table, as declared
	Policy, OperatorPolicy        string // names of those that count for it, "" for none
	Counters                      ExchangeCounters
}

// BindingInfo is a binding, for listings. Those of the default exchange are implied and not listed.
type BindingInfo struct {
	Vhost, Source, Destination string
	ToQueue                    bool // the destination is a queue, not an exchange
	Key                        string
	Arguments                  []byte // a field table, as bound
}

// SessionInfo is a session, for listings.
type SessionInfo struct {
	ID, Epoch                    uint64
	Vhost, User, Key, Connection string
	Node, Incarnation            uint64
	Channels                     int
	InFlight                     int // deliveries, no-ack ones that are not yet written included
	// Of a named session, one with a Key:
	Attached     bool
	Process      string
	Expiry       uint32 // seconds
	KeepInFlight bool
	ExpiresAt    int64 // Unix ms, 0 while attached
}

func (s *session) info() SessionInfo {
	x := SessionInfo{ID: s.ID, Epoch: s.Epoch, Vhost: s.vhost.Name, User: s.User, Key: s.Key, Connection: s.Connection,
		Node: s.Node, Incarnation: s.Incarnation, InFlight: s.inFlight(), Attached: s.attached(),
		Process: s.Process, Expiry: s.Expiry, KeepInFlight: s.KeepInFlight}
	for _, h := range s.channels {
		if !h.Parked {
			x.Channels++
		}
	}
	if !s.attached() {
		x.ExpiresAt = s.expires()
	}
	return x
}

// SessionCounts counts what became of named sessions since the process started. It is no part of the state.
type SessionCounts struct {
	Attached    uint64 // attachments of any session
	Resumed     uint64 // sessions that were detached
	TakenOver   uint64 // sessions that were attached
	Expired     uint64
	Redelivered uint64 // deliveries sent again after a resume
	Duplicates  uint64 // publishes that had been enqueued before
}

// SessionCounts reports them. Every replica counts the same entries.
func (m *Machine) SessionCounts() SessionCounts { return m.counts }

// NamedSessions counts the named sessions that are attached, and those that are not.
func (m *Machine) NamedSessions() (attached, detached int) {
	m.sessions.each(func(s *session) {
		switch {
		case !s.named():
		case s.attached():
			attached++
		default:
			detached++
		}
	})
	return attached, detached
}

// ChannelInfo is an open channel, for listings.
type ChannelInfo struct {
	Session          SessionInfo
	Number           uint16
	Confirm, Tx      bool
	Prefetch         uint32 // of new consumers, 0 is no limit
	GlobalPrefetch   uint32 // of the whole channel, 0 is no limit
	Unacknowledged   int    // deliveries that await a settlement
	Consumers        int
	PendingPublishes int // of a transaction
	PendingSettles   int // of a transaction
}

// ConsumerInfo is a consumer, for listings.
type ConsumerInfo struct {
	Vhost, Queue, Tag string
	Session           uint64
	Channel           uint16
	NoAck, Exclusive  bool
	Active            bool // false for one that waits behind a single active consumer
	Priority          int64
	Prefetch          uint32 // 0 is no limit
	InFlight          uint32 // unsettled deliveries
	Arguments         []byte // a field table, as consumed
}

// NodeInfo is a node's registration, for listings.
type NodeInfo struct {
	Node, Incarnation, Nonce, Seq uint64
	Up                            bool
	Alarms                        uint8 // of the newest NodeAlarm
}

// Nodes lists every node ever registered in the group, by id.
func (m *Machine) Nodes() []NodeInfo {
	list := make([]NodeInfo, 0, len(m.nodes))
	for _, n := range m.nodes {
		list = append(list, NodeInfo{Node: n.Node, Incarnation: n.Incarnation, Nonce: n.Nonce, Seq: n.Seq, Up: n.Up, Alarms: n.Alarms})
	}
	return list
}

// Vhosts lists the group's vhosts by name.
func (m *Machine) Vhosts() []VhostInfo {
	list := make([]VhostInfo, 0, len(m.vhosts))
	for _, v := range m.vhosts {
		if v.Deleted {
			continue
		}
		list = append(list, v.info())
	}
	slices.SortFunc(list, func(a, b VhostInfo) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (v *vhost) info() VhostInfo {
	info := VhostInfo{Name: v.Name, ID: v.ID, Queues: len(v.queues), Sessions: v.sessions, MaxQueues: v.MaxQueues, MaxConnections: v.MaxConnections}
	for _, q := range v.queues {
		info.Ready += uint64(q.ready.len())
		info.Unacknowledged += uint64(q.Unacked)
		info.Consumers += len(q.consumers)
	}
	return info
}

// Vhost is one vhost, for listings; false if the group does not have it.
func (m *Machine) Vhost(name string) (VhostInfo, bool) {
	v := m.vhost[name]
	if v == nil {
		return VhostInfo{}, false
	}
	return v.info(), true
}

// Queues lists a vhost's queues by name, none for a vhost that the group does not have.
func (m *Machine) Queues(vhost string) []QueueInfo {
	v := m.vhost[vhost]
	if v == nil {
		return nil
	}
	list := make([]QueueInfo, 0, len(v.queues))
	for _, q := range v.queues {
		list = append(list, q.info())
	}
	slices.SortFunc(list, func(a, b QueueInfo) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Occupant is the session that has a queue for itself, and its node, where the queue comes free with its connection; else 0.
func (m *Machine) Occupant(vhost, name string) (session, node uint64) {
	v := m.vhost[vhost]
	if v == nil || v.queueByName[name] == nil {
		return 0, 0
	}
	s := m.session[v.queueByName[name].Owner]
	if s == nil || s.named() {
		return 0, 0
	}
	return s.ID, s.Node
}

// QueueNames are the names of a vhost's queues, in no order: to sort 100,000 takes longer than a group may wait.
func (m *Machine) QueueNames(vhost string) []string {
	v := m.vhost[vhost]
	if v == nil {
		return nil
	}
	names := make([]string, 0, len(v.queues))
	for _, q := range v.queues {
		names = append(names, q.Name)
	}
	return names
}

// Queue answers one queue of a vhost.
func (m *Machine) Queue(vhost, name string) (QueueInfo, bool) {
	v := m.vhost[vhost]
	if v == nil || v.queueByName[name] == nil {
		return QueueInfo{}, false
	}
	return v.queueByName[name].info(), true
}

func (q *queue) info() QueueInfo {
	var active string
	if c := q.vhost.consumer[q.Active]; c != nil && q.set.singleActive {
		active = c.Tag
	}
	return QueueInfo{Active: active, Counters: q.counters, Vhost: q.vhost.Name, Name: q.Name, Durable: q.Durable, Exclusive: q.Owner != 0, AutoDelete: q.AutoDelete,
		Owner: q.Owner, Ready: q.ready.len(), Unacknowledged: int(q.Unacked), ReadyBytes: q.bytes,
		UnacknowledgedBytes: q.flying, Consumers: len(q.consumers),
		Arguments: q.Arguments, Policy: q.policy.nameOf(), OperatorPolicy: q.operator.nameOf()}
}

// Exchanges lists a vhost's exchanges by name; the default exchange is "".
func (m *Machine) Exchanges(vhost string) []ExchangeInfo {
	v := m.vhost[vhost]
	if v == nil {
		return nil
	}
	list := []ExchangeInfo{{Vhost: v.Name, Type: "direct", Durable: true}}
	for _, x := range v.exchanges {
		list = append(list, ExchangeInfo{Vhost: v.Name, Name: x.Name, Type: x.typeName(), Durable: x.Durable,
			AutoDelete: x.AutoDelete, Internal: x.Internal, Arguments: x.Arguments,
			Policy: x.policy.nameOf(), OperatorPolicy: x.operator.nameOf(), Counters: x.counters})
	}
	return list
}

// ExchangeType is an exchange's type; false if there is no such exchange.
func (m *Machine) ExchangeType(vhost, name string) (string, bool) {
	v := m.vhost[vhost]
	if v == nil || v.exchange[name] == nil {
		return "", false
	}
	return v.exchange[name].typeName(), true
}

// Bindings lists a vhost's bindings by source, destination and key.
func (m *Machine) Bindings(vhost string) []BindingInfo {
	v := m.vhost[vhost]
	if v == nil {
		return nil
	}
	sorted := slices.Clone(v.bindings)
	slices.SortFunc(sorted, func(a, b *binding) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Key, b.Key),
			cmp.Compare(a.identity, b.identity))
	})
	list := make([]BindingInfo, 0, len(sorted))
	for _, b := range sorted {
		list = append(list, BindingInfo{Vhost: v.Name, Source: b.Source, Destination: b.Destination, ToQueue: b.ToQueue,
			Key: b.Key, Arguments: b.Arguments})
	}
	return list
}

// Sessions lists a vhost's sessions by id.
func (m *Machine) Sessions(vhost string) []SessionInfo {
	list := []SessionInfo{}
	v := m.vhost[vhost]
	m.sessions.each(func(s *session) {
		if s.vhost == v {
			list = append(list, s.info())
		}
	})
	return list
}

// Channels lists a vhost's open channels, by session and number.
func (m *Machine) Channels(vhost string) []ChannelInfo {
	list := []ChannelInfo{}
	v := m.vhost[vhost]
	m.sessions.each(func(s *session) {
		if s.vhost != v {
			return
		}
		info := s.info()
		for _, h := range s.channels {
			if h.Parked {
				continue
			}
			c := ChannelInfo{Session: info, Number: h.Number, Confirm: h.Confirm, Tx: h.Tx, Prefetch: h.Prefetch, GlobalPrefetch: h.Limit,
				Unacknowledged: h.flight.Len(), Consumers: len(h.consumers), PendingPublishes: len(h.Pending), PendingSettles: len(h.Settled)}
			list = append(list, c)
		}
	})
	return list
}

// Consumers lists a vhost's consumers by queue name, then by age.
func (m *Machine) Consumers(vhost string) []ConsumerInfo {
	v := m.vhost[vhost]
	if v == nil {
		return nil
	}
	list := []ConsumerInfo{}
	for _, q := range v.queues {
		for _, c := range q.consumers {
			list = append(list, ConsumerInfo{Vhost: v.Name, Queue: q.Name, Tag: c.Tag, Session: c.Session, Channel: c.Channel,
				NoAck: c.NoAck, Exclusive: c.Exclusive, Active: !q.set.singleActive || q.Active == c.Number, Priority: c.Priority, Prefetch: c.Limit, InFlight: c.InFlight, Arguments: c.Arguments})
		}
	}
	slices.SortStableFunc(list, func(a, b ConsumerInfo) int { return cmp.Compare(a.Queue, b.Queue) })
	return list
}
