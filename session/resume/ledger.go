package resume

import "time"

// outcome is what the application said of a delivery.
type outcome uint8

const (
	held outcome = iota
	acked
	rejected
	requeued
)

// record is one delivery that the application has, or has settled not long ago.
type record struct {
	handle  uint64 // the application's number for it
	number  uint64 // the message's
	mark    string // the publisher's, "" for none
	tag     uint64 // on the wire
	moored  bool   // the broker knows the delivery under this tag
	outcome outcome
	sent    settling  // the channel that the settlement was last sent on
	arrived bool      // it is in
	at      time.Time // of the settlement
}

func (r *record) settled() bool { return r.outcome != held }

// ledger knows a consumer's deliveries by message number: that stays the same when a delivery comes again under another tag.
// A message that a promotion lost and its publisher has published again has another number, and is known by its mark.
type ledger struct {
	window   time.Duration
	next     uint64
	byNumber map[uint64]*record
	byMark   map[string]*record
	held     []*record // by handle, with gaps; those at the front are pruned
	done     []*record // settled, in order
	attached time.Time // of the last connection
	promoted time.Time // of the last promotion
}

// doneMax bounds the settlements that are remembered.
const doneMax = 100_000

func newLedger(window time.Duration) ledger {
	return ledger{window: window, byNumber: map[uint64]*record{}, byMark: map[string]*record{}}
}

// attach says that the session goes on on another connection. Unless it was only resumed, tags handed out so far may mean
// something else now.
func (l *ledger) attach(how EventKind, now time.Time) {
	l.attached = now
	if how == Promoted {
		l.promoted = now
	}
	if how == Resumed {
		return
	}
	for _, r := range l.byNumber {
		r.moored = false
	}
}

// delivered takes note of a delivery. fresh: the application has to have it.
func (l *ledger) delivered(number, tag uint64, mark string) (_ *record, fresh bool) {
	if r := l.known(number, mark); r != nil && l.again(r, tag) {
		r.tag, r.moored = tag, true
		return r, false
	}
	l.next++
	r := &record{handle: l.next, number: number, mark: mark, tag: tag, moored: true}
	l.byNumber[number] = r
	if mark != "" {
		l.byMark[mark] = r
	}
	l.held = append(l.held, r)
	return r, true
}

// known is the record of a message. Marks count for what was here before a promotion and has not come again since: at any other
// time a message with a mark that is known is one that somebody has published on, headers and all.
func (l *ledger) known(number uint64, mark string) *record {
	if r := l.byNumber[number]; r != nil {
		return r
	}
	r := l.byMark[mark]
	if r == nil || r.moored || l.promoted.IsZero() {
		return nil
	}
	l.forget(r)
	r.number = number
	l.byNumber[number], l.byMark[mark] = r, r
	return r
}

func (l *ledger) forget(r *record) {
	if l.byNumber[r.number] == r {
		delete(l.byNumber, r.number)
	}
	if l.byMark[r.mark] == r {
		delete(l.byMark, r.mark)
	}
}

// again says whether a delivery of a known message is the one that is known, come again: because its settlement was lost, or
// because it was returned while the application still has it. A message that the application gave back, or that came back
// by way of a dead letter exchange, is another one.
func (l *ledger) again(r *record, tag uint64) bool {
	switch r.outcome {
	case held, acked:
		return true
	default:
		return r.tag == tag || !r.moored && r.at.Before(l.promoted)
	}
}

// settle notes the fate of a held delivery, or of all up to it, and answers which they are.
func (l *ledger) settle(handle uint64, multiple bool, o outcome, now time.Time) []*record {
	var settled []*record
	kept := l.held[:0]
	for _, r := range l.held {
		if r.handle != handle && !(multiple && r.handle < handle) {
			kept = append(kept, r)
			continue
		}
		r.outcome, r.at = o, now
		settled = append(settled, r)
		l.done = append(l.done, r)
	}
	clear(l.held[len(kept):])
	l.held = kept
	return settled
}

// mark is how many settlements there are.
func (l *ledger) mark() int { return len(l.done) }

// arrived says that the first n settlements have reached the broker, those that were sent on ch.
func (l *ledger) arrived(n int, ch settling) {
	for _, r := range l.done[:n] {
		r.arrived = r.arrived || r.sent == ch
	}
}

// prune forgets what no promotion within the window can ask for, if it is surely in: its channel says so, or it was sent on an
// earlier connection and has not come again on this one.
func (l *ledger) prune(now time.Time) {
	for len(l.done) > 0 {
		r := l.done[0]
		young := now.Sub(r.at) <= l.window || now.Sub(l.attached) <= l.window
		if young && (!r.arrived || len(l.done) <= doneMax) {
			return
		}
		l.forget(r)
		l.done[0] = nil
		l.done = l.done[1:]
	}
}
