package core_test

import (
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"pgregory.net/rapid"
)

// model is the slow and obvious broker beside the machine: slices, maps, and everything counted anew each time. It does
// not know who is next, only who may be: any consumer with credit, and nobody may wait while there is something to give.
type model struct {
	t        *rapid.T
	last     uint64 // message number
	queues   map[string]*modelQueue
	channels map[modelID]*modelChannel
}

type modelID struct {
	session uint64
	number  uint16
}

type modelMessage struct {
	number      uint64
	redelivered bool
}

type modelQueue struct{ ready []modelMessage }

type modelConsumer struct {
	tag, queue string
	limit      int
	noAck      bool
}

type modelDelivery struct {
	modelMessage
	queue    *modelQueue
	consumer *modelConsumer // nil for a get
	noAck    bool
}

type modelChannel struct {
	id            modelID
	last, written uint64
	prefetch      int
	limit         int
	confirm       bool
	confirms      int // expected of the command at hand
	consumers     []*modelConsumer
	flight        map[uint64]modelDelivery
	refusal       bool // expected of the command at hand
	gets          int  // expected answers of the command at hand
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

func (m *model) publish(h *modelChannel, queues ...string) {
	m.last++
	for _, name := range queues {
		if q := m.queues[name]; q != nil {
			q.put(modelMessage{number: m.last})
		}
	}
	if h.confirm {
		h.confirms++
	}
}

func (q *modelQueue) put(x modelMessage) {
	q.ready = append(q.ready, x)
	sort.Slice(q.ready, func(i, j int) bool { return q.ready[i].number < q.ready[j].number })
}

// end settles one delivery.
func (m *model) end(h *modelChannel, tag uint64, requeue bool) {
	d := h.flight[tag]
	delete(h.flight, tag)
	if requeue && !d.noAck && m.alive(d.queue) {
		d.redelivered = true
		d.queue.put(d.modelMessage)
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
	there := func(tag uint64) bool { d, ok := h.flight[tag]; return ok && !d.noAck }
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
		m.release(h)
		return
	}
	for _, tag := range tags {
		m.end(h, tag, x.Outcome == entry.Released || x.Outcome == entry.Modified)
	}
}

// release is what closing or failing a channel does.
func (m *model) release(h *modelChannel) {
	h.consumers = nil
	for _, tag := range slices.Sorted(maps.Keys(h.flight)) {
		m.end(h, tag, true)
	}
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
	if len(q.ready) == 0 || q.ready[0].number != e.Number || q.ready[0].redelivered != e.Redelivered || e.Tag != h.last+1 || e.NoAck != noAck {
		m.t.Fatalf("delivery %+v with tag %d of #%d is not the next of %v after tag %d", e.Kind, e.Tag, e.Number, q.ready, h.last)
	}
	h.last++
	h.flight[h.last] = modelDelivery{modelMessage: q.ready[0], queue: q, consumer: c, noAck: noAck}
	q.ready = q.ready[1:]
}

// check compares a command's effects with what may happen.
func (m *model) check(effects []core.Effect) {
	for i := range effects {
		e := &effects[i]
		h := m.channels[modelID{e.Session, e.Channel}]
		switch e.Kind {
		case core.EffectDelivered:
			h, c := m.consumerOf(e)
			if !h.credit(c) {
				m.t.Fatalf("consumer %s got delivery %d without credit", c.tag, e.Tag)
			}
			m.take(e, h, m.queues[c.queue], c, c.noAck)
		case core.EffectGot:
			h.gets--
			m.take(e, h, m.queues[h.getFrom], nil, e.NoAck)
		case core.EffectGetEmpty:
			h.gets--
			if len(m.queues[h.getFrom].ready) > 0 {
				m.t.Fatalf("get of %s found nothing", h.getFrom)
			}
		case core.EffectConfirmed:
			h.confirms -= int(e.Count)
		case core.EffectRefused:
			if !h.refusal {
				m.t.Fatalf("refused: %s", e.Text)
			}
			h.refusal = false
		}
	}
	m.nothingOwed()
	m.nobodyWaits()
}

func (m *model) nothingOwed() {
	for id, h := range m.channels {
		if h.confirms != 0 || h.gets != 0 || h.refusal {
			m.t.Fatalf("channel %v is owed %d confirms, %d gets, refusal %v", id, h.confirms, h.gets, h.refusal)
		}
	}
}

func (m *model) nobodyWaits() {
	for _, h := range m.channels {
		for _, c := range h.consumers {
			if n := len(m.queues[c.queue].ready); n > 0 && h.credit(c) {
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
		want = append(want, fmt.Sprintf("%s ready=%d unacked=%d", name, len(q.ready), unacked[q]))
	}
	if !slices.Equal(got, want) {
		m.t.Fatalf("the machine has %v, want %v", got, want)
	}
}
