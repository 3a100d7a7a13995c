package v091

import (
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
)

func TestAcknowledgementsWaitOnlyWhileTheClientHasCreditEnough(t *testing.T) {
	type ack struct {
		o        entry.Outcome
		multiple bool
		tag      uint64
	}
	one := func(tag uint64) ack { return ack{entry.Accepted, false, tag} }
	for _, c := range []struct {
		name      string
		prefetch  []uint16
		delivered uint64
		ack       ack
		urgent    bool
	}{
		{"no prefetch", nil, 1, one(1), false},
		{"the only delivery of prefetch 1", []uint16{1}, 1, one(1), true},
		{"few of many", []uint16{100}, 10, one(1), false},
		{"the first of many, all of which are out", []uint16{100}, 100, one(1), false},
		{"many settled at once", []uint16{100}, 100, ack{entry.Accepted, true, 80}, true},
		{"a quarter settled at once", []uint16{100}, 100, ack{entry.Accepted, true, 25}, true},
		{"few settled at once", []uint16{100}, 20, ack{entry.Accepted, true, 0}, false},
		{"the smallest prefetch counts", []uint16{100, 4, 50}, 5, one(1), true},
		{"a requeue does not wait", nil, 9, ack{entry.Released, false, 1}, true},
		{"nor does a rejection", nil, 9, ack{entry.Rejected, false, 1}, true},
		{"nor a failed delivery", nil, 9, ack{entry.Modified, false, 1}, true},
	} {
		var p patience
		for _, n := range c.prefetch {
			p.asked(n)
		}
		p.judge(c.ack.o, c.ack.multiple, c.ack.tag, 0, c.delivered)
		if got := p.take(); got != c.urgent || p.take() {
			t.Errorf("%s: urgent %v", c.name, got)
		}
	}
}

func TestOneAcknowledgementInSomeHandsTheOthersOn(t *testing.T) {
	p := patience{prefetch: 100}
	var acked uint64
	urgent := 0
	for tag := uint64(1); tag <= 1000; tag++ { // a client that settles each delivery as it comes
		acked = p.judge(entry.Accepted, false, tag, acked, tag)
		if p.take() {
			urgent++
		}
	}
	if urgent != 1000/25 {
		t.Fatalf("%d of 1000 bursts were urgent", urgent)
	}
}

func TestTagsThatWereNeverSentCannotMakeTheClientWaitLonger(t *testing.T) {
	p := patience{prefetch: 4}
	p.judge(entry.Accepted, true, 1<<63, 0, 1)
	if p.take(); p.settled > 1 {
		t.Fatalf("%d settled of 1 delivered", p.settled)
	}
}
