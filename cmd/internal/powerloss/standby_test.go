package powerloss

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/replication"
)

const (
	standbyName  = "a standby"
	standbyReads = 64 << 10 // bytes at once
)

// place is where in a group's log a standby is.
type place struct{ index, term, hash uint64 }

// standby reads a cluster's log along, as another cluster would, from any node. It belongs to one goroutine.
type standby struct {
	absent bool // nothing is held, and it does not read
	prints *prints
	at     map[uint64]place
	// steady are the nodes that know how far it is and have kept their logs since: how many snapshots each had installed by then.
	steady map[uint64]int64
}

func newStandby(absent bool, p *prints) *standby {
	return &standby{absent: absent, prints: p, at: map[uint64]place{}, steady: map[uint64]int64{}}
}

// lost says that a node's log is not what it was: it was cut, or is gone.
func (s *standby) lost(node uint64) { delete(s.steady, node) }

// hold tells all nodes how far the standby is, which must keep what comes after from now on.
func (s *standby) hold(nodes map[uint64]*node) {
	clear(s.steady)
	if s.absent {
		return
	}
	for id, n := range nodes {
		for group, at := range s.at {
			n.raft.Hold(standbyName, 1, group, at.index)
		}
		s.steady[id] = n.installs.Load()
	}
}

// attach begins to read where a node is now.
func (s *standby) attach(n *node) error {
	for _, group := range groups {
		if err := s.seed(n, group); err != nil {
			return err
		}
	}
	return nil
}

// seed takes a node's state of a group for the standby's.
func (s *standby) seed(n *node, group uint64) error {
	return waitFor("a group stands still for a moment", func() bool {
		index, hash := n.states[group].RollingHash()
		same, term := n.states[group].Applied()
		s.at[group] = place{index, term, hash}
		return same == index
	})
}

// catchUp reads all that there is, from any node, and has it held from there on. What was held all the time must be there.
func (s *standby) catchUp(nodes map[uint64]*node, rng *rand.Rand) error {
	if s.absent {
		return nil
	}
	ids := slices.Sorted(maps.Keys(nodes))
	for _, group := range groups {
		rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		read := false
		for _, id := range ids {
			ok, err := s.read(nodes[id], group)
			if err != nil {
				return err
			}
			read = read || ok
		}
		if !read { // none that had to have it is left
			if err := s.seed(nodes[ids[0]], group); err != nil {
				return err
			}
		}
	}
	s.hold(nodes)
	return nil
}

// read reads a group's log from a node, to its end; false where the node has not what comes next, and need not have it.
func (s *standby) read(n *node, group uint64) (ok bool, err error) {
	for {
		at := s.at[group]
		r, err := n.raft.Group(group).ReadLink(at.index, at.term, at.hash, standbyReads)
		if err != nil {
			return false, fmt.Errorf("node %d: %w", n.id, err)
		}
		installs, steady := s.steady[n.id]
		switch {
		case r.Status == replication.ReadAhead:
			return true, nil
		case r.Status == replication.ReadPurged && (!steady || installs != n.installs.Load()):
			return false, nil
		case r.Status != replication.ReadEntries:
			return false, fmt.Errorf("node %d: a standby that has group %d up to entry %d, which is held for it, is answered %+v",
				n.id, group, at.index, r)
		case len(r.Entries) == 0:
			return true, nil
		}
		for _, e := range r.Entries {
			if e.Index != s.at[group].index+1 {
				return false, fmt.Errorf("node %d: group %d: entry %d was read after %d", n.id, group, e.Index, s.at[group].index)
			}
			s.at[group] = place{e.Index, e.Term, e.Hash}
			if e.Printed {
				s.prints.note(s.prints.present(), n.id, group, e.Index, e.Fingerprint)
			}
		}
	}
}

// prints are the fingerprints that nodes were seen to have.
type prints struct {
	mu   sync.Mutex
	seen map[[2]uint64]print // by group and index
	life int                 // how often all was forgotten
	err  error
}

type print struct{ node, print uint64 }

// note takes a fingerprint down, which must be what others had after the same entry. One of an earlier life counts for nothing.
func (p *prints) note(life int, node, group, index, value uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if life != p.life {
		return
	}
	key := [2]uint64{group, index}
	if other, ok := p.seen[key]; ok && other.print != value && p.err == nil {
		p.err = fmt.Errorf("group %d: after entry %d node %d has fingerprint %x, node %d had %x", group, index, node, value, other.node, other.print)
	}
	p.seen[key] = print{node, value}
}

// forget is for when what nodes have done counts no more: their disks never had it.
func (p *prints) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.seen)
	p.life++
}

// present is the life that nodes are in which run now.
func (p *prints) present() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life
}

// watch looks at running nodes until stop, which answers whether any two ever differed.
func (p *prints) watch(c *cluster) (stop func() error) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-over:
				return
			}
			p.look(p.present(), c.running()) // in this order: a node that has crashed may take until after that to be looked at
		}
	}()
	return func() error {
		close(over)
		<-done
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.err
	}
}

func (p *prints) look(life int, nodes map[uint64]*node) {
	for id, n := range nodes {
		for _, group := range groups {
			s := n.raft.Group(group).Status()
			p.note(life, id, group, s.Applied, s.Fingerprint)
		}
	}
}
