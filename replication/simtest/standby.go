package simtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/understudy-mq/understudy/replication"
)

const (
	attachAt    = 1  // where the source's log begins
	readMost    = 20 // entries that a reader hands over at once
	readerPause = 12 // ticks without progress after which a reader begins again from what is applied
	ownValues   = 1_000_000
)

// source is the log of another cluster, made up as time passes. Entry i of it has index attachAt+1+i.
type source struct {
	entries [][]byte // nil for raft's own
	values  []uint64
	stamp   int64
}

// last is the index of its newest entry.
func (s *source) last() uint64 { return attachAt + uint64(len(s.entries)) }

// grow makes the source commit an entry.
func (s *source) grow(n int) {
	if n%7 == 0 {
		s.entries = append(s.entries, nil)
		return
	}
	v := uint64(len(s.entries) + 1)
	s.values = append(s.values, v)
	s.stamp += 10
	e := binary.BigEndian.AppendUint64(nil, uint64(s.stamp))
	s.entries = append(s.entries, Codec().AppendBatch(e, 0, 0, 0, Value(v)))
}

// reader is a node's reading of the source.
type reader struct {
	sent     uint64 // last entry handed over
	position uint64 // when it was last seen to move,
	at       int    // at this tick
}

// read lets a node hand the source's next entries to its group's leader.
func (n *simNode) read() {
	s, r := n.sim.source, &n.reader
	_, position, _ := n.machine.Standing()
	if position != r.position || r.sent < position {
		r.position, r.at = position, n.sim.ticks
		r.sent = max(r.sent, position)
	} else if n.sim.ticks-r.at > readerPause {
		r.at, r.sent = n.sim.ticks, position
	}
	from := r.sent + 1
	if from > s.last() || from > position+3*readMost {
		return
	}
	var list [][]byte
	for i := from; i <= s.last() && len(list) < readMost; i++ {
		list = append(list, Replay(i, s.entries[i-attachAt-1]))
	}
	if err := n.node.Group(0).Replay(from, list); err == nil {
		r.sent += uint64(len(list))
	} else if !errors.Is(err, replication.ErrNoLeader) {
		n.sim.fail("node %d: %v", n.id, err)
	}
}

// live is what a node of a standby does beside raft: it attaches the group, reads, and tries what it must not.
func (n *simNode) live() {
	g := n.node.Group(0)
	standby, _, since := n.machine.Standing()
	switch {
	case since > 0:
	case !standby:
		_ = g.ControlLocal(Attach(attachAt))
	default:
		if n.reads {
			n.read()
		}
		n.machine.SetDeadline(1)
	}
	if since == 0 {
		_ = g.Control(Codec().Tick())
		if err := g.Submit(Value(7), 1); !errors.Is(err, replication.ErrUnregistered) && !(n.full && errors.Is(err, replication.ErrReadOnly)) {
			n.sim.fail("a standby's node %d takes commands: %v", n.id, err)
		}
	}
}

// NewStandby makes a cluster of n voters that is the standby of a made-up source.
func NewStandby(seed uint64, n int) *Sim {
	s := newSim(seed)
	s.source, s.next = &source{stamp: 1_000_000}, ownValues
	s.form(n)
	return s
}

// RunStandby lets a standby live through ticks of trouble while its source grows, heals it, checks it, promotes it, and has it
// serve.
func (s *Sim) RunStandby(ticks int) error {
	for range ticks {
		if s.err != nil {
			return s.err
		}
		for range s.rng.IntN(8) {
			s.source.grow(s.rng.IntN(1000))
		}
		if s.rng.IntN(20) == 0 { // another one reads
			for _, id := range s.ids {
				s.nodes[id].reads = s.rng.IntN(2) == 0
			}
		}
		s.trouble()
		s.tick(3)
	}
	s.heal()
	for _, n := range s.nodes {
		n.reads = true
	}
	s.until(1500, "the standby does not follow", s.caughtUp)
	if s.err == nil {
		s.err = s.checkStandby()
	}
	s.promote()
	s.settle(1500)
	for range 20 {
		s.tick(3)
	}
	s.settle(1500)
	if s.err != nil {
		return s.err
	}
	if err := s.check(); err != nil {
		return err
	}
	if m := s.nodes[s.ids[0]].machine; m.LeaderTerm() == 0 {
		return errors.New("no leader took office after the promotion")
	}
	if got := s.nodes[s.ids[0]].machine.Values(); !slices.Equal(got[:len(s.source.values)], s.source.values) || len(got) == len(s.source.values) {
		return fmt.Errorf("the promoted cluster has %d values behind its source's %d, or others before", len(got), len(s.source.values))
	}
	return nil
}

func (s *Sim) until(ticks int, what string, done func() bool) {
	for range ticks {
		if s.err != nil || done() {
			return
		}
		if s.change.id != 0 {
			s.changeMembers()
		}
		s.tick(0)
	}
	s.fail("%s: %s", what, s.describe())
}

func (s *Sim) caughtUp() bool {
	for _, id := range s.ids {
		if _, at, _ := s.nodes[id].machine.Standing(); at != s.source.last() {
			return false
		}
	}
	return true
}

func (s *Sim) checkStandby() error {
	for _, id := range s.ids {
		m := s.nodes[id].machine
		switch {
		case !slices.Equal(m.Values(), s.source.values):
			return fmt.Errorf("node %d has %d values, its source %d, or others", id, m.Count(), len(s.source.values))
		case m.Own() > 0 || m.Ticks() > 0:
			return fmt.Errorf("node %d: the standby made %d entries and %d ticks of its own", id, m.Own(), m.Ticks())
		case s.nodes[id].open != nil:
			return fmt.Errorf("node %d of a standby is registered", id)
		case m.Stamp() != s.source.stamp:
			return fmt.Errorf("node %d is at stamp %d, its source at %d", id, m.Stamp(), s.source.stamp)
		}
	}
	return nil
}

// promote has one node ask for the promotion until it is one.
func (s *Sim) promote() {
	n := s.nodes[s.ids[s.rng.IntN(3)]] // the fourth comes and goes
	s.until(300, "the standby is not promoted", func() bool {
		_ = n.node.Group(0).ControlLocal(Promote())
		_, _, since := n.machine.Standing()
		return since > 0
	})
}
