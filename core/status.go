package core

import (
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/internal/ledger"
)

// SessionState is how a session came to its attachment.
type SessionState uint8

// The states.
const (
	StateNew       SessionState = iota // made by this attachment
	StateResumed                       // it was detached
	StateTakenOver                     // it was attached to another connection, which has lost it
)

func (s SessionState) String() string { return [...]string{"new", "resumed", "taken-over"}[s] }

// An epoch is a generation (of the cluster: each promotion of a standby raises it) and the count of the session's
// attachments in it, in one number that orders them.
const epochCounterBits = 40

// EpochParts takes an epoch apart.
func EpochParts(epoch uint64) (generation, counter uint64) {
	return epoch >> epochCounterBits, epoch & (1<<epochCounterBits - 1)
}

// SessionStatus is what a client may know of its session. Apply makes it, so that it is right after a failover too.
type SessionStatus struct {
	State        SessionState
	Expiry       uint32 // seconds
	KeepInFlight bool
	InFlight     int // deliveries that await a settlement
	Released     int // deliveries that the newest attach took from the session
	Channels     []ChannelStatus
	Publishers   []PublisherStatus
}

// ChannelStatus is a channel that has been used since the session was made.
type ChannelStatus struct {
	Number   uint16
	Highest  uint64   // delivery tag
	InFlight []uint64 // tags, the first statusTagsMax of the session
}

// PublisherStatus is a publisher that numbers its messages.
type PublisherStatus struct {
	Name string
	Last uint64 // highest sequence seen
}

// statusTagsMax bounds the tags that a SessionStatus lists.
const statusTagsMax = 10_000

func (m *Machine) applySessionStatus(x *entry.SessionStatus) {
	s := m.sessionOf(&x.Ref)
	if s == nil || s.Failed || x.Channel != 0 && m.channelOf(&x.Ref) == nil {
		return
	}
	if e := m.emit(s, EffectStatus, x.Channel); e != nil {
		e.Command, e.Status = entry.KindSessionStatus, s.status()
	}
}

func (s *session) status() *SessionStatus {
	x := &SessionStatus{State: s.State, Expiry: s.Expiry, KeepInFlight: s.KeepInFlight, Released: int(s.Released)}
	for _, h := range s.channels {
		c := ChannelStatus{Number: h.Number, Highest: h.LastTag}
		h.flight.Each(func(tag uint64, r *ledger.Record) {
			if r.Flags&flagNoAck != 0 {
				return
			}
			if x.InFlight++; x.InFlight <= statusTagsMax {
				c.InFlight = append(c.InFlight, tag)
			}
		})
		x.Channels = append(x.Channels, c)
	}
	for _, p := range s.publishers {
		x.Publishers = append(x.Publishers, PublisherStatus{Name: p.Name, Last: p.Highest})
	}
	return x
}
