package checker

import (
	"strings"
	"testing"
)

// mixedScene is a good mixed history: aged dies of age, small drops without a trace, fair knows priorities, picky rejects, and
// tx-a and tx-b take transactions.
type mixedScene struct {
	*History
	clock   Time
	p       *Producer
	live    *Consumer
	dead    *Consumer
	drained *Consumer
}

var mixedRules = Rules{
	DeadLetters: "dead",
	Queues: map[string]Rule{
		"aged":  {Deaths: []string{"expired"}, TTL: 10},
		"small": {Keeps: 2},
		"fair":  {Priorities: true},
		"picky": {Deaths: []string{"rejected", "delivery_limit"}},
		"tx-a":  {},
		"tx-b":  {},
	},
}

func (s *mixedScene) tick() Time { s.clock++; return s.clock }

// publish adds a message of sequence number seq to a queue; change may alter it before its fate is noted.
func (s *mixedScene) publish(seq uint64, queue string, fate Fate, change func(*Attempt)) {
	a := Attempt{ID: id(1, seq), Producer: 1, Conn: 1, Seq: seq, Queue: queue, Sum: Sum(Body(id(1, seq), 1, seq, 64)), At: s.tick()}
	if change != nil {
		change(&a)
	}
	i := s.p.Publish(a)
	if fate != Unknown {
		s.p.Settle(i, fate, s.tick())
	}
}

func (s *mixedScene) delivery(seq uint64, queue string) Delivery {
	return Delivery{ID: id(1, seq), Queue: queue, Sum: Sum(Body(id(1, seq), 1, seq, 64)), At: s.tick()}
}

func (s *mixedScene) take(c *Consumer, seq uint64, queue string) {
	c.Deliver(s.delivery(seq, queue))
	c.Ack()
}

func (s *mixedScene) die(seq uint64, from, reason string) {
	d := s.delivery(seq, "dead")
	d.Death = &Death{Queue: from, Reason: reason, Count: 1}
	s.dead.Deliver(d)
	s.dead.Ack()
}

func goodMixed() *mixedScene {
	s := &mixedScene{History: NewHistory()}
	s.p, _ = s.Producer()
	s.live, s.dead, s.drained = s.Consumer(false), s.Consumer(false), s.Consumer(true)
	batch := func(n uint64) func(*Attempt) { return func(a *Attempt) { a.Batch = n } }
	priority := func(p uint8) func(*Attempt) { return func(a *Attempt) { a.Priority = p } }
	s.publish(1, "aged", Confirmed, nil)
	s.publish(2, "aged", Confirmed, nil)
	for seq := uint64(11); seq <= 14; seq++ {
		s.publish(seq, "small", Confirmed, nil)
	}
	s.publish(21, "fair", Confirmed, priority(1))
	s.publish(22, "fair", Confirmed, priority(5))
	s.publish(23, "fair", Confirmed, priority(5))
	s.publish(31, "picky", Confirmed, nil)
	s.publish(32, "picky", Confirmed, nil)
	s.publish(41, "tx-a", Confirmed, batch(1))
	s.publish(42, "tx-b", Confirmed, batch(1))
	s.publish(43, "tx-a", Refused, batch(2)) // rolled back
	s.publish(44, "tx-a", Unknown, batch(3)) // the answer to its commit did not come
	s.publish(45, "tx-b", Unknown, batch(3))
	s.publish(46, "tx-a", Unknown, batch(4)) // nor of this, which was not carried out
	s.publish(47, "tx-b", Unknown, batch(4))

	s.take(s.live, 1, "aged")
	rejected := s.delivery(31, "picky")
	rejected.Rejected = true
	s.live.Deliver(rejected)
	s.take(s.live, 41, "tx-a")
	s.take(s.live, 42, "tx-b")
	s.take(s.live, 44, "tx-a")
	s.take(s.live, 45, "tx-b")
	s.live.Barrier(s.tick())
	s.die(2, "aged", "expired")
	s.die(31, "picky", "rejected")
	s.die(32, "picky", "delivery_limit")
	s.dead.Barrier(s.tick())
	s.take(s.drained, 13, "small")
	s.take(s.drained, 14, "small")
	for _, seq := range []uint64{22, 23, 21} {
		s.take(s.drained, seq, "fair")
	}
	s.drained.Barrier(s.tick())
	return s
}

func TestAGoodMixedHistoryPasses(t *testing.T) {
	r := CheckMixed(goodMixed().History, mixedRules)
	if !r.OK() {
		t.Fatalf("%s\n%s", r, strings.Join(r.Examples, "\n"))
	}
	want := MixedReport{
		Report: Report{Attempts: 18, Confirmed: 13, Refused: 1, Unknown: 4}, Dropped: 2, Batches: 2,
		Deaths: map[string]int{"expired": 1, "rejected": 1, "delivery_limit": 1},
	}
	if r.String() != want.String() {
		t.Errorf("got  %s\nwant %s", r, &want)
	}
}

// deadLetter answers the delivery of a dead letter.
func (s *mixedScene) deadLetter(seq uint64) *Delivery {
	for i := range s.dead.Deliveries {
		if s.dead.Deliveries[i].ID == id(1, seq) {
			return &s.dead.Deliveries[i]
		}
	}
	return nil
}

func without(c *Consumer, seq uint64) {
	for i := range c.Deliveries {
		if c.Deliveries[i].ID == id(1, seq) {
			drop(c, i)
			return
		}
	}
}

