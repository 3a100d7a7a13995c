package core_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"pgregory.net/rapid"
)

// walk drives the machine and the model with the same random commands.
type walk struct {
	t    *rapid.T
	d    *coretest.Driver
	m    *model
	tags int // consumers so far
}

func (w *walk) pick(of string, n int) int { return rapid.IntRange(0, n-1).Draw(w.t, of) }

func (w *walk) channel() *modelChannel {
	ids := slices.SortedFunc(maps.Keys(w.m.channels), compareIDs)
	return w.m.channels[ids[w.pick("channel", len(ids))]]
}

func compareIDs(a, b modelID) int {
	if a.session != b.session {
		return int(a.session) - int(b.session)
	}
	return int(a.number) - int(b.number)
}

func (w *walk) queue() string {
	return w.queues()[w.pick("queue", len(w.queues()))]
}

// queues are those that the walk publishes to and consumes from.
func (w *walk) queues() []string { return []string{"a", "b"} }

func (h *modelChannel) ref() entry.Ref {
	return entry.Ref{Session: h.id.session, Epoch: 1, Channel: h.id.number}
}

// nodeOf is where a session lives: the two nodes take turns.
func nodeOf(session uint64) uint64 { return 1 + session%2 }

// do applies commands as one batch of the channel's node and has the model judge the effects.
func (w *walk) do(h *modelChannel, cmds ...entry.Command) {
	w.m.check(w.d.Batch(nodeOf(h.id.session), cmds...))
	w.ticks()
}

// ticks plays the leader: a Tick while something is due.
func (w *walk) ticks() {
	for w.d.Machine.NextDeadline() != 0 && w.d.Machine.NextDeadline() <= w.d.Stamp {
		if w.d.Machine.NextDeadline() == 1 && w.pick("restart in the middle", 3) == 0 {
			w.restart(nil)
		}
		w.m.comeDue()
		w.m.check(w.d.Control(&entry.Tick{}))
		w.reviveLate()
	}
}

// wait lets time pass, with a Tick at every moment at which something is due.
func (w *walk) wait(*modelChannel) { w.pass(w.pick("time", 60)) }

// waitLong is long enough for deliveries to be late.
func (w *walk) waitLong(*modelChannel) { w.pass(500 + w.pick("long time", 1500)) }

func (w *walk) pass(millis int) {
	end := w.d.Stamp + int64(millis)
	for w.d.Stamp < end {
		w.m.onTime(w.d.Machine.NextDeadline())
		was := w.d.Stamp
		w.d.Stamp = end
		if next := w.d.Machine.NextDeadline(); next != 0 {
			w.d.Stamp = max(was, min(end, next))
		}
		w.m.now = w.d.Stamp
		w.ticks()
	}
	w.m.nobodyIsLate()
}

// attach makes a session with two channels.
func (w *walk) attach(id uint64) {
	w.d.Batch(nodeOf(id), &entry.Attach{Vhost: "/"})
	for n := uint16(1); n <= 2; n++ {
		h := w.m.open(modelID{id, n})
		w.do(h, &entry.ChannelOpen{Ref: h.ref()})
	}
}

func (w *walk) step() {
	h := w.channel()
	steps := []func(*modelChannel){w.publish, w.publish, w.publish, w.fanout, w.consume, w.cancel, w.get, w.get, w.settle,
		w.settle, w.settle, w.recover, w.written, w.qos, w.confirm, w.reopen, w.replaceSession, w.purge, w.redeclare, w.restart,
		w.failNode, w.wait, w.wait, w.getDead, w.transact, w.transact, w.publishLater, w.publishLater, w.waitLong, w.setPolicy}
	steps[w.pick("step", len(steps))](h)
	w.m.compare(w.d.Machine)
}

