package core

import (
	"math/bits"

	ready "github.com/understudy-mq/understudy/core/internal/queue"
)

// A queue has a list of ready messages, or with x-max-priority one per priority: its lanes. What returns goes back to
// its lane and its place there.

// lanes is the ready messages of a queue. Most have lane 0 only.
type lanes struct {
	zero ready.List
	more []ready.List // of priorities 1 and up
	used [4]uint64    // a bit for each lane that has messages; of a queue with one lane it is not kept
	n    int
}

func (l *lanes) len() int { return l.n }

// open makes the lanes of priorities up to most.
func (l *lanes) open(most uint8) {
	if most > 0 {
		l.more = make([]ready.List, most)
	}
}

func (l *lanes) lane(priority int) *ready.List {
	if priority == 0 {
		return &l.zero
	}
	return &l.more[priority-1]
}

// has says whether there is a lane for a priority.
func (l *lanes) has(priority int) bool { return priority <= len(l.more) }

// top is the lane that the next message to hand out is in. There must be one.
func (l *lanes) top() *ready.List {
	if l.more == nil {
		return &l.zero
	}
	return l.lane(l.highest())
}

func (l *lanes) highest() int {
	for i := len(l.used) - 1; i >= 0; i-- {
		if x := l.used[i]; x != 0 {
			return i*64 + bits.Len64(x) - 1
		}
	}
	return 0
}

// bottom is the lane that an overflowing queue drops from: the lowest that has messages.
func (l *lanes) bottom() *ready.List {
	if l.more == nil {
		return &l.zero
	}
	for i, x := range l.used {
		if x != 0 {
			return l.lane(i*64 + bits.TrailingZeros64(x))
		}
	}
	return &l.zero
}

func (l *lanes) push(p *ready.Pool, r ready.Ref) {
	l.n++
	if l.more == nil {
		l.zero.Push(p, r)
		return
	}
	i := priorityOf(&r)
	l.lane(i).Push(p, r)
	l.used[i>>6] |= 1 << (i & 63)
}

// pop takes the first message of a lane.
func (l *lanes) pop(p *ready.Pool, from *ready.List) ready.Ref {
	l.n--
	r := from.Pop(p)
	if l.more != nil && from.Len() == 0 {
		i := priorityOf(&r)
		l.used[i>>6] &^= 1 << (i & 63)
	}
	return r
}

// each visits the messages lane by lane.
func (l *lanes) each(visit func(ready.Ref)) {
	l.zero.Each(visit)
	for i := range l.more {
		l.more[i].Each(visit)
	}
}

// detach takes all messages out, a list for each lane that has any.
func (l *lanes) detach(to func(lane int, all ready.List, last uint32)) {
	for i := range len(l.more) + 1 {
		if from := l.lane(i); from.Len() > 0 {
			all, last := from.Detach()
			to(i, all, last)
		}
	}
	l.n, l.used = 0, [4]uint64{}
}

func (l *lanes) clear(p *ready.Pool) {
	l.zero.Clear(p)
	for i := range l.more {
		l.more[i].Clear(p)
	}
	l.n, l.used = 0, [4]uint64{}
}

// exact has the next checkpoint report anew the first chunks whose rows may have messages that are gone; it says whether there are any.
func (l *lanes) exact() bool {
	some := l.zero.Exact()
	for i := range l.more {
		some = l.more[i].Exact() || some
	}
	return some
}

// firsts puts down the number of the first message of each lane but 0, for the queue's row.
func (l *lanes) firsts(dst []uint64) []uint64 {
	dst = dst[:0]
	for i := range l.more {
		dst = append(dst, l.more[i].First())
	}
	return dst
}

// loaded ends loading. It answers false where the lanes do not begin as the row says.
func (l *lanes) loaded(first uint64, firsts []uint64) bool {
	if len(firsts) != len(l.more) {
		return false
	}
	l.zero.Loaded(first)
	l.n = l.zero.Len()
	good := l.zero.First() == first
	if l.n > 0 {
		l.used[0] = 1
	}
	for i := range l.more {
		x := &l.more[i]
		x.Loaded(firsts[i])
		good = good && x.First() == firsts[i]
		if l.n += x.Len(); x.Len() > 0 {
			l.used[(i+1)>>6] |= 1 << ((i + 1) & 63)
		}
	}
	return good
}

// priorityOf is the lane of a message.
func priorityOf(r *ready.Ref) int { return int(r.Flags >> priorityShift & priorityMax) }

// heads visits the first message of each lane.
func (l *lanes) heads(visit func(ready.Ref)) {
	if l.zero.Len() > 0 {
		visit(l.zero.Head())
	}
	for i := range l.more {
		if x := &l.more[i]; x.Len() > 0 {
			visit(x.Head())
		}
	}
}
