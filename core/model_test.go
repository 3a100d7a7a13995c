package core_test

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"pgregory.net/rapid"
)

// model is the slow and obvious broker beside the machine: slices, maps, and everything counted anew each time. It does
// not know who is next, only who may be: any consumer with credit, and nobody may wait while there is something to give.
type model struct {
	t        *rapid.T
	now      int64  // stamp
	last     uint64 // message number
	queues   map[string]*modelQueue
	channels map[modelID]*modelChannel
	modelDelays
}

type modelID struct {
	session uint64
	number  uint16
}

type modelMessage struct {
	number      uint64
	redelivered bool
	priority    int
	expires     int64 // stamp, 0 for never
	failed      int
	death       string // of a dead letter: the queue that it left, and why
}

// modelQueue has its messages in the order of delivery. The queue of dead letters knows only how many it has of each kind:
// the model cannot tell in which order a command makes them.
type modelQueue struct {
	name  string
	ready []modelMessage
	dead  map[string]int
	own   features // without policies
	features
}

// features of a queue. Where messages of several priorities may expire it has no maximal length: whether an expired one of a higher
// priority makes room in time is no promise.
type features struct {
	ttl, most, priorities, failures int // 0 for none
	deadLetters, single             bool
	retry                           retry  // of what is given back
	timeout                         int    // of its consumers, 0 for half an hour
	overflow                        string // where it has a maximal length of its own
	inBytes                         bool   // the maximal length of its own is one of bytes, of as many messages
}

// bodyBytes is how long every message's body is.
const bodyBytes = len("body")

const deadQueue = "dead"

type modelConsumer struct {
	tag, queue string
	age        int
	timeout    int // its own, 0 for its queue's
	priority   int
	limit      int
	noAck      bool
}

type modelDelivery struct {
	modelMessage
	queue    *modelQueue
	consumer *modelConsumer // nil for a get
	noAck    bool
	made     int64 // stamp
}

type modelChannel struct {
	id            modelID
	last, written uint64
	prefetch      int
	limit         int
	confirm       bool
	confirms      int // expected of the command at hand
	nacks         int // likewise
	consumers     []*modelConsumer
	flight        map[uint64]modelDelivery
	refusal       bool // expected of the command at hand
	late          bool // the machine refused it for a delivery that was not settled in time
	tx            bool
	published     []func()   // what a commit does
	settled       [][]uint64 // tags, and
	outcomes      []entry.Outcome
	gets          int // expected answers of the command at hand
	getFrom       string
}

func newModel(t *rapid.T) *model {
	return &model{t: t, queues: map[string]*modelQueue{}, channels: map[modelID]*modelChannel{}}
}

func (m *model) open(id modelID) *modelChannel {
	h := &modelChannel{id: id, flight: map[uint64]modelDelivery{}}
	m.channels[id] = h
	return h
}

func (m *model) publish(h *modelChannel, priority, expiration int, queues ...string) {
	var to []*modelQueue // routed now, whatever becomes of the queue until a commit
	for _, name := range queues {
		to = append(to, m.queues[name])
	}
	if h.tx {
		h.published = append(h.published, func() { m.enter(priority, expiration, to) })
		return
	}
	taken := m.enter(priority, expiration, to)
	switch {
	case h.confirm && taken:
		h.confirms++
	case h.confirm:
		h.nacks++
	}
}

// commit does what a transaction has gathered.
func (m *model) commit(h *modelChannel) {
	for _, f := range h.published {
		f()
	}
	for i, tags := range h.settled {
		for _, tag := range inTurn(tags, h.outcomes[i]) {
			m.end(h, tag, h.outcomes[i])
		}
	}
	h.rollback()
}

func (h *modelChannel) rollback() { h.published, h.settled, h.outcomes = nil, nil, nil }

// gathered says whether a transaction has a delivery's settlement.
func (h *modelChannel) gathered(tag uint64) bool {
	return slices.ContainsFunc(h.settled, func(tags []uint64) bool { return slices.Contains(tags, tag) })
}

