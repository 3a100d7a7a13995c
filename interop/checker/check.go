package checker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Report is the judgement on a history. The first block are faults, the second says what there was.
type Report struct {
	// Lost: confirmed, and no delivery of it was ever acknowledged, in the drain neither.
	Lost int `json:"lost"`
	// Phantom: delivered, and never published or refused.
	Phantom int `json:"phantom"`
	// Copies: the same message delivered again with redelivered=false, or again after its ack was known to be
	// committed (to a consumer that was heard of afterwards, see the package comment), or acknowledged twice for sure,
	// or twice in the drain.
	Copies int `json:"copies"`
	// Disorder: messages of one producer's connection came to a consumer, or to the consumers of a queue that has one
	// at a time, in another order than they were published, redelivered ones excepted.
	Disorder int `json:"disorder"`
	// Corrupt: the body is not the one that was published.
	Corrupt int `json:"corrupt"`

	Attempts    int `json:"attempts"`
	Confirmed   int `json:"confirmed"`
	Refused     int `json:"refused"`
	Unknown     int `json:"unknown"`
	UnknownCame int `json:"unknown_came"` // unknown outcome, delivered all the same
	Deliveries  int `json:"deliveries"`
	Redelivered int `json:"redelivered"`
	Drained     int `json:"drained"`
	Stale       int `json:"stale"` // came after the ack was committed, to a consumer never heard of again
	// Crossed: came before a message that the same producer had sent on an earlier connection (AMQP orders a channel,
	// not a producer's life; no fault).
	Crossed int `json:"crossed"`

	// Examples are the first faults of each kind in words.
	Examples []string `json:"examples,omitempty"`
}

// OK says that there is no fault.
func (r *Report) OK() bool {
	return r.Lost+r.Phantom+r.Copies+r.Disorder+r.Corrupt == 0
}

// String is the report in one line.
func (r *Report) String() string {
	return fmt.Sprintf("lost %d, phantom %d, copies %d, disorder %d, corrupt %d (confirmed %d of %d, unknown %d of which %d came, refused %d, deliveries %d, redelivered %d, drained %d, stale %d)",
		r.Lost, r.Phantom, r.Copies, r.Disorder, r.Corrupt, r.Confirmed, r.Attempts, r.Unknown, r.UnknownCame, r.Refused, r.Deliveries, r.Redelivered, r.Drained, r.Stale)
}

// JSON is the report as one JSON object.
func (r *Report) JSON() string {
	out, err := json.Marshal(r)
	if err != nil {
		return fmt.Sprintf(`{"error":%q}`, err)
	}
	return string(out)
}

// examplesMax bounds Examples per kind of fault.
const examplesMax = 5

func (r *Report) fault(count *int, kind, format string, args ...any) {
	if *count++; *count <= examplesMax {
		r.Examples = append(r.Examples, kind+": "+fmt.Sprintf(format, args...))
	}
}

// trial is a history in the shape in which it is judged.
type trial struct {
	report   Report
	attempts map[ID]*Attempt
	// all deliveries in the order in which they came
	deliveries []*Delivery
	consumers  []*Consumer
	lastHeard  map[int]Time // consumer -> its last committed ack: it was attached until then
	drain      map[int]bool
}

// Check judges a history. single names the queues that never had two consumers at a time; nil means all of them.
func Check(h *History, single func(queue string) bool) *Report {
	t := &trial{attempts: map[ID]*Attempt{}, consumers: h.Consumers, lastHeard: map[int]Time{}, drain: map[int]bool{}}
	t.collect(h)
	byID := t.perMessage()
	for id, a := range t.attempts {
		t.judgeAttempt(a, byID[id])
	}
	for _, ds := range byID {
		t.judgeCopies(ds)
	}
	t.judgeOrder(single)
	slices.SortFunc(t.report.Examples, strings.Compare)
	return &t.report
}

func (t *trial) collect(h *History) {
	for _, p := range h.Producers {
		for i := range p.Attempts {
			t.attempts[p.Attempts[i].ID] = &p.Attempts[i]
		}
		t.report.Attempts += len(p.Attempts)
	}
	for _, c := range h.Consumers {
		t.drain[c.Number] = c.Drain
		for i := range c.Deliveries {
			d := &c.Deliveries[i]
			t.deliveries = append(t.deliveries, d)
			t.lastHeard[c.Number] = max(t.lastHeard[c.Number], d.Committed)
		}
	}
	slices.SortStableFunc(t.deliveries, func(a, b *Delivery) int { return int(a.At - b.At) })
	t.report.Deliveries = len(t.deliveries)
}

