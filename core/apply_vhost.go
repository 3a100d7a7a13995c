package core

import (
	"fmt"
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/internal/route"
)

// predeclared are the exchanges that every vhost has beside the default one.
var predeclared = [...]exchangeRow{
	{Name: "amq.direct", Type: route.Direct},
	{Name: "amq.fanout", Type: route.Fanout},
	{Name: "amq.topic", Type: route.Topic},
	{Name: "amq.headers", Type: route.Headers},
	{Name: "amq.match", Type: route.Headers},
	{Name: "amq.rabbitmq.trace", Type: route.Topic, Internal: true},
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
	v.timer = timer{table: tableVhost, vhost: v.Vhost, owner: v}
}

func newVhost(row vhostRow) *vhost {
	return &vhost{
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
}

// A vhost that is deleted ends its sessions at once and can be found no more; a new one may have its name. What it holds
// goes in pieces, as things that are due do, so that a million messages stall nobody else.

func (m *Machine) applyVhostDelete(x *entry.VhostDelete) {
	v := m.vhostByID(x.ID)
	if v == nil || v.Deleted {
		return
	}
	v.Deleted = true
	m.touch(v)
	delete(m.vhost, v.Name)
	var held []*session
	m.eachSession(func(s *session) {
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

func (v *vhost) timing() *timer { return &v.timer }

func (v *vhost) deadline() int64 {
	if v.Deleted {
		return 1
	}
	return 0
}

// due takes a deleted vhost apart.
func (v *vhost) due(m *Machine) {
	for m.dueLeft > 0 && len(v.queues) > 0 {
		q := v.queues[len(v.queues)-1]
		m.dueLeft -= 1 + q.ready.len()/4
		m.deleteQueue(q)
	}
	if m.dueLeft <= 0 || v.gone {
		return
	}
	for len(v.held) > 0 && m.dueLeft > 0 {
		x := v.held[len(v.held)-1]
		m.dueLeft--
		m.unhold(x)
		m.live.remove(uint64(x.Loc))
		m.live.removeParts(x.Parts)
	}
	if m.dueLeft <= 0 {
		return
	}
	for len(v.exchanges) > 0 {
		m.deleteExchange(v, v.exchanges[len(v.exchanges)-1])
	}
	for _, p := range v.policies {
		p.gone = true
		m.touch(p)
	}
	v.policies = nil
	at, _ := slices.BinarySearchFunc(m.vhosts, v.Vhost, func(v *vhost, n uint32) int { return compare(v.Vhost, n) })
	m.vhosts = slices.Delete(m.vhosts, at, at+1)
	v.gone = true
	m.touch(v)
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
