package core_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

var sessionWalks = coretest.NewWalks("session", "./core -run TestSessionsAgainstTheModel", 20_000, 200)

// TestSessionsAgainstTheModel drives the machine and the world with the same random commands.
func TestSessionsAgainstTheModel(t *testing.T) {
	sessionWalks.Run(func(seed uint64, operations int) { newRamble(t, seed).run(operations) })
}

// ramble is one random run.
type ramble struct {
	*testing.T
	seed  uint64
	r     *rand.Rand
	d     *coretest.Driver
	w     *world
	log   []string
	names int
}

func newRamble(t *testing.T, seed uint64) *ramble {
	x := &ramble{T: t, seed: seed, r: rand.New(rand.NewPCG(seed, 1))}
	x.d = coretest.New(x)
	x.d.Audit = core.Audit
	x.w = newWorld(x)
	return x
}

// Fatalf tells what was done, and how to do it again.
func (x *ramble) Fatalf(format string, args ...any) {
	x.Helper()
	x.T.Fatalf("%s\n%s\n%s", strings.Join(x.log[max(0, len(x.log)-60):], "\n"), fmt.Sprintf(format, args...), sessionWalks.Again(x.seed))
}

// Fatal is Fatalf for coretest.
func (x *ramble) Fatal(args ...any) { x.Helper(); x.Fatalf("%s", fmt.Sprint(args...)) }

