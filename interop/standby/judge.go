package standby

import (
	"fmt"
	"time"
)

// kind is how the standby came to take over.
type kind struct {
	name string
	// lossless: nothing confirmed may be missing.
	lossless bool
}

// slack is by how much a tail may begin before the last contact.
const slack = time.Second

// verdict is what a round came to.
type verdict struct {
	Confirmed, Lost, Doubled, Phantom, Gaps, Early, Unbound int
	Tail                                                    time.Duration // age of the oldest lost confirm at the last contact; negative: after it
	examples                                                []string
}

func (v *verdict) fault(count *int, format string, args ...any) {
	if *count++; *count <= 3 {
		v.examples = append(v.examples, fmt.Sprintf(format, args...))
	}
}

// OK says whether nothing happened that may not.
func (v *verdict) OK(k kind) bool {
	return v.Doubled+v.Phantom+v.Gaps+v.Early+v.Unbound == 0 && (!k.lossless || v.Lost == 0)
}

// trial is what is judged: what clients saw, and what the promotion's report says.
type trial struct {
	kind    kind
	h       *history
	contact time.Time              // the last contact with the source
	since   time.Time              // what was confirmed before is said to be here; zero: nothing is said
	group   func(vhost int) uint64 // where a vhost lies
}

// judge applies the rules of a kind to a history.
func judge(t trial) verdict {
	v := verdict{Confirmed: t.h.confirmed}
	came := map[string]bool{}
	for _, s := range t.h.seen {
		came[s.id] = true
		if t.h.messages[s.id] == nil {
			v.fault(&v.Phantom, "%s was never published and came", s.id)
		}
	}
	oldest := map[uint64]*message{} // the lost message that was confirmed first, by group
	for _, m := range t.h.messages {
		if m.confirmed.IsZero() || came[m.id] {
			continue
		}
		t.lost(&v, m)
		if o := oldest[t.group(m.vhost)]; o == nil || m.confirmed.Before(o.confirmed) {
			oldest[t.group(m.vhost)] = m
		}
	}
	t.gaps(&v, came, oldest)
	t.doubled(&v)
	return v
}

// lost judges a message that was confirmed and never came.
func (t *trial) lost(v *verdict, m *message) {
	v.Lost++
	switch {
	case !m.bySource:
		v.fault(&v.Early, "%s was confirmed by the promoted cluster and lost", m.id)
	case t.kind.lossless:
		v.examples = append(v.examples, m.id+" was confirmed and lost")
	case m.confirmed.Before(t.contact.Add(-slack)):
		v.fault(&v.Early, "%s was confirmed %v before the last contact and lost", m.id, t.contact.Sub(m.confirmed))
	}
	if !t.since.IsZero() && m.confirmed.Before(t.since) {
		v.fault(&v.Unbound, "%s was confirmed %v before the time from which on the report says that something may be missing", m.id, t.since.Sub(m.confirmed))
	}
	v.Tail = max(v.Tail, t.contact.Sub(m.confirmed))
}

// gaps finds messages that came although one was lost that had been confirmed before they were sent, in the same group.
func (t *trial) gaps(v *verdict, came map[string]bool, oldest map[uint64]*message) {
	for _, m := range t.h.messages {
		o := oldest[t.group(m.vhost)]
		if o == nil || !came[m.id] || !m.bySource || m.confirmed.IsZero() || !m.sent.After(o.confirmed) {
			continue
		}
		if t.cameFromPromoted(m.id) {
			v.fault(&v.Gaps, "%s is there, and %s, which was confirmed before it was sent, is lost", m.id, o.id)
		}
	}
}

func (t *trial) cameFromPromoted(id string) bool {
	for _, s := range t.h.seen {
		if s.id == id && !s.bySource {
			return true
		}
	}
	return false
}

// doubled finds messages that a cluster delivered as new twice, or both did although the standby must have known.
func (t *trial) doubled(v *verdict) {
	type side struct{ source, promoted int }
	fresh, first := map[string]*side{}, map[string]time.Time{}
	for _, s := range t.h.seen {
		if s.redelivered {
			continue
		}
		x := fresh[s.id]
		if x == nil {
			x = &side{}
			fresh[s.id] = x
		}
		if s.bySource {
			x.source++
			first[s.id] = s.at
		} else {
			x.promoted++
		}
	}
	for id, x := range fresh {
		switch {
		case x.source > 1 || x.promoted > 1:
			v.fault(&v.Doubled, "%s came as new %d times from the source and %d times from the promoted cluster", id, x.source, x.promoted)
		case x.source == 1 && x.promoted == 1 && first[id].Before(t.contact.Add(-slack)):
			v.fault(&v.Doubled, "%s came as new from both, from the source %v before the last contact", id, t.contact.Sub(first[id]))
		}
	}
}
