package core

import (
	"github.com/cespare/xxhash/v2"
	"github.com/understudy-mq/understudy/core/entry"
)

// A named session outlives its connection. While it is detached its channels are parked: their deliveries, consumers and
// prefetch stay, and nothing new is assigned to them. The sessions of a machine are found by (vhost, user, key).

// Times of a named session, in milliseconds.
const (
	adoptWait      = 30_000 // what nothing has adopted so long after a resume goes back
	takeoverWindow = 30_000
	contendedWait  = 30_000 // a contended session refuses every attach so long
)

// Bounds of a named session.
const (
	keyBytesMax    = 1024    // of the key, the process and the address
	formerMax      = 256     // processes that are refused; an older one is forgotten
	takeoversMax   = 8       // that are remembered
	takeoversStorm = 3       // of a connection that still answered, within takeoverWindow: it is contended
	gapTags        = 1 << 32 // that delivery tags jump by at a promotion
)

// terms are what a named session has beside an anonymous one.
type terms struct {
	State        SessionState
	Process      string
	Former       []uint64 // digests of processes that another has followed
	Expiry       uint32   // seconds
	KeepInFlight bool
	KeepOnClose  bool
	Address      string
	Left         int64 // stamp from which the expiry runs; 0 while attached, and from a promotion to the first leader
	Adopt        int64 // stamp until which what was left may be adopted, 0 for nothing left
	Released     uint32
	Takeovers    []takeover
	Contended    int64  // stamp until which no attach is taken
	Tags         uint64 // delivery tags that a channel never begins with: a cluster that is lost may have minted them
}

// takeover is an attachment that another one ended.
type takeover struct {
	Epoch    uint64
	Stamp    int64
	Answered bool // its connection was alive
}

func (t *terms) code(c *rowCoder) {
	c.u8((*uint8)(&t.State))
	c.str(&t.Process)
	c.u64s(&t.Former)
	c.u32(&t.Expiry)
	c.boolean(&t.KeepInFlight)
	c.boolean(&t.KeepOnClose)
	c.str(&t.Address)
	c.i64(&t.Left)
	c.i64(&t.Adopt)
	c.u32(&t.Released)
	n := uint64(len(t.Takeovers))
	if c.count(&n); !c.encoding && n > 0 {
		t.Takeovers = make([]takeover, n)
	}
	for i := range t.Takeovers {
		x := &t.Takeovers[i]
		c.u64(&x.Epoch)
		c.i64(&x.Stamp)
		c.boolean(&x.Answered)
	}
	c.i64(&t.Contended)
	c.u64(&t.Tags)
}

// sessionKey finds a named session in its vhost.
type sessionKey struct{ user, key string }

func (s *session) named() bool { return s.Key != "" }

func (s *session) attached() bool { return s.Node != 0 }

func processDigest(process string) uint64 { return xxhash.Sum64String(process) }

// agree takes over what an attach says of the session.
func (m *Machine) agree(s *session, x *entry.Attach) {
	renewed := s.Expiry != x.Expiry
	s.Connection, s.Expiry, s.KeepInFlight, s.KeepOnClose = x.Connection, x.Expiry, x.KeepInFlight, x.KeepOnClose
	if s.Address == "" {
		s.Address = x.Address
	}
	for i := 0; renewed && i < len(s.windows); i++ {
		m.schedule(s.windows[i])
	}
}

func (s *session) timing() *timer { return &s.timer }

// deadline is when a detached session expires, or what an attached one has not adopted goes back.
func (s *session) deadline() int64 {
	if s.attached() {
		return s.Adopt
	}
	return s.expires()
}

// expires is when a detached session does, 0 for not yet known.
func (s *session) expires() int64 {
	if s.Left == 0 {
		return 0
	}
	return max(s.Left+int64(s.Expiry)*1000, s.Contended, 1)
}

func (s *session) due(m *Machine) {
	switch {
	case s.gone || !s.named():
	case !s.attached() && s.Left != 0 && s.expires() <= m.header.Stamp:
		m.counts.Expired++
		m.end(s, entry.Modified)
	case s.attached() && s.Adopt != 0 && s.Adopt <= m.header.Stamp:
		m.giveUp(s)
	}
}

// restartTimers begins the timers of named sessions anew: nobody could come back while there was no leader.
func (m *Machine) restartTimers() {
	m.sessions.each(func(s *session) {
		switch {
		case !s.named():
			return
		case !s.attached():
			s.Left = m.header.Stamp
		case s.Adopt != 0:
			s.Adopt = m.header.Stamp + adoptWait
		default:
			return
		}
		m.touch(s)
	})
}

// promoteSessions makes of a standby's sessions those of a cluster of its own: named ones are detached, under a generation
// that orders above all epochs of the source's, and keep their deliveries; anonymous ones end. Delivery tags jump, so that
// none is minted again that the source may have minted last, also on a channel that it opened last. Expiries begin with the first leader: the stamp of the cut is
// old.
func (m *Machine) promoteSessions(generation uint64) {
	m.header.Generation = generation
	m.touch(&m.header)
	var all []*session
	m.sessions.each(func(s *session) { all = append(all, s) })
	for _, s := range all {
		if !s.named() {
			m.end(s, entry.Modified)
			continue
		}
		if s.attached() {
			m.detach(s)
		}
		if s.gone { // it had no expiry
			continue
		}
		s.Epoch = generation << epochCounterBits
		s.Left = 0
		s.Tags += gapTags
		m.touch(s)
		for _, h := range s.channels {
			h.LastTag += gapTags
			h.flight.Loaded(h.LastTag)
			m.touch(h)
		}
	}
}
