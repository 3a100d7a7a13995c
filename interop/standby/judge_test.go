package standby

import (
	"errors"
	"testing"
	"time"
)

var (
	contact  = time.Unix(1000, 0)
	fromOld  = place{"old", 1, true}
	fromNext = place{"next", 1, false}
)

// at is so many seconds after the last contact.
func at(seconds float64) time.Time { return contact.Add(time.Duration(seconds * float64(time.Second))) }

// scene is a history that is put together by hand.
type scene struct {
	history
	trial
}

func newScene(k kind) *scene {
	s := &scene{
		history: history{messages: map[string]*message{}},
		trial: trial{
			kind: k, contact: contact, since: map[uint64]time.Time{1: at(-0.5)}, back: at(3), fenced: map[int][]span{1: {{from: at(4)}}},
			group: func(v int) uint64 { return uint64(v + 1) },
		},
	}
	if k.lossless {
		s.since = nil // the report says that nothing is missing
	}
	return s
}

// sent adds a message that the source confirmed, if it did (0: it did not).
func (s *scene) sent(r route, id string, when, confirmed float64) *message {
	m := &message{id: id, route: r, sent: at(when), by: fromOld}
	if confirmed != 0 {
		m.confirmed = at(confirmed)
	}
	s.messages[id] = m
	return m
}

// came adds a delivery as new.
func (s *scene) came(id, queue string, by place, when float64) *seen {
	s.seen = append(s.seen, seen{id: id, queue: queue, by: by, at: at(when)})
	return &s.seen[len(s.seen)-1]
}

// died adds a dead letter.
func (s *scene) died(id, queue, reason string, when float64) {
	s.came(id, "dead", fromNext, when).death = &death{queue, reason}
}

// twin adds a committed message of transaction 7.
func (s *scene) twin(id string, confirmed float64) *message {
	m := s.sent(twins, id, -5, confirmed)
	m.batch = 7
	return m
}

// both has a client be served by the promoted cluster, and later another one by the source.
func (s *scene) both() {
	s.sent(work, "a", 0.5, 1).by = fromNext
	s.came("a", "work", fromNext, 1.1)
	s.sent(work, "b", 3.1, 3.5)
	s.came("b", "work", fromNext, 5)
}

