package simtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link"
	"github.com/understudy-mq/understudy/link/source"
	"github.com/understudy-mq/understudy/link/wire"
	"github.com/understudy-mq/understudy/replication"
)

// What entries of the source begin with: a fence, that it is taken back, one for good, and a client's.
const (
	fenceMark   = "fence:"
	openMark    = "open:"
	outlawsMark = "fenced:"
	messageMark = "message "
)

// committed is an entry of the source's log.
type committed struct {
	entry.Position
	data []byte
	at   time.Time
}

// sourceGroup is a group of the source; World.mu guards it.
type sourceGroup struct {
	entries []committed // the first has index 2
	applied [nodes]uint64
	owed    [nodes]uint64 // what a node that is cut off from the others, or stopped, does not know of
	moved   [nodes]chan struct{}
	fence   string           // the switch for which it is fenced
	cancel  string           // the one that was taken back last
	by      entry.Generation // who was promoted in its place
}

func newSourceGroup() *sourceGroup {
	g := &sourceGroup{}
	for i := range g.moved {
		g.applied[i], g.moved[i] = 1, make(chan struct{})
	}
	return g
}

// at is the place after the first n entries.
func (g *sourceGroup) at(n int) entry.Position {
	if n == 0 {
		return entry.Origin()
	}
	return g.entries[n-1].Position
}

// commit adds an entry to a group's log. Each node sees it a little later, in order. w.mu is held.
func (w *World) commit(group uint64, data string) {
	g := w.source[group]
	e := committed{data: []byte(data), at: time.Now()}
	e.Position = g.at(len(g.entries)).Next(1, e.data)
	g.entries = append(g.entries, e)
	for node := range g.applied {
		w.after(w.lags[node], func() { w.reach(g, node, e.Index) })
	}
}

// reach has a node of the source apply a group up to an entry, or once it hears of the others again. w.mu is held.
func (w *World) reach(g *sourceGroup, node int, index uint64) {
	if w.alone[node] || w.stopped[node] {
		g.owed[node] = max(g.owed[node], index)
		return
	}
	g.applied[node] = max(g.applied[node], index)
	close(g.moved[node])
	g.moved[node] = make(chan struct{})
}

// rejoin ends what is wrong with a node of the source. w.mu is held.
func (w *World) rejoin(node int) {
	w.alone[node], w.stopped[node] = false, false
	for _, g := range w.source {
		w.reach(g, node, g.owed[node])
	}
}

// runs waits while a node of the source is stopped.
func (w *World) runs(node int) {
	for {
		w.mu.Lock()
		stopped := w.stopped[node]
		w.mu.Unlock()
		if !stopped {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// sourceLog is a group as a source node has it.
type sourceLog struct {
	w     *World
	group uint64
	node  int
}

var _ source.Log = sourceLog{}

func (l sourceLog) ReadLink(index, term, hash uint64, bytesMax int) (replication.LinkRead, error) {
	l.w.runs(l.node)
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	g := l.w.source[l.group]
	r := replication.LinkRead{Status: replication.ReadEntries, Applied: g.applied[l.node], First: 2}
	if index > r.Applied {
		r.Status = replication.ReadAhead
		return r, nil
	}
	if g.at(int(index)-1) != (entry.Position{Index: index, Term: term, Hash: hash}) {
		r.Status = replication.ReadMismatch
		return r, nil
	}
	for _, e := range g.entries[index-1 : r.Applied-1] {
		if bytesMax -= len(e.data); bytesMax < 0 && len(r.Entries) > 0 {
			break
		}
		r.Entries = append(r.Entries, replication.LinkEntry{Index: e.Index, Term: e.Term, Data: e.data, Hash: e.Hash})
	}
	return r, nil
}

func (l sourceLog) Status() replication.Status {
	l.w.runs(l.node)
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return replication.Status{Applied: l.w.source[l.group].applied[l.node], Leader: 1}
}

// Committed is what a majority says is committed; a node that is cut off from the others does not hear it.
func (l sourceLog) Committed(ctx context.Context) (uint64, error) {
	for {
		l.w.pause(5 * time.Millisecond)
		l.w.runs(l.node)
		l.w.mu.Lock()
		alone, index := l.w.alone[l.node], uint64(len(l.w.source[l.group].entries)+1)
		l.w.mu.Unlock()
		if !alone {
			l.w.pause(5 * time.Millisecond)
			l.w.runs(l.node)
			return index, nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}

func (l sourceLog) Changed() <-chan struct{} {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.source[l.group].moved[l.node]
}

// sourceNode is what a source node's server asks for.
type sourceNode struct {
	w    *World
	node int
}

var (
	_ source.Switch = sourceNode{}
	_ source.Notes  = sourceNode{}
)

func (sourceNode) Note(string, string, uint64, []wire.Position) {}
func (sourceNode) Hurried(uint64) bool                          { return false }
func (sourceNode) Returned(string)                              {}
func (sourceNode) Held(string) *wire.Hold                       { return nil }

func (s sourceNode) identity() source.Identity {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return source.Identity{Cluster: sourceID, Role: "primary", Fenced: s.w.source[0].by.Number > 0}
}

var errAlone = errors.New("no majority answers")

// Drain fences every group for a switch, one after the other, or opens them again.
func (s sourceNode) Drain(_ context.Context, d wire.Drain) (wire.DrainAnswer, error) {
	for group := range uint64(groups) {
		s.w.runs(s.node)
		s.w.mu.Lock()
		g := s.w.source[group]
		if s.w.alone[s.node] {
			s.w.mu.Unlock()
			return wire.DrainAnswer{}, errAlone
		}
		switch {
		case d.Cancelled:
			if first := s.w.standby[0].now; first.Role == link.Promoted && first.Accepted && first.Switch == d.Switch {
				s.w.fail("the source takes a switch back for which the standby has promoted itself")
			}
			g.cancel = d.Switch
			if g.fence == d.Switch {
				g.fence = ""
				s.w.commit(group, openMark+d.Switch)
			}
		case g.fence == "" && g.by.Number == 0 && g.cancel != d.Switch:
			g.fence = d.Switch
			s.w.commit(group, fenceMark+d.Switch)
		}
		s.w.mu.Unlock()
		s.w.pause(100 * time.Millisecond) // the standby may see some of the fences only
	}
	return wire.DrainAnswer{State: "fenced"}, nil
}

// Fence fences the source for good, where the cuts are places of its log.
func (s sourceNode) Fence(_ context.Context, f wire.Fence) (wire.FenceAnswer, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for _, cut := range f.Cuts {
		g := s.w.source[cut.Group]
		if n := int(cut.Index) - 1; n > len(g.entries) || g.at(n) != cut.Position {
			s.w.fail("group %d was cut at %+v, which is no place of the source's log", cut.Group, cut.Position)
			return wire.FenceAnswer{}, source.ErrConflict
		}
	}
	for group, g := range s.w.source {
		if g.by.Number == 0 {
			g.by = f.Generation
			s.w.commit(uint64(group), outlawsMark+f.Generation.Cluster)
		}
	}
	return wire.FenceAnswer{Fenced: true}, nil
}

// publish is what clients do: it commits an entry to a group that takes it. w.mu is held.
func (w *World) publish(group uint64) {
	if g := w.source[group]; !w.sourceDead && g.fence == "" && g.by.Number == 0 {
		w.published++
		w.commit(group, fmt.Sprintf("%s%d %s", messageMark, w.published, strings.Repeat("x", w.rng.IntN(200))))
	}
}
