package core

import (
	"fmt"
	"slices"

	ready "github.com/understudy-mq/understudy/core/internal/queue"
)

// What a deleted or purged queue, or a deleted vhost, leaves behind is not let go of at once where it is much: a million
// messages would stall everybody else. They are set aside, out of sight, which takes no time; Ticks take the remains apart,
// a bounded amount in each entry.

// remainsRow is the messages of one lane of a queue that was cleared. They lie in the chunks that they were in before, under
// the queue's id, whether that queue is still there or not.
type remainsRow struct {
	Queue uint32
	Lane  uint32
	Last  uint32 // newest of the chunks, a local fact; what the queue has got since is in later ones
	First uint64 // number of the first message that is left
}

type remains struct {
	remainsRow
	list ready.List
}

func (x *remainsRow) code(c *rowCoder) {
	c.u32(&x.Queue)
	c.u32(&x.Lane)
	if !c.hashing {
		c.u32(&x.Last)
	}
	c.u64(&x.First)
}

// code fills in what the row says of the remains.
func (v *vhost) code(c *rowCoder) {
	if c.encoding {
		v.Remains = v.Remains[:0]
		for _, x := range v.remains {
			x.First = x.list.First()
			v.Remains = append(v.Remains, x.remainsRow)
		}
	}
	v.vhostRow.code(c)
}

// clearQueue drops the ready messages.
func (m *Machine) clearQueue(q *queue) {
	if n := q.ready.len(); n > m.clearLeft {
		m.setAside(q)
	} else {
		m.clearLeft -= n
		q.ready.each(func(r ready.Ref) {
			m.fingerprint -= readyHash(q, &r)
			m.dispose(q.vhost, q, &r)
		})
		q.ready.clear(&m.queuePool)
	}
	q.bytes, q.bodies = 0, 0
	m.touch(q)
}

// setAside makes remains of the ready messages.
func (m *Machine) setAside(q *queue) {
	v := q.vhost
	q.ready.detach(func(lane int, list ready.List, last uint32) {
		v.remains = append(v.remains, &remains{remainsRow{Queue: q.ID, Lane: uint32(lane), Last: last}, list})
	})
	m.touch(v)
	m.drainLater(v)
}

// drainLater has Ticks take a vhost apart, or what was set aside in it.
func (m *Machine) drainLater(v *vhost) {
	at, ok := slices.BinarySearchFunc(m.draining, v.Vhost, func(v *vhost, n uint32) int { return compare(v.Vhost, n) })
	if !ok {
		m.draining = slices.Insert(m.draining, at, v)
	}
}

// drain goes on with that as far as the entry's budget goes.
func (m *Machine) drain() {
	for len(m.draining) > 0 && m.clearLeft > 0 {
		v := m.draining[0]
		m.touch(v)
		if !m.drainRemains(v) || v.Deleted && !m.takeApart(v) {
			return
		}
		m.draining = slices.Delete(m.draining, 0, 1)
	}
}

// drainRemains lets go of what was set aside; false if the budget did not suffice.
func (m *Machine) drainRemains(v *vhost) bool {
	for len(v.remains) > 0 {
		x := v.remains[0]
		for ; x.list.Len() > 0; m.clearLeft-- {
			if m.clearLeft <= 0 {
				return false
			}
			r := x.list.Pop(&m.queuePool)
			m.fingerprint -= refHash(v.Vhost, x.Queue, &r)
			m.dispose(v, v.queue[x.Queue], &r)
		}
		v.remains = slices.Delete(v.remains, 0, 1)
		v.drained = append(v.drained, x)
	}
	return true
}

// takeApart ends what a deleted vhost holds, and the vhost itself; false if the budget did not suffice.
func (m *Machine) takeApart(v *vhost) bool {
	for ; len(v.queues) > 0; m.clearLeft-- {
		if m.clearLeft <= 0 {
			return false
		}
		m.deleteQueue(v.queues[len(v.queues)-1])
		if !m.drainRemains(v) {
			return false
		}
	}
	for ; v.held.len() > 0; m.clearLeft-- {
		if m.clearLeft <= 0 {
			return false
		}
		x := v.held.newest()
		m.unhold(x)
		m.live.remove(uint64(x.Loc), x.Size)
		m.live.removeParts(x.Parts)
	}
	for ; len(v.exchanges) > 0; m.clearLeft-- {
		if m.clearLeft <= 0 {
			return false
		}
		m.deleteExchange(v, v.exchanges[len(v.exchanges)-1])
	}
	v.policies = withdraw(m, v.policies, func(*policy) bool { return true })
	at, _ := slices.BinarySearchFunc(m.vhosts, v.Vhost, func(v *vhost, n uint32) int { return compare(v.Vhost, n) })
	m.vhosts = slices.Delete(m.vhosts, at, at+1)
	v.gone = true
	return true
}

// remainsIn answers the remains that a chunk belongs to, nil if it is the queue's own.
func (v *vhost) remainsIn(queue, lane, chunk uint32) *remains {
	for _, x := range v.remains { // the oldest first: their chunks have the lowest ids
		if x.Queue == queue && x.Lane == lane && chunk <= x.Last {
			return x
		}
	}
	return nil
}

// linkRemains ends the loading of what was set aside.
func (m *Machine) linkRemains(v *vhost) error {
	for _, x := range v.remains {
		if q := v.queue[x.Queue]; q != nil && q.ready.has(int(x.Lane)) {
			q.ready.lane(int(x.Lane)).Behind(x.Last)
		}
		if x.list.Loaded(x.First); x.list.First() != x.First {
			return fmt.Errorf("%w: remains of queue %d in vhost '%s' have a first message %d, their chunks another", ErrRow, x.Queue, v.Name, x.First)
		}
	}
	if len(v.remains) > 0 || v.Deleted {
		m.drainLater(v)
	}
	return nil
}

// remains reports the chunks of what was set aside.
func (c *checkpoint) remains(v *vhost) {
	for _, list := range [][]*remains{v.drained, v.remains} {
		for _, x := range list {
			c.lane(chunkOwner{uint64(v.Vhost), uint64(x.Queue)}, uint64(x.Lane), &x.list)
		}
	}
	v.drained = nil
}