// perMessage judges each delivery by itself and groups those of known messages.
func (t *trial) perMessage() map[ID][]*Delivery {
	byID := make(map[ID][]*Delivery, len(t.attempts))
	for _, d := range t.deliveries {
		if d.Redelivered {
			t.report.Redelivered++
		}
		if t.drain[d.Consumer] {
			t.report.Drained++
		}
		a, known := t.attempts[d.ID]
		switch {
		case d.Malformed:
			t.report.fault(&t.report.Corrupt, "corrupt", "a body without an id in queue %s", d.Queue)
			continue
		case !known:
			t.report.fault(&t.report.Phantom, "phantom", "nobody published %x, which came from queue %s", d.ID, d.Queue)
			continue
		case a.Fate == Refused:
			t.report.fault(&t.report.Phantom, "phantom", "%s was refused and came", a.name())
		case a.Queue != d.Queue:
			t.report.fault(&t.report.Phantom, "phantom", "%s came from queue %s", a.name(), d.Queue)
		case a.Sum != d.Sum:
			t.report.fault(&t.report.Corrupt, "corrupt", "%s came with another body", a.name())
		}
		byID[d.ID] = append(byID[d.ID], d)
	}
	return byID
}

func (t *trial) judgeAttempt(a *Attempt, ds []*Delivery) {
	switch a.Fate {
	case Refused:
		t.report.Refused++
	case Unknown:
		t.report.Unknown++
		if len(ds) > 0 {
			t.report.UnknownCame++
		}
	case Confirmed:
		t.report.Confirmed++
		if !slices.ContainsFunc(ds, func(d *Delivery) bool { return d.AckSent }) {
			t.report.fault(&t.report.Lost, "lost", "%s was confirmed, delivered %d times and never acknowledged", a.name(), len(ds))
		}
	}
}

// judgeCopies judges the deliveries of one message, in the order in which they came.
func (t *trial) judgeCopies(ds []*Delivery) {
	var committed *Delivery // the first delivery whose ack is known to be committed
	fresh, drained := 0, 0
	for _, d := range ds {
		if d.Committed != 0 && (committed == nil || d.Committed < committed.Committed) {
			committed = d
		}
	}
	for _, d := range ds {
		if !d.Redelivered {
			fresh++
		}
		if t.drain[d.Consumer] {
			drained++
		}
		late := committed != nil && d != committed && (d.At > committed.Committed || d.Committed != 0)
		switch {
		case !d.Redelivered && fresh > 1:
			t.copied(d, "came again and was not marked as redelivered")
		case drained > 1 && t.drain[d.Consumer]:
			t.copied(d, "came twice in the drain")
		case late && t.lastHeard[d.Consumer] >= d.At:
			t.copied(d, "came again after its ack was committed")
		case late:
			t.report.Stale++
		}
	}
}

func (t *trial) copied(d *Delivery, how string) {
	t.report.fault(&t.report.Copies, "copy", "%s %s (consumer %d)", t.attempts[d.ID].name(), how, d.Consumer)
}

// lane is what overtakes nothing within itself: a queue's messages of one priority.
type lane struct {
	queue    string
	priority uint8
}

// stream is what is ordered: what one connection of a producer sent to one queue, as one taker sees it.
type stream struct {
	producer, conn int
	lane           lane
	consumer       int // 0: all consumers of a single-consumer queue together
}

func (t *trial) judgeOrder(single func(string) bool) {
	newest := map[stream]*Attempt{}
	lifelong := map[stream]*Attempt{} // per producer, over its connections
	for _, d := range t.deliveries {
		a := t.attempts[d.ID]
		if a == nil || d.Redelivered {
			continue
		}
		lane := lane{d.Queue, a.Priority}
		own := stream{a.Producer, a.Conn, lane, d.Consumer}
		ordered := t.follows(newest, own, a, d)
		// What came to a consumer that was never heard of again may have come late.
		if fenced := t.lastHeard[d.Consumer] < d.At; fenced || single != nil && !single(d.Queue) {
			continue
		}
		all := stream{a.Producer, a.Conn, lane, 0}
		if ordered {
			t.follows(newest, all, a, d)
		}
		life := stream{a.Producer, 0, lane, 0}
		if last := lifelong[life]; last != nil && last.Conn > a.Conn {
			t.report.Crossed++
			continue
		}
		lifelong[life] = a
	}
}

// follows checks a delivery against the newest of its stream.
func (t *trial) follows(newest map[stream]*Attempt, s stream, a *Attempt, d *Delivery) bool {
	if last := newest[s]; last != nil && last.Seq >= a.Seq {
		if last.Seq > a.Seq {
			t.report.fault(&t.report.Disorder, "disorder", "%s came after %s (consumer %d)", a.name(), last.name(), d.Consumer)
		}
		return false
	}
	newest[s] = a
	return true
}

func (a *Attempt) name() string {
	return fmt.Sprintf("message %d of producer %d (connection %d, queue %s)", a.Seq, a.Producer, a.Conn, a.Queue)
}