func (x *ramble) run(operations int) {
	x.d.Control(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.NodeUp{Node: 2, Nonce: 7}, &entry.VhostCreate{ID: "v1", Name: "/"})
	x.w.now = x.d.Stamp
	x.attach(entry.Attach{})
	s := x.w.sessions[1]
	h := x.open(s, 1)
	for _, q := range []struct {
		wQueue
		arguments []byte
	}{
		{wQueue{name: deadQueue, limit: -1}, nil},
		{wQueue{name: "a", limit: -1}, nil},
		{wQueue{name: "limited", limit: 2}, table("x-delivery-limit", int32(2), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", deadQueue)},
		{wQueue{name: "short", limit: -1, ttl: 300}, table("x-message-ttl", int32(300), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", deadQueue)},
		{wQueue{name: "single", limit: -1, single: true}, table("x-single-active-consumer", true)},
	} {
		x.w.queues[q.name] = &q.wQueue
		x.do(h, &entry.QueueDeclare{Ref: h.ref(), Name: q.name, Arguments: q.arguments})
	}
	for end := x.d.Index + uint64(operations); x.d.Index < end; { // some steps find nothing to do
		x.step()
	}
	changePlaces(x.d)
}

func (h *wChannel) ref() entry.Ref {
	return entry.Ref{Session: h.session.id, Epoch: h.session.epoch, Channel: h.number}
}

func (x *ramble) note(format string, args ...any) {
	x.log = append(x.log, fmt.Sprintf("%d: ", x.d.Stamp)+fmt.Sprintf(format, args...))
}

// judge has the world look at the effects of a command, and at those of the ticks that are due then.
func (x *ramble) judge(effects []core.Effect) {
	for i := range effects {
		x.log = append(x.log, "    "+coretest.Format(&effects[i]))
	}
	x.w.check(effects)
	for due := x.d.Machine.NextDeadline(); due != 0 && due <= x.d.Stamp; due = x.d.Machine.NextDeadline() {
		x.w.pass(x.d.Stamp)
		x.w.check(x.d.Control(&entry.Tick{}))
	}
	x.w.compare(x.d.Machine)
}

func (x *ramble) do(h *wChannel, cmds ...entry.Command) {
	for _, c := range cmds {
		x.note("%T %+v", c, c)
	}
	x.judge(x.d.Batch(h.session.node, cmds...))
}

func (x *ramble) one(n int) int { return x.r.IntN(n) }

func (x *ramble) coin(n int) bool { return x.r.IntN(n) == 0 }

func (x *ramble) source() *rand.Rand { return x.r }

func (x *ramble) step() {
	type step struct {
		weight int
		do     func()
	}
	steps := []step{{3, x.someAttach}, {2, x.detach}, {1, x.end}, {1, x.nodeDown}, {1, x.crash}, {4, x.comeBack}, {1, x.fight}, {1, x.leaderUp}, {1, x.closeSession},
		{2, x.answer}, {4, x.wait}, {1, x.restart}, {1, x.stale},
		{3, x.onChannel(x.openAnother)}, {1, x.onChannel(x.closeChannel)}, {2, x.onChannel(x.qos)}, {6, x.onChannel(x.consume)},
		{1, x.onChannel(x.cancel)}, {3, x.onChannel(x.get)}, {14, x.onChannel(x.publish)}, {10, x.onChannel(x.settle)},
		{1, x.onChannel(x.recover)}, {3, x.onChannel(x.written)}, {1, x.onChannel(x.modes)}, {2, x.onChannel(x.transact)},
		{2, x.onChannel(x.declare)}, {1, x.onChannel(x.remove)}}
	all := 0
	for _, s := range steps {
		all += s.weight
	}
	n := x.one(all)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			s.do()
			return
		}
	}
}

func (x *ramble) session() *wSession {
	list := x.w.byID()
	if len(list) == 0 {
		return nil
	}
	return pick(x, list...)
}

// onChannel does something on an open channel; where a session has none it opens one first.
func (x *ramble) onChannel(do func(*wChannel)) func() {
	return func() {
		s := x.session()
		if s == nil || s.node == 0 {
			x.someAttach()
			return
		}
		if s.failed {
			x.lose(s)
			return
		}
		var open []*wChannel
		for _, n := range s.numbers() {
			if s.channels[n].open {
				open = append(open, s.channels[n])
			}
		}
		if len(open) == 0 {
			x.open(s, uint16(1+x.one(3)))
			return
		}
		do(pick(x, open...))
	}
}

func (x *ramble) open(s *wSession, n uint16) *wChannel {
	h := x.w.open(s, n)
	x.do(h, &entry.ChannelOpen{Ref: h.ref()})
	return h
}

func (x *ramble) openAnother(h *wChannel) {
	if n := uint16(1 + x.one(3)); h.session.channels[n] == nil || !h.session.channels[n].open {
		x.open(h.session, n)
	}
}

func (x *ramble) closeChannel(h *wChannel) {
	x.w.closeChannel(h)
	x.do(h, &entry.ChannelClose{Ref: h.ref(), Reply: true})
}

func (x *ramble) attach(a entry.Attach) { x.attachOn(uint64(1+x.one(2)), a) }

func (x *ramble) attachOn(node uint64, a entry.Attach) {
	a.Vhost, a.User = "/", "u"
	x.w.attach(node, &a)
	x.note("on %d %+v", node, a)
	x.judge(x.d.Batch(node, &a))
}

func (x *ramble) someAttach() {
	if len(x.w.sessions) > 5 && x.coin(2) {
		x.attach(entry.Attach{Key: pick(x, "k", "l")})
		return
	}
	x.attach(entry.Attach{Key: pick(x, "", "k", "k", "k", "l", "m"), Process: pick(x, "", "", "A", "A", "B"),
		Expiry: pick(x, uint32(60), 60, 60, 0, 5), Expect: pick(x, entry.ExpectAny, entry.ExpectAny, entry.ExpectAny, entry.ExpectResume, entry.ExpectNew),
		KeepInFlight: x.coin(3), KeepOnClose: x.coin(3)})
}

func (x *ramble) detach() {
	if s := x.session(); s != nil && s.node != 0 {
		x.lose(s)
	}
}

// lose is the loss of a session's connection.
func (x *ramble) lose(s *wSession) {
	ref, node := entry.Ref{Session: s.id, Epoch: s.epoch}, s.node
	x.w.detach(s)
	x.note("s%d detach", s.id)
	x.judge(x.d.Batch(node, &entry.Detach{Ref: ref}))
}

func (x *ramble) end() {
	if s := x.session(); s != nil && s.node != 0 {
		ref, node := entry.Ref{Session: s.id, Epoch: s.epoch}, s.node
		if s.keepOnClose && s.expiry > 0 {
			x.w.detach(s)
		} else {
			x.w.end(s, entry.Released)
		}
		x.note("s%d end", s.id)
		x.judge(x.d.Batch(node, &entry.End{Ref: ref}))
	}
}

func (x *ramble) closeSession() {
	if s := x.session(); s != nil {
		if s.node != 0 {
			x.w.say("s%d detached from %d.%d", s.id, s.node, s.epoch)
		}
		x.w.end(s, entry.Released)
		x.note("s%d closed", s.id)
		x.judge(x.d.Control(&entry.SessionClose{Session: s.id}))
	}
}

func (x *ramble) nodeDown() { x.down(uint64(1 + x.one(2))) }

func (x *ramble) down(node uint64) {
	for _, s := range x.w.byID() {
		if s.node == node {
			x.w.say("s%d detached from %d.%d", s.id, s.node, s.epoch)
			x.w.detach(s)
		}
	}
	incarnation, _, _ := x.d.Machine.Incarnation(node)
	x.note("node %d down", node)
	x.judge(x.d.Control(&entry.NodeDown{Node: node, Incarnation: incarnation}))
	x.judge(x.d.Control(&entry.NodeUp{Node: node, Nonce: x.r.Uint64() | 1}))
}

// crash has two sessions on one node take turns at a queue's messages and lose their connections at once, while a third waits for what
// they leave.
func (x *ramble) crash() {
	crashed := uint64(1 + x.one(2))
	x.attachOn(3-crashed, entry.Attach{})
	third := x.w.byID()[len(x.w.sessions)-1]
	for _, key := range []string{"k", "l"} {
		x.attachOn(crashed, entry.Attach{Key: key, Expiry: 60})
		s := x.w.find(key)
		if s == nil || s.node != crashed || s.failed {
			return
		}
		n := uint16(4)
		for s.channels[n] != nil {
			n++
		}
		x.names++
		h := x.open(s, n)
		x.w.consume(h, "a", fmt.Sprint("crash", x.names), false)
		x.do(h, &entry.Consume{Ref: h.ref(), Queue: "a", Tag: fmt.Sprint("crash", x.names)})
	}
	h := x.open(third, 1)
	for range 5 {
		x.w.publish(h, "a", wPublish{})
		x.do(h, &entry.Publish{Ref: h.ref(), Record: coretest.Record("", "a", nil, "x")})
	}
	x.w.consume(h, "a", "third", false)
	x.do(h, &entry.Consume{Ref: h.ref(), Queue: "a", Tag: "third"})
	x.down(crashed)
	x.waitFor(pick(x, int64(60_000), 61_000))
}

// comeBack has a session with several consumers of one queue lose its connection with deliveries in flight, and its client come back to some
// of them on other channels or under other tags, some in a transaction, and wait until what it has not adopted goes back.
func (x *ramble) comeBack() {
	a := entry.Attach{Key: pick(x, "k", "l"), Expiry: 60, KeepInFlight: x.coin(4)}
	queue, tags := pick(x, "a", "a", "limited", "single"), []string{"t", "u", "v"}
	if s := x.w.find(a.Key); s != nil {
		a.Process = s.process
	}
	x.attach(a)
	for range 2 + x.one(3) {
		x.onOne(a.Key, func(h *wChannel) { x.consumeFrom(h, queue, pick(x, tags...), false) })
	}
	for range 5 {
		x.onOne(a.Key, func(h *wChannel) {
			x.w.publish(h, queue, wPublish{})
			x.do(h, &entry.Publish{Ref: h.ref(), Record: coretest.Record("", queue, nil, "x")})
		})
	}
	for range x.one(3) {
		x.onOne(a.Key, func(h *wChannel) { x.getFrom(h, queue, false) })
	}
	s := x.w.find(a.Key)
	if s == nil || s.node == 0 {
		return
	}
	x.lose(s)
	x.attach(a)
	if x.coin(2) { // not all that is owed is sent at once
		x.onOne(a.Key, func(h *wChannel) {
			h.prefetch, h.limit = 1, 0
			x.do(h, &entry.Qos{Ref: h.ref(), Prefetch: 1})
		})
	}
	if x.coin(2) {
		x.onOne(a.Key, x.modes)
		x.onOne(a.Key, x.modes)
	}
	for range 3 + x.one(6) {
		x.onOne(a.Key, pick(x, x.settle, x.settle, x.publish, x.transact, func(h *wChannel) { x.getFrom(h, queue, x.coin(4)) },
			func(h *wChannel) { x.consumeFrom(h, queue, pick(x, tags...), x.coin(4)) }, x.cancel, x.recover,
			func(h *wChannel) { x.consumeFrom(h, queue, pick(x, tags...), x.coin(4)) }))
	}
	x.onOne(a.Key, x.transact)
	x.waitFor(pick(x, int64(20), 30_000, 31_000))
}

// fight has connections take a session from one another, of which most still answer.
func (x *ramble) fight() {
	a := entry.Attach{Key: pick(x, "k", "l", "m"), Process: pick(x, "", "A"), Expiry: pick(x, uint32(60), 0)}
	for range 4 + x.one(3) {
		x.attach(a)
		if s := x.w.find(a.Key); s != nil && s.epoch > 1 && !x.coin(5) {
			x.answerFor(s, s.epoch-1)
		}
		if x.coin(3) {
			x.waitFor(pick(x, int64(3000), 14_000, 29_999, 30_000))
		}
	}
}

// onOne does something on a channel of the session with a key, one of two; nothing where that has failed.
func (x *ramble) onOne(key string, do func(*wChannel)) {
	s := x.w.find(key)
	if s == nil || s.node == 0 || s.failed {
		return
	}
	n := uint16(1 + x.one(2))
	if h := s.channels[n]; h == nil || !h.open {
		h = x.open(s, n)
		h.prefetch, h.limit = 2, 0
		x.do(h, &entry.Qos{Ref: h.ref(), Prefetch: 2})
	}
	do(s.channels[n])
}

func (x *ramble) leaderUp() {
	for _, s := range x.w.byID() {
		switch {
		case s.key == "":
		case s.node == 0:
			s.left = x.w.now
		case s.adopt != 0:
			s.adopt = x.w.now + 30_000
		}
	}
	x.note("leader up")
	x.judge(x.d.Control(&entry.LeaderUp{Node: 1, Term: x.r.Uint64()}))
}

// answer reports that the connection of an earlier attachment was alive, whether it was or not.
func (x *ramble) answer() {
	if s := x.session(); s != nil && s.epoch > 1 {
		x.answerFor(s, s.epoch-1-uint64(x.one(min(3, int(s.epoch-1)))))
	}
}

func (x *ramble) answerFor(s *wSession, epoch uint64) {
	x.w.answered(s, epoch)
	x.note("s%d answered %d", s.id, epoch)
	x.judge(x.d.Batch(1, &entry.Answered{Ref: entry.Ref{Session: s.id, Epoch: epoch}}))
}

func (x *ramble) wait() {
	x.waitFor(pick(x, int64(20), 100, 300, 3000, 3000, 30_000, 31_000, 61_000, 700_000, 2_000_000))
}

func (x *ramble) waitFor(millis int64) {
	for end := x.d.Stamp + millis; ; {
		due := x.d.Machine.NextDeadline()
		if due == 0 || due > end {
			x.d.Stamp, x.w.now = end, end
			return
		}
		x.d.Stamp = max(x.d.Stamp, due)
		x.w.pass(x.d.Stamp)
		x.note("tick")
		x.judge(x.d.Control(&entry.Tick{}))
	}
}

func (x *ramble) restart() {
	if x.coin(5) {
		x.note("restart")
		x.d.Restart()
		return
	}
	x.d.Checkpoint()
}

// stale sends a command of an attachment that is over.
func (x *ramble) stale() {
	s := x.session()
	if s == nil || s.epoch < 2 {
		return
	}
	if s.node != 0 { // nor does another node speak for it
		x.judge(x.d.Batch(3-s.node, &entry.Publish{Ref: entry.Ref{Session: s.id, Epoch: s.epoch, Channel: 1}, Record: coretest.Record("", "a", nil, "of another node")}))
	}
	x.note("s%d stale", s.id)
	x.judge(x.d.Batch(1, &entry.Publish{Ref: entry.Ref{Session: s.id, Epoch: s.epoch - 1, Channel: 1}, Record: coretest.Record("", "a", nil, "stale")}))
}

func (x *ramble) queue() string { return pick(x, slices.Sorted(maps.Keys(x.w.queues))...) }

// feedingQueue is one that clients read from.
func (x *ramble) feedingQueue() string {
	for {
		if name := x.queue(); name != deadQueue {
			return name
		}
	}
}

func (x *ramble) qos(h *wChannel) {
	n, global := pick(x, 0, 1, 2, 5), x.coin(4)
	if global {
		h.limit = n
	} else {
		h.prefetch, h.limit = n, 0
	}
	x.do(h, &entry.Qos{Ref: h.ref(), Prefetch: uint32(n), Global: global})
}

func (x *ramble) consume(h *wChannel) {
	x.consumeFrom(h, x.feedingQueue(), pick(x, "t", "u", "v", fmt.Sprint("new", x.one(1000))), x.coin(6))
}

func (x *ramble) consumeFrom(h *wChannel, queue, tag string, noAck bool) {
	ref := h.ref()
	x.w.consume(h, queue, tag, noAck)
	x.do(h, &entry.Consume{Ref: ref, Queue: queue, Tag: tag, NoAck: noAck})
}

func (x *ramble) cancel(h *wChannel) {
	tag := pick(x, "t", "u", "v")
	x.w.cancel(h, tag)
	x.do(h, &entry.Cancel{Ref: h.ref(), Tag: tag})
}

func (x *ramble) get(h *wChannel) {
	x.getFrom(h, x.feedingQueue(), x.coin(6))
}

func (x *ramble) getFrom(h *wChannel, queue string, noAck bool) {
	x.w.asked, x.w.askedNoAck = queue, noAck
	if x.w.usable(h, x.w.asked) != nil {
		x.w.owe(h).got++
	}
	x.do(h, &entry.Get{Ref: h.ref(), Queue: x.w.asked, NoAck: x.w.askedNoAck})
}

func (x *ramble) publish(h *wChannel) {
	queue, p := x.feedingQueue(), wPublish{}
	if x.coin(30) {
		queue = "nowhere"
	}
	switch x.one(4) {
	case 0:
		p.id = fmt.Sprint("id", x.one(10))
	case 1:
		p.name, p.sequence = pick(x, "p", "r"), uint64(1+x.one(20))
		if x.coin(3) {
			p.sequence = x.w.near(h.session, p.name, x.r)
		}
	}
	x.w.publish(h, queue, p)
	x.do(h, &entry.Publish{Ref: h.ref(), DedupID: []byte(p.id), Publisher: []byte(p.name), Sequence: p.sequence,
		Record: coretest.Record("", queue, nil, "x")})
}

// near is a sequence about the edge of a publisher's window, or far ahead.
func (w *world) near(s *wSession, name string, r *rand.Rand) uint64 {
	highest := s.highest[name]
	if highest > 5000 && r.IntN(2) == 0 {
		return highest - 4096 + uint64(r.IntN(3))
	}
	return highest + 1 + uint64(r.IntN(5000))
}

func (x *ramble) settle(h *wChannel) {
	s := &entry.Settle{Ref: h.ref(), Outcome: entry.Outcome(x.one(4)), Multiple: x.coin(2)}
	if len(h.flight) == 0 && !x.coin(10) {
		return
	}
	s.Last = uint64(x.one(int(h.last + 2)))
	if tags := h.tags(); len(tags) > 0 && !x.coin(8) {
		s.Last = pick(x, tags...)
	}
	switch {
	case !s.Multiple:
		s.First = s.Last
		if x.coin(4) && s.First > 1 {
			s.First -= uint64(x.one(int(min(s.First, 3))))
		}
	case s.Last != 0 && h.flight[s.Last] == nil && h.sent[s.Last] != h.session.epoch && s.Last <= h.last:
		return // what was sent with a delivery of long ago, the machine need not know
	}
	x.w.settleAll(h, s)
	x.do(h, s)
	if h.tx && x.coin(5) { // a commit may be long in coming
		x.waitFor(2_000_000)
	}
}

func (x *ramble) recover(h *wChannel) {
	requeue := x.coin(2)
	if !requeue && !h.session.keep && !x.coin(5) {
		return
	}
	x.w.recover(h, requeue)
	x.do(h, &entry.Recover{Ref: h.ref(), Requeue: requeue})
}

func (x *ramble) written(h *wChannel) {
	if len(h.order) == 0 {
		return
	}
	tag := pick(x, h.order...)
	x.w.written(h, tag)
	x.do(h, &entry.Written{Ref: h.ref(), Tag: tag})
}

func (x *ramble) modes(h *wChannel) {
	if x.coin(2) && !h.confirm {
		h.tx = true
		x.do(h, &entry.TxSelect{Ref: h.ref()})
	} else if !h.tx {
		h.confirm = true
		x.do(h, &entry.ConfirmSelect{Ref: h.ref()})
	}
}

func (x *ramble) transact(h *wChannel) {
	if !h.tx {
		return
	}
	if x.coin(3) {
		h.rollback()
		x.do(h, &entry.TxRollback{Ref: h.ref()})
		return
	}
	x.w.commit(h)
	x.do(h, &entry.TxCommit{Ref: h.ref()})
}

// declare declares an exclusive queue, mostly one that the server names.
func (x *ramble) declare(h *wChannel) {
	if len(x.w.queues) > 12 {
		return
	}
	x.names++
	fresh, autoDelete := fmt.Sprint("amq.gen-", x.names), x.coin(3)
	name := x.w.generate(h, fresh, autoDelete)
	cmd := &entry.QueueDeclare{Ref: h.ref(), Name: fresh, Exclusive: true, Generated: true, AutoDelete: autoDelete}
	x.note("declare %+v, want %s", cmd, name)
	effects := x.d.Batch(h.session.node, cmd)
	if len(effects) == 0 || effects[0].Name != name {
		x.Fatalf("got queue %+v, want %s", effects, name)
	}
	x.judge(effects)
}

func (x *ramble) remove(h *wChannel) {
	name := x.queue()
	if q := x.w.queues[name]; q.owner == nil {
		return
	}
	if q := x.w.usable(h, name); q != nil {
		x.w.deleteQueue(q)
	}
	x.do(h, &entry.QueueDelete{Ref: h.ref(), Name: name})
}
