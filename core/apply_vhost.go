package core

import (
	"fmt"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/internal/route"
	"github.com/understudy-mq/understudy/core/message"
)

// predeclared are the exchanges that every vhost has beside the default one.
var predeclared = [...]exchangeRow{
	{Name: "amq.direct", Type: route.Direct},
	{Name: "amq.fanout", Type: route.Fanout},
	{Name: "amq.topic", Type: route.Topic},
	{Name: "amq.headers", Type: route.Headers},
	{Name: "amq.match", Type: route.Headers},
	{Name: "amq.rabbitmq.trace", Type: route.Topic, Internal: true},
	// The broker's own, by which it tells clients of its nodes; the last two under the names that Qpid's clients know.
	{Name: "amq.session", Type: route.Topic},
	{Name: "amq.failover", Type: route.Fanout},
	{Name: "amq.qpid", Type: route.Topic},
}

func (m *Machine) applyVhostCreate(x *entry.VhostCreate) {
	v, named := m.vhostByID(x.ID), m.vhost[x.Name]
	switch {
	case named != nil && named != v || v != nil && v.Deleted:
		return
	case v != nil:
		m.changeVhost(v, x)
		return
	}
	m.header.Vhosts++
	m.touch(&m.header)
	v = newVhost(vhostRow{Vhost: m.header.Vhosts, ID: x.ID, Name: x.Name, QueueType: x.QueueType, MaxQueues: none, MaxConnections: none})
	m.addVhost(v)
	m.touch(v)
	for _, row := range predeclared {
		row.Vhost, row.Durable = v.Vhost, true
		m.touch(v.addExchange(row))
	}
}

func (m *Machine) vhostByID(id string) *vhost {
	for _, v := range m.vhosts {
		if v.ID == id {
			return v
		}
	}
	return nil
}

// changeVhost makes a vhost what the system group says of it.
func (m *Machine) changeVhost(v *vhost, x *entry.VhostCreate) {
	delete(m.vhost, v.Name)
	v.Name, v.QueueType = x.Name, x.QueueType
	m.vhost[v.Name] = v
	m.touch(v)
}

func (m *Machine) addVhost(v *vhost) {
	m.vhosts = append(m.vhosts, v)
	if !v.Deleted {
		m.vhost[v.Name] = v
	}
}

func newVhost(row vhostRow) *vhost {
	v := &vhost{
		vhostRow:    row,
		router:      route.New(),
		exchange:    make(map[string]*exchange),
		queue:       make(map[uint32]*queue),
		queueByName: make(map[string]*queue),
		consumer:    make(map[uint32]*consumer),
		binding:     make(map[string]*binding),
		content:     make(map[uint64]*content),
		letter:      make(map[uint64]*letter),
		byKey:       make(map[sessionKey]*session),
		namedOf:     make(map[string]uint32),
	}
	for _, x := range row.Remains {
		v.remains = append(v.remains, &remains{remainsRow: x})
	}
	return v
}

// applyVhostDelete ends a vhost's sessions; it can be found no more, and a new one may have its name. What it holds goes in
// pieces.
func (m *Machine) applyVhostDelete(x *entry.VhostDelete) {
	v := m.vhostByID(x.ID)
	if v == nil || v.Deleted {
		return
	}
	v.Deleted = true
	m.touch(v)
	m.drainLater(v)
	delete(m.vhost, v.Name)
	var held []*session
	m.sessions.each(func(s *session) {
		if s.vhost == v {
			held = append(held, s)
		}
	})
	for _, s := range held {
		if s.attached() {
			if e := m.emit(s, EffectDetached, 0); e != nil {
				e.Text = fmt.Sprintf("vhost '%s' is deleted", v.Name)
			}
		}
		m.end(s, entry.Released)
	}
}

// giveType gives a queue that does not name its type the vhost's, where it can have it: a quorum queue is durable and is
// no single connection's.
func (v *vhost) giveType(x *entry.QueueDeclare) {
	if v.QueueType != queueTypeQuorum || !x.Durable || x.Exclusive || x.AutoDelete {
		return
	}
	table, err := message.ParseTable(x.Arguments)
	if _, ok := table.Get(argumentQueueType); ok || err != nil {
		return
	}
	x.Arguments = message.AppendTable(nil, append(table, message.Field{Key: argumentQueueType, Value: queueTypeQuorum}))
}

func (m *Machine) applyVhostLimit(x *entry.VhostLimit) {
	if v := m.vhost[x.Vhost]; v != nil {
		v.MaxQueues, v.MaxConnections = max(x.MaxQueues, none), max(x.Connections, none)
		m.touch(v)
	}
}

// checkQueueLimit refuses one more queue than the vhost may have.
func (v *vhost) checkQueueLimit(name string) (Code, string) {
	if v.MaxQueues == none || int64(len(v.queues)) < v.MaxQueues {
		return CodeOK, ""
	}
	return CodePreconditionFailed, fmt.Sprintf("cannot declare queue '%s': queue limit in vhost '%s' (%d) is reached", name, v.Name, v.MaxQueues)
}

// checkConnectionLimit refuses one more session than the vhost may have; "" is good.
func (v *vhost) checkConnectionLimit(user string) string {
	if v.MaxConnections == none || int64(v.sessions) < v.MaxConnections {
		return ""
	}
	return fmt.Sprintf("access to vhost '%s' refused for user '%s': connection limit (%d) is reached", v.Name, user, v.MaxConnections)
}
