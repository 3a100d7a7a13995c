package core

import (
	"fmt"
	"strings"

	"github.com/understudy-mq/understudy/core/internal/ledger"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
)

// traits are what may be used together in one queue. What is counted is that it is at work there, not that it could be.
var traits = []struct {
	name string
	has  func(*queueView) bool
}{
	{"expiring message", func(v *queueView) bool { return v.flags&flagNoted != 0 && v.expiring }},
	{"several priorities", func(v *queueView) bool { return v.lanes > 1 }},
	{"single active of several", func(v *queueView) bool { return v.set.singleActive && len(v.consumers) > 1 }},
	{"full, drops", func(v *queueView) bool { return v.trims && v.full() }},
	{"full, rejects", func(v *queueView) bool { return v.rejects() && v.full() }},
	{"limit of bytes", func(v *queueView) bool { return v.set.maxBytes != none }},
	{"dead-letters", func(v *queueView) bool { return v.set.deadLetters }},
	{"holds dead letters", func(v *queueView) bool { return v.flags&flagLettered != 0 }},
	{"failed deliveries", func(v *queueView) bool { return v.flags>>countShift != 0 && v.set.deliveryLimit != none }},
	{"waits for its retry", func(v *queueView) bool { return len(v.held) > 0 }},
	{"expires itself", func(v *queueView) bool { return v.set.expires != none }},
	{"exclusive", func(v *queueView) bool { return v.Owner != 0 }},
	{"auto-delete", func(v *queueView) bool { return v.AutoDelete }},
	{"in pieces", func(v *queueView) bool { return v.flags&flagFragmented != 0 }},
	{"no-ack, unwritten", func(v *queueView) bool { return v.flags&flagNoAck != 0 }},
	{"settlement in a transaction", func(v *queueView) bool { return v.flags&flagGathered != 0 }},
	{"owed to a resumed session", func(v *queueView) bool { return v.flags&flagOwed != 0 }},
	{"got with basic.get", func(v *queueView) bool { return v.gets }},
	{"claimed consumer", func(v *queueView) bool { return v.claims }},
	{"consumer priorities", func(v *queueView) bool { return v.ranks }},
	{"limit of a channel", func(v *queueView) bool { return v.global }},
	{"purged, in pieces", func(v *queueView) bool { return v.remains }},
	{"policy", func(v *queueView) bool { return v.policy != nil || v.operator != nil }},
	{"vhost waits to route", func(v *queueView) bool { return v.delayed }},
}

// queueView is a queue with what is gathered of its messages and consumers.
type queueView struct {
	*queue
	flags                                                   uint32 // of any of its messages
	expiring, gets, claims, ranks, global, remains, delayed bool
	lanes                                                   int
}

func (v *queueView) full() bool {
	return v.set.maxLength != none && int64(v.ready.len()) >= v.set.maxLength || v.set.maxBytes != none && v.bodies > 0
}

// Together counts how often two traits were at work in one queue, after how many entries.
type Together struct {
	pairs   [32][32]int
	entries int
}

// Audit is Audit, counted.
func (t *Together) Audit(m *Machine) error {
	t.entries++
	for _, v := range m.vhosts {
		for _, q := range v.queues {
			t.count(viewOf(m, q))
		}
	}
	return Audit(m)
}

func (t *Together) count(v *queueView) {
	var at []int
	for i := range traits {
		if traits[i].has(v) {
			at = append(at, i)
		}
	}
	for _, a := range at {
		for _, b := range at {
			t.pairs[a][b]++
		}
	}
}

func viewOf(m *Machine, q *queue) *queueView {
	v := &queueView{queue: q}
	note := func(r *ready.Ref) {
		v.flags |= r.Flags
		v.expiring = v.expiring || q.expiresAt(r) != 0
	}
	q.ready.each(func(r ready.Ref) { note(&r) })
	for i := range len(q.ready.more) + 1 {
		v.lanes += count(q.ready.lane(i).Len() > 0)
	}
	m.sessions.each(func(s *session) {
		if s.vhost != q.vhost {
			return
		}
		for _, h := range s.channels {
			h.flight.Each(func(_ uint64, r *ledger.Record) {
				if r.Queue == q.ID {
					note(&r.Ref)
					v.gets = v.gets || r.Consumer == 0
				}
			})
		}
	})
	for _, c := range q.consumers {
		v.claims = v.claims || c.Claim
		v.ranks = v.ranks || c.Priority != q.consumers[0].Priority
		v.global = v.global || c.channel.Limit > 0
	}
	for _, x := range q.vhost.remains {
		v.remains = v.remains || x.Queue == q.ID
	}
	q.vhost.held.each(func(x *held) { v.delayed = v.delayed || x.Queue == 0 })
	return v
}

// String is a table: a row and a column for each trait, numbered; and the pairs that were never seen.
func (t *Together) String() string {
	var out, never strings.Builder
	fmt.Fprintf(&out, "%d entries\n", t.entries)
	for i := range traits {
		fmt.Fprintf(&out, "%2d %-28s", i, traits[i].name)
		for k := range i + 1 {
			fmt.Fprintf(&out, " %6d", t.pairs[i][k])
			if t.pairs[i][k] == 0 {
				fmt.Fprintf(&never, "never together: %s, %s\n", traits[k].name, traits[i].name)
			}
		}
		out.WriteByte('\n')
	}
	return out.String() + never.String()
}
