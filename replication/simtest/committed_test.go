package simtest

import (
	"slices"
	"testing"
	"testing/cryptotest"
)

// formed is a cluster whose nodes have registered, and its leader.
func formed(t *testing.T, n int) (*Sim, *simNode) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, 1)
	s := New(1, n)
	s.settle(300)
	leader := s.leader()
	if s.err != nil || leader == nil {
		t.Fatal(s.err)
	}
	return s, leader
}

// quiet is a formed cluster that has settled after a value, and its leader.
func quiet(t *testing.T, n int) (*Sim, *simNode) {
	t.Helper()
	s, leader := formed(t, n)
	leader.submit()
	s.settle(300)
	return s, leader
}

// cutOff cuts a node off from all others.
func (s *Sim) cutOff(id uint64) {
	for _, l := range s.net.order {
		l.blocked = l.from == id || l.to == id
	}
}

func (n *simNode) leads() bool { return n.node.Group(0).Status().Role == "leader" }

// othersGoOn lets time pass until one of the other nodes leads, and has committed something more.
func (s *Sim) othersGoOn(t *testing.T, but uint64) {
	t.Helper()
	before := s.known
	s.until(200, "the others do not go on", func() bool {
		for _, id := range s.ids {
			if id != but {
				s.nodes[id].submit()
			}
		}
		return s.known > before+3
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
}

// isAnsweredOnceHealed heals the cluster and waits until what was asked is answered; ask has looked at what with.
func (s *Sim) isAnsweredOnceHealed(t *testing.T, answered *bool) {
	t.Helper()
	s.heal()
	s.until(300, "what is committed is not told", func() bool { return *answered })
	if s.err != nil {
		t.Error(s.err)
	}
}

func TestALeaderThatIsCutOffFromItsClusterProvesNothing(t *testing.T) {
	s, old := quiet(t, 3)
	s.cutOff(old.id)
	answered, ticks := false, 0
	old.ask(func() { answered = true })
	for ; old.leads() && ticks < 100; ticks++ { // until CheckQuorum deposes it
		s.tick(0)
		if answered {
			t.Fatalf("it proved something, %d ticks after it was cut off", ticks)
		}
	}
	if ticks < 5 || ticks == 100 {
		t.Fatalf("it led for %d ticks: this tests nothing", ticks)
	}
	s.othersGoOn(t, old.id)
	s.isAnsweredOnceHealed(t, &answered)
}

func TestAFollowerThatIsCutOffFromItsLeaderProvesNothing(t *testing.T) {
	s, leader := quiet(t, 3)
	far := s.nodes[leader.id%3+1]
	s.cutOff(far.id)
	answered := false
	far.ask(func() { answered = true })
	s.othersGoOn(t, far.id)
	if answered {
		t.Fatal("it proved something")
	}
	s.isAnsweredOnceHealed(t, &answered)
}

func TestALeaderThatWasStoppedProvesNothingOfWhatItSleptThrough(t *testing.T) {
	s, old := quiet(t, 3)
	answered, again := false, false
	old.ask(func() { answered = true })
	old.speed = 0
	s.cutOff(old.id)
	s.othersGoOn(t, old.id)
	old.speed = 10
	old.ask(func() { again = true })
	old.move()
	if !old.leads() {
		t.Fatal("it does not lead any more: this tests nothing")
	}
	s.tick(0)
	if answered || again {
		t.Fatalf("it proved something: %v, %v", answered, again)
	}
	s.isAnsweredOnceHealed(t, &answered)
	s.isAnsweredOnceHealed(t, &again)
}

// Words of a majority that were under way all the time, in a connection that stood still, answer what was asked before them, and
// nothing that was asked since.
func TestAMajoritysWordThatWasHeldUpAnswersNothingThatWasAskedLater(t *testing.T) {
	s, old := quiet(t, 3)
	first, second := false, false
	old.ask(func() { first = true })
	old.node.Turn(0)
	held := map[*link][]parcel{}
	for range 20 {
		s.net.advance()
		for _, id := range s.ids {
			if id != old.id {
				s.nodes[id].node.Turn(0)
			}
		}
		for _, l := range s.net.order {
			if l.to == old.id {
				held[l], l.queue = append(held[l], l.queue...), nil
			}
		}
	}
	old.speed = 0
	s.cutOff(old.id)
	s.othersGoOn(t, old.id)
	old.ask(func() { second = true })
	for _, l := range s.net.order {
		for _, p := range held[l] {
			if err := old.node.Receive(l.from, p.frame); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 5 {
		old.node.Turn(0)
	}
	if !first || second {
		t.Fatalf("what was asked before is answered: %v, what was asked since: %v", first, second)
	}
	old.speed = 10
	s.isAnsweredOnceHealed(t, &second)
}

func TestANodeThatComesBackProvesNothingBeforeItKnowsAllThatItHasConfirmed(t *testing.T) {
	for seed := range uint64(20) {
		cryptotest.SetGlobalRandom(t, seed)
		s := New(seed, 1)
		s.settle(300)
		only := s.nodes[1]
		for range 3 {
			only.submit()
			s.settle(300)
		}
		only.crash()
		only.start()
		answered := false
		only.ask(func() { answered = true })
		s.until(300, "what is committed is not told", func() bool { return answered })
		if s.err != nil {
			t.Fatalf("seed %d: %v", seed, s.err)
		}
	}
}

func TestAskingWhatIsCommittedWritesNothing(t *testing.T) {
	s, leader := quiet(t, 3)
	last, _ := leader.disk.LastIndex()
	answers := 0
	for range 50 {
		for _, id := range s.ids {
			s.nodes[id].ask(func() { answers++ })
		}
		s.tick(0)
		if slices.ContainsFunc(s.ids, func(id uint64) bool { return s.nodes[id].disk.Unsynced() > 0 }) {
			t.Fatal("something is written")
		}
	}
	if now, _ := leader.disk.LastIndex(); s.err != nil || now != last || answers < 100 {
		t.Errorf("%v; %d questions of 150 are answered; the log ended at %d, now at %d", s.err, answers, last, now)
	}
}
