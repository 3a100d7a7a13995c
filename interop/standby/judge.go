package standby

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// kind is how the standby came to take over.
type kind struct {
	name string
	// lossless: nothing confirmed may be missing. whole: nothing at all; both clusters never serve at the same time.
	lossless, whole bool
}

const (
	// slack is by how much a tail may begin before the last contact.
	slack = time.Second
	// grace is for what a socket and its client still had in hand when a node was fenced.
	grace = 2 * time.Second
)

// tally counts faults by their names.
type tally map[string]int

func (t tally) String() string {
	if len(t) == 0 {
		return "none"
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		list = append(list, fmt.Sprintf("%s %d", name, t[name]))
	}
	return strings.Join(list, ", ")
}

// verdict is what a round came to.
type verdict struct {
	Confirmed int
	Lost      int           // confirmed by the source before it fell, and not there
	Tail      time.Duration // age of the oldest lost confirm at the last contact; negative: after it
	Stale     int           // confirmed by a former source that was back and not fenced yet
	Faults    tally
	Over      tally // what came over the switch and was seen to end on the other side, by how
	examples  []string
}

// fault counts one, and keeps the first few of each kind as examples.
func (v *verdict) fault(name, format string, args ...any) {
	if v.Faults[name]++; v.Faults[name] <= 3 {
		v.examples = append(v.examples, name+": "+fmt.Sprintf(format, args...))
	}
}

// trial is what is judged: what clients saw, and what the promotion's reports and the former source say.
type trial struct {
	kind    kind
	h       *history
	contact time.Time              // the last contact with the source
	cutOff  time.Time              // when the source was killed or cut off, if it was: later contacts are with one that came back
	since   map[uint64]time.Time   // by group: what was confirmed before is said to be here; none: nothing is said
	back    time.Time              // from when on the source served though the standby took over; zero: it never did
	fenced  map[int][]span         // when the source's nodes are known to be fenced
	next    time.Time              // since when the promoted cluster serves
	group   func(vhost int) uint64 // where a vhost lies
	lives   map[string]*life
	batches map[int][]*message
	verdict verdict
}

// life is how a message was seen.
type life struct {
	came     bool // where it is to end
	promoted bool // anywhere on the promoted cluster
	picked   bool // in the hands of the consumer that rejects
}

// judge applies the rules of a kind to a history.
func judge(t trial) verdict {
	t.lives, t.batches = map[string]*life{}, map[int][]*message{}
	t.verdict = verdict{Confirmed: t.h.confirmed, Faults: tally{}, Over: tally{}}
	if !t.cutOff.IsZero() && t.contact.After(t.cutOff) {
		t.contact = t.cutOff
	}
	t.next = t.h.firstPromoted()
	for i := range t.h.seen {
		t.look(&t.h.seen[i])
	}
	oldest := map[uint64]*message{} // the lost message that was confirmed first, by group
	for _, m := range t.h.messages {
		if m.batch != 0 {
			t.batches[m.batch] = append(t.batches[m.batch], m)
		}
		t.served(m.id, "confirmed", m.by, m.confirmed)
		switch {
		case m.confirmed.IsZero() || m.route == direct || t.came(m):
		case t.stale(m) && !t.kind.lossless:
			t.verdict.Stale++
		default:
			t.lost(m)
			if o := oldest[t.group(m.vhost)]; o == nil || m.confirmed.Before(o.confirmed) {
				oldest[t.group(m.vhost)] = m
			}
		}
	}
	t.gaps(oldest)
	t.doubled()
	t.torn()
	return t.verdict
}

// look judges a delivery by itself.
func (t *trial) look(s *seen) {
	m := t.h.messages[s.id]
	t.served(s.id, "delivered", s.by, s.at)
	if m == nil || m.undone {
		t.verdict.fault("phantom", "%s was never published, or rolled back, and came", s.id)
		return
	}
	l := t.lives[s.id]
	if l == nil {
		l = &life{}
		t.lives[s.id] = l
	}
	l.came = l.came || m.route.endsIn(s.queue)
	l.promoted = l.promoted || !s.by.source
	l.picked = l.picked || s.queue == "picky"
	t.right(m, s)
	if m.by.source && !m.confirmed.IsZero() && !s.by.source && m.route.endsIn(s.queue) {
		t.verdict.Over[string(m.route)]++
	}
}

