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
		"in hand, come again":                {func(l *ledger) { l.delivered(number, tag) }, tag, false},
		"in hand, under another tag":         {func(l *ledger) { l.delivered(number, tag) }, other, false},
		"acknowledged, come again":           {func(l *ledger) { l.settleOne(number, tag, acked, now) }, tag, false},
		"acknowledged, under another tag":    {func(l *ledger) { l.settleOne(number, tag, acked, now) }, other, false},
		"rejected, come again":               {func(l *ledger) { l.settleOne(number, tag, rejected, now) }, tag, false},
		"rejected, back by a dead letter":    {func(l *ledger) { l.settleOne(number, tag, rejected, now) }, other, true},
		"given back, come again":             {func(l *ledger) { l.settleOne(number, tag, requeued, now) }, tag, false},
		"given back, and its turn once more": {func(l *ledger) { l.settleOne(number, tag, requeued, now) }, other, true},
		"rejected before a promotion":        {func(l *ledger) { l.settleOne(number, tag, rejected, now); l.unmoor(true) }, other, false},
		"rejected, then the session is new":  {func(l *ledger) { l.settleOne(number, tag, rejected, now); l.unmoor(false) }, other, true},
		"forgotten": {func(l *ledger) {
			l.settleOne(number, tag, acked, now)
			l.done[0].arrived = true
			l.prune(now.Add(time.Hour))
		}, tag, true},
	} {
		l := newLedger(time.Minute)
		c.before(&l)
		r, fresh := l.delivered(number, c.tag)
		if fresh != c.fresh || r.tag != c.tag || !r.moored {
			t.Errorf("%s: fresh %t, tag %d, moored %t", name, fresh, r.tag, r.moored)
		}
	}
}

func (l *ledger) settleOne(number, tag uint64, o outcome, now time.Time) {
	r, _ := l.delivered(number, tag)
	l.settle(r.handle, false, o, now)
}

func TestLedgerSettlesOneOrAllUpToIt(t *testing.T) {
	l := newLedger(time.Minute)
	for n := range uint64(5) {
		l.delivered(n, n)
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
	l.prune(now.Add(time.Hour)) // the third has not arrived
	if len(l.done) != 1 || len(l.byNumber) != 1 {
		t.Fatalf("%d are left", len(l.done))
	}
	l.arrived(1, &wire{}) // on another channel than it was sent on
	l.prune(now.Add(time.Hour))
	if len(l.done) != 1 {
		t.Fatal("the third was forgotten before it was in")
	}
}
