package core

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"
	"github.com/understudy-mq/understudy/core/internal/ledger"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
)

// The fingerprint is the wrapping sum of one hash per row, per ready message and per delivery in flight. A sum forgets
// order, so it is kept up by taking out the old hash of what changed and putting in the new one.

// Odd constants with no structure (the first bits of the golden ratio and of xxhash's primes).
const (
	mixA = 0x9e3779b97f4a7c15
	mixB = 0xc2b2ae3d27d4eb4f
	mixC = 0x165667b19e3779f9
	mixD = 0xd6e8feb86659fd93
)

func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^mixA, b^mixB)
	return high ^ low
}

// readyHash is what a ready message counts; where its record lies does not.
func readyHash(q *queue, r *ready.Ref) uint64 { return refHash(q.Vhost, q.ID, r) }

// refHash is readyHash by numbers, whether the queue is there or not.
func refHash(vhost, queue uint32, r *ready.Ref) uint64 {
	return mix(mix(r.Number, uint64(r.Size)<<32|uint64(r.Flags)), (uint64(vhost)<<32|uint64(queue))^mixC)
}

// noteHash is what a queue's note on a message counts.
func noteHash(q *queue, x *ready.Note) uint64 {
	return mix(mix(x.Number, uint64(x.Expires)), mix(x.Body, (uint64(q.Vhost)<<32|uint64(q.ID))^mixD))
}

// flightHash is what a delivery in flight counts.
func flightHash(h *channel, tag uint64, r *ledger.Record) uint64 {
	what := mix(r.Number, uint64(r.Size)<<32|uint64(r.Flags))
	where := mix(h.Session^mixC, tag)
	whom := mix(uint64(r.Queue)<<32|uint64(r.Consumer), uint64(h.Number)^mixD)
	return mix(mix(what, where), whom)
}

// rowHash is what an object counts.
func (m *Machine) rowHash(o object) uint64 {
	if t := o.state(); t.gone || t.local {
		return 0
	}
	m.coder = rowCoder{buf: o.key(m.coder.buf[:0]), encoding: true, hashing: true}
	o.code(&m.coder)
	return mix(xxhash.Sum64(m.coder.buf), mixD)
}

// touch notes that an object changed in this entry.
func (m *Machine) touch(o object) {
	if t := o.state(); !t.touched {
		t.touched = true
		m.touched = append(m.touched, o)
	}
}

// changed notes that the next checkpoint is about an object.
func (m *Machine) changed(o object) {
	if t := o.state(); !t.dirty {
		t.dirty = true
		m.dirty = append(m.dirty, o)
	}
}

// settleRows brings the fingerprint up to date at the end of an entry.
func (m *Machine) settleRows() {
	for _, o := range m.touched {
		t := o.state()
		hash := m.rowHash(o)
		m.fingerprint += hash - t.hash
		t.hash, t.touched = hash, false
		m.changed(o)
		switch x := o.(type) {
		case *queue:
			if !x.plain || x.timer.place != 0 || x.notes.Len() > 0 {
				m.schedule(x)
			}
		case *channel:
			if len(x.Runs) > 0 || x.timer.place != 0 {
				m.schedule(x)
			}
		case *held:
			m.schedule(x)
		case *session:
			if x.named() {
				m.schedule(x)
			}
		case *window:
			m.schedule(x)
		}
	}
	clear(m.touched)
	m.touched = m.touched[:0]
}

// Fingerprint is a hash of the replicated state: equal wherever the state is equal, whatever way led to it. It is kept up
// incrementally and costs nothing to read.
func (m *Machine) Fingerprint() uint64 { return m.fingerprint }

// Recompute is Fingerprint from scratch, in time proportional to the state.
func (m *Machine) Recompute() uint64 {
	sum := uint64(0)
	m.each(func(o object) { sum += m.rowHash(o) })
	return sum + m.refHashes()
}

// refHashes sums over ready messages and deliveries in flight.
func (m *Machine) refHashes() uint64 {
	sum := uint64(0)
	for _, v := range m.vhosts {
		for _, q := range v.queues {
			q.ready.each(func(r ready.Ref) { sum += readyHash(q, &r) })
			q.notes.Each(func(x ready.Note) { sum += noteHash(q, &x) })
		}
		for _, x := range v.remains {
			x.list.Each(func(r ready.Ref) { sum += refHash(v.Vhost, x.Queue, &r) })
		}
	}
	m.sessions.each(func(s *session) {
		for _, h := range s.channels {
			h.flight.Each(func(tag uint64, r *ledger.Record) { sum += flightHash(h, tag, r) })
		}
	})
	return sum
}

// each visits every object of the state.
func (m *Machine) each(visit func(object)) {
	visit(&m.header)
	visit(&m.local)
	visit(&m.link)
	for _, n := range m.nodes {
		visit(n)
	}
	for _, v := range m.vhosts {
		visit(v)
		visitAll(v.exchanges, visit)
		visitAll(v.queues, visit)
		for _, q := range v.queues {
			visitAll(q.consumers, visit)
		}
		visitAll(v.bindings, visit)
		visitAll(v.contents, visit)
		visitAll(v.letters, visit)
		visitAll(v.policies, visit)
		v.held.each(func(x *held) { visit(x) })
	}
	m.sessions.each(func(s *session) {
		visit(s)
		visitAll(s.channels, visit)
		visitAll(s.windows, visit)
		visitAll(s.publishers, visit)
	})
	m.access.each(visit)
	m.registry.each(visit)
}

func visitAll[T object](list []T, visit func(object)) {
	for _, o := range list {
		visit(o)
	}
}
