package simtest

import "testing"

func TestAFollowerTellsItsLeaderOnceWhatItHas(t *testing.T) {
	s, leader := quiet(t, 3)
	s.net.slow = 0
	s.settle(10)
	const values = 20
	before := s.net.acks
	for range values {
		leader.submit()
		s.settle(300)
	}
	for range 10 {
		s.tick(0)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	// Two followers. Once in a while the word how far to apply comes so late that it is answered again.
	if n := s.net.acks - before; n < 2*values || n > 3*values {
		t.Errorf("%d entries were acknowledged %d times", values, n)
	}
}

func TestAnAcknowledgementThatIsLostIsSentAgain(t *testing.T) {
	s, leader := quiet(t, 3)
	s.net.slow = 0
	leader.submit()
	before := s.net.acks
	lost := 0
	for step := 0; lost < 2 && step < 500; step++ {
		s.net.advance()
		for _, id := range s.ids {
			s.nodes[id].node.Turn(0)
			s.nodes[id].disk.Sync()
		}
		if s.net.acks > before+lost {
			lost = s.net.acks - before
			for _, l := range s.net.order {
				if l.to == leader.id {
					l.cut()
				}
			}
		}
	}
	if lost != 2 || s.known >= last(leader) {
		t.Fatalf("%d acknowledgements were lost, entry %d is committed: this tests nothing", lost, s.known)
	}
	s.settle(50)
	if s.err != nil {
		t.Error(s.err)
	}
}

// last is the last entry in a node's log.
func last(n *simNode) uint64 {
	index, _ := n.disk.LastIndex()
	return index
}
