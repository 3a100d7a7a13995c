package core

import (
	"slices"

	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

// A message's content never changes. What the broker adds to it (the deaths that it died, another exchange and key) is a
// letter: state beside the message, under its number, rendered when it is delivered. A dead-lettered message is a new
// message, with a number of its own and the old content, so that it goes behind all others. The machine cannot read
// content again, so what routing will need of a message that may be dead-lettered is kept in a letter as it comes.

// letterHeadersMax bounds the headers that are kept for routing a dead letter by them; longer ones count as none.
const letterHeadersMax = 4096

type letterRow struct {
	Vhost  uint32
	Number uint64
	Refs   uint32 // queues and deliveries that refer to it
	*particulars
}

// particulars are what a letter says. They never change once a row has them, so that letters that say the same share them: a backlog of
// dead letters died the same death for the most part.
type particulars struct {
	Key         string   // routing key
	CC, BCC     []string // further ones
	Headers     []byte   // the header table, where a dead letter may be routed by it
	Priority    uint8
	Moved       bool   // dead-lettered: it was published to Exchange with Key, and has no expiration
	Exchange    string // of a moved one
	NewKey      bool   // a queue's x-dead-letter-routing-key replaced the key and CC
	FirstQueue  string
	FirstReason uint8
	Deaths      []Death // most recent first, one per queue and reason
}

// Death is how often a message left a queue for a reason, and how it was when it first did.
type Death struct {
	Queue     string
	Reason    string
	Count     uint64
	Time      int64 // of the first, in Unix seconds
	Published bool  // exchange, keys and expiration were those that the message was published with
	Exchange  string
	Keys      []string
}

// reasonNames are x-death's.
var reasonNames = [...]string{reasonRejected: "rejected", reasonExpired: "expired", reasonMaxLength: "maxlen", reasonDeliveryLimit: "delivery_limit"}

type letter struct {
	meta
	letterRow
	at int // in vhost.letters
}

func (t *letter) key(dst []byte) []byte {
	return keyOf(dst, tableLetter, uint64(t.Vhost), t.Number)
}

func (t *letterRow) code(c *rowCoder) {
	c.u32(&t.Vhost)
	c.u64(&t.Number)
	c.u32(&t.Refs)
	if t.particulars == nil {
		t.particulars = &particulars{}
	}
	t.particulars.code(c)
}

func (t *particulars) code(c *rowCoder) {
	c.str(&t.Key)
	c.strs(&t.CC)
	c.strs(&t.BCC)
	c.bytes(&t.Headers)
	c.u8(&t.Priority)
	c.boolean(&t.Moved)
	c.str(&t.Exchange)
	c.boolean(&t.NewKey)
	c.str(&t.FirstQueue)
	c.u8(&t.FirstReason)
	n := uint64(len(t.Deaths))
	if c.count(&n); !c.encoding && n > 0 {
		t.Deaths = make([]Death, n)
	}
	for i := range t.Deaths {
		t.Deaths[i].code(c)
	}
}

func (d *Death) code(c *rowCoder) {
	c.str(&d.Queue)
	c.str(&d.Reason)
	c.u64(&d.Count)
	c.i64(&d.Time)
	c.boolean(&d.Published)
	c.str(&d.Exchange)
	c.strs(&d.Keys)
}

// equal compares what differs most often first.
func (t *particulars) equal(o *particulars) bool {
	return t.Key == o.Key && slices.EqualFunc(t.Deaths, o.Deaths, Death.equal) && t.Exchange == o.Exchange &&
		t.FirstQueue == o.FirstQueue && t.FirstReason == o.FirstReason && t.Moved == o.Moved && t.NewKey == o.NewKey && t.Priority == o.Priority &&
		slices.Equal(t.CC, o.CC) && slices.Equal(t.BCC, o.BCC) && slices.Equal(t.Headers, o.Headers)
}

func (d Death) equal(o Death) bool {
	return d.Time == o.Time && d.Count == o.Count && d.Queue == o.Queue && d.Reason == o.Reason && d.Published == o.Published &&
		d.Exchange == o.Exchange && slices.Equal(d.Keys, o.Keys)
}

// sharing finds the newest particulars again. It is memory of this node's alone.
type sharing struct {
	recent [8]*particulars
	next   int
}

// shared answers particulars that equal p, nil for none.
func (s *sharing) shared(p *particulars) *particulars {
	if p == nil {
		p = &particulars{}
	}
	for _, x := range s.recent {
		if x != nil && x.equal(p) {
			return x
		}
	}
	s.recent[s.next] = p
	s.next = (s.next + 1) % len(s.recent)
	return p
}

func (v *vhost) addLetter(row letterRow) *letter {
	row.particulars = v.sharing.shared(row.particulars)
	t := &letter{letterRow: row, at: len(v.letters)}
	v.letters = append(v.letters, t)
	v.letter[t.Number] = t
	return t
}

// dropLetter ends one reference to a letter.
func (m *Machine) dropLetter(v *vhost, number uint64) {
	t := v.letter[number]
	if t == nil {
		return
	}
	m.touch(t)
	if t.Refs--; t.Refs > 0 {
		return
	}
	if x := take(&v.letters, t.at); x != nil {
		x.at = t.at
	}
	delete(v.letter, number)
	t.gone = true
}

// needsLetter says whether a queue that the publish at hand goes to may have to route it once more, by what only its
// record tells. One that came by the default exchange has the queue's name for its key.
func (m *Machine) needsLetter(v *vhost, x *marks) bool {
	if v.deadLettering == 0 {
		return false
	}
	special := x.priority > 0 || len(m.record.Exchange) > 0 || mayHaveCopies(m.record.Properties) ||
		v.byHeaders > 0 && message.HasAny(m.record.Properties, message.PropHeaders)
	if !special {
		return false
	}
	for _, id := range m.routes {
		if q := v.queueByID(id); q.set.deadLetters {
			return true
		}
	}
	return false
}

// newLetter is what dead-lettering the publish at hand will need.
func (m *Machine) newLetter(v *vhost, x *marks) letterRow {
	row := letterRow{Vhost: v.Vhost, particulars: &particulars{Key: string(m.record.RoutingKey), Priority: x.priority}}
	if message.HasAny(m.record.Properties, message.PropHeaders) {
		headers, _ := message.PropertiesHeaders(m.record.Properties)
		row.CC, row.BCC = texts(headers, copyHeaders[0]), texts(headers, copyHeaders[1])
		if v.byHeaders > 0 {
			if b := message.AppendTable(nil, headers); len(b) <= letterHeadersMax {
				row.Headers = b
			}
		}
	}
	return row
}

// texts answers the texts of an array in a table.
func texts(t message.Table, key string) []string {
	value, _ := t.Get(key)
	list, _ := value.([]any)
	var out []string
	for _, x := range list {
		if s, ok := x.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// bury ends a message that no consumer has accepted: it is dead-lettered where its queue says so.
func (m *Machine) bury(q *queue, r *ready.Ref, why reason) {
	if q.set.deadLetters && !q.vhost.Deleted {
		q.vhost.buried[why]++
		m.deadLetter(q, r, why)
	}
	m.dispose(q.vhost, q, r)
}

// deadLetter publishes a message of q's once more, in the same step in which q loses it. It is dropped where the exchange
// is missing, where it leads nowhere, for each queue that turns it away (unless q's strategy is at-least-once), and for each queue that
// it has come from by itself, without a client's reject.
func (m *Machine) deadLetter(q *queue, r *ready.Ref, why reason) {
	v := q.vhost
	if m.isFresh(v, r) {
		if m.cascade++; m.cascade > m.bounds.cascades {
			return
		}
	}
	if q.set.deadExchange != "" && v.exchange[q.set.deadExchange] == nil {
		return
	}
	row := m.nextLetter(q, r, why)
	old := v.letter[r.Number]
	routes := m.routeLetter(q, &row, old)
	body := q.bodyOf(r)
	routes = slices.DeleteFunc(routes, func(id uint32) bool {
		to := v.queueByID(id)
		return isCycle(row.Deaths, to.Name) || !q.set.deadNoLoss && to.turnsAway(body)
	})
	m.buried = routes[:0]
	if len(routes) == 0 {
		return
	}
	v.arrived++
	m.freshen(v)
	v.Messages++
	m.touch(v)
	row.Number, row.Refs = v.Messages, uint32(len(routes))
	n := ready.Ref{Number: row.Number, Loc: r.Loc, Size: r.Size, Flags: r.Flags&flagFragmented | flagLettered}
	if n.Flags&flagFragmented != 0 {
		m.copyContent(v, r.Number, row.Number, row.Refs)
	}
	m.touch(v.addLetter(row))
	x := marks{priority: row.Priority, ttl: none, body: body}
	for _, id := range routes {
		m.live.add(n.Loc, n.Size)
		m.enter(v.queueByID(id), n, &x)
	}
}

// turnsAway says whether a queue is too full for a dead letter. One that would dead-letter it in turn takes it: nothing is lost that way,
// and no chain of such queues has to be walked.
func (q *queue) turnsAway(body uint64) bool {
	return q.refuses(body) && !(q.set.overflow == rejectPublishDLX && q.set.deadLetters)
}

// copyContent gives a fragmented message's pieces to another message too.
func (m *Machine) copyContent(v *vhost, from, to uint64, refs uint32) {
	t := v.content[from]
	if t == nil {
		return
	}
	for i := range t.Parts {
		m.live.add(uint64(t.Parts[i].Loc), t.Parts[i].Size)
	}
	m.touch(v.addContent(contentRow{Vhost: v.Vhost, Number: to, Refs: refs, Parts: t.Parts}))
}

// nextLetter is what a message of q's becomes by dying.
func (m *Machine) nextLetter(q *queue, r *ready.Ref, why reason) letterRow {
	d := Death{Queue: q.Name, Reason: reasonNames[why], Count: 1, Time: m.header.Stamp / 1000, Published: true}
	row := letterRow{Vhost: q.Vhost, particulars: &particulars{
		Moved: true, Exchange: q.set.deadExchange, Key: q.Name, FirstQueue: q.Name, FirstReason: uint8(why),
	}}
	if old := q.vhost.letter[r.Number]; old != nil {
		row.Key, row.CC, row.Headers, row.Priority, row.NewKey = old.Key, old.CC, old.Headers, old.Priority, old.NewKey
		if old.Moved {
			row.FirstQueue, row.FirstReason = old.FirstQueue, old.FirstReason
			d.Published, d.Exchange, d.Keys = false, old.Exchange, append([]string{old.Key}, old.CC...)
			row.Deaths = old.Deaths
		}
	}
	row.Deaths = died(row.Deaths, d)
	return row
}

// died adds a death in front: the one of the same queue and reason is counted up instead. deaths stays as it is.
func died(deaths []Death, d Death) []Death {
	at := slices.IndexFunc(deaths, func(x Death) bool { return x.Queue == d.Queue && x.Reason == d.Reason })
	out := make([]Death, 0, len(deaths)+1)
	if at < 0 {
		return append(append(out, d), deaths...)
	}
	again := deaths[at]
	again.Count++
	return append(append(append(out, again), deaths[:at]...), deaths[at+1:]...)
}

// routeLetter finds the queues of a dead letter of q's and gives it its key. old is what was kept of the message, or nil.
func (m *Machine) routeLetter(q *queue, row *letterRow, old *letter) []uint32 {
	var more [][]string
	switch {
	case q.set.hasDeadKey:
		row.Key, row.CC, row.NewKey = q.set.deadKey, nil, true
	case old != nil:
		more = [][]string{old.CC, old.BCC}
	}
	return m.routeKeys(q.vhost, row.Exchange, row, m.buried[:0], more...)
}

// routeKeys finds the queues that an exchange leads to by row's key and any more, for a message of which what row says is
// known.
func (m *Machine) routeKeys(v *vhost, exchange string, row *letterRow, routes []uint32, more ...[]string) []uint32 {
	headers := func() message.Table { return tableOf(row.Headers) }
	v.router.Seed(v.Messages)
	keys := [][]byte{[]byte(row.Key)}
	for _, list := range more {
		for _, key := range list {
			keys = append(keys, []byte(key))
		}
	}
	if len(keys) == 1 {
		return v.router.Route([]byte(exchange), keys[0], headers, routes)
	}
	return v.router.RouteAll([]byte(exchange), keys, headers, routes)
}

// isCycle says whether a message that died these deaths would come to a queue again without anybody's reject.
func isCycle(deaths []Death, queue string) bool {
	for i := range deaths {
		if deaths[i].Reason == reasonNames[reasonRejected] {
			return false
		}
		if deaths[i].Queue == queue {
			return true
		}
	}
	return false
}

// extraOf is what a delivery of a message adds to its content, nil for almost all.
func (m *Machine) extraOf(q *queue, r *ready.Ref) *Extra {
	failed := r.Flags >> countShift
	if !q.counts {
		failed = 0
	}
	if r.Flags&flagLettered == 0 {
		if failed == 0 {
			return nil
		}
		return &Extra{Failed: failed}
	}
	t := q.vhost.letter[r.Number]
	if t == nil || !t.Moved && failed == 0 {
		return nil
	}
	if !t.Moved {
		return &Extra{Failed: failed}
	}
	return &Extra{Failed: failed, Moved: true, Exchange: t.Exchange, RoutingKey: t.Key, NewKey: t.NewKey,
		FirstQueue: t.FirstQueue, FirstReason: reasonNames[t.FirstReason], Deaths: t.Deaths}
}