func TestTheJudgeFindsEachFault(t *testing.T) {
	crash, planned, sync := kind{name: "crash"}, kind{name: "planned", lossless: true, whole: true}, kind{name: "sync", lossless: true}
	for _, c := range []struct {
		name  string
		kind  kind
		make  func(*scene)
		fault string // "" for none
	}{
		{"nothing missing", planned, func(s *scene) { s.sent(work, "a", -5, -4); s.came("a", "work", fromOld, -3) }, ""},
		{"a tail after a crash", crash, func(s *scene) { s.sent(work, "a", -0.1, 0.1) }, ""},
		{"a tail after a switch", planned, func(s *scene) { s.sent(work, "a", -0.1, 0.1) }, "lost"},
		{"lost before the bound", crash, func(s *scene) { s.sent(work, "a", -5, -0.6) }, "unbound"},
		{"lost before another group's bound", crash, func(s *scene) { s.sent(work, "a", -5, -0.6).vhost = 1 }, ""},
		{"lost long before", crash, func(s *scene) { s.sent(work, "a", -5, -2).vhost = 1 }, "early"},
		{"lost before a contact with a source that came back", crash, func(s *scene) {
			s.cutOff = at(-3)
			s.sent(work, "a", -5, -2).vhost = 1
		}, ""},
		{"lost long before the source was cut off", crash, func(s *scene) {
			s.cutOff = at(-3)
			s.sent(work, "a", -5, -4.5).vhost = 1
		}, "early"},
		{"lost by the promoted", crash, func(s *scene) { s.sent(work, "a", 3, 4).by = fromNext }, "lost by the promoted"},
		{"confirmed by the source after it came back", crash, func(s *scene) { s.sent(work, "a", 3.1, 3.5) }, ""},
		{"confirmed by it though confirms wait for a standby", sync, func(s *scene) { s.sent(work, "a", 3.1, 3.5) }, "lost"},
		{"a gap", crash, func(s *scene) {
			s.sent(work, "a", 0, 0.1)
			s.sent(work, "b", 0.2, 0.3)
			s.came("b", "work", fromNext, 5)
		}, "gap"},
		{"a gap of another route", crash, func(s *scene) {
			s.sent(later, "a", 0, 0.1)
			s.sent(aged, "b", 0.2, 0.3)
			s.died("b", "aged", "expired", 5)
		}, "gap"},
		{"no gap between groups", crash, func(s *scene) {
			s.sent(work, "a", 0, 0.1).vhost = 1
			s.sent(work, "b", 0.2, 0.3)
			s.came("b", "work", fromNext, 5)
		}, ""},
		{"a phantom", crash, func(s *scene) { s.came("x", "work", fromNext, 5) }, "phantom"},
		{"rolled back, and there", crash, func(s *scene) { s.twin("a", 0).undone = true; s.came("a", "tx-a", fromNext, 5) }, "phantom"},
		{"doubled by one", crash, func(s *scene) {
			s.sent(work, "a", -5, -4)
			s.came("a", "work", fromNext, 5)
			s.came("a", "work", fromNext, 6)
		}, "doubled"},
		{"sent again and doubled", crash, func(s *scene) {
			s.sent(replies, "a", -5, 0).again = 1
			s.came("a", "replies", fromNext, 5)
			s.came("a", "replies", fromNext, 6)
		}, "doubled"},
		{"doubled by both", crash, func(s *scene) {
			s.sent(work, "a", -5, -4)
			s.came("a", "work", fromOld, -3)
			s.came("a", "work", fromNext, 6)
		}, "doubled"},
		{"two dead letters of one", crash, func(s *scene) {
			s.sent(aged, "a", -5, -4)
			s.died("a", "aged", "expired", 5)
			s.died("a", "aged", "expired", 6)
		}, "doubled"},
		{"delivered in the tail", crash, func(s *scene) {
			s.sent(work, "a", -5, -4)
			s.came("a", "work", fromOld, 0.1)
			s.came("a", "work", fromNext, 6)
		}, ""},
		{"delivered by both though nothing is missing", planned, func(s *scene) {
			s.sent(work, "a", -5, -4)
			s.came("a", "work", fromOld, 0.1)
			s.came("a", "work", fromNext, 2)
		}, "doubled"},
		{"delivered again, so it says", crash, func(s *scene) {
			s.sent(work, "a", -5, -4)
			s.came("a", "work", fromOld, -3)
			s.came("a", "work", fromNext, 6).redelivered = true
		}, ""},
		{"dead of age", planned, func(s *scene) { s.sent(aged, "a", -5, -4); s.died("a", "aged", "expired", 5) }, ""},
		{"never dead of age", planned, func(s *scene) { s.sent(aged, "a", -5, -4) }, "lost"},
		{"rejected and never a dead letter", planned, func(s *scene) { s.sent(picky, "a", -5, -4); s.came("a", "picky", fromOld, -3) }, "lost"},
		{"rejected on one side, dead on the other", planned, func(s *scene) {
			s.sent(picky, "a", -5, -4)
			s.came("a", "picky", fromOld, -3)
			s.died("a", "picky", "rejected", 5)
		}, ""},
		{"rejected by nobody", planned, func(s *scene) { s.sent(picky, "a", -5, -4); s.died("a", "picky", "rejected", 5) }, "wrong death"},
		{"dead for another reason", planned, func(s *scene) { s.sent(aged, "a", -5, -4); s.died("a", "aged", "maxlen", 5) }, "wrong death"},
		{"dead in another queue", planned, func(s *scene) { s.sent(aged, "a", -5, -4); s.died("a", "work", "expired", 5) }, "wrong death"},
		{"dead without a reason", planned, func(s *scene) { s.sent(aged, "a", -5, -4); s.came("a", "dead", fromNext, 5) }, "wrong death"},
		{"dead for no reason", planned, func(s *scene) {
			s.sent(work, "a", -5, -4)
			s.came("a", "work", fromNext, 5).death = &death{"work", "rejected"}
		}, "wrong death"},
		{"in another queue", crash, func(s *scene) { s.sent(work, "a", -5, 0); s.came("a", "late", fromNext, 5) }, "astray"},
		{"expired too early", planned, func(s *scene) { s.sent(aged, "a", -5, -4.9); s.died("a", "aged", "expired", -4.8) }, "premature"},
		{"delayed, and after the switch", planned, func(s *scene) { s.sent(later, "a", -5, -4).delay = 7 * time.Second; s.came("a", "late", fromNext, 2) }, ""},
		{"delayed, and at once after the switch", planned, func(s *scene) { s.sent(later, "a", -5, -4).delay = 7 * time.Second; s.came("a", "late", fromNext, 0.5) }, "premature"},
		{"delayed for ever", planned, func(s *scene) { s.sent(later, "a", -5, -4).delay = 7 * time.Second }, "lost"},
		{"a transaction, half on either side", planned, func(s *scene) {
			s.twin("a", -4)
			s.twin("b", -4)
			s.came("a", "tx-a", fromOld, -3)
			s.came("b", "tx-b", fromNext, 5)
		}, ""},
		{"a transaction of which nobody knows, half of it there", crash, func(s *scene) {
			s.twin("a", 0)
			s.twin("b", 0)
			s.came("a", "tx-a", fromNext, 5)
		}, "torn"},
		{"the same, of which the source delivered half before it fell", crash, func(s *scene) {
			s.twin("a", 0)
			s.twin("b", 0)
			s.came("a", "tx-a", fromOld, 0.1)
		}, ""},
		{"the same before a planned switch", planned, func(s *scene) {
			s.twin("a", 0)
			s.twin("b", 0)
			s.came("a", "tx-a", fromOld, 0.1)
		}, "torn"},
		{"the same before a crash", sync, func(s *scene) {
			s.twin("a", 0)
			s.twin("b", 0)
			s.came("a", "tx-a", fromOld, 0.1)
		}, ""},
		{"a transaction that was confirmed, half of it lost", sync, func(s *scene) {
			s.twin("a", -4)
			s.twin("b", -4)
			s.came("a", "tx-a", fromOld, -3)
		}, "lost"},
		{"an answer lost", planned, func(s *scene) { s.sent(replies, "a", -5, -4) }, "lost"},
		{"an answer by direct reply-to lost", planned, func(s *scene) { s.sent(direct, "a", -5, -4) }, ""},
		{"confirmed by a fenced source", crash, func(s *scene) { s.sent(work, "a", 3.1, 7) }, "served"},
		{"confirmed by a source that was fenced until before", crash, func(s *scene) {
			s.fenced[1] = []span{{at(-9), at(-5)}}
			s.sent(work, "a", -6, -4.9)
			s.came("a", "work", fromNext, 5)
		}, ""},
		{"confirmed by a source that was fenced until after", crash, func(s *scene) {
			s.fenced[1] = []span{{at(-9), at(-5)}}
			s.sent(work, "a", -6, -5.1)
			s.came("a", "work", fromNext, 5)
		}, "served"},
		{"confirmed by the source while the promoted serves, after a switch", planned, func(s *scene) { s.both() }, "served by both"},
		{"confirmed by the source while the promoted serves, not heard", crash, func(s *scene) { s.both() }, ""},
		{"delivered by a fenced source", crash, func(s *scene) { s.sent(work, "a", -5, -4); s.came("a", "work", fromOld, 7) }, "served"},
		{"in a client's hands when the source was fenced", crash, func(s *scene) { s.sent(work, "a", -5, -4); s.came("a", "work", fromOld, 5) }, ""},
	} {
		s := newScene(c.kind)
		c.make(s)
		s.trial.h = &s.history
		v := judge(s.trial)
		if c.fault == "" && len(v.Faults) > 0 || c.fault != "" && (len(v.Faults) != 1 || v.Faults[c.fault] == 0) {
			t.Errorf("%s: faults %v, want %q", c.name, v.Faults, c.fault)
		}
	}
}

