package core_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// world is the slow and obvious keeper of sessions beside the machine's: every fact is written down where it arises, and
// counted anew whenever it is asked for. Like model, it knows who may get a message, not who does.
type world struct {
	t        failer
	now      int64
	last     uint64 // message number
	ids      uint64 // of sessions
	ages     int    // of consumers
	queues   map[string]*wQueue
	sessions map[uint64]*wSession
	expect   []string // effects about sessions, in order
	left     map[*wChannel]*answers
	asked    string // queue of the get at hand

	askedNoAck bool
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// answers are what a channel is owed of the command at hand.
type answers struct{ confirmed, nacked, refused, got, cancelled int }

type wMessage struct {
	number      uint64
	redelivered bool
	failed      int
	expires     int64
}

type wQueue struct {
	name       string
	owner      *wSession
	maker      *wSession
	madeOn     uint16
	claimed    uint64
	autoDelete bool
	limit      int // of failures, -1 for none
	ttl        int64
	single     bool
	ready      []wMessage
	consumers  []*wConsumer // by age
	active     *wConsumer
	gone       bool
	dead       int // of the queue of dead letters: how many
}

type wConsumer struct {
	tag         string
	queue       *wQueue
	channel     *wChannel
	age         int
	limit       int
	noAck       bool
	claim, gone bool
}

type wFlight struct {
	wMessage
	queue                 *wQueue
	consumer              *wConsumer // nil for a get
	sentAt                int64
	noAck, owed, gathered bool
}

type wChannel struct {
	session         *wSession
	number          uint16
	open, failed    bool
	last            uint64
	prefetch, limit int
	confirm, tx     bool
	flight          map[uint64]*wFlight
	sent            map[uint64]uint64 // epoch in which a tag was last sent
	order           []uint64          // tags in the order of sending, on this attachment
	published       []wPublish
	settled         []wSettle
}

type wPublish struct {
	queue    *wQueue
	id       string
	name     string
	sequence uint64
}

type wSettle struct {
	tags    []uint64
	outcome entry.Outcome
}

type wSession struct {
	id, epoch, node        uint64
	key, process           string
	former                 []string
	expiry                 int64 // ms
	keep, keepOnClose      bool
	left, adopt, contended int64
	takeovers              []wTakeover
	channels               map[uint16]*wChannel
	seen                   map[string]bool
	seenAt                 int64
	numbered               map[string]map[uint64]bool
	highest                map[string]uint64
	generated              []*wQueue
	failed                 bool
}

type wTakeover struct {
	epoch    uint64
	at       int64
	answered bool
}

func newWorld(t failer) *world {
	return &world{t: t, queues: map[string]*wQueue{}, sessions: map[uint64]*wSession{}, left: map[*wChannel]*answers{}}
}

func (w *world) say(format string, args ...any) {
	w.expect = append(w.expect, fmt.Sprintf(format, args...))
}

func (w *world) owe(h *wChannel) *answers {
	if w.left[h] == nil {
		w.left[h] = &answers{}
	}
	return w.left[h]
}

func (s *wSession) numbers() []uint16 { return slices.Sorted(maps.Keys(s.channels)) }

func (h *wChannel) tags() []uint64 { return slices.Sorted(maps.Keys(h.flight)) }

func (w *world) byID() []*wSession {
	var list []*wSession
	for _, id := range slices.Sorted(maps.Keys(w.sessions)) {
		list = append(list, w.sessions[id])
	}
	return list
}

func (w *world) find(key string) *wSession {
	for _, s := range w.sessions {
		if key != "" && s.key == key {
			return s
		}
	}
	return nil
}

func (s *wSession) inFlight() int {
	n := 0
	for _, h := range s.channels {
		n += len(h.flight)
	}
	return n
}

// attach does what an attach on a node means.
func (w *world) attach(node uint64, x *entry.Attach) {
	s := w.find(x.Key)
	switch {
	case s != nil && w.now < s.contended:
		w.say("refused %d", core.CodeResourceLocked)
		return
	case s != nil && x.Process != "" && slices.Contains(s.former, x.Process):
		w.say("refused %d", core.CodeConnectionForced)
		return
	case s == nil && x.Key != "" && x.Expect == entry.ExpectResume:
		w.say("refused %d", core.CodeNotFound)
		return
	}
	state, released := core.StateNew, 0
	var former []string
	if s != nil && x.Expect == entry.ExpectNew {
		former = append(former, s.former...)
		if s.process != "" {
			former = append(former, s.process)
		}
		if s.node != 0 {
			w.say("s%d detached from %d.%d", s.id, s.node, s.epoch)
		}
		released = s.inFlight()
		w.end(s, entry.Released)
		s = nil
	}
	if s == nil {
		w.ids++
		s = &wSession{id: w.ids, key: x.Key, process: x.Process, former: former, channels: map[uint16]*wChannel{}, seen: map[string]bool{},
			numbered: map[string]map[uint64]bool{}, highest: map[string]uint64{}}
		w.sessions[s.id] = s
	} else {
		state, released = w.resume(s, x)
	}
	s.epoch++
	s.node, s.expiry, s.keep, s.keepOnClose = node, int64(x.Expiry)*1000, x.KeepInFlight && x.Key != "", x.KeepOnClose && x.Key != ""
	w.say("s%d attached to %d.%d %v %d released %d", s.id, s.node, s.epoch, state, s.inFlight(), released)
}

// resume makes a session that is there ready for its next attachment.
func (w *world) resume(s *wSession, x *entry.Attach) (core.SessionState, int) {
	state, same := core.StateResumed, s.process == x.Process
	if s.node != 0 {
		state = core.StateTakenOver
		if same {
			s.takeovers = append(s.takeovers, wTakeover{epoch: s.epoch, at: w.now})
		}
		w.say("s%d detached from %d.%d", s.id, s.node, s.epoch)
		w.park(s)
	}
	if !same && s.process != "" {
		s.former = append(s.former, s.process)
	}
	s.process, s.adopt, s.failed = x.Process, 0, false
	released := 0
	for _, n := range s.numbers() {
		h := s.channels[n]
		for _, tag := range h.tags() {
			f := h.flight[tag]
			f.owed, f.sentAt = !(x.KeepInFlight && same), w.now
			if !same && !f.queue.gone {
				if f.failed++; f.queue.limit >= 0 && f.failed > f.queue.limit {
					released++
					delete(h.flight, tag)
					w.bury(f.queue)
				}
			}
			f.redelivered = f.redelivered || f.owed
		}
		if len(h.flight) > 0 || len(w.consumersOf(h)) > 0 {
			s.adopt = w.now + 30_000
		}
	}
	return state, released
}

func (w *world) consumersOf(h *wChannel) []*wConsumer {
	var list []*wConsumer
	for _, q := range w.queues {
		for _, c := range q.consumers {
			if c.channel == h {
				list = append(list, c)
			}
		}
	}
	slices.SortFunc(list, func(a, b *wConsumer) int { return a.age - b.age })
	return list
}

// park is what the loss of a connection does to a named session.
func (w *world) park(s *wSession) {
	for _, h := range s.channels {
		h.rollback()
		h.open, h.failed, h.confirm, h.tx, h.order = false, false, false, false, nil
		for tag, f := range h.flight {
			if f.noAck {
				delete(h.flight, tag)
			}
		}
		for _, c := range w.consumersOf(h) {
			c.claim = true
		}
	}
}

func (h *wChannel) rollback() {
	h.published, h.settled = nil, nil
	for _, f := range h.flight {
		f.gathered = false
	}
}

func (w *world) detach(s *wSession) {
	if s.key == "" || s.expiry == 0 && s.contended <= w.now {
		w.end(s, entry.Modified)
		return
	}
	w.park(s)
	s.node, s.left = 0, w.now
}

func (w *world) end(s *wSession, how entry.Outcome) {
	for _, n := range s.numbers() {
		w.release(s.channels[n], how)
	}
	for _, name := range slices.Sorted(maps.Keys(w.queues)) {
		if q := w.queues[name]; q.owner == s {
			w.deleteQueue(q)
		}
	}
	for _, q := range s.generated {
		q.maker = nil
	}
	delete(w.sessions, s.id)
}

// release is what closing a channel does.
func (w *world) release(h *wChannel, how entry.Outcome) {
	h.rollback()
	var queues []*wQueue
	for _, c := range w.consumersOf(h) {
		w.removeConsumer(c)
		queues = append(queues, c.queue)
	}
	for _, tag := range h.tags() {
		w.settle(h, tag, how)
	}
	for _, q := range queues {
		w.autoDelete(q)
	}
	h.prefetch, h.limit, h.confirm, h.tx, h.order = 0, 0, false, false, nil
	if h.session.key == "" {
		h.last = 0
	}
}

func (w *world) removeConsumer(c *wConsumer) {
	q := c.queue
	q.consumers = slices.DeleteFunc(q.consumers, func(x *wConsumer) bool { return x == c })
	c.gone = true
	if q.active == c {
		q.active = nil
		for _, x := range q.consumers {
			if q.active == nil || q.active.claim && !x.claim {
				q.active = x
			}
		}
	}
}

func (w *world) autoDelete(q *wQueue) {
	if q.autoDelete && len(q.consumers) == 0 && !q.gone {
		w.deleteQueue(q)
	}
}

func (w *world) deleteQueue(q *wQueue) {
	for _, c := range slices.Clone(q.consumers) {
		if !c.claim {
			w.owe(c.channel).cancelled++
		}
		w.removeConsumer(c)
	}
	q.gone = true
	delete(w.queues, q.name)
	if q.maker != nil {
		q.maker.generated = slices.DeleteFunc(q.maker.generated, func(x *wQueue) bool { return x == q })
	}
}

// settle ends a delivery.
func (w *world) settle(h *wChannel, tag uint64, how entry.Outcome) {
	f := h.flight[tag]
	delete(h.flight, tag)
	q := f.queue
	if q.gone || f.noAck || how == entry.Accepted {
		return
	}
	if how == entry.Rejected {
		w.bury(q)
		return
	}
	f.redelivered = true
	if how == entry.Modified {
		f.failed++
	}
	if q.limit >= 0 && f.failed > q.limit {
		w.bury(q)
		return
	}
	q.put(f.wMessage)
}

func (q *wQueue) put(x wMessage) {
	q.ready = append(q.ready, x)
	slices.SortFunc(q.ready, func(a, b wMessage) int { return int(a.number) - int(b.number) })
}

// bury makes a dead letter, where the queue has them.
func (w *world) bury(q *wQueue) {
	if q.limit >= 0 || q.ttl > 0 {
		w.last++
		w.queues[deadQueue].dead++
	}
}

func (w *world) expire(q *wQueue) {
	for len(q.ready) > 0 && q.ttl > 0 && q.ready[0].expires <= w.now {
		q.ready = q.ready[1:]
		w.bury(q)
	}
}

// pass lets time pass: what is due happens.
func (w *world) pass(now int64) {
	w.now = now
	for _, s := range w.byID() {
		switch {
		case s.node == 0 && max(s.left+s.expiry, s.contended) <= now:
			w.end(s, entry.Modified)
		case s.node != 0 && s.adopt != 0 && s.adopt <= now:
			w.giveUp(s)
		case len(s.seen) > 0 && s.seenAt+s.expiry+600_000 <= now:
			clear(s.seen)
		}
		if s.node != 0 && len(s.seen) > 0 && s.seenAt+s.expiry+600_000 <= now {
			clear(s.seen)
		}
	}
}

// giveUp returns what nobody has adopted.
func (w *world) giveUp(s *wSession) {
	s.adopt = 0
	for _, n := range s.numbers() {
		h := s.channels[n]
		var queues []*wQueue
		for _, c := range w.consumersOf(h) {
			if c.claim {
				w.removeConsumer(c)
				queues = append(queues, c.queue)
			}
		}
		for _, tag := range h.tags() {
			if f := h.flight[tag]; !h.open && !h.failed || f.owed && !f.gathered && !f.held(h) {
				w.settle(h, tag, entry.Released)
			}
		}
		for _, q := range queues {
			w.autoDelete(q)
		}
	}
}

// held says whether a delivery's consumer is still there.
func (f *wFlight) held(h *wChannel) bool {
	return f.consumer != nil && !f.consumer.gone && f.consumer.channel == h
}

// counts of a consumer or a channel: what was sent and is not settled, and what is owed.
func (h *wChannel) count(c *wConsumer, owed bool) int {
	n := 0
	for _, f := range h.flight {
		if !f.noAck && f.consumer != nil && (c == nil || f.consumer == c) && f.owed == owed {
			n++
		}
	}
	return n
}

func (w *world) credit(c *wConsumer) bool {
	h := c.channel
	if c.limit > 0 && h.count(c, false) >= c.limit {
		return false
	}
	return c.noAck || h.limit == 0 || h.count(nil, false) < h.limit
}

// nextOwed is the tag that a consumer is to be sent again first, 0 for none.
func (h *wChannel) nextOwed(of func(*wFlight) bool) uint64 {
	for _, tag := range h.tags() {
		if f := h.flight[tag]; f.owed && !f.gathered && of(f) {
			return tag
		}
	}
	return 0
}
