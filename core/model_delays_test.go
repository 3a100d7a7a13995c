package core_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

// What the model knows of time beyond TTLs: messages that wait before they are routed or return, deliveries that are settled
// too late; and of policies, which change what queues do while they are at it.

const delayingExchange = "later"

// modelDelays is what waits. What comes due at one moment comes in order: first what is still to be routed, as it began to
// wait, then what returns, by message; each is served before the next.
type modelDelays struct {
	began    int
	waiting  []modelWait
	due      []modelWait // of the Tick at hand
	policies map[string]modelPolicy
}

type modelWait struct {
	until int64
	began int
	queue *modelQueue // where it returns to, nil for one that is still to be routed
	rank  uint64      // the message that returns
	come  func()
}

// retry is a queue's delayed retry.
type retry struct {
	which       string // "" for none
	least, most int
}

var retryKinds = []string{"all", "failed", "returned"}

// wait is how long a message waits that was given back after so many failures, 0 for not at all.
func (r retry) wait(failed int, outcome entry.Outcome) int {
	failure := outcome == entry.Modified
	switch {
	case r.which == "", r.which == "failed" && !failure, r.which == "returned" && failure:
		return 0
	}
	return min(r.least*max(failed, 1), r.most)
}

func (m *model) waitFor(millis int, q *modelQueue, rank uint64, come func()) {
	m.began++
	m.waiting = append(m.waiting, modelWait{until: m.now + int64(millis), began: m.began, queue: q, rank: rank, come: come})
}

func (m *model) retryLater(q *modelQueue, x modelMessage, wait int) {
	m.waitFor(wait, q, x.number, func() {
		if m.alive(q) {
			q.put(x)
		}
	})
}

// comeDue gathers what the next Tick brings. Queues' own timers come first.
func (m *model) comeDue() {
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		m.expire(m.queues[name], m.queues[name].priorities)
	}
	isDue := func(x modelWait) bool { return x.until <= m.now }
	for _, x := range m.waiting {
		if isDue(x) {
			m.due = append(m.due, x)
		}
	}
	m.waiting = slices.DeleteFunc(m.waiting, isDue)
	slices.SortFunc(m.due, func(a, b modelWait) int {
		return cmp.Or(cmp.Compare(a.until, b.until), cmp.Compare(a.rank, b.rank), cmp.Compare(a.began, b.began))
	})
}

// comeNext lets the next of what is due come; false if there is none.
func (m *model) comeNext() bool {
	if len(m.due) == 0 {
		return false
	}
	next := m.due[0]
	m.due = m.due[1:]
	next.come()
	m.cleanUp()
	return true
}

// publishLater publishes to the exchange that delays.
func (w *walk) publishLater(h *modelChannel) {
	name, delay := w.queue(), w.pick("delay", 60)
	enter := func() { w.m.enter(0, 0, []*modelQueue{w.m.queues[name]}) }
	begin := func() {
		if delay == 0 {
			w.m.publish(h, 0, 0, name)
		} else {
			w.m.waitFor(delay, nil, 0, enter)
		}
	}
	switch {
	case h.tx && delay == 0: // routed now, enters at the commit
		to := []*modelQueue{w.m.queues[name]}
		h.published = append(h.published, func() { w.m.enter(0, 0, to) })
	case h.tx:
		h.published = append(h.published, begin)
	default:
		begin()
		if h.confirm && delay > 0 {
			h.confirms++
		}
	}
	w.do(h, &entry.Publish{Ref: h.ref(), Record: coretest.Record(delayingExchange, name, table("x-delay", int32(delay)), "body")})
}

// limit is how long a delivery may await its settlement.
func (h *modelChannel) timeLimit(d *modelDelivery) int64 {
	switch {
	case d.consumer != nil && d.consumer.timeout > 0 && slices.Contains(h.consumers, d.consumer):
		return int64(d.consumer.timeout)
	case d.queue.timeout > 0:
		return int64(d.queue.timeout)
	}
	return 30 * 60 * 1000
}

// lateRefusal takes a refusal for a delivery that is late, and checks that one may be.
func (m *model) lateRefusal(h *modelChannel, e *core.Effect) bool {
	if !strings.Contains(e.Text, "timed out") {
		return false
	}
	for _, d := range h.flight {
		if !d.noAck && m.alive(d.queue) && m.now-d.made >= h.timeLimit(&d) {
			m.release(h, entry.Released)
			h.late = true
			return true
		}
	}
	m.t.Fatalf("channel %v is refused at %d, and none of %v is late", h.id, m.now, h.flight)
	return false
}

