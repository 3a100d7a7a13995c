package core

import (
	"github.com/understudy-mq/understudy/core/internal/ledger"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

// bucketShift makes the buckets that liveness is counted in: 16 raft indexes each, 4 MiB of log at most.
const bucketShift = 4

// liveness counts the live references to content in the log, per bucket of entries. It is this node's own knowledge,
// since Locs are; it is counted anew when rows are loaded. Buckets wholly below the floor are not counted.
type liveness struct {
	base    uint64 // the bucket that buckets[0] is
	buckets []bucket
	floor   uint64 // content of entries below was moved out of the log
	// References to content below the floor that have begun (a dead letter, a message whose delay is over) and ended.
	begun, ended []message.Loc
}

// bucket is what is live in some entries.
type bucket struct {
	references int
	bytes      int64 // of what they refer to, once per reference
}

func bucketOf(loc uint64) uint64 { return message.Loc(loc).Index() >> bucketShift }

func (l *liveness) add(loc uint64, size uint32) {
	if message.Loc(loc).Index() < l.floor {
		l.begun = append(l.begun, message.Loc(loc))
	}
	b := bucketOf(loc)
	if b < l.floor>>bucketShift {
		return
	}
	switch {
	case len(l.buckets) == 0:
		l.base = b
	case b < l.base: // only while loading, and after trim
		l.buckets = append(make([]bucket, l.base-b), l.buckets...)
		l.base = b
	}
	for b-l.base >= uint64(len(l.buckets)) {
		if len(l.buckets) == cap(l.buckets) {
			l.trim()
		}
		if len(l.buckets) == 0 {
			l.base = b
		}
		l.buckets = append(l.buckets, bucket{})
	}
	at := &l.buckets[b-l.base]
	at.references++
	at.bytes += int64(size)
}

// trim lets go of leading buckets that are empty, so that the base moves with the log.
func (l *liveness) trim() {
	n := 0
	for n < len(l.buckets) && l.buckets[n].references == 0 {
		n++
	}
	l.shift(n)
}

func (l *liveness) shift(n int) {
	l.base += uint64(n)
	l.buckets = l.buckets[:copy(l.buckets, l.buckets[n:])]
}

func (l *liveness) remove(loc uint64, size uint32) {
	if message.Loc(loc).Index() < l.floor {
		l.ended = append(l.ended, message.Loc(loc))
	}
	if b := bucketOf(loc); b >= l.floor>>bucketShift {
		at := &l.buckets[b-l.base]
		at.references--
		at.bytes -= int64(size)
	}
}

func (l *liveness) removeParts(parts []message.Part) {
	for i := range parts {
		l.remove(uint64(parts[i].Loc), parts[i].Size)
	}
}

// Live counts references to content of entries with from <= index < to, of messages that are ready or in flight and of pieces of big ones,
// and the bytes of what they refer to: a record that three queues hold counts three times. It is cheap, and counts in buckets of
// 16 entries: at the edges it may count too much, never too little. Buckets wholly below the floor count nothing.
func (m *Machine) Live(from, to uint64) (references int, bytes int64) {
	l := &m.live
	if from >= to || len(l.buckets) == 0 {
		return 0, 0
	}
	first, last := max(from>>bucketShift, l.base), min((to-1)>>bucketShift, l.base+uint64(len(l.buckets))-1)
	for b := first; b <= last; b++ {
		at := l.buckets[b-l.base]
		references += at.references
		bytes += at.bytes
	}
	return references, bytes
}

// Contents visits the references that Live counts, exactly, once per reference: a record that three queues hold is
// visited three times. It takes time proportional to the state.
func (m *Machine) Contents(from, to uint64, visit func(loc message.Loc, size uint32)) {
	m.contents(func(loc message.Loc, size uint32) {
		if i := loc.Index(); from <= i && i < to {
			visit(loc, size)
		}
	})
}

func (m *Machine) contents(visit func(loc message.Loc, size uint32)) {
	parts := func(list []message.Part) {
		for i := range list {
			visit(list[i].Loc, list[i].Size)
		}
	}
	for _, v := range m.vhosts {
		for _, q := range v.queues {
			q.ready.each(func(r ready.Ref) { visit(message.Loc(r.Loc), r.Size) })
		}
		for _, x := range v.remains {
			x.list.Each(func(r ready.Ref) { visit(message.Loc(r.Loc), r.Size) })
		}
		v.held.each(func(x *held) { x.visit(visit) })
		for _, t := range v.contents {
			parts(t.Parts)
		}
	}
	m.sessions.each(func(s *session) {
		for _, h := range s.channels {
			h.flight.Each(func(_ uint64, r *ledger.Record) { visit(message.Loc(r.Loc), r.Size) })
			parts(h.Parts)
			for i := range h.Pending {
				h.Pending[i].visit(visit)
			}
		}
	})
}

// SetFloor says that the content of entries below index was moved out of the log: from now on each reference to it that
// begins or ends is kept for TakeReferences. The floor never goes down.
func (m *Machine) SetFloor(index uint64) {
	l := &m.live
	if index <= l.floor {
		return
	}
	l.floor = index
	if b := index >> bucketShift; b > l.base {
		l.shift(int(min(b-l.base, uint64(len(l.buckets)))))
	}
}

// TakeReferences reports the references to content below the floor that have begun and ended since the last call, each once: first
// all that have begun, so that what a message takes over from another is never without one.
func (m *Machine) TakeReferences(begun, ended func(message.Loc)) {
	for _, loc := range m.live.begun {
		begun(loc)
	}
	for _, loc := range m.live.ended {
		ended(loc)
	}
	m.live.begun, m.live.ended = m.live.begun[:0], m.live.ended[:0]
}
