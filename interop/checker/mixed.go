package checker

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rule says what may become of a queue's messages beside being consumed.
type Rule struct {
	// Deaths are the reasons for which they may come as dead letters.
	Deaths []string
	// TTL is how long they live at least, where they may die of age; 0 for none.
	TTL time.Duration
	// Keeps is how many of the newest are there for sure where older ones may be dropped without a trace; 0 where none may.
	Keeps int
	// Priorities: the drain takes them by priority.
	Priorities bool
}

// Rules are those of a mixed load.
type Rules struct {
	Queues map[string]Rule
	// DeadLetters is the queue that all dead letters come to.
	DeadLetters string
}

// MixedReport is the account of a mixed load. The faults of Report count for both lives of a message, before its death
// and after, each by itself; beside them:
type MixedReport struct {
	Report
	// WrongDeath: a dead letter whose x-death says something that did not happen, or too early: another queue or a
	// reason that its queue has not, more deaths than one, rejected though no consumer did so.
	WrongDeath int `json:"wrong_death"`
	// Undead: in a consumer's hands for good (the ack is known to be committed) and yet a dead letter.
	Undead int `json:"undead"`
	// Torn: of one transaction some messages came and others did not.
	Torn int `json:"torn"`
	// Inversion: the drain of a queue gave a message behind one of lower priority.
	Inversion int `json:"inversion"`

	Deaths  map[string]int `json:"deaths"`  // messages by the reason of their death
	Dropped int            `json:"dropped"` // confirmed, and made room for newer ones
	Batches int            `json:"batches"` // transactions of which something came
}

// OK says that there is no fault.
func (r *MixedReport) OK() bool {
	return r.Report.OK() && r.WrongDeath+r.Undead+r.Torn+r.Inversion == 0
}

// Dead is how many messages became dead letters.
func (r *MixedReport) Dead() (n int) {
	for _, of := range r.Deaths {
		n += of
	}
	return n
}

// String is the report in one line.
func (r *MixedReport) String() string {
	var deaths []string
	for reason, n := range r.Deaths {
		deaths = append(deaths, fmt.Sprintf("%s %d", reason, n))
	}
	slices.Sort(deaths)
	return fmt.Sprintf("lost %d, phantom %d, copies %d, disorder %d, corrupt %d, wrong death %d, undead %d, torn %d, inversion %d (confirmed %d of %d, unknown %d, refused %d, dropped %d, transactions %d, dead: %s)",
		r.Lost, r.Phantom, r.Copies, r.Disorder, r.Corrupt, r.WrongDeath, r.Undead, r.Torn, r.Inversion,
		r.Confirmed, r.Attempts, r.Unknown, r.Refused, r.Dropped, r.Batches, strings.Join(deaths, ", "))
}

// mixedTrial is a mixed history in the shape in which it is judged.
type mixedTrial struct {
	trial
	rules  Rules
	report MixedReport
	lived  map[ID][]*Delivery // deliveries from the queue that it was published to
	died   map[ID][]*Delivery // and as a dead letter
}

// CheckMixed judges the history of a mixed load: each message that was confirmed was consumed, or is a dead letter for a
// reason that its queue has, or was dropped for newer ones where that may be.
func CheckMixed(h *History, rules Rules) *MixedReport {
	t := &mixedTrial{rules: rules}
	t.trial = trial{attempts: map[ID]*Attempt{}, consumers: h.Consumers, lastHeard: map[int]Time{}, drain: map[int]bool{}}
	t.report.Deaths = map[string]int{}
	t.collect(h)
	t.separate()
	for id, a := range t.attempts {
		t.judgeFate(a, t.lived[id], t.died[id])
	}
	for _, ds := range t.lived {
		t.judgeCopies(ds)
	}
	for id, ds := range t.died {
		t.judgeCopies(ds)
		t.judgeDeath(t.attempts[id], ds)
	}
	t.judgeOrder(nil)
	t.judgeDrops()
	t.judgeBatches()
	t.judgePriorities()
	t.report.Report = t.trial.report
	slices.SortFunc(t.report.Examples, strings.Compare)
	return &t.report
}

// separate tells a message's two lives apart. What has no place in its queue's rules stays where Report's faults find it.
func (t *mixedTrial) separate() {
	var living, dead []*Delivery
	for _, d := range t.deliveries {
		if a := t.attempts[d.ID]; a != nil && d.Queue == t.rules.DeadLetters {
			dead = append(dead, d)
			continue
		}
		living = append(living, d)
	}
	t.deliveries = living
	t.lived = t.perMessage()
	t.died = map[ID][]*Delivery{}
	for _, d := range dead {
		a := t.attempts[d.ID]
		switch {
		case a.Fate == Refused:
			t.trial.report.fault(&t.trial.report.Phantom, "phantom", "%s was refused and is a dead letter", a.name())
		case a.Sum != d.Sum:
			t.trial.report.fault(&t.trial.report.Corrupt, "corrupt", "%s is a dead letter with another body", a.name())
		}
		t.died[d.ID] = append(t.died[d.ID], d)
	}
}

func (t *mixedTrial) fault(count *int, kind, format string, args ...any) {
	t.trial.report.fault(count, kind, format, args...)
}

func acked(d *Delivery) bool { return d.AckSent }

