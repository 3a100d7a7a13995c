package core

import (
	"fmt"
	"slices"

	ready "github.com/understudy-mq/understudy/core/internal/queue"
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
	case tableLink:
		m.link.linkRow.code(c)
		m.link.stored = true
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
	case tableWindow:
		w := &window{meta: meta{stored: true}}
		w.code(c)
		if len(w.Digests)%digestBytes != 0 || len(w.Digests) > chunkIDs*digestBytes {
			c.fail("length of a window")
			return
		}
		if w.session = m.ownerOf(c, w.Session); w.session != nil {
			m.dedup.add(w)
		}
	case tablePublisher:
		m.loadPublisher(c)
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
	case tableLetter:
		var row letterRow
		row.code(c)
		if v := m.vhostOf(c, row.Vhost); v != nil {
			v.addLetter(row).stored = true
		}
	case tableHeld:
		m.loadHeld(c)
	case tablePolicy:
		m.loadPolicy(c)
	case tableReady:
		m.loadReady(c)
	case tableNotes:
		m.loadNotes(c)
	default:
		if !m.access.load(t, c) && !m.registry.load(t, c) {
			c.fail(fmt.Sprintf("table %d is not known to this version", t))
		}
	}
}

// ownerOf answers the session that a row belongs to.
func (m *Machine) ownerOf(c *rowCoder, id uint64) *session {
	s := m.session[id]
	if s == nil && c.err == nil {
		c.fail("session is missing")
	}
	return s
}

func (m *Machine) loadPublisher(c *rowCoder) {
	p := &publisher{meta: meta{stored: true}}
	p.code(c)
	if len(p.Bits) != sequenceBits/8 && c.err == nil {
		c.fail("window of a publisher has another size")
	}
	if s := m.ownerOf(c, p.Session); s != nil {
		s.publishers = append(s.publishers, p)
		m.dedup.publishers++
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
	var row channelRow
	row.code(c)
	if c.err != nil {
		return
	}
	s := m.session[row.Session]
	if s == nil {
		c.fail("session of a channel is missing")
		return
	}
	h := newChannel(s, row)
	h.stored = true
	if !h.Resumed {
		for i := range h.Runs {
			h.Runs[i].Epoch = s.Epoch
		}
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
	lane := owner[2] >> 32
	for i := range refs {
		if priorityOf(&refs[i]) != int(lane) {
			c.fail("message in a lane of another priority")
			return
		}
	}
	q, aside := v.queue[uint32(owner[1])], v.remainsIn(uint32(owner[1]), uint32(lane), uint32(owner[2]))
	switch {
	case q == nil && aside == nil || len(refs) == 0:
		c.fail("queue of a chunk is missing, or the chunk is empty")
		return
	case aside != nil:
		aside.list.Load(&m.queuePool, uint32(owner[2]), refs)
		return
	case lane > uint64(len(q.ready.more)):
		c.fail("lane of a chunk is beyond its queue's priorities")
		return
	}
	q.ready.lane(int(lane)).Load(&m.queuePool, uint32(owner[2]), refs)
}

func (m *Machine) loadHeld(c *rowCoder) {
	var row heldRow
	row.code(c)
	v := m.vhostOf(c, row.Vhost)
	if v == nil {
		return
	}
	if q := v.queue[row.Queue]; row.Queue != 0 && (q == nil || !q.ready.has(priorityOf(&ready.Ref{Flags: row.Flags}))) {
		c.fail("queue of a held message is missing, or has not its priority")
		return
	}
	v.addHeld(row).stored = true
}

func (m *Machine) loadPolicy(c *rowCoder) {
	p := &policy{meta: meta{stored: true}}
	p.code(c)
	v := m.vhostOf(c, p.Vhost)
	if v == nil {
		return
	}
	if err := p.read(); err != nil {
		c.fail(err.Error())
		return
	}
	at, _ := v.searchPolicy(p.Name, p.Operator)
	v.policies = slices.Insert(v.policies, at, p)
}

func (m *Machine) loadNotes(c *rowCoder) {
	owner, notes := c.noteChunk()
	v := m.vhostOf(c, uint32(owner[0]))
	if v == nil {
		return
	}
	q := v.queue[uint32(owner[1])]
	if q == nil || len(notes) == 0 {
		c.fail("queue of notes is missing, or there are none")
		return
	}
	q.notes.Load(uint32(owner[2]), notes)
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
	for i := range records {
		if q := h.session.vhost.queue[records[i].Queue]; q != nil && !q.ready.has(priorityOf(&records[i].Ref)) {
			c.fail("delivery of a priority that its queue has not")
			return
		}
	}
	h.flight.Load(&m.tagPool, owner[2], records)
}

// Loaded ends loading: what is derived from rows is made anew. Errors: ErrRow.
func (m *Machine) Loaded() error {
	for _, v := range m.vhosts {
		if err := m.linkRemains(v); err != nil {
			return err
		}
		for _, x := range v.exchanges {
			v.configureExchange(x)
		}
		for _, q := range v.queues {
			v.configure(q)
			if err := m.linkQueue(q); err != nil {
				return err
			}
		}
	}
	m.sessions.each(func(s *session) {
		for _, h := range s.channels {
			h.flight.Loaded(h.LastTag)
			h.countFlying()
			slices.SortFunc(h.consumers, func(a, b *consumer) int { return compare(a.Number, b.Number) })
		}
	})
	slices.SortFunc(m.dedup.windows.list, func(a, b *window) int { return compare(a.Chunk, b.Chunk) })
	m.live.buckets = m.live.buckets[:0]
	m.contents(func(loc message.Loc, size uint32) { m.live.add(uint64(loc), size) })
	m.each(func(o object) { o.state().hash = m.rowHash(o) })
	m.fingerprint = m.Recompute()
	m.each(func(o object) {
		if x, ok := o.(timed); ok {
			m.schedule(x)
		}
	})
	return nil
}

// countFlying counts the channel's deliveries for their queues.
func (h *channel) countFlying() {
	v := h.session.vhost
	for tag := h.flight.Next(1); tag != 0; tag = h.flight.Next(tag + 1) {
		r := h.flight.Get(tag)
		if q := v.queueByID(r.Queue); q != nil && r.Flags&flagNoAck == 0 {
			q.flying += v.sizeOf(&r.Ref)
		}
	}
}

// linkQueue makes what a queue derives: its ring in order of turns, its size, its place with its owner.
func (m *Machine) linkQueue(q *queue) error {
	if !q.ready.loaded(q.First, q.Firsts) {
		return fmt.Errorf("%w: %s has a first message %d, its chunks another", ErrRow, q.vhost.named("queue", q.Name), q.First)
	}
	q.bodies = 0
	q.ready.each(func(r ready.Ref) {
		q.bytes += q.vhost.sizeOf(&r)
		if q.set.maxBytes != none {
			q.bodies += q.bodyOf(&r)
		}
	})
	ring := slices.Clone(q.consumers)
	slices.SortFunc(ring, func(a, b *consumer) int { return compare(a.Turn, b.Turn) })
	for _, c := range ring {
		if c.Turn != 0 {
			q.link(c)
		}
	}
	if q.Maker != 0 {
		s := m.session[q.Maker]
		if s == nil {
			return fmt.Errorf("%w: the session that had %s named is missing", ErrRow, q.vhost.named("queue", q.Name))
		}
		s.generated = append(s.generated, q)
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