// enter enters a message into all its queues; false, and none has it, where one of them refuses it.
func (m *model) enter(priority, expiration int, queues []*modelQueue) bool {
	m.last++
	if m.refused(queues) {
		for _, q := range queues {
			if q.overflow == "reject-publish-dlx" && m.full(q) {
				m.bury(q, "maxlen")
			}
		}
		return false
	}
	for _, q := range queues {
		x := modelMessage{number: m.last, priority: min(priority, q.priorities)}
		ttl := expiration
		if q.ttl > 0 && (ttl == 0 || q.ttl < ttl) {
			ttl = q.ttl
		}
		if ttl > 0 {
			x.expires = m.now + int64(ttl)
		}
		q.put(x)
	}
	return true
}

func (m *model) refused(queues []*modelQueue) bool { return slices.ContainsFunc(queues, m.full) }

// full says whether a queue has no room and would rather not have a message than drop another.
func (m *model) full(q *modelQueue) bool {
	return m.alive(q) && q.most > 0 && q.rejects() && len(q.ready) >= q.most
}

func (f *features) rejects() bool { return f.overflow != "" && f.overflow != "drop-head" }

func (q *modelQueue) put(x modelMessage) {
	q.ready = append(q.ready, x)
	sort.Slice(q.ready, func(i, j int) bool {
		a, b := &q.ready[i], &q.ready[j]
		return a.priority > b.priority || a.priority == b.priority && a.number < b.number
	})
}

// end settles one delivery.
func (m *model) end(h *modelChannel, tag uint64, outcome entry.Outcome) {
	d := h.flight[tag]
	delete(h.flight, tag)
	if d.noAck || !m.alive(d.queue) || outcome == entry.Accepted {
		return
	}
	if outcome == entry.Rejected {
		m.bury(d.queue, "rejected")
		return
	}
	d.redelivered = true
	if outcome == entry.Modified {
		d.failed++
	}
	switch {
	case d.death != "":
		d.queue.dead[d.death]++
	case d.queue.failures > 0 && d.failed > d.queue.failures:
		m.bury(d.queue, "delivery_limit")
	case d.queue.retry.wait(d.failed, outcome) > 0:
		m.retryLater(d.queue, d.modelMessage, d.queue.retry.wait(d.failed, outcome))
	default:
		d.queue.put(d.modelMessage)
	}
}

// bury is the end of a message that nobody accepted.
func (m *model) bury(q *modelQueue, why string) {
	if !q.deadLetters {
		return
	}
	if q.most > 0 && (why == "expired" || why == "maxlen") { // which of both comes first is no promise
		why = "expired or maxlen"
	}
	m.last++
	m.queues[deadQueue].dead[why+" of "+q.name]++
}

// cleanUp drops what there is no room or time for, in the order in which the machine does.
func (m *model) cleanUp() {
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		q := m.queues[name]
		for q.most > 0 && !q.rejects() && len(q.ready) > q.most {
			lowest := q.ready[len(q.ready)-1].priority
			at := slices.IndexFunc(q.ready, func(x modelMessage) bool { return x.priority == lowest })
			q.ready = slices.Delete(q.ready, at, at+1)
			m.bury(q, "maxlen")
		}
		m.expire(q, q.priorities)
	}
}

// expire drops expired messages from the heads of the priorities from lowest up.
func (m *model) expire(q *modelQueue, highest int) {
	for p := highest; p >= 0; p-- {
		for {
			at := slices.IndexFunc(q.ready, func(x modelMessage) bool { return x.priority == p })
			if at < 0 || q.ready[at].expires == 0 || q.ready[at].expires > m.now {
				break
			}
			q.ready = slices.Delete(q.ready, at, at+1)
			m.bury(q, "expired")
		}
	}
}

func (m *model) alive(q *modelQueue) bool {
	for _, x := range m.queues {
		if x == q {
			return true
		}
	}
	return false
}

// settle does what a Settle means, and expects a refusal where a tag is not there.
func (m *model) settle(h *modelChannel, x *entry.Settle) {
	there := func(tag uint64) bool { d, ok := h.flight[tag]; return ok && !d.noAck && !h.gathered(tag) }
	var tags []uint64
	for _, tag := range slices.Sorted(maps.Keys(h.flight)) {
		covered := tag >= x.First && tag <= x.Last
		if x.Multiple {
			covered = x.Last == 0 || tag <= x.Last
		}
		if covered && there(tag) {
			tags = append(tags, tag)
		}
	}
	bad := x.Multiple && x.Last != 0 && !there(x.Last) || !x.Multiple && len(tags) != int(x.Last-x.First+1)
	if bad {
		h.refusal = true
		m.release(h, entry.Released)
		return
	}
	if h.tx {
		h.settled, h.outcomes = append(h.settled, tags), append(h.outcomes, x.Outcome)
		return
	}
	for _, tag := range inTurn(tags, x.Outcome) {
		m.end(h, tag, x.Outcome)
	}
}