// judgeFate counts what was published, and finds what is lost. What may have been dropped is judged by its queue.
func (t *mixedTrial) judgeFate(a *Attempt, lived, died []*Delivery) {
	r := &t.trial.report
	switch a.Fate {
	case Refused:
		r.Refused++
	case Unknown:
		r.Unknown++
	case Confirmed:
		r.Confirmed++
		if t.rules.Queues[a.Queue].Keeps == 0 && !slices.ContainsFunc(lived, acked) && !slices.ContainsFunc(died, acked) {
			r.fault(&r.Lost, "lost", "%s was confirmed, and neither acknowledged nor is it a dead letter", a.name())
		}
	}
}

// judgeDeath judges what the dead letters of one message say.
func (t *mixedTrial) judgeDeath(a *Attempt, ds []*Delivery) {
	rule := t.rules.Queues[a.Queue]
	first := ds[0]
	if first.Death == nil {
		t.fault(&t.report.WrongDeath, "wrong death", "%s is a dead letter without x-death", a.name())
		return
	}
	t.report.Deaths[first.Death.Reason]++
	lived := t.lived[a.ID]
	switch d := first.Death; {
	case d.Queue != a.Queue || !slices.Contains(rule.Deaths, d.Reason):
		t.fault(&t.report.WrongDeath, "wrong death", "%s: %s of queue %s", a.name(), d.Reason, d.Queue)
	case d.Count != 1:
		t.fault(&t.report.WrongDeath, "wrong death", "%s died %d times", a.name(), d.Count)
	case d.Reason == "rejected" && !slices.ContainsFunc(lived, func(d *Delivery) bool { return d.Rejected }):
		t.fault(&t.report.WrongDeath, "wrong death", "%s: nobody rejected it", a.name())
	case d.Reason == "expired" && time.Duration(first.At-a.At) < rule.TTL*9/10:
		t.fault(&t.report.WrongDeath, "wrong death", "%s expired after %v, not %v", a.name(), time.Duration(first.At-a.At), rule.TTL)
	}
	for _, d := range lived {
		switch {
		case d.Committed != 0:
			t.fault(&t.report.Undead, "undead", "%s is a dead letter (%s) though its ack was committed", a.name(), first.Death.Reason)
		case d.At > first.At && t.lastHeard[d.Consumer] >= d.At:
			t.fault(&t.report.Undead, "undead", "%s was delivered after it was a dead letter (%s)", a.name(), first.Death.Reason)
		}
	}
}

// judgeDrops finds what is lost of the queues that may drop their oldest. What is missing must have had as many newer ones
// as the queue keeps; ones whose outcome is unknown may have entered at any time.
func (t *mixedTrial) judgeDrops() {
	byQueue := map[string][]*Attempt{}
	for _, a := range t.attempts {
		if t.rules.Queues[a.Queue].Keeps > 0 && a.Fate != Refused {
			byQueue[a.Queue] = append(byQueue[a.Queue], a)
		}
	}
	for queue, all := range byQueue {
		slices.SortFunc(all, func(a, b *Attempt) int { return int(a.At - b.At) })
		newer := 0
		for _, a := range all {
			if a.Fate == Unknown {
				newer++
			}
		}
		for i := len(all) - 1; i >= 0; i-- {
			a := all[i]
			if a.Fate == Confirmed {
				t.judgeDrop(a, newer, t.rules.Queues[queue].Keeps)
				newer++
			}
		}
	}
}

func (t *mixedTrial) judgeDrop(a *Attempt, newer, keeps int) {
	r := &t.trial.report
	switch {
	case slices.ContainsFunc(t.lived[a.ID], acked):
	case newer < keeps:
		r.fault(&r.Lost, "lost", "%s was confirmed and did not come, with %d newer ones in a queue that keeps %d", a.name(), newer, keeps)
	default:
		t.report.Dropped++
	}
}

// judgeBatches finds transactions that came in part.
func (t *mixedTrial) judgeBatches() {
	type key struct {
		producer int
		batch    uint64
	}
	came, missing := map[key]*Attempt{}, map[key]*Attempt{}
	for id, a := range t.attempts {
		if a.Batch == 0 || a.Fate == Refused {
			continue
		}
		k := key{a.Producer, a.Batch}
		if len(t.lived[id])+len(t.died[id]) > 0 {
			came[k] = a
		} else {
			missing[k] = a
		}
	}
	t.report.Batches = len(came)
	for k, a := range came {
		if b := missing[k]; b != nil {
			t.fault(&t.report.Torn, "torn", "%s came without %s of the same transaction", a.name(), b.name())
		}
	}
}

// judgePriorities looks at what each drain got of a queue: what was not delivered before comes by priority.
func (t *mixedTrial) judgePriorities() {
	type key struct {
		consumer int
		queue    string
	}
	lowest := map[key]*Attempt{}
	for _, d := range t.deliveries {
		a := t.attempts[d.ID]
		if a == nil || d.Redelivered || !t.drain[d.Consumer] || !t.rules.Queues[d.Queue].Priorities {
			continue
		}
		k := key{d.Consumer, d.Queue}
		if last := lowest[k]; last != nil && last.Priority < a.Priority {
			t.fault(&t.report.Inversion, "inversion", "%s of priority %d came behind %s of %d", a.name(), a.Priority, last.name(), last.Priority)
		}
		lowest[k] = a
	}
}