func (t *trial) came(m *message) bool { return t.lives[m.id] != nil && t.lives[m.id].came }

// stale says whether a message was confirmed by a former source that came back, or went on: nobody has ever had it but that.
func (t *trial) stale(m *message) bool {
	return m.by.source && !t.back.IsZero() && m.confirmed.After(t.back)
}

// lost judges a message that was confirmed and never came.
func (t *trial) lost(m *message) {
	v := &t.verdict
	v.Lost++
	switch {
	case !m.by.source:
		v.fault("lost by the promoted", "%s was confirmed by the promoted cluster and lost", m.id)
	case t.kind.lossless:
		v.fault("lost", "%s was confirmed and lost", m.id)
	case m.confirmed.Before(t.contact.Add(-slack)):
		v.fault("early", "%s was confirmed %v before the last contact and lost", m.id, t.contact.Sub(m.confirmed))
	}
	if since, told := t.since[t.group(m.vhost)]; told && m.confirmed.Before(since) {
		v.fault("unbound", "%s was confirmed %v before the time from which on the report says that something may be missing", m.id, since.Sub(m.confirmed))
	}
	if age := t.contact.Sub(m.confirmed); v.Lost == 1 || age > v.Tail {
		v.Tail = age
	}
}

// gaps finds messages that came although one was lost that had been confirmed before they were sent, in the same group. An answer that
// was given again, to a request that came again, may be the promoted cluster's own.
func (t *trial) gaps(oldest map[uint64]*message) {
	for _, m := range t.h.messages {
		o, l := oldest[t.group(m.vhost)], t.lives[m.id]
		if m.again > 0 && (m.route == replies || m.route == direct) {
			continue
		}
		if o == nil || l == nil || !l.promoted || !m.by.source || m.confirmed.IsZero() || !m.sent.After(o.confirmed) {
			continue
		}
		t.verdict.fault("gap", "%s is there, and %s, which was confirmed before it was sent, is lost", m.id, o.id)
	}
}

// doubled finds messages that a cluster delivered as new twice, or both did although the standby must have known: always where it has
// everything.
func (t *trial) doubled() {
	type key struct{ id, queue string }
	type side struct {
		source, promoted int
		first            time.Time
	}
	fresh := map[key]*side{}
	for _, s := range t.h.seen {
		if s.redelivered {
			continue
		}
		x := fresh[key{s.id, s.queue}]
		if x == nil {
			x = &side{}
			fresh[key{s.id, s.queue}] = x
		}
		if s.by.source {
			x.source++
			x.first = s.at
		} else {
			x.promoted++
		}
	}
	for k, x := range fresh {
		switch {
		case x.source > 1 || x.promoted > 1:
			t.verdict.fault("doubled", "%s came to %s as new %d times from the source and %d times from the promoted cluster", k.id, k.queue, x.source, x.promoted)
		case x.source == 1 && x.promoted == 1 && (t.kind.whole || x.first.Before(t.contact.Add(-slack))):
			t.verdict.fault("doubled", "%s came to %s as new from both, from the source %v before the last contact", k.id, k.queue, t.contact.Sub(x.first))
		}
	}
}

// served finds what a node of the source did for clients while it was fenced, or after a planned switch.
func (t *trial) served(id, what string, by place, at time.Time) {
	if !by.source {
		return
	}
	for _, s := range t.fenced[by.node] {
		if at.After(s.from.Add(grace)) && (s.to.IsZero() || at.Before(s.to)) {
			t.verdict.fault("served", "node %d of the source %s %s %v after it was fenced", by.node, what, id, at.Sub(s.from))
			return
		}
	}
	if t.kind.whole && !t.next.IsZero() && at.After(t.next.Add(grace)) {
		t.verdict.fault("served by both", "node %d of the source %s %s %v after the promoted cluster began to serve", by.node, what, id, at.Sub(t.next))
	}
}