// release is what closing or failing a channel does.
func (m *model) release(h *modelChannel, how entry.Outcome) {
	h.consumers = nil
	for _, tag := range inTurn(slices.Sorted(maps.Keys(h.flight)), how) {
		m.end(h, tag, how)
	}
	h.rollback()
	h.tx = false
	h.prefetch, h.limit, h.last, h.written, h.confirm = 0, 0, 0, 0, false
}

func (m *model) written(h *modelChannel, tag uint64) {
	h.written = max(h.written, min(tag, h.last))
	for _, tag := range slices.Sorted(maps.Keys(h.flight)) {
		if h.flight[tag].noAck && tag <= h.written {
			delete(h.flight, tag)
		}
	}
}

func (m *model) deleteQueue(name string) {
	delete(m.queues, name)
	for _, h := range m.channels {
		h.consumers = slices.DeleteFunc(h.consumers, func(c *modelConsumer) bool { return c.queue == name })
	}
}

// credit says whether a consumer may have one more.
func (m *model) credit(h *modelChannel, c *modelConsumer) bool {
	return h.credit(c) && (!m.queues[c.queue].single || m.oldest(c.queue) == c)
}

// oldest is the active one of a queue's consumers, where only one is.
func (m *model) oldest(queue string) *modelConsumer {
	var first *modelConsumer
	for _, h := range m.channels {
		for _, c := range h.consumers {
			if c.queue == queue && (first == nil || c.age < first.age) {
				first = c
			}
		}
	}
	return first
}

// outranked says whether a consumer of a higher priority could have had c's delivery.
func (m *model) outranked(c *modelConsumer) bool {
	for _, h := range m.channels {
		for _, x := range h.consumers {
			if x.queue == c.queue && x.priority > c.priority && m.credit(h, x) {
				return true
			}
		}
	}
	return false
}

// credit counts what a consumer has out.
func (h *modelChannel) credit(c *modelConsumer) bool {
	own, all, unwritten := 0, 0, 0
	for tag, d := range h.flight {
		if d.consumer == c && !d.noAck {
			own++
		}
		if d.consumer != nil && !d.noAck {
			all++
		}
		if d.consumer == c && tag > h.written {
			unwritten++
		}
	}
	if c.limit > 0 && own >= c.limit || c.limit == 0 && unwritten >= 2000 {
		return false
	}
	return c.noAck || h.limit == 0 || all < h.limit
}

func (m *model) consumerOf(e *core.Effect) (*modelChannel, *modelConsumer) {
	h := m.channels[modelID{e.Session, e.Channel}]
	for _, c := range h.consumers {
		if c.tag == e.Name {
			return h, c
		}
	}
	m.t.Fatalf("delivery %d to consumer %s, which is not there", e.Tag, e.Name)
	return nil, nil
}

// take checks that a delivery is the first message of a queue under the channel's next tag.
func (m *model) take(e *core.Effect, h *modelChannel, q *modelQueue, c *modelConsumer, noAck bool) {
	if q.dead != nil {
		m.takeDead(e, h, q, noAck)
		return
	}
	m.expire(q, q.priorities)
	for (len(q.ready) == 0 || q.ready[0].number != e.Number) && m.comeNext() {
	}
	if len(q.ready) == 0 || q.ready[0].number != e.Number || q.ready[0].redelivered != e.Redelivered || e.Tag != h.last+1 || e.NoAck != noAck {
		m.t.Fatalf("delivery %+v with tag %d of #%d is not the next of %v after tag %d", e.Kind, e.Tag, e.Number, q.ready, h.last)
	}
	if failed := failures(e); q.failures > 0 && failed != q.ready[0].failed {
		m.t.Fatalf("delivery of #%d shows %d failures, want %d", e.Number, failed, q.ready[0].failed)
	}
	h.last++
	h.flight[h.last] = modelDelivery{modelMessage: q.ready[0], queue: q, consumer: c, noAck: noAck, made: m.now}
	q.ready = q.ready[1:]
}