func TestEachFaultInAGoodMixedHistoryIsFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*mixedScene)
		want  MixedReport // only the faults count
	}{
		{"a dead letter lost", func(s *mixedScene) { without(s.dead, 2) }, MixedReport{Report: Report{Lost: 1}}},
		{"a rejected message lost", func(s *mixedScene) { without(s.dead, 31) }, MixedReport{Report: Report{Lost: 1}}},
		{"a message dropped that had room", func(s *mixedScene) { without(s.drained, 14) }, MixedReport{Report: Report{Lost: 1}}},
		{"a message dropped with one newer where two are kept", func(s *mixedScene) { without(s.drained, 13) }, MixedReport{Report: Report{Lost: 1}}},
		{"a message lost of a queue that drops nothing", func(s *mixedScene) { without(s.drained, 21) }, MixedReport{Report: Report{Lost: 1}}},
		{"another reason than its queue has", func(s *mixedScene) { s.deadLetter(2).Death.Reason = "maxlen" }, MixedReport{WrongDeath: 1}},
		{"a death in another queue", func(s *mixedScene) { s.deadLetter(2).Death.Queue = "picky" }, MixedReport{WrongDeath: 1}},
		{"a dead letter without x-death", func(s *mixedScene) { s.deadLetter(2).Death = nil }, MixedReport{WrongDeath: 1}},
		{"two deaths of one message", func(s *mixedScene) { s.deadLetter(2).Death.Count = 2 }, MixedReport{WrongDeath: 1}},
		{"rejected by nobody", func(s *mixedScene) { s.deadLetter(32).Death.Reason = "rejected" }, MixedReport{WrongDeath: 1}},
		{"expired too early", func(s *mixedScene) { s.p.Attempts[1].At = s.deadLetter(2).At - 2 }, MixedReport{WrongDeath: 1}},
		{"dead-lettered though its ack was committed", func(s *mixedScene) {
			s.die(1, "aged", "expired")
		}, MixedReport{Undead: 1}},
		{"delivered after it was a dead letter", func(s *mixedScene) {
			s.live.Deliver(s.delivery(2, "aged"))
			s.take(s.live, 1, "aged")
			s.live.Deliveries[len(s.live.Deliveries)-1].Redelivered = true
			s.live.Deliveries[0].Committed = 0
			s.live.Barrier(s.tick())
			s.live.Deliveries[len(s.live.Deliveries)-2].Committed = 0
		}, MixedReport{Undead: 1}},
		{"two dead letters of one message", func(s *mixedScene) { s.die(32, "picky", "delivery_limit") }, MixedReport{Report: Report{Copies: 1}}},
		{"a dead letter again after its ack was committed", func(s *mixedScene) {
			s.die(2, "aged", "expired")
			s.dead.Deliveries[len(s.dead.Deliveries)-1].Redelivered = true
			s.dead.Barrier(s.tick())
		}, MixedReport{Report: Report{Copies: 1}}},
		{"a dead letter's body spoilt", func(s *mixedScene) { s.deadLetter(2).Sum++ }, MixedReport{Report: Report{Corrupt: 1}}},
		{"a refused publish as a dead letter", func(s *mixedScene) {
			s.publish(3, "aged", Refused, nil)
			s.clock += 20
			s.die(3, "aged", "expired")
		}, MixedReport{Report: Report{Phantom: 1}}},
		{"a message that was rolled back", func(s *mixedScene) { s.take(s.live, 43, "tx-a") }, MixedReport{Report: Report{Phantom: 1, Disorder: 1}}},
		{"half of a committed transaction lost", func(s *mixedScene) { without(s.live, 42) }, MixedReport{Report: Report{Lost: 1}, Torn: 1}},
		{"half of a transaction whose outcome is not known", func(s *mixedScene) { without(s.live, 45) }, MixedReport{Torn: 1}},
		{"a lower priority first", func(s *mixedScene) {
			d := s.drained.Deliveries
			d[3].At, d[4].At = d[4].At, d[3].At
		}, MixedReport{Inversion: 1}},
		{"disorder within a priority", func(s *mixedScene) {
			d := s.drained.Deliveries
			d[2].At, d[3].At = d[3].At, d[2].At
		}, MixedReport{Report: Report{Disorder: 1}}},
		{"a message of another queue", func(s *mixedScene) { s.live.Deliveries[0].Queue = "picky" }, MixedReport{Report: Report{Phantom: 1}}},
		{"a dead letter of nobody", func(s *mixedScene) { s.die(99, "aged", "expired") }, MixedReport{Report: Report{Phantom: 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := goodMixed()
			c.spoil(s)
			got := CheckMixed(s.History, mixedRules)
			faults := MixedReport{
				Report:     Report{Lost: got.Lost, Phantom: got.Phantom, Copies: got.Copies, Disorder: got.Disorder, Corrupt: got.Corrupt},
				WrongDeath: got.WrongDeath, Undead: got.Undead, Torn: got.Torn, Inversion: got.Inversion,
			}
			if faults.String() != c.want.String() {
				t.Errorf("got %s\n%s", got, strings.Join(got.Examples, "\n"))
			}
			if got.OK() || len(got.Examples) == 0 {
				t.Errorf("passes, or names no example: %s", got)
			}
		})
	}
}

func TestAMessageIsNotDroppedForOnesWhoseOutcomeIsKnownToBeRefused(t *testing.T) {
	s := goodMixed()
	s.publish(15, "small", Refused, nil)
	s.publish(16, "small", Refused, nil)
	if without(s.drained, 14); CheckMixed(s.History, mixedRules).Lost != 1 {
		t.Error("refused publishes made room")
	}
	s.publish(17, "small", Unknown, nil)
	s.publish(18, "small", Unknown, nil)
	if r := CheckMixed(s.History, mixedRules); !r.OK() || r.Dropped != 3 {
		t.Errorf("publishes that may have come made no room: %s", r)
	}
}
