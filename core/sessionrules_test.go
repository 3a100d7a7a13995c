package core_test

import (
	"fmt"
	"slices"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// What the commands of a channel mean to the world.

func (w *world) open(s *wSession, n uint16) *wChannel {
	h := s.channels[n]
	if h == nil {
		h = &wChannel{session: s, number: n, flight: map[uint64]*wFlight{}, sent: map[uint64]uint64{}}
		s.channels[n] = h
	}
	h.open, h.failed = true, false
	return h
}

func (w *world) closeChannel(h *wChannel) {
	w.release(h, entry.Released)
	h.open, h.failed = false, false
}

// fail is what a refusal does.
func (w *world) fail(h *wChannel) {
	w.owe(h).refused++
	w.release(h, entry.Released)
	h.open, h.failed = false, true
}

// failAll is what a connection error does.
func (w *world) failAll(h *wChannel) {
	s := h.session
	w.owe(h).refused++
	s.failed = true
	if s.key != "" {
		w.park(s)
		return
	}
	for _, n := range s.numbers() {
		w.closeChannel(s.channels[n])
	}
}

// usable answers a queue that a channel may use; nil, and the refusal is expected, if it may not.
func (w *world) usable(h *wChannel, name string) *wQueue {
	q := w.queues[name]
	if q == nil || q.owner != nil && q.owner != h.session {
		w.fail(h)
		return nil
	}
	return q
}

func (w *world) consume(h *wChannel, name, tag string, noAck bool) {
	if h.tagged(w, tag) != nil {
		w.failAll(h)
		return
	}
	q := w.usable(h, name)
	if q == nil {
		return
	}
	c := w.claim(h, q, tag, noAck)
	if c == nil {
		w.ages++
		c = &wConsumer{age: w.ages, queue: q, channel: h}
		q.consumers = append(q.consumers, c)
		if q.single && q.active == nil {
			q.active = c
		}
	}
	if c.channel != h {
		w.move(c, h)
	}
	c.tag, c.noAck, c.claim, c.limit = tag, noAck, false, h.prefetch
	if noAck {
		c.limit = 0
	}
	if h.session.adopt == 0 {
		return
	}
	for _, tag := range h.tags() {
		f := h.flight[tag]
		switch {
		case noAck && f.consumer == c:
			w.settle(h, tag, entry.Released)
		case !noAck && f.owed && f.queue == q && f.consumer != nil && !f.held(h):
			f.consumer = c
		}
	}
}

func (h *wChannel) tagged(w *world, tag string) *wConsumer {
	for _, c := range w.consumersOf(h) {
		if c.tag == tag && !c.claim {
			return c
		}
	}
	return nil
}

// claim finds the consumer that a client means by consuming again.
func (w *world) claim(h *wChannel, q *wQueue, tag string, noAck bool) *wConsumer {
	var best *wConsumer
	rank := 0
	for _, c := range q.consumers {
		if !c.claim || c.channel.session != h.session {
			continue
		}
		is := 1
		switch {
		case len(c.channel.settled) > 0 && (c.channel != h || noAck):
			continue
		case c.channel == h && c.tag == tag:
			is = 3
		case c.channel == h:
			is = 2
		}
		if is > rank {
			best, rank = c, is
		}
	}
	return best
}

func (w *world) move(c *wConsumer, to *wChannel) {
	from := c.channel
	c.channel = to
	for _, tag := range from.tags() {
		if f := from.flight[tag]; f.consumer == c {
			delete(from.flight, tag)
			f.owed, f.redelivered = true, true
			to.last++
			to.flight[to.last] = f
		}
	}
}

func (w *world) cancel(h *wChannel, tag string) {
	c := h.tagged(w, tag)
	if c == nil {
		return
	}
	w.removeConsumer(c)
	for _, tag := range h.tags() {
		if f := h.flight[tag]; f.consumer == c && f.owed && !f.gathered {
			w.settle(h, tag, entry.Released)
		}
	}
	w.autoDelete(c.queue)
}

func (w *world) publish(h *wChannel, name string, p wPublish) {
	s := h.session
	if p.queue = w.queues[name]; s.key == "" {
		p.id, p.name, p.sequence = "", "", 0
	}
	if h.tx {
		h.published = append(h.published, p)
		return
	}
	switch w.known(s, &p) {
	case "repeated":
		w.owe(h).confirmed += one(h.confirm)
	case "too old":
		if !h.confirm {
			w.fail(h)
			return
		}
		w.owe(h).nacked++
	default:
		w.enter(s, &p)
		w.owe(h).confirmed += one(h.confirm)
	}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (w *world) known(s *wSession, p *wPublish) string {
	highest := s.highest[p.name]
	switch {
	case p.id != "" && s.seen[p.id], p.sequence > 0 && s.numbered[p.name][p.sequence] && highest-p.sequence < 4096:
		return "repeated"
	case p.sequence > 0 && highest >= 4096 && p.sequence <= highest-4096:
		return "too old"
	}
	return ""
}

// enter enqueues a publish, and remembers it if it was.
func (w *world) enter(s *wSession, p *wPublish) {
	w.last++
	q := p.queue
	if q == nil || q.gone {
		return
	}
	q.put(wMessage{number: w.last, expires: w.now + q.ttl})
	if p.id != "" {
		s.seen[p.id], s.seenAt = true, w.now
	}
	if p.sequence > 0 && w.known(s, p) == "" {
		if s.numbered[p.name] == nil {
			s.numbered[p.name] = map[uint64]bool{}
		}
		s.numbered[p.name][p.sequence] = true
		s.highest[p.name] = max(s.highest[p.name], p.sequence)
	}
}

func (w *world) commit(h *wChannel) {
	for i := range h.published {
		if w.known(h.session, &h.published[i]) == "too old" {
			w.fail(h)
			return
		}
	}
	published, settled := h.published, h.settled
	h.published, h.settled = nil, nil
	for i := range published {
		if w.known(h.session, &published[i]) != "repeated" {
			w.enter(h.session, &published[i])
		}
	}
	for _, x := range settled {
		for _, tag := range x.tags {
			w.settle(h, tag, x.outcome)
		}
	}
}

// settleAll does what a Settle means.
func (w *world) settleAll(h *wChannel, x *entry.Settle) {
	tags, good := h.meant(x)
	if !good {
		w.fail(h)
		return
	}
	if h.tx {
		for _, tag := range tags {
			h.flight[tag].gathered = true
		}
		if len(tags) > 0 {
			h.settled = append(h.settled, wSettle{tags, x.Outcome})
		}
		return
	}
	for _, tag := range tags {
		w.settle(h, tag, x.Outcome)
	}
}

// meant is the tags that a settlement means; false if one of them is an error.
func (h *wChannel) meant(x *entry.Settle) (tags []uint64, good bool) {
	first, last := x.First, max(x.First, x.Last)
	epoch := h.session.epoch
	if x.Multiple {
		if first, last = 1, x.Last; last == 0 {
			last = h.last
		} else {
			epoch = h.sent[last]
		}
	}
	there := func(tag uint64) bool { f := h.flight[tag]; return f != nil && !f.noAck && !f.gathered }
	named := h.session.key != ""
	for _, tag := range h.tags() {
		same := !x.Multiple || !named || h.sent[tag] == epoch && epoch != 0
		if tag >= first && tag <= last && there(tag) && same {
			tags = append(tags, tag)
		}
	}
	switch {
	case named && x.Multiple:
		good = last <= h.last
	case named:
		good = first > 0 && last <= h.last
	case x.Multiple:
		good = x.Last == 0 || there(last)
	default:
		good = first > 0 && len(tags) == int(last-first+1)
	}
	return tags, good
}

func (w *world) recover(h *wChannel, requeue bool) {
	if !requeue && !h.session.keep {
		w.failAll(h)
		return
	}
	for _, tag := range h.tags() {
		f := h.flight[tag]
		switch {
		case f.noAck || f.gathered:
		case requeue:
			w.settle(h, tag, entry.Released)
		case !f.owed && (f.consumer == nil || f.held(h)):
			f.owed, f.redelivered = true, true
		}
	}
}

// written settles what needed no acknowledgement and was sent before a delivery, or is it.
func (w *world) written(h *wChannel, tag uint64) {
	for i := len(h.order) - 1; i >= 0; i-- {
		if h.order[i] != tag {
			continue
		}
		for _, tag := range h.order[:i+1] {
			if f := h.flight[tag]; f != nil && f.noAck {
				delete(h.flight, tag)
			}
		}
		h.order = h.order[i+1:]
		return
	}
}

// generate declares a queue without a name, and answers the name that it should get.
func (w *world) generate(h *wChannel, fresh string, autoDelete bool) string {
	s := h.session
	var same []*wQueue
	for _, q := range s.generated {
		if q.claimed != s.epoch && q.madeOn == h.number && q.autoDelete == autoDelete {
			same = append(same, q)
		}
	}
	if len(same) == 1 {
		same[0].claimed = s.epoch
		return same[0].name
	}
	q := &wQueue{name: fresh, owner: s, limit: -1, autoDelete: autoDelete, madeOn: h.number, claimed: s.epoch}
	if s.key != "" {
		q.maker = s
		s.generated = append(s.generated, q)
	}
	w.queues[fresh] = q
	return fresh
}

// answered is the report that a connection which lost its session was alive.
func (w *world) answered(s *wSession, epoch uint64) {
	n := 0
	for i := range s.takeovers {
		t := &s.takeovers[i]
		if t.epoch == epoch {
			t.answered = true
		}
		if t.answered && t.at > w.now-30_000 {
			n++
		}
	}
	if n < 3 {
		return
	}
	s.contended, s.takeovers = w.now+30_000, nil
	if s.node != 0 {
		w.say("s%d detached from %d.%d", s.id, s.node, s.epoch)
		w.detach(s)
	}
}

// check judges the effects of a command.
func (w *world) check(effects []core.Effect) {
	for _, e := range effects {
		switch e.Kind {
		case core.EffectAttached:
			w.expected("s%d attached to %d.%d %v %d released %d", e.Session, e.Node, e.Epoch, e.State, e.Messages, e.Count)
		case core.EffectDetached:
			w.expected("s%d detached from %d.%d", e.Session, e.Node, e.Epoch)
		case core.EffectRefused:
			if e.Session == 0 {
				w.expected("refused %d", e.Code)
				continue
			}
			h := w.sessions[e.Session].channels[e.Channel]
			if e.Command == entry.KindNone {
				w.late(h)
			}
			w.owe(h).refused--
		case core.EffectDelivered:
			w.deliver(&e)
		case core.EffectGot, core.EffectGetEmpty:
			w.got(&e)
		case core.EffectConfirmed:
			w.owe(w.sessions[e.Session].channels[e.Channel]).confirmed -= int(e.Count)
		case core.EffectNacked:
			w.owe(w.sessions[e.Session].channels[e.Channel]).nacked -= int(e.Count)
		case core.EffectConsumerCancelled:
			w.owe(w.sessions[e.Session].channels[e.Channel]).cancelled--
		}
	}
	if len(w.expect) > 0 {
		w.t.Fatalf("missing: %v", w.expect)
	}
	for h, x := range w.left {
		if *x != (answers{}) {
			w.t.Fatalf("s%d.%d is owed %+v", h.session.id, h.number, *x)
		}
	}
	clear(w.left)
	w.nobodyWaits()
}

// late judges a refusal for want of a settlement.
func (w *world) late(h *wChannel) {
	if !h.waits(w.now - patience) {
		w.t.Fatalf("s%d.%d has no delivery that is late", h.session.id, h.number)
	}
	w.fail(h)
}

// patience is how long a delivery may await its settlement, in milliseconds.
const patience = 30 * 60 * 1000

// waits says whether the client holds a delivery that was sent before a time, or then.
func (h *wChannel) waits(then int64) bool {
	for _, f := range h.flight {
		if h.open && !f.noAck && !f.owed && f.sentAt <= then {
			return true
		}
	}
	return false
}

func (w *world) expected(format string, args ...any) {
	got := fmt.Sprintf(format, args...)
	if len(w.expect) == 0 || w.expect[0] != got {
		w.t.Fatalf("got %q, want %q", got, w.expect)
	}
	w.expect = w.expect[1:]
}

// deliver judges one delivery to a consumer.
func (w *world) deliver(e *core.Effect) {
	s := w.sessions[e.Session]
	if s == nil || s.node != e.Node || s.epoch != e.Epoch {
		w.t.Fatalf("delivery to an attachment that is over: %+v", e)
	}
	h := s.channels[e.Channel]
	c := h.tagged(w, e.Name)
	if c == nil || !h.open {
		w.t.Fatalf("delivery %d to %q, which is not there", e.Tag, e.Name)
	}
	if !w.credit(c) {
		w.t.Fatalf("delivery %d to %q without credit", e.Tag, e.Name)
	}
	if c.noAck || c.limit == 0 {
		h.order = append(h.order, e.Tag)
	}
	if f := h.flight[e.Tag]; f != nil {
		w.again(e, h, func(f *wFlight) bool { return f.consumer == c })
		return
	}
	if h.count(c, true) > 0 || c.queue.single && c.queue.active != c {
		w.t.Fatalf("new delivery %d to %q, which is owed others or not the active one", e.Tag, e.Name)
	}
	w.take(e, h, c.queue, c)
}

// again judges a delivery that is sent again.
func (w *world) again(e *core.Effect, h *wChannel, of func(*wFlight) bool) {
	f := h.flight[e.Tag]
	if tag := h.nextOwed(of); tag != e.Tag || f.number != e.Number || !e.Redelivered {
		w.t.Fatalf("delivery %d of #%d sent again, want %d of #%d", e.Tag, e.Number, tag, f.number)
	}
	w.judgeFailures(e, f.queue, &f.wMessage)
	f.owed, f.sentAt = false, w.now
	h.sent[e.Tag] = h.session.epoch
}

func (w *world) judgeFailures(e *core.Effect, q *wQueue, x *wMessage) {
	if q.limit >= 0 && failures(e) != x.failed {
		w.t.Fatalf("delivery of #%d shows %d failures, want %d", e.Number, failures(e), x.failed)
	}
}

// take judges a delivery that is new to the channel.
func (w *world) take(e *core.Effect, h *wChannel, q *wQueue, c *wConsumer) {
	w.expire(q)
	if len(q.ready) == 0 || q.ready[0].number != e.Number || q.ready[0].redelivered != e.Redelivered || e.Tag != h.last+1 {
		w.t.Fatalf("delivery %d of #%d (redelivered %v) is not the next of %v after %d", e.Tag, e.Number, e.Redelivered, q.ready, h.last)
	}
	w.judgeFailures(e, q, &q.ready[0])
	h.last++
	h.flight[h.last] = &wFlight{wMessage: q.ready[0], queue: q, consumer: c, noAck: e.NoAck, sentAt: w.now}
	h.sent[h.last] = h.session.epoch
	q.ready = q.ready[1:]
}

func (w *world) got(e *core.Effect) {
	h := w.sessions[e.Session].channels[e.Channel]
	x := w.owe(h)
	x.got--
	q := w.queues[w.asked]
	owed := uint64(0)
	if !w.askedNoAck {
		owed = h.nextOwed(func(f *wFlight) bool { return f.consumer == nil && f.queue == q })
	}
	switch {
	case e.Kind == core.EffectGetEmpty:
		if w.expire(q); owed != 0 || len(q.ready) > 0 {
			w.t.Fatalf("get of %s found nothing", q.name)
		}
	case owed != 0:
		w.again(e, h, func(f *wFlight) bool { return f.consumer == nil && f.queue == q })
	default:
		w.take(e, h, q, nil)
		if e.NoAck {
			h.order = append(h.order, e.Tag)
		}
	}
}

func (w *world) nobodyWaits() {
	for _, q := range w.queues {
		w.expire(q)
		for _, c := range q.consumers {
			if c.claim || !w.credit(c) {
				continue
			}
			if tag := c.channel.nextOwed(func(f *wFlight) bool { return f.consumer == c }); tag != 0 {
				w.t.Fatalf("%q is owed delivery %d and has credit", c.tag, tag)
			}
			if c.channel.count(c, true) == 0 && len(q.ready) > 0 && (!q.single || q.active == c) {
				w.t.Fatalf("%q waits with credit, and %d messages are ready in %s", c.tag, len(q.ready), q.name)
			}
		}
	}
}

// compare judges the machine's own account.
func (w *world) compare(m *core.Machine) {
	unacked := map[*wQueue]int{}
	var got, want []string
	for _, s := range w.byID() {
		until := int64(0)
		if s.node == 0 {
			until = max(s.left+s.expiry, s.contended)
		}
		want = append(want, fmt.Sprintf("s%d on %d epoch %d until %d in-flight %d", s.id, s.node, s.epoch, until, s.inFlight()))
		for _, h := range s.channels {
			if h.waits(w.now - patience - 2000) {
				w.t.Fatalf("s%d.%d has a delivery that is late", h.session.id, h.number)
			}
			for _, f := range h.flight {
				if !f.noAck {
					unacked[f.queue]++
				}
			}
		}
	}
	for _, s := range m.Sessions("/") {
		got = append(got, fmt.Sprintf("s%d on %d epoch %d until %d in-flight %d", s.ID, s.Node, s.Epoch, s.ExpiresAt, s.InFlight))
	}
	for _, q := range w.queues {
		want = append(want, fmt.Sprintf("%s ready %d unacked %d consumers %d", q.name, len(q.ready)+q.dead, unacked[q], len(q.consumers)))
	}
	for _, q := range m.Queues("/") {
		got = append(got, fmt.Sprintf("%s ready %d unacked %d consumers %d", q.Name, q.Ready, q.Unacknowledged, q.Consumers))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Fatalf("the machine has\n%v, want\n%v", got, want)
	}
}