// reviveLate has the clients of refused channels open them anew.
func (w *walk) reviveLate() {
	for _, id := range slices.SortedFunc(maps.Keys(w.m.channels), compareIDs) {
		if h := w.m.channels[id]; h.late {
			h.late = false
			w.m.check(w.d.Batch(nodeOf(id.session), &entry.ChannelClose{Ref: h.ref()}, &entry.ChannelOpen{Ref: h.ref()}))
		}
	}
}

// onTime checks that the next Tick comes no later than what is due next.
func (m *model) onTime(next int64) {
	sooner := func(what string, at int64) {
		if at != 0 && (next == 0 || next > at) {
			m.t.Fatalf("the next deadline is %d, and %s at %d", next, what, at)
		}
	}
	for _, x := range m.waiting {
		if x.queue == nil || m.alive(x.queue) {
			sooner("something that waits is due", x.until)
		}
	}
	for _, q := range m.queues {
		for p := range q.priorities + 1 {
			if at := slices.IndexFunc(q.ready, func(x modelMessage) bool { return x.priority == p }); at >= 0 {
				sooner("the first of "+q.name+" expires", q.ready[at].expires)
			}
		}
	}
}

// nobodyIsLate checks that deliveries are found late: the machine knows their time to within a second.
func (m *model) nobodyIsLate() {
	for id, h := range m.channels {
		for tag, d := range h.flight {
			if !d.noAck && m.alive(d.queue) && m.now-d.made >= h.timeLimit(&d)+1000 {
				m.t.Fatalf("delivery %d of channel %v, made at %d, is not late at %d", tag, id, d.made, m.now)
			}
		}
	}
}

// modelPolicy gives limits to one queue.
type modelPolicy struct {
	queue          string
	most, failures int // 0 for none
}

// limited says whether a policy limits a queue's length.
func (m *model) limited(queue string) bool {
	for _, p := range m.policies {
		if p.queue == queue && p.most > 0 {
			return true
		}
	}
	return false
}

// configure makes what counts for a queue of its own arguments and the policies: the smaller number.
func (m *model) configure(q *modelQueue) {
	q.features = q.own
	smaller := func(a, b int) int {
		if a == 0 || b != 0 && b < a {
			return b
		}
		return a
	}
	for _, p := range m.policies {
		if p.queue == q.name {
			q.most, q.failures = smaller(q.most, p.most), smaller(q.failures, p.failures)
		}
	}
}

// mortal says whether messages of a queue may expire.
func (m *model) mortal(q *modelQueue) bool {
	if q.own.ttl > 0 || slices.ContainsFunc(q.ready, func(x modelMessage) bool { return x.expires != 0 }) {
		return true
	}
	if slices.ContainsFunc(m.waiting, func(x modelWait) bool { return x.queue == q }) {
		return true
	}
	for _, h := range m.channels {
		if len(h.published) > 0 {
			return true
		}
		for _, d := range h.flight {
			if d.queue == q && d.expires != 0 {
				return true
			}
		}
	}
	return false
}

// setPolicy sets a policy or an operator policy for one queue, or deletes it.
func (w *walk) setPolicy(*modelChannel) {
	name := []string{"own", "operator"}[w.pick("policy", 2)]
	operator := name == "operator"
	if w.m.policies == nil {
		w.m.policies = map[string]modelPolicy{}
	}
	var cmd entry.Command = &entry.PolicyDelete{Vhost: "/", Name: name, Operator: operator}
	delete(w.m.policies, name)
	if w.pick("set", 3) > 0 {
		p := modelPolicy{queue: w.queue()}
		var fields []any
		if w.pick("limit", 2) == 0 && (w.m.queues[p.queue].priorities == 0 || !w.m.mortal(w.m.queues[p.queue])) {
			p.most = 2
			fields = append(fields, "max-length", int32(p.most))
		}
		if len(fields) == 0 || w.pick("failures", 2) == 0 {
			p.failures = 2
			fields = append(fields, "delivery-limit", int32(p.failures))
		}
		w.m.policies[name] = p
		cmd = &entry.PolicySet{Vhost: "/", Name: name, Pattern: "^" + p.queue + "$", ApplyTo: "queues", Operator: operator, Definition: table(fields...)}
	}
	for _, q := range w.m.queues {
		if q.dead == nil {
			w.m.configure(q)
		}
	}
	w.m.check(w.d.Control(cmd))
}

// inTurn is the order in which deliveries are settled: what goes back to its queue, newest first.
func inTurn(tags []uint64, how entry.Outcome) []uint64 {
	if how == entry.Released || how == entry.Modified {
		tags = slices.Clone(tags)
		slices.Reverse(tags)
	}
	return tags
}
