package core

import (
	"github.com/understudy-mq/understudy/core/entry"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

// partBytesMax bounds the pieces of a big message that a channel holds while it comes in.
const partBytesMax = 128 << 20

// applyPublish routes a message: it enters all the queues that it routes to, in one step. offset is where the record
// begins in the entry.
func (m *Machine) applyPublish(x *entry.Publish, offset int) {
	h := m.channelOf(&x.Ref)
	if h == nil || !m.admit(h, x) {
		return
	}
	var parts []message.Part
	if x.Fragmented {
		parts = m.takeParts(h)
	}
	v := h.session.vhost
	marks := m.marksOf()
	wait := m.delayOf(v)
	if wait > 0 && !h.Tx {
		m.delay(h, x, offset, &marks, wait, parts)
		return
	}
	if h.Tx {
		m.gather(h, x, offset, &marks, wait, parts)
		return
	}
	var letter *letterRow
	if m.needsLetter(v, &marks) {
		row := m.newLetter(v, &marks)
		letter = &row
	}
	refused := v.rejecting > 0 && m.refused(v, marks.body)
	m.freshen(v)
	v.Messages++
	m.touch(v)
	r := ready.Ref{Number: v.Messages, Loc: uint64(message.NewLoc(m.index, offset)), Size: uint32(len(x.Record))}
	switch {
	case refused:
		m.turnAway(v, r, &marks, letter, parts)
		m.confirm(h, EffectNacked)
		return
	case len(m.routes) == 0:
		m.unroutable(h, x, &r, parts)
	default:
		m.enqueueAll(v, r, &marks, letter, parts)
		m.rememberAtHand(h.session)
	}
	m.confirm(h, EffectConfirmed)
}

// countPublish counts the publish at hand, which is routed.
func (m *Machine) countPublish(h *channel) {
	h.publishes = true
	c := h.session.counters()
	c.published(m.record.BodySize)
	if h.Confirm {
		c.PublishedConfirm++
	}
	if len(m.routes) > 0 {
		c.Routed++
	}
	if len(m.record.Exchange) > 0 {
		x := &h.session.vhost.lastExchange.counters
		x.In++
		x.Out += uint64(len(m.routes))
	}
}

// admit reads and routes a publish; false if it goes no further, which its client has been told.
func (m *Machine) admit(h *channel, x *entry.Publish) bool {
	if m.marked = x.Marked() && h.session.named(); m.marked && m.identify(h, x) {
		return false
	}
	if err := message.ParseRecord(x.Record, &m.record); err != nil {
		m.refuse(h, entry.KindPublish, CodeInternalError, err.Error())
		return false
	}
	if code, text := m.route(h.session.vhost); code != CodeOK {
		m.refuse(h, entry.KindPublish, code, text)
		return false
	}
	m.countPublish(h)
	return true
}

// route finds the queues that the record at hand goes to, or answers its refusal.
func (m *Machine) route(v *vhost) (Code, string) {
	if code, text := v.checkPublish(m.record.Exchange); code != CodeOK {
		return code, text
	}
	v.router.Seed(v.Messages)
	if mayHaveCopies(m.record.Properties) {
		return m.routeCopies(v)
	}
	m.routes = v.router.Route(m.record.Exchange, m.record.RoutingKey, m.headers, m.routes[:0])
	return CodeOK, ""
}

// attachLetter keeps a letter beside a message that goes to all routes; nil is none.
func (m *Machine) attachLetter(v *vhost, r *ready.Ref, letter *letterRow) {
	if letter == nil {
		return
	}
	r.Flags |= flagLettered
	letter.Number, letter.Refs = r.Number, uint32(len(m.routes))
	m.touch(v.addLetter(*letter))
}

// enqueueAll enters a new message into all its queues.
func (m *Machine) enqueueAll(v *vhost, r ready.Ref, x *marks, letter *letterRow, parts []message.Part) {
	if len(parts) > 0 {
		r.Flags |= flagFragmented
		m.touch(v.addContent(contentRow{Vhost: v.Vhost, Number: r.Number, Refs: uint32(len(m.routes)), Parts: parts}))
	}
	m.attachLetter(v, &r, letter)
	for _, id := range m.routes {
		m.live.add(r.Loc, r.Size)
		m.enter(v.queueByID(id), r, x)
	}
}

// refused says whether one of the message's queues refuses it: then none gets it.
func (m *Machine) refused(v *vhost, body uint64) bool {
	for _, id := range m.routes {
		if v.queueByID(id).refuses(body) {
			return true
		}
	}
	return false
}

// turnAway drops a message that a queue of its own has refused, or dead-letters it for those that say so.
func (m *Machine) turnAway(v *vhost, r ready.Ref, x *marks, letter *letterRow, parts []message.Part) {
	routes := m.routes
	m.routes = m.routes[:0]
	for _, id := range routes {
		if q := v.queueByID(id); q.set.overflow == rejectPublishDLX && q.set.deadLetters && q.refuses(x.body) {
			m.routes = append(m.routes, id)
		}
	}
	if len(m.routes) == 0 {
		m.live.removeParts(parts)
		return
	}
	if len(parts) > 0 {
		r.Flags |= flagFragmented
		m.touch(v.addContent(contentRow{Vhost: v.Vhost, Number: r.Number, Refs: uint32(len(m.routes)), Parts: parts}))
	}
	m.attachLetter(v, &r, letter)
	for _, id := range m.routes {
		m.live.add(r.Loc, r.Size)
		m.bury(v.queueByID(id), &r, reasonMaxLength)
	}
}

// checkPublish answers the refusal of a publish to an exchange that is missing or internal.
func (v *vhost) checkPublish(name []byte) (Code, string) {
	if len(name) == 0 {
		return CodeOK, ""
	}
	x := v.lastExchange
	if x == nil || x.Name != string(name) {
		if x = v.exchange[string(name)]; x == nil {
			return CodeNotFound, "no " + v.named("exchange", string(name))
		}
		v.lastExchange = x
	}
	if x.Internal {
		return CodeAccessRefused, "cannot publish to internal " + v.named("exchange", x.Name)
	}
	return CodeOK, ""
}

// recordHeaders is the header table of the publish at hand, for the router.
func (m *Machine) recordHeaders() message.Table {
	t, err := message.PropertiesHeaders(m.record.Properties)
	if err != nil {
		return nil // the endpoint that took them in has checked them
	}
	return t
}

func (m *Machine) unroutable(h *channel, x *entry.Publish, r *ready.Ref, parts []message.Part) {
	if !x.Mandatory {
		h.session.counters().Dropped++
	} else {
		m.giveReturn(h, Content{Number: r.Number, Loc: message.Loc(r.Loc), Size: r.Size, Record: x.Record}, parts)
	}
	m.live.removeParts(parts)
}

// giveReturn hands a mandatory message back to its publisher.
func (m *Machine) giveReturn(h *channel, c Content, parts []message.Part) {
	h.session.counters().Returned++
	if e := m.emit(h.session, EffectReturned, h.Number); e != nil {
		e.Command, e.Code, e.Text = entry.KindPublish, CodeNoRoute, "NO_ROUTE"
		e.Content = c
		e.Parts = parts
	}
}

// enqueue adds a ready message that is new to the queue, or comes back to it.
func (m *Machine) enqueue(q *queue, r ready.Ref) {
	q.ready.push(&m.queuePool, r)
	m.fingerprint += readyHash(q, &r)
	q.bytes += q.vhost.sizeOf(&r)
	if q.set.maxBytes != none {
		q.bodies += q.bodyOf(&r)
	}
	m.touch(q)
	m.wait(q)
}

// applyFragment keeps a piece of a big message until its Publish comes. offset is where the piece begins in the entry.
func (m *Machine) applyFragment(x *entry.Fragment, offset int) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	if h.PartBytes += uint64(len(x.Piece)); h.PartBytes > partBytesMax {
		m.refuse(h, entry.KindFragment, CodePreconditionFailed, "message is larger than the largest that can be kept")
		return
	}
	p := message.Part{Loc: message.NewLoc(m.index, offset), Size: uint32(len(x.Piece))}
	h.Parts = append(h.Parts, p)
	m.live.add(uint64(p.Loc), p.Size)
	m.touch(h)
}

