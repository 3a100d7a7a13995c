package core

import (
	"slices"

	"github.com/understudy-mq/understudy/core/internal/ledger"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

// CopyOf is one message in one queue of a vhost, for as long as the queue has it.
type CopyOf struct {
	Vhost, Queue uint32
	Number       uint64
}

// CopyPlace is where a queue has a message.
type CopyPlace uint8

const (
	CopyReady CopyPlace = iota
	CopyInFlight
	CopyUnwritten // in flight, and needs no acknowledgement
	CopyWaiting   // to return
)

// Copy is what is known of one.
type Copy struct {
	Place       CopyPlace
	Session     uint64 // of one in flight
	Channel     uint16
	Tag         uint64
	Loc         message.Loc
	Size        uint32
	Priority    int
	Failures    uint32
	Redelivered bool
	Expires     int64 // stamp, 0 for never
	Until       int64 // of one that waits
}

// Copies lists every message of every queue. What was purged is none any more, nor what is in flight of a queue that is gone.
func Copies(m *Machine) map[CopyOf]Copy {
	all := map[CopyOf]Copy{}
	note := func(q *queue, r *ready.Ref, x Copy) {
		x.Loc, x.Size, x.Priority, x.Failures = message.Loc(r.Loc), r.Size, priorityOf(r), r.Flags>>countShift
		x.Redelivered, x.Expires = r.Flags&flagRedelivered != 0, q.expiresAt(r)
		all[CopyOf{q.Vhost, q.ID, r.Number}] = x
	}
	for _, v := range m.vhosts {
		for _, q := range v.queues {
			q.ready.each(func(r ready.Ref) { note(q, &r, Copy{Place: CopyReady}) })
		}
		v.held.each(func(x *held) {
			if q := v.queue[x.Queue]; q != nil {
				r := x.ref()
				note(q, &r, Copy{Place: CopyWaiting, Until: x.Until})
			}
		})
	}
	m.sessions.each(func(s *session) {
		for _, h := range s.channels {
			h.flight.Each(func(tag uint64, r *ledger.Record) {
				q := s.vhost.queue[r.Queue]
				if q == nil {
					return
				}
				x := Copy{Place: CopyInFlight, Session: s.ID, Channel: h.Number, Tag: tag}
				if r.Flags&flagNoAck != 0 {
					x.Place = CopyUnwritten
				}
				note(q, &r.Ref, x)
			})
		}
	})
	return all
}

// QueueLook is what a queue does with its messages.
type QueueLook struct {
	Name             string
	Limited          bool // in length or bytes
	DeliveryLimit    int64
	DeadLetters      bool
	Exchange, Key    string // of dead letters; Key if KeyGiven
	KeyGiven         bool
	KeepsDeadLetters bool // no command that makes one there ends it too
	ExpiresAtOnce    bool // whatever is not delivered at once
	TTL              int64
	MaxPriority      uint8
}

// QueueLooks answers the queues by vhost and id.
func QueueLooks(m *Machine) map[[2]uint32]QueueLook {
	all := map[[2]uint32]QueueLook{}
	for _, v := range m.vhosts {
		for _, q := range v.queues {
			all[[2]uint32{q.Vhost, q.ID}] = QueueLook{Name: q.Name, Limited: q.trims, DeliveryLimit: q.set.deliveryLimit, DeadLetters: q.set.deadLetters,
				Exchange: q.set.deadExchange, Key: q.set.deadKey, KeyGiven: q.set.hasDeadKey, ExpiresAtOnce: q.set.ttl == 0,
				KeepsDeadLetters: !q.trims && !q.rejects() && q.set.ttl != 0, TTL: q.set.ttl, MaxPriority: q.set.maxPriority}
		}
	}
	return all
}

// DeadLettering answers the queues of a vhost that have messages and dead-letter them.
func DeadLettering(m *Machine, vhost string) (names []string) {
	for _, q := range m.vhost[vhost].queues {
		if q.set.deadLetters && q.ready.len() > 0 {
			names = append(names, q.Name)
		}
	}
	return names
}

// Minted is how many messages a vhost has had, and how many of them had to wait.
type Minted struct{ Messages, Held uint64 }

// MintedBy answers that of each vhost.
func MintedBy(m *Machine) map[uint32]Minted {
	all := map[uint32]Minted{}
	for _, v := range m.vhosts {
		all[v.Vhost] = Minted{v.Messages, v.Held}
	}
	return all
}

// ChannelLook is how a channel stands.
type ChannelLook struct {
	There, Dead, Confirm, Tx bool
	Tags                     []uint64
	Last                     uint64
	Consumers                []string
}

// LookAt tells how a session's channel stands, and whether the session has failed.
func LookAt(m *Machine, id uint64, number uint16) (x ChannelLook, failed bool) {
	s := m.session[id]
	if s == nil {
		return x, true
	}
	for _, h := range s.channels {
		if h.Number != number {
			continue
		}
		x = ChannelLook{There: true, Dead: h.Dead, Confirm: h.Confirm, Tx: h.Tx, Last: h.LastTag}
		h.flight.Each(func(tag uint64, _ *ledger.Record) { x.Tags = append(x.Tags, tag) })
		for _, c := range h.consumers {
			x.Consumers = append(x.Consumers, c.Tag)
		}
	}
	return x, s.Failed
}

// VhostNumber is the number of the vhost that a session is in.
func VhostNumber(m *Machine, session uint64) uint32 {
	if s := m.session[session]; s != nil {
		return s.Vhost
	}
	return 0
}

// IsNamed says whether a session outlives its connection.
func IsNamed(m *Machine, session uint64) bool {
	s := m.session[session]
	return s != nil && s.named()
}

// MessageOf is a message of a vhost.
type MessageOf struct {
	Vhost  uint32
	Number uint64
}

// Letter is what the broker keeps beside a message.
type Letter struct {
	Key         string
	CC, BCC     []string
	Headers     []byte
	Priority    uint8
	Moved       bool
	Exchange    string
	NewKey      bool
	FirstQueue  string
	FirstReason string
	Deaths      []Death
}

// Letters answers what there is beside messages.
func Letters(m *Machine) map[MessageOf]Letter {
	all := map[MessageOf]Letter{}
	for _, v := range m.vhosts {
		for _, t := range v.letters {
			x := Letter{Key: t.Key, CC: t.CC, BCC: t.BCC, Headers: t.Headers, Priority: t.Priority, Moved: t.Moved, Exchange: t.Exchange,
				NewKey: t.NewKey, FirstQueue: t.FirstQueue, Deaths: t.Deaths}
			if t.Moved {
				x.FirstReason = reasonNames[t.FirstReason]
			}
			all[MessageOf{v.Vhost, t.Number}] = x
		}
	}
	return all
}

// Topology stands for all that routing and the fate of messages depend on.
func Topology(m *Machine) (sum uint64) {
	for _, v := range m.vhosts {
		for _, x := range v.exchanges {
			sum += x.hash
		}
		for _, b := range v.bindings {
			sum += b.hash
		}
		for _, p := range v.policies {
			sum += p.hash
		}
		for _, q := range v.queues {
			sum += mix(uint64(v.Vhost), uint64(q.ID))
		}
	}
	return sum
}

// RoutesByHeaders says whether a vhost has bindings that go by headers.
func RoutesByHeaders(m *Machine, vhost uint32) bool { return vhostBy(m, vhost).byHeaders > 0 }

// RoutesOf finds the queues that an exchange leads to by any of the keys; seed is for exchanges that choose by it.
func RoutesOf(m *Machine, vhost uint32, exchange string, keys []string, headers []byte, seed uint64) (routes []uint32) {
	v := vhostBy(m, vhost)
	v.router.Seed(seed)
	for _, key := range keys {
		routes = v.router.Route([]byte(exchange), []byte(key), func() message.Table { return tableOf(headers) }, routes)
	}
	slices.Sort(routes)
	return slices.Compact(routes)
}

func vhostBy(m *Machine, number uint32) *vhost {
	return m.vhosts[slices.IndexFunc(m.vhosts, func(v *vhost) bool { return v.Vhost == number })]
}