func (w *walk) publish(h *modelChannel) {
	name := w.queue()
	var cmds []entry.Command
	for range rapid.SampledFrom([]int{1, 2, 5, 40}).Draw(w.t, "messages") {
		p := message.Properties{}
		if w.m.queues[name].priorities > 0 {
			p.Set, p.Priority = message.PropPriority, uint8(w.pick("priority", 5))
		}
		expiration := 0
		if q := w.m.queues[name]; (q.most == 0 || q.priorities == 0) && w.pick("expires", 4) == 0 {
			expiration = 1 + w.pick("expiration", 80)
			p.Set |= message.PropExpiration
			p.Expiration = strconv.Itoa(expiration)
		}
		w.m.publish(h, int(p.Priority), expiration, name)
		cmds = append(cmds, &entry.Publish{Ref: h.ref(), Record: coretest.RecordWith(&p, "", name, "body")})
		w.do(h, cmds[len(cmds)-1])
	}
}

func (w *walk) fanout(h *modelChannel) {
	w.m.publish(h, 0, 0, w.queues()...)
	w.do(h, &entry.Fragment{Ref: h.ref(), Piece: []byte("piece")},
		&entry.Publish{Ref: h.ref(), Fragmented: true, Record: coretest.Record("amq.fanout", "k", nil, "body")})
}

func (w *walk) consume(h *modelChannel) {
	w.tags++
	c := &modelConsumer{tag: fmt.Sprintf("c%d", w.tags), age: w.tags, queue: w.queue(), noAck: w.pick("no-ack", 3) == 0, limit: h.prefetch}
	if c.noAck {
		c.limit = 0
	}
	if !w.m.queues[c.queue].single {
		c.priority = w.pick("consumer priority", 2)
	}
	arguments := []any{"x-priority", int32(c.priority)}
	if w.pick("own time-out", 5) == 0 {
		c.timeout = 300
		arguments = append(arguments, "x-consumer-timeout", int32(c.timeout))
	}
	h.consumers = append(h.consumers, c)
	w.do(h, &entry.Consume{Ref: h.ref(), Queue: c.queue, Tag: c.tag, NoAck: c.noAck, Arguments: table(arguments...)})
}

func (w *walk) cancel(h *modelChannel) {
	if len(h.consumers) == 0 {
		return
	}
	at := w.pick("consumer", len(h.consumers))
	c := h.consumers[at]
	h.consumers = slices.Delete(h.consumers, at, at+1)
	w.do(h, &entry.Cancel{Ref: h.ref(), Tag: c.tag})
}

func (w *walk) get(h *modelChannel) {
	h.getFrom = w.queue()
	h.gets++
	w.do(h, &entry.Get{Ref: h.ref(), Queue: h.getFrom, NoAck: w.pick("no-ack", 4) == 0})
}

func (w *walk) getDead(h *modelChannel) {
	h.getFrom = deadQueue
	h.gets++
	w.do(h, &entry.Get{Ref: h.ref(), Queue: h.getFrom, NoAck: w.pick("no-ack", 4) == 0})
}

func (w *walk) settle(h *modelChannel) {
	x := &entry.Settle{Ref: h.ref(), Outcome: entry.Outcome(w.pick("outcome", 4)), Multiple: w.pick("multiple", 2) == 0}
	tags := slices.Sorted(maps.Keys(h.flight))
	switch n := w.pick("tag", 12); {
	case n == 0:
		x.First = rapid.Uint64Range(0, h.last+2).Draw(w.t, "any")
		x.Last = x.First
	case len(tags) == 0:
		return
	default:
		at := w.pick("first", len(tags))
		x.First, x.Last = tags[at], tags[at]
		if n == 1 && at+1 < len(tags) {
			x.Last = tags[at+1]
		}
	}
	w.m.settle(h, x)
	w.do(h, x)
	w.revive(h)
}

// revive opens a channel again if the command failed it.
func (w *walk) revive(h *modelChannel) {
	if h.last == 0 && len(h.flight) == 0 {
		w.reopen(h)
	}
}