// takeParts answers what the channel holds of a big message, which is the caller's from now on.
func (m *Machine) takeParts(h *channel) []message.Part {
	parts := h.Parts
	h.Parts, h.PartBytes = nil, 0
	m.touch(h)
	return parts
}

// dropParts forgets a big message that will not be completed.
func (m *Machine) dropParts(h *channel) {
	if len(h.Parts) > 0 {
		m.live.removeParts(m.takeParts(h))
	}
}

func (v *vhost) addContent(row contentRow) *content {
	t := &content{contentRow: row, at: len(v.contents)}
	v.contents = append(v.contents, t)
	v.content[t.Number] = t
	return t
}

// contentOf says where a message's content is. The record itself comes along where the entry at hand carries it.
func (m *Machine) contentOf(v *vhost, r *ready.Ref) Content {
	c := Content{Number: r.Number, Loc: message.Loc(r.Loc), Size: r.Size}
	if c.Loc.Index() == m.index {
		at := c.Loc.Offset()
		c.Record = m.data[at : at+int(r.Size)]
	}
	if r.Flags&flagFragmented != 0 {
		if t := v.content[r.Number]; t != nil {
			c.Parts = t.Parts
		}
	}
	return c
}

// sizeOf is the bytes that a message is kept in: its record's, and of a big one its pieces'.
func (v *vhost) sizeOf(r *ready.Ref) uint64 {
	if r.Flags&flagFragmented == 0 {
		return uint64(r.Size)
	}
	return uint64(r.Size) + v.partBytes(r.Number)
}

func (v *vhost) partBytes(number uint64) (n uint64) {
	if t := v.content[number]; t != nil {
		for i := range t.Parts {
			n += uint64(t.Parts[i].Size)
		}
	}
	return n
}

// dropContent ends one reference to a message's content.
func (m *Machine) dropContent(v *vhost, r *ready.Ref) {
	m.live.remove(r.Loc, r.Size)
	if r.Flags&flagLettered != 0 {
		m.dropLetter(v, r.Number)
	}
	if r.Flags&flagFragmented == 0 {
		return
	}
	t := v.content[r.Number]
	if t == nil {
		return
	}
	m.touch(t)
	if t.Refs--; t.Refs > 0 {
		return
	}
	m.live.removeParts(t.Parts)
	if x := take(&v.contents, t.at); x != nil {
		x.at = t.at
	}
	delete(v.content, t.Number)
	t.gone = true
}
