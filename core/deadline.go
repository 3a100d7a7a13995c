package core

// What is due at some time waits in a heap. It is derived: each object says itself when it is next due, and is asked
// again whenever it has changed. Apply carries out nothing by itself; a Tick does, a bounded amount of it at once, so that
// a million messages that expire together do not stall the group: what is left stays due, and another Tick comes.

// timed is an object with a deadline.
type timed interface {
	object
	timing() *timer
	// deadline is the stamp at which something is next due, 0 for never.
	deadline() int64
	// due carries out what is due, as far as m.dueLeft allows.
	due(m *Machine)
}

// timer is an object's place in the heap.
type timer struct {
	at    int64
	place int // in the heap, from 1; 0 for none
	table table
	vhost uint32 // of the order
	rank  uint64 // of things that are due in an order of their own
	id    uint64
	owner timed
}

// before orders by time, and what is due at one time in the same order on every replica.
func (t *timer) before(o *timer) bool {
	switch {
	case t.at != o.at:
		return t.at < o.at
	case t.table != o.table:
		return t.table < o.table
	case t.vhost != o.vhost:
		return t.vhost < o.vhost
	case t.rank != o.rank:
		return t.rank < o.rank
	}
	return t.id < o.id
}

// timers is a binary heap.
type timers struct{ heap []*timer }

func (h *timers) put(i int, t *timer) {
	h.heap[i] = t
	t.place = i + 1
}

// set moves a timer to a time; 0 takes it out.
func (h *timers) set(t *timer, at int64) {
	if t.at == at && (t.place != 0) == (at != 0) {
		return
	}
	if at == 0 {
		h.remove(t)
		return
	}
	t.at = at
	if t.place == 0 {
		h.heap = append(h.heap, t)
		t.place = len(h.heap)
	}
	h.settle(t.place - 1)
}

func (h *timers) remove(t *timer) {
	i, last := t.place-1, len(h.heap)-1
	moved := h.heap[last]
	h.heap[last] = nil
	h.heap = h.heap[:last]
	t.place, t.at = 0, 0
	if moved != t {
		h.put(i, moved)
		h.settle(i)
	}
}

// settle moves the timer at place i to where it belongs.
func (h *timers) settle(i int) {
	t := h.heap[i]
	for i > 0 && t.before(h.heap[(i-1)/2]) {
		h.put(i, h.heap[(i-1)/2])
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child >= len(h.heap) {
			break
		}
		if child+1 < len(h.heap) && h.heap[child+1].before(h.heap[child]) {
			child++
		}
		if !h.heap[child].before(t) {
			break
		}
		h.put(i, h.heap[child])
		i = child
	}
	h.put(i, t)
}

// schedule asks an object anew when it is due.
func (m *Machine) schedule(o timed) {
	at := int64(0)
	if !o.state().gone {
		at = o.deadline()
	}
	m.timersOf(o).set(o.timing(), at)
}

// timersOf is the heap in which an object waits. Sessions and channels give deliveries back when they are due.
func (m *Machine) timersOf(o timed) *timers {
	if t := o.timing().table; t == tableSession || t == tableChannel {
		return &m.returns
	}
	return &m.timers
}

// NextDeadline is the stamp (Unix ms) at which a Tick is due, 0 for none.
func (m *Machine) NextDeadline() int64 {
	if len(m.draining) > 0 {
		return 1
	}
	at := m.link.Gate.Drain
	for _, h := range []*timers{&m.returns, &m.timers} {
		if len(h.heap) > 0 && (at == 0 || h.heap[0].at < at) {
			at = h.heap[0].at
		}
	}
	return at
}

// nextDue answers what is due next in a heap, as far as the entry's budget goes; nil for nothing.
func (m *Machine) nextDue(h *timers) timed {
	if m.dueLeft <= 0 || len(h.heap) == 0 || h.heap[0].at > m.header.Stamp {
		return nil
	}
	m.dueLeft--
	return h.heap[0].owner
}

// applyTick carries out what is due. All that comes back to its queues is there before any of it goes out again: otherwise
// what came back second would be delivered behind what came back first, whatever their order in the queue.
func (m *Machine) applyTick() {
	m.drained()
	m.begin()
	for o := m.nextDue(&m.returns); o != nil; o = m.nextDue(&m.returns) {
		m.cascade = 0
		o.due(m)
		m.schedule(o)
	}
	m.serve()
	for o := m.nextDue(&m.timers); o != nil; o = m.nextDue(&m.timers) {
		m.begin()
		o.due(m)
		m.serve()
		m.schedule(o)
	}
	m.drain()
}