func (w *walk) recover(h *modelChannel) {
	for _, tag := range inTurn(slices.Sorted(maps.Keys(h.flight)), entry.Released) {
		if !h.flight[tag].noAck {
			if !h.gathered(tag) {
				w.m.end(h, tag, entry.Released)
			}
		}
	}
	w.do(h, &entry.Recover{Ref: h.ref(), Requeue: true})
}

func (w *walk) written(h *modelChannel) {
	tag := rapid.Uint64Range(0, h.last+1).Draw(w.t, "written")
	w.m.written(h, tag)
	w.do(h, &entry.Written{Ref: h.ref(), Tag: tag})
}

func (w *walk) qos(h *modelChannel) {
	n := rapid.SampledFrom([]int{0, 1, 2, 10}).Draw(w.t, "prefetch")
	global := w.pick("global", 3) == 0
	if global {
		h.limit = n
	} else {
		h.prefetch, h.limit = n, 0
	}
	w.do(h, &entry.Qos{Ref: h.ref(), Prefetch: uint32(n), Global: global})
}

// transact begins a transaction, or ends the one at hand.
func (w *walk) transact(h *modelChannel) {
	switch {
	case h.confirm:
	case !h.tx:
		h.tx = true
		w.do(h, &entry.TxSelect{Ref: h.ref()})
	case w.pick("commit", 3) > 0:
		w.m.commit(h)
		w.do(h, &entry.TxCommit{Ref: h.ref()})
	default:
		h.rollback()
		w.do(h, &entry.TxRollback{Ref: h.ref()})
	}
}

func (w *walk) confirm(h *modelChannel) {
	if h.tx {
		return
	}
	h.confirm = true
	w.do(h, &entry.ConfirmSelect{Ref: h.ref()})
}

func (w *walk) reopen(h *modelChannel) {
	w.m.release(h, entry.Released)
	w.do(h, &entry.ChannelClose{Ref: h.ref(), Reply: true}, &entry.ChannelOpen{Ref: h.ref()})
}

func (w *walk) replaceSession(h *modelChannel) {
	w.forget(h.id.session)
	w.do(h, &entry.Detach{Ref: h.ref()})
	w.attach(w.d.LastSession + 1)
}

func (w *walk) forget(session uint64) {
	for n := uint16(1); n <= 2; n++ {
		id := modelID{session, n}
		w.m.release(w.m.channels[id], entry.Modified)
		delete(w.m.channels, id)
	}
}

// failNode ends what a node holds, by its death or its restart, and has it come back with a new session.
func (w *walk) failNode(h *modelChannel) {
	node := nodeOf(h.id.session)
	for id := range maps.Clone(w.m.channels) {
		if nodeOf(id.session) == node && id.number == 1 {
			w.forget(id.session)
		}
	}
	if incarnation, _, _ := w.d.Machine.Incarnation(node); w.pick("down first", 2) == 0 {
		w.m.check(w.d.Control(&entry.NodeDown{Node: node, Incarnation: incarnation}))
	}
	w.m.check(w.d.Control(&entry.NodeUp{Node: node, Nonce: w.d.Index}))
	w.attach(w.d.LastSession + 1)
	w.attach(w.d.LastSession + 1)
}

func (w *walk) purge(h *modelChannel) {
	name := w.queue()
	w.m.queues[name].ready = nil
	w.do(h, &entry.QueuePurge{Ref: h.ref(), Name: name})
}

func (w *walk) redeclare(h *modelChannel) {
	name := w.queue()
	w.m.deleteQueue(name)
	w.do(h, &entry.QueueDelete{Ref: h.ref(), Name: name})
	w.declare(h, name)
}

func (w *walk) declare(h *modelChannel, name string) {
	q := &modelQueue{name: name, own: w.features(name)}
	w.m.queues[name] = q
	w.m.configure(q)
	w.do(h, &entry.QueueDeclare{Ref: h.ref(), Name: name, Arguments: q.own.arguments()},
		&entry.QueueBind{Binding: entry.Binding{Ref: h.ref(), Source: "amq.fanout", Destination: name}},
		&entry.QueueBind{Binding: entry.Binding{Ref: h.ref(), Source: delayingExchange, Destination: name, Key: name}})
}

