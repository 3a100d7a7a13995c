package core

import (
	"fmt"
	"slices"

	"github.com/understudy-mq/understudy/core/message"
)

// Load takes one row that Checkpoint reported, into a Machine fresh from New. Rows come in key order, and Loaded ends them.
// The slices may be reused afterwards. Errors: ErrRow, wrapped with what is wrong.
func (m *Machine) Load(key, value []byte) error {
	if len(key) == 0 {
		return fmt.Errorf("%w: empty key", ErrRow)
	}
	c := &rowCoder{buf: value}
	m.loadRow(table(key[0]), c)
	if c.err == nil && len(c.buf) > 0 {
		c.fail("bytes behind the last field")
	}
	if c.err != nil {
		return fmt.Errorf("row %x of group %d: %w", key, m.group, c.err)
	}
	return nil
}

func (m *Machine) loadRow(t table, c *rowCoder) {
	switch t {
	case tableHeader:
		m.header.headerRow.code(c)
		m.header.stored = true
	case tableLocal:
		m.local.localRow.code(c)
		m.local.stored = true
	case tableNode:
		n := &node{meta: meta{stored: true}}
		n.code(c)
		m.nodes = append(m.nodes, n)
	case tableVhost:
		var row vhostRow
		row.code(c)
		v := newVhost(row)
		v.stored = true
		m.addVhost(v)
	case tableSession:
		m.loadSession(c)
	case tableChannel:
		m.loadChannel(c)
	case tableFlight:
		m.loadFlight(c)
	default:
		m.loadOfVhost(t, c)
	}
}

// loadOfVhost loads the rows whose first field is their vhost.
func (m *Machine) loadOfVhost(t table, c *rowCoder) {
	switch t {
	case tableExchange:
		var row exchangeRow
		row.code(c)
		if v := m.vhostOf(c, row.Vhost); v != nil {
			v.addExchange(row).stored = true
		}
	case tableQueue:
		m.loadQueue(c)
	case tableConsumer:
		m.loadConsumer(c)
	case tableBinding:
		m.loadBinding(c)
	case tableContent:
		var row contentRow
		row.code(c)
		if v := m.vhostOf(c, row.Vhost); v != nil {
			v.addContent(row).stored = true
		}
	case tableReady:
		m.loadReady(c)
	default:
		if !m.access.load(t, c) {
			c.fail(fmt.Sprintf("table %d is not known to this version", t))
		}
	}
}

// vhostOf answers the vhost that a row belongs to.
func (m *Machine) vhostOf(c *rowCoder, number uint32) *vhost {
	if c.err != nil {
		return nil
	}
	at, ok := slices.BinarySearchFunc(m.vhosts, number, func(v *vhost, n uint32) int { return compare(v.Vhost, n) })
	if !ok {
		c.fail("vhost is missing")
		return nil
	}
	return m.vhosts[at]
}

func (m *Machine) loadQueue(c *rowCoder) {
	var row queueRow
	row.code(c)
	if v := m.vhostOf(c, row.Vhost); v != nil {
		v.addQueue(row).stored = true
	}
}

func (m *Machine) loadSession(c *rowCoder) {
	s := &session{meta: meta{stored: true}}
	s.code(c)
	if s.vhost = m.vhostOf(c, s.Vhost); s.vhost != nil {
		m.addSession(s)
	}
}

func (m *Machine) loadChannel(c *rowCoder) {
	h := &channel{meta: meta{stored: true}}
	h.code(c)
	if c.err != nil {
		return
	}
	if h.session = m.session[h.Session]; h.session == nil {
		c.fail("session of a channel is missing")
		return
	}
	h.session.channels = append(h.session.channels, h)
}

func (m *Machine) loadConsumer(c *rowCoder) {
	s := &consumer{meta: meta{stored: true}}
	s.code(c)
	v := m.vhostOf(c, s.Vhost)
	if v == nil {
		return
	}
	h := m.channelBy(s.Session, s.Channel)
	q := v.queue[s.Queue]
	if h == nil || q == nil {
		c.fail("queue or channel of a consumer is missing")
		return
	}
	m.linkConsumer(s, q, h)
}

func (m *Machine) channelBy(id uint64, number uint16) *channel {
	if s := m.session[id]; s != nil {
		return s.channel(number)
	}
	return nil
}

func (m *Machine) loadBinding(c *rowCoder) {
	b := &binding{meta: meta{stored: true}}
	b.code(c)
	v := m.vhostOf(c, b.Vhost)
	if v == nil {
		return
	}
	args, err := message.ParseTable(b.Arguments)
	b.source = v.exchange[b.Source]
	if b.ToQueue {
		b.queue = v.queueByName[b.Destination]
	} else {
		b.exchange = v.exchange[b.Destination]
	}
	if err != nil || b.source == nil || b.queue == nil && b.exchange == nil {
		c.fail("an end of a binding is missing")
		return
	}
	b.identity = bindingIdentity(&b.bindingRow, args)
	if err := v.router.Bind(b.Source, b.dest(), b.Key, args); err != nil {
		c.fail(err.Error())
		return
	}
	v.addBinding(b)
}

func (m *Machine) loadReady(c *rowCoder) {
	owner, refs := c.readyChunk()
	v := m.vhostOf(c, uint32(owner[0]))
	if v == nil {
		return
	}
	q := v.queue[uint32(owner[1])]
	if q == nil || len(refs) == 0 {
		c.fail("queue of a chunk is missing, or the chunk is empty")
		return
	}
	q.list.Load(&m.queuePool, uint32(owner[2]), refs)
}

func (m *Machine) loadFlight(c *rowCoder) {
	owner, records := c.flightChunk()
	if c.err != nil {
		return
	}
	h := m.channelBy(owner[0], uint16(owner[1]))
	if h == nil || len(records) == 0 {
		c.fail("channel of a chunk is missing, or the chunk is empty")
		return
	}
	h.flight.Load(&m.tagPool, owner[2], records)
}

// Loaded ends loading: what is derived from rows is made anew. Errors: ErrRow.
func (m *Machine) Loaded() error {
	for _, v := range m.vhosts {
		for _, q := range v.queues {
			if err := m.linkQueue(q); err != nil {
				return err
			}
		}
	}
	for _, s := range m.sessions {
		for _, h := range s.channels {
			h.flight.Loaded(h.LastTag)
		}
	}
	m.live.counts = m.live.counts[:0]
	m.contents(func(loc message.Loc, _ uint32) { m.live.add(uint64(loc)) })
	m.each(func(o object) { o.state().hash = m.rowHash(o) })
	m.fingerprint = m.Recompute()
	return nil
}

// linkQueue makes what a queue derives: its ring in order of turns, its size, its place with its owner.
func (m *Machine) linkQueue(q *queue) error {
	q.list.Loaded(q.First)
	if q.First != q.list.First() {
		return fmt.Errorf("%w: %s has a first message %d, its chunks %d", ErrRow, q.vhost.named("queue", q.Name), q.First, q.list.First())
	}
	q.bytes = q.list.Bytes()
	ring := slices.Clone(q.consumers)
	slices.SortFunc(ring, func(a, b *consumer) int { return compare(a.Turn, b.Turn) })
	for _, c := range ring {
		if c.Turn != 0 {
			q.link(c)
		}
	}
	if q.Owner == 0 {
		return nil
	}
	s := m.session[q.Owner]
	if s == nil {
		return fmt.Errorf("%w: the session that owns %s is missing", ErrRow, q.vhost.named("queue", q.Name))
	}
	s.exclusive = append(s.exclusive, q)
	return nil
}