func TestARoundOverWhichNothingCameIsThin(t *testing.T) {
	for name, c := range map[string]struct {
		over tally
		full bool
	}{
		"full":              {tally{"aged": 1, "later": 1, "tx": 1}, true},
		"nothing delayed":   {tally{"aged": 1, "tx": 1}, false},
		"nothing aged":      {tally{"later": 1, "tx": 1}, false},
		"nothing under way": {tally{"aged": 1, "later": 1, "direct": 1}, false},
	} {
		v := verdict{Over: c.over}
		if why := v.thin(); (why == "") != c.full {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func TestAReportThatCallsATakeOverByAnotherNameIsFound(t *testing.T) {
	crash, planned := kind{name: "crash"}, kind{name: "planned", whole: true}
	if err := errors.Join(named(planned, "planned"), named(crash, "forced")); err != nil {
		t.Error(err)
	}
	if named(planned, "forced") == nil || named(crash, "planned") == nil || named(crash, "") == nil {
		t.Error("a report that does not tell what it was is believed")
	}
}

func TestAFenceLastsFromWhenANodeSaysSoUntilItSaysSoNoLonger(t *testing.T) {
	f := fences{spans: map[int][]span{}}
	for i, says := range []bool{false, true, true, false, false, true} {
		f.saw(1, says, at(float64(i)))
	}
	list := f.spans[1]
	if len(list) != 2 || list[0].from.IsZero() || list[0].to != at(3) || !list[1].to.IsZero() {
		t.Errorf("spans %v", list)
	}
	if f.all() == nil {
		t.Error("nodes that never said that they are fenced are taken to be")
	}
	f.saw(2, true, at(9))
	f.saw(3, true, at(9))
	if err := f.all(); err != nil {
		t.Error(err)
	}
	if f.saw(3, false, at(10)); f.all() == nil {
		t.Error("a fence that was taken back counts")
	}
}