// features draws what a queue is like.
func (w *walk) features(name string) features {
	f := features{deadLetters: w.pick("dead letters", 2) == 0, single: w.pick("single", 5) == 0}
	if w.pick("ttl", 3) == 0 {
		f.ttl = 30
	}
	if w.pick("limit", 3) == 0 {
		f.most, f.inBytes = 3, w.pick("in bytes", 3) == 0
		f.overflow = rapid.SampledFrom([]string{"", "drop-head", "reject-publish", "reject-publish-dlx"}).Draw(w.t, "overflow")
	}
	if (f.ttl == 0 || f.most == 0 && !w.m.limited(name)) && w.pick("priorities", 3) == 0 {
		f.priorities = 3
	}
	if w.pick("failures", 3) == 0 {
		f.failures = 1
	}
	if w.pick("retries", 3) == 0 {
		f.retry = retry{which: rapid.SampledFrom(retryKinds).Draw(w.t, "retry"), least: 20, most: 50}
	}
	if w.pick("time-out", 4) == 0 {
		f.timeout = 700
	}
	return f
}

func (f *features) arguments() []byte {
	var fields []any
	length, bytes := f.most, 0
	if f.inBytes {
		length, bytes = 0, f.most*bodyBytes
	}
	for _, x := range []struct {
		key   string
		value int
	}{{"x-message-ttl", f.ttl}, {"x-max-length", length}, {"x-max-length-bytes", bytes}, {"x-max-priority", f.priorities}, {"x-delivery-limit", f.failures},
		{"x-delayed-retry-min", f.retry.least}, {"x-delayed-retry-max", f.retry.most}, {"x-consumer-timeout", f.timeout}} {
		if x.value > 0 {
			fields = append(fields, x.key, int32(x.value))
		}
	}
	if f.deadLetters {
		fields = append(fields, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", deadQueue)
	}
	if f.overflow != "" {
		fields = append(fields, "x-overflow", f.overflow)
	}
	if f.retry.which != "" {
		fields = append(fields, "x-delayed-retry-type", f.retry.which)
	}
	if f.single {
		fields = append(fields, "x-single-active-consumer", true)
	}
	return table(fields...)
}

func (w *walk) restart(*modelChannel) {
	if w.pick("restart", 2) == 0 {
		w.d.Checkpoint()
	} else {
		w.d.Restart()
	}
}

// TestMachineBehavesAsTheModel also holds the promises that coretest.Driver checks after every entry: two replicas agree,
// the kept-up fingerprint is the recomputed one, and a restart from rows changes nothing.
func TestMachineBehavesAsTheModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &walk{t: rt, d: coretest.NewOf(rt, core.NewFrugal), m: newModel(rt)}
		w.d.Audit = core.Audit
		w.d.Control(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.NodeUp{Node: 2, Nonce: 7}, &entry.VhostCreate{ID: "v1", Name: "/"})
		w.attach(1)
		w.attach(2)
		w.m.now = w.d.Stamp
		w.m.queues[deadQueue] = &modelQueue{name: deadQueue, dead: map[string]int{}}
		w.do(w.m.channels[modelID{1, 1}], &entry.QueueDeclare{Ref: w.m.channels[modelID{1, 1}].ref(), Name: deadQueue},
			&entry.ExchangeDeclare{Ref: w.m.channels[modelID{1, 1}].ref(), Name: delayingExchange, Type: "x-delayed-message", Arguments: table("x-delayed-type", "direct")})
		for _, name := range w.queues() {
			w.declare(w.m.channels[modelID{1, 1}], name)
		}
		for range rapid.IntRange(1, 150).Draw(rt, "steps") {
			w.step()
		}
	})
}
