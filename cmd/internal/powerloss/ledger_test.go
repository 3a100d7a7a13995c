package powerloss

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// what a change does to the queues of one client.
type what uint8

const (
	declare what = iota // the queues
	remove              // the queues
	purge               // the queues, of which nothing is in flight
	publish             // message id, into all the queues
	settle              // the messages ids of queue queues[0]
	pop                 // the first message of queues[0], of which nothing is in flight
)

// change is one command of a client that changes what its queues hold.
type change struct {
	what   what
	queues []string
	ids    []uint64
}

// contents are the messages of each queue that exists, ready or in flight, in the order of their places.
// Exchanges and bindings are among them, empty.
type contents map[string][]uint64

func (c contents) apply(x change) {
	for _, q := range x.queues {
		switch x.what {
		case declare:
			if _, ok := c[q]; !ok {
				c[q] = nil
			}
		case remove:
			delete(c, q)
		case purge:
			c[q] = nil
		case publish:
			c[q] = append(c[q], x.ids...)
		case settle:
			c[q] = slices.DeleteFunc(slices.Clone(c[q]), func(id uint64) bool { return slices.Contains(x.ids, id) })
		case pop:
			if len(c[q]) > 0 {
				c[q] = c[q][1:]
			}
		}
	}
}

func (c contents) clone() contents {
	out := maps.Clone(c)
	for q, ids := range out {
		out[q] = slices.Clone(ids)
	}
	return out
}

func (c contents) equal(o contents) bool {
	return maps.EqualFunc(c, o, func(a, b []uint64) bool { return slices.Equal(a, b) })
}

// ledger is what a client has asked for and been promised. All commands of a client are applied in order or, from some
// point on, not at all, so that its queues are always as after the first n of its changes, promised <= n <= asked.
type ledger struct {
	owner string // names the client in failures
	vhost string

	mu        sync.Mutex
	asked     []change
	promised  int   // of asked, known to be committed
	publishes []int // asked before and with each unconfirmed publish
	calls     []int // asked before and with each unanswered command
}

// bounds are a ledger at a cut.
type bounds struct {
	owner, vhost string
	asked        []change
	promised     int
}

// promises is the lower bound: to be read before a cut.
func (l *ledger) promises() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.promised
}

// bounds are to be read after a cut, at which promised was promised.
func (l *ledger) bounds(promised int) bounds {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bounds{l.owner, l.vhost, l.asked[:len(l.asked):len(l.asked)], promised}
}

func (l *ledger) promise(asked int) { l.promised = max(l.promised, asked) }

// judge compares what was found with every state that is allowed; "" if it is one of them.
func (b bounds) judge(found contents) string {
	state := contents{}
	for _, x := range b.asked[:b.promised] {
		state.apply(x)
	}
	least := state.clone()
	for n := b.promised; ; n++ {
		if state.equal(found) {
			return ""
		}
		if n == len(b.asked) {
			break
		}
		state.apply(b.asked[n])
	}
	return fmt.Sprintf("%s: not as after any of its changes %d to %d; compared with the first:%s",
		b.owner, b.promised, len(b.asked), least.difference(found))
}

// difference tells what found lacks and has too many of.
func (c contents) difference(found contents) string {
	text := ""
	for _, q := range slices.Sorted(maps.Keys(c)) {
		if _, ok := found[q]; !ok {
			text += fmt.Sprintf("\n  queue %s is gone, with %d messages", q, len(c[q]))
		}
	}
	for _, q := range slices.Sorted(maps.Keys(found)) {
		ids, ok := c[q]
		if !ok {
			text += fmt.Sprintf("\n  queue %s is there, with %d messages", q, len(found[q]))
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(ids), func(id uint64) bool { return slices.Contains(found[q], id) })
		extra := slices.DeleteFunc(slices.Clone(found[q]), func(id uint64) bool { return slices.Contains(ids, id) })
		if !slices.Equal(ids, found[q]) {
			text += fmt.Sprintf("\n  queue %s: %d messages, not %d; missing %x, too many %x, sorted %v",
				q, len(found[q]), len(ids), missing, extra, slices.IsSorted(found[q]))
		}
	}
	return text
}
