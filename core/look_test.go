package core

import (
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
	Name          string
	Limited       bool // in length or bytes
	DeliveryLimit int64
	DeadLetters   bool
}

// QueueLooks answers the queues by vhost and id.
func QueueLooks(m *Machine) map[[2]uint32]QueueLook {
	all := map[[2]uint32]QueueLook{}
	for _, v := range m.vhosts {
		for _, q := range v.queues {
			all[[2]uint32{q.Vhost, q.ID}] = QueueLook{Name: q.Name, Limited: q.trims, DeliveryLimit: q.set.deliveryLimit, DeadLetters: q.set.deadLetters}
		}
	}
	return all
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
