package core

import (
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
)

func TestAPromotionDetachesNamedSessionsUnderANewGenerationAndEndsOthers(t *testing.T) {
	m := populated(t)
	apply := func(cmds ...entry.Command) *Effects {
		fx := &Effects{}
		_, _, seq := m.Incarnation(1)
		var b []byte
		for _, c := range cmds {
			b = entry.Append(b, c)
		}
		if err := m.Apply(1000, entry.AppendBatch(entry.AppendHeader(nil, 2000), 1, 1, seq+1, b), fx); err != nil {
			t.Fatal(err)
		}
		return fx
	}
	apply(&entry.Attach{Vhost: "/", User: "u"})
	anonymous := m.sessions.newest().ID
	tag, flight := m.session[1].channels[0].LastTag, m.session[1].inFlight()
	m.fx = &Effects{}
	m.promoteSessions(3)
	m.settleRows()
	if m.session[anonymous] != nil {
		t.Error("an anonymous session is still there")
	}
	s := m.session[1]
	if s.attached() || s.inFlight() != flight || s.Epoch != 3<<epochCounterBits || s.expires() != 0 {
		t.Errorf("session is %+v, want it detached with %d in flight", s.sessionRow, flight)
	}
	if s.channels[0].LastTag <= tag || s.channels[0].LastTag >= lastTagMax {
		t.Error("tags have not jumped")
	}
	if m.Fingerprint() != m.Recompute() {
		t.Error("fingerprint is kept up wrongly")
	}
	ref := entry.Ref{Session: 1, Epoch: 1, Channel: 1}
	fx := apply(&entry.Settle{Ref: ref, First: 1, Last: 1}, &entry.Attach{Vhost: "/", User: "u", Key: "k", Expiry: 60})
	generation, counter := EpochParts(s.Epoch)
	if len(fx.List) != 1 || fx.List[0].State != StateResumed || generation != 3 || counter != 1 || s.inFlight() != flight {
		t.Errorf("resumed with %+v", fx.List)
	}
}