func failures(e *core.Effect) int {
	if e.Extra == nil {
		return 0
	}
	return int(e.Extra.Failed)
}

// takeDead checks that a dead letter is one that should be there.
func (m *model) takeDead(e *core.Effect, h *modelChannel, q *modelQueue, noAck bool) {
	if e.Extra == nil || len(e.Extra.Deaths) != 1 {
		m.t.Fatalf("a dead letter without its death: %+v", e)
	}
	d := e.Extra.Deaths[0]
	death := d.Reason + " of " + d.Queue
	if joint := "expired or maxlen of " + d.Queue; q.dead[death] == 0 && strings.Contains(joint, d.Reason) {
		death = joint
	}
	if q.dead[death] == 0 || e.Tag != h.last+1 {
		m.t.Fatalf("dead letter %q with tag %d is not expected: %v", death, e.Tag, q.dead)
	}
	q.dead[death]--
	h.last++
	h.flight[h.last] = modelDelivery{modelMessage: modelMessage{number: e.Number, death: death}, queue: q, noAck: noAck, made: m.now}
}

func (q *modelQueue) count() int {
	n := len(q.ready)
	for _, k := range q.dead {
		n += k
	}
	return n
}

// check compares a command's effects with what may happen.
func (m *model) check(effects []core.Effect) {
	for i := range effects {
		e := &effects[i]
		h := m.channels[modelID{e.Session, e.Channel}]
		switch e.Kind {
		case core.EffectDelivered:
			h, c := m.consumerOf(e)
			if !m.credit(h, c) || m.outranked(c) {
				m.t.Fatalf("consumer %s got delivery %d without credit, or before one of higher priority", c.tag, e.Tag)
			}
			m.take(e, h, m.queues[c.queue], c, c.noAck)
		case core.EffectGot:
			h.gets--
			m.take(e, h, m.queues[h.getFrom], nil, e.NoAck)
		case core.EffectGetEmpty:
			h.gets--
			q := m.queues[h.getFrom]
			m.expire(q, q.priorities)
			if q.count() > 0 {
				m.t.Fatalf("get of %s found nothing", h.getFrom)
			}
		case core.EffectConfirmed:
			h.confirms -= int(e.Count)
		case core.EffectNacked:
			h.nacks -= int(e.Count)
		case core.EffectRefused:
			if m.lateRefusal(h, e) {
				continue
			}
			if !h.refusal {
				m.t.Fatalf("refused: %s", e.Text)
			}
			h.refusal = false
		}
	}
	for m.comeNext() {
	}
	m.cleanUp()
	m.nothingOwed()
	m.nobodyWaits()
}

func (m *model) nothingOwed() {
	for id, h := range m.channels {
		if h.confirms != 0 || h.nacks != 0 || h.gets != 0 || h.refusal {
			m.t.Fatalf("channel %v is owed %d confirms, %d nacks, %d gets, refusal %v", id, h.confirms, h.nacks, h.gets, h.refusal)
		}
	}
}

func (m *model) nobodyWaits() {
	for _, h := range m.channels {
		for _, c := range h.consumers {
			if n := len(m.queues[c.queue].ready); n > 0 && m.credit(h, c) {
				m.t.Fatalf("consumer %s waits with credit, and %d messages are ready", c.tag, n)
			}
		}
	}
}

// compare checks the machine's own counts.
func (m *model) compare(x *core.Machine) {
	unacked := map[*modelQueue]int{}
	for _, h := range m.channels {
		for _, d := range h.flight {
			if !d.noAck {
				unacked[d.queue]++
			}
		}
	}
	var got, want []string
	for _, q := range x.Queues("/") {
		got = append(got, fmt.Sprintf("%s ready=%d unacked=%d", q.Name, q.Ready, q.Unacknowledged))
	}
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		q := m.queues[name]
		want = append(want, fmt.Sprintf("%s ready=%d unacked=%d", name, q.count(), unacked[q]))
	}
	if !slices.Equal(got, want) {
		m.t.Fatalf("the machine has %v, want %v", got, want)
	}
}
