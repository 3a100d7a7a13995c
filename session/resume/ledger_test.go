package resume

import (
	"testing"
	"time"
)

// wire is a channel that takes nothing.
type wire struct{}

func (*wire) Ack(uint64, bool) error        { return nil }
func (*wire) Nack(uint64, bool, bool) error { return nil }

// TestLedgerHandsOutEachMessageOnce: what a delivery is, by what came before it. Messages are known by number; a tag may change.
func TestLedgerHandsOutEachMessageOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	const number, tag, other = 7, 100, 200
	for name, c := range map[string]struct {
		before func(l *ledger)
		tag    uint64
		fresh  bool
	}{
		"never seen":                         {func(*ledger) {}, tag, true},
		"in hand, come again":                {func(l *ledger) { l.delivered(number, tag, "") }, tag, false},
		"in hand, under another tag":         {func(l *ledger) { l.delivered(number, tag, "") }, other, false},
		"acknowledged, come again":           {func(l *ledger) { l.settleOne(number, tag, acked, now) }, tag, false},
		"acknowledged, under another tag":    {func(l *ledger) { l.settleOne(number, tag, acked, now) }, other, false},
		"rejected, come again":               {func(l *ledger) { l.settleOne(number, tag, rejected, now) }, tag, false},
		"rejected, back by a dead letter":    {func(l *ledger) { l.settleOne(number, tag, rejected, now) }, other, true},
		"given back, come again":             {func(l *ledger) { l.settleOne(number, tag, requeued, now) }, tag, false},
		"given back, and its turn once more": {func(l *ledger) { l.settleOne(number, tag, requeued, now) }, other, true},
		"rejected before a promotion":        {func(l *ledger) { l.settleOne(number, tag, rejected, now); l.attach(Promoted, now.Add(1)) }, other, false},
		"rejected, then the session is new":  {func(l *ledger) { l.settleOne(number, tag, rejected, now); l.attach(Attached, now.Add(1)) }, other, true},
		"forgotten": {func(l *ledger) {
			l.settleOne(number, tag, acked, now)
			l.done[0].arrived = true
			l.prune(now.Add(time.Hour))
		}, tag, true},
	} {
		l := newLedger(time.Minute)
		c.before(&l)
		r, fresh := l.delivered(number, c.tag, "")
		if fresh != c.fresh || r.tag != c.tag || !r.moored {
			t.Errorf("%s: fresh %t, tag %d, moored %t", name, fresh, r.tag, r.moored)
		}
	}
}

func (l *ledger) settleOne(number, tag uint64, o outcome, now time.Time) {
	r, _ := l.delivered(number, tag, "")
	l.settle(r.handle, false, o, now)
}

func TestLedgerSettlesOneOrAllUpToIt(t *testing.T) {
	l := newLedger(time.Minute)
	for n := range uint64(5) {
		l.delivered(n, n, "")
	}
	now := time.Unix(1000, 0)
	if got := l.settle(4, false, acked, now); len(got) != 1 || got[0].number != 3 {
		t.Errorf("one: %v", got)
	}
	if got := l.settle(5, true, acked, now); len(got) != 4 {
		t.Errorf("all: %d", len(got))
	}
	if got := l.settle(5, false, acked, now); len(got) != 0 {
		t.Errorf("again: %v", got)
	}
	if len(l.held) != 0 {
		t.Errorf("%d are held", len(l.held))
	}
}

func TestLedgerKeepsSettlementsUntilTheyAreInAndOld(t *testing.T) {
	l := newLedger(time.Minute)
	now := time.Unix(1000, 0)
	for n := range uint64(3) {
		l.settleOne(n, n, acked, now)
	}
	ch := &wire{}
	l.done[0].sent, l.done[1].sent = ch, ch
	l.arrived(2, ch)
	l.prune(now.Add(time.Second)) // young
	if len(l.done) != 3 {
		t.Fatalf("%d are left", len(l.done))
	}
	later := now.Add(time.Hour)
	l.attach(Resumed, later)        // the third was sent on a connection that is lost
	l.arrived(1, &wire{})           // it says nothing of that
	l.prune(later.Add(time.Second)) // the first two may still be asked for
	if len(l.done) != 3 {
		t.Fatalf("%d are left", len(l.done))
	}
	l.prune(later.Add(time.Hour)) // what has not come again by now was in
	if len(l.done) != 0 || len(l.byNumber) != 0 || len(l.byMark) != 0 {
		t.Fatalf("%d are left", len(l.done))
	}
}

// TestLedgerKnowsAMessageThatIsPublishedAgainAfterAPromotion: its number is another one, its mark is the same.
func TestLedgerKnowsAMessageThatIsPublishedAgainAfterAPromotion(t *testing.T) {
	now := time.Unix(1000, 0)
	deliver := func(l *ledger) *record {
		r, _ := l.delivered(7, 100, "a/1")
		return r
	}
	for name, c := range map[string]struct {
		before func(l *ledger)
		mark   string
		fresh  bool
	}{
		"in hand":                  {func(l *ledger) { deliver(l); l.attach(Promoted, now) }, "a/1", false},
		"acknowledged":             {func(l *ledger) { l.settle(deliver(l).handle, false, acked, now); l.attach(Promoted, now.Add(1)) }, "a/1", false},
		"another":                  {func(l *ledger) { deliver(l); l.attach(Promoted, now) }, "a/2", true},
		"no mark":                  {func(l *ledger) { deliver(l); l.attach(Promoted, now) }, "", true},
		"published on":             {func(l *ledger) { deliver(l) }, "a/1", true}, // headers and all, by somebody else
		"and a third time":         {func(l *ledger) { deliver(l); l.attach(Promoted, now); l.delivered(8, 1, "a/1") }, "a/1", true},
		"of a session that is new": {func(l *ledger) { deliver(l); l.attach(Attached, now) }, "a/1", true},
	} {
		l := newLedger(time.Minute)
		c.before(&l)
		if r, fresh := l.delivered(9, 5, c.mark); fresh != c.fresh || r.number != 9 || r.tag != 5 || !r.moored {
			t.Errorf("%s: fresh %t, number %d, tag %d", name, fresh, r.number, r.tag)
		}
		if r, fresh := l.delivered(9, 5, c.mark); fresh || r.number != 9 {
			t.Errorf("%s, and redelivered: fresh %t", name, fresh)
		}
	}
}

func TestLedgerRemembersAfterAPromotionForAsLongAsBefore(t *testing.T) {
	l := newLedger(time.Minute)
	now := time.Unix(1000, 0)
	l.settleOne(1, 1, acked, now)
	l.done[0].arrived = true
	promoted := now.Add(time.Hour) // nobody was there to promote it
	l.attach(Promoted, promoted)
	l.prune(promoted.Add(time.Second))
	if _, fresh := l.delivered(1, 9, ""); fresh {
		t.Error("what was acknowledged before the promotion is forgotten")
	}
}
