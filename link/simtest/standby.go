package simtest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link"
)

// standbyGroup is a group of the standby; World.mu guards it.
type standbyGroup struct {
	now      link.Standing        // as a majority has it
	seen     [nodes]link.Standing // as each node has applied it
	moved    [nodes]chan struct{}
	version  uint64 // of now
	versions [nodes]uint64
	leader   int
	replayed [][]byte // of the source's entries, from index 2 on
	cut      time.Time
}

func newStandbyGroup(leader int) *standbyGroup {
	g := &standbyGroup{now: link.Standing{Role: link.Primary, Position: entry.Origin()}, leader: leader}
	for i := range g.moved {
		g.seen[i], g.moved[i] = g.now, make(chan struct{})
	}
	return g
}

// spread has every node see the group as it is now, its leader at once. w.mu is held.
func (w *World) spread(g *standbyGroup) {
	g.version++
	now, version := g.now, g.version
	for node := range g.seen {
		see := func() {
			if version > g.versions[node] { // words may overtake one another
				g.seen[node], g.versions[node] = now, version
				close(g.moved[node])
				g.moved[node] = make(chan struct{})
			}
		}
		if node == g.leader {
			see()
		} else {
			w.after(5*time.Millisecond, see)
		}
	}
}

// takes has a group's leader take an entry of the source. w.mu is held.
func (w *World) takes(group uint64, e entry.Replay) {
	g := w.standby[group]
	if g.now.Role != link.Standby || e.Source != sourceID || g.now.Position.Next(e.Position.Term, e.Inner) != e.Position {
		return
	}
	g.now.Position, g.now.Source = e.Position, e.Source
	g.replayed = append(g.replayed, e.Inner)
	switch data := string(e.Inner); {
	case strings.HasPrefix(data, fenceMark):
		g.now.Fence = data[len(fenceMark):]
	case strings.HasPrefix(data, openMark):
		g.now.Fence, g.now.Undone = "", data[len(openMark):]
	}
	w.spread(g)
}

// carries has a group carry out a command of its own. w.mu is held.
func (w *World) carries(group uint64, cmd entry.Command) {
	g := w.standby[group]
	s := &g.now
	switch x := cmd.(type) {
	case *entry.LinkAttach:
		if s.Role != link.Primary {
			return
		}
		s.Role, s.Source = link.Standby, x.Source
	case *entry.LinkAccept:
		if s.Role != link.Standby || s.Switch == x.Switch && (s.Accepted || s.Cancelled) {
			return
		}
		s.Switch, s.Accepted, s.Cancelled = x.Switch, true, false
	case *entry.LinkCancel:
		if s.Role != link.Standby || s.Switch == x.Switch && s.Cancelled {
			return
		}
		s.Switch, s.Accepted, s.Cancelled = x.Switch, false, true
	case *entry.LinkPromote:
		if s.Role != link.Standby || x.Switch != "" && s.Switch == x.Switch && s.Cancelled {
			return
		}
		if x.Switch != "" {
			w.closedAt(x.Switch)
		}
		s.Role, s.Generation, g.cut = link.Promoted, x.Generation, time.Now()
	}
	w.spread(g)
}

// closedAt fails where a standby promotes itself for a planned switch and the source is open. w.mu is held.
func (w *World) closedAt(id string) {
	for group, g := range w.source {
		if g.fence != id {
			w.fail("the standby promotes itself for a switch for which group %d of the source is not fenced", group)
		}
	}
}

// member is a node of the standby.
type member struct {
	w    *World
	node int
}

var (
	_ link.Cluster = member{}
	_ link.Replica = replica{}
)

func (m member) ID() string { return standbyID }

func (m member) Groups() []uint64 { return m.w.groups() }

func (m member) Standing(group uint64) link.Standing {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	g := m.w.standby[group]
	s := g.seen[m.node]
	s.Leads = g.leader == m.node
	return s
}

// Propose hands a command to the group's leader, if it can be reached.
func (m member) Propose(group uint64, cmd entry.Command) error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if !m.w.reaches(m.node, m.w.standby[group].leader) {
		return errors.New("the leader is away")
	}
	m.w.after(5*time.Millisecond, func() { m.w.carries(group, cmd) })
	return nil
}

// Waits implements link.Cluster.
func (m member) Waits() bool {
	for _, g := range m.Groups() {
		if m.Standing(g).Role == link.Primary {
			return true
		}
	}
	return false
}

func (m member) Serves() error { return nil }

func (m member) Hosts() []string { return nil }

// FenceTaken implements link.Cluster.
func (m member) FenceTaken(address string) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if m.w.source[0].by.Number == 0 {
		m.w.fail("%s is taken to be fenced", address)
	}
}

func (m member) Begins(uint64) link.Beginning { return link.Beginning{At: entry.Origin()} }

// replica is a group on a node of the standby.
type replica struct {
	member
	group uint64
}

func (r replica) Standing() link.Standing { return r.member.Standing(r.group) }

// Replay hands entries to the group's leader. They are lost where it cannot be reached, or is no longer the leader when they come.
func (r replica) Replay(entries []entry.Replay) error {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	leader := r.w.standby[r.group].leader
	if !r.w.reaches(r.node, leader) {
		return nil
	}
	r.w.after(3*time.Millisecond, func() {
		if r.w.standby[r.group].leader != leader {
			return
		}
		for _, e := range entries {
			r.w.takes(r.group, e)
		}
	})
	return nil
}

// Wait implements link.Replica.
func (r replica) Wait(ctx context.Context, index uint64) {
	for {
		r.w.mu.Lock()
		g := r.w.standby[r.group]
		there, moved := g.seen[r.node].Position.Index >= index, g.moved[r.node]
		r.w.mu.Unlock()
		if there {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}
