package standby

import (
	"fmt"
	"sync"
	"time"
)

// route is what becomes of a message: through which queues it goes, and in which it ends.
type route string

const (
	work    route = "work"    // consumed
	aged    route = "aged"    // a dead letter once its time is over
	picky   route = "picky"   // a dead letter, for its consumer rejects it
	later   route = "later"   // delayed by its exchange
	twins   route = "tx"      // of a transaction, in either of two queues
	calls   route = "calls"   // a request, which names where to answer
	replies route = "replies" // an answer, to an exclusive queue
	direct  route = "direct"  // an answer, to direct reply-to: nobody acknowledges it
)

// ends are the queues in which messages of a route end, as consumers name them in the history.
var ends = map[route][]string{
	work: {"work"}, aged: {"dead"}, picky: {"dead"}, later: {"late"}, twins: {"tx-a", "tx-b"},
	calls: {"calls"}, replies: {"replies"}, direct: {"direct"},
}

// message is one publish and what became of it. Times are wall clock.
type message struct {
	id        string
	route     route
	vhost     int
	sent      time.Time // first
	again     int       // times that it was sent again
	by        place     // who confirmed it, or before that to whom it was sent first
	confirmed time.Time // zero: never
	delay     time.Duration
	batch     int  // of a transaction, 0 for none
	undone    bool // rolled back
}

// death is what a dead letter says of itself.
type death struct{ queue, reason string }

// seen is one delivery.
type seen struct {
	id          string
	queue       string
	by          place
	redelivered bool
	at          time.Time
	death       *death
}

// history is what all clients of a round did.
type history struct {
	mu        sync.Mutex
	messages  map[string]*message
	seen      []seen
	confirmed int
}

// repeat notes that a message is sent again.
func (h *history) repeat(m *message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m.again++
}

// begin notes that a message is sent, for the first time or again.
func (h *history) begin(m message) *message {
	h.mu.Lock()
	defer h.mu.Unlock()
	if was := h.messages[m.id]; was != nil {
		was.again++
		return was
	}
	m.sent = time.Now()
	h.messages[m.id] = &m
	return &m
}

// settle notes who confirmed messages.
func (h *history) settle(by place, ms ...*message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range ms {
		m.confirmed, m.by = time.Now(), by
		h.confirmed++
	}
}

func (h *history) deliver(s seen) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.at = time.Now()
	h.seen = append(h.seen, s)
}

func (h *history) confirms() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.confirmed
}

func (h *history) deliveries() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.seen)
}

// flowing says whether every kind of message was confirmed in every vhost since a moment.
func (h *history) flowing(since time.Time) error {
	type kind struct {
		route route
		vhost int
	}
	const enough = 3
	h.mu.Lock()
	defer h.mu.Unlock()
	count := map[kind]int{}
	for _, m := range h.messages {
		if m.confirmed.After(since) {
			count[kind{m.route, m.vhost}]++
		}
	}
	for _, r := range []route{work, aged, picky, later, twins, calls, replies} {
		for v := range vhosts {
			if n := count[kind{r, v}]; n < enough {
				return fmt.Errorf("%d of %d messages of %s were confirmed in vhost %s", n, enough, r, vhostName(v))
			}
		}
	}
	return nil
}

// lastDue is when the last of the delayed messages is to come: its delay began before it was confirmed, but not when it was sent
// first.
func (h *history) lastDue() (last time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.messages {
		if due := m.confirmed.Add(m.delay); m.route == later && due.After(last) {
			last = due
		}
	}
	return last
}

// confirmedSince says whether the promoted cluster has confirmed something after a moment.
func (h *history) confirmedSince(at time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.messages {
		if !m.by.source && m.confirmed.After(at) {
			return true
		}
	}
	return false
}

// firstPromoted is when the promoted cluster first did something for a client; zero: never. h.mu is not held.
func (h *history) firstPromoted() (first time.Time) {
	earlier := func(by place, at time.Time) {
		if !by.source && !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for _, m := range h.messages {
		earlier(m.by, m.confirmed)
	}
	for _, s := range h.seen {
		earlier(s.by, s.at)
	}
	return first
}
