package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// GroupOptions say how a group is tied to its node.
type GroupOptions struct {
	// Node limits the effects that are gathered to sessions attached at this node; 0 gathers all.
	Node uint64
	// OnEffects is called by Round with what was gathered, in the apply goroutine. fx and its Records are its own until it
	// returns. May be nil.
	OnEffects func(group uint64, fx *core.Effects)
	// ReadEntry reads size bytes at offset of the data of the log's entry index. Safe from any goroutine.
	ReadEntry func(index uint64, offset, size int) ([]byte, error)
}

// mark is a place in the log; hash is the log's rolling hash there.
type mark struct{ index, term, hash uint64 }

// next is the mark after one more entry; data is nil for raft's own.
func (m mark) next(index, term uint64, data []byte) mark {
	return mark{index, term, m.hash + entry.Hash(index, term, data)}
}

// place says where contents lie, for readers of any goroutine.
type place struct {
	generation uint64
	floor      uint64 // contents of entries below are in Pebble, on disk
}

// Group is one raft group's machine with its stored form. It carries out replication.Machine.
type Group struct {
	id uint64
	db *DB
	o  GroupOptions

	where   atomic.Pointer[place]
	staging sync.Mutex // held by a Stage or an Install

	marks   sync.Mutex // guards applied, durable, conf
	applied mark
	durable mark
	conf    []byte

	machineMu sync.Mutex // guards m: held for an entry or less, and by View
	m         machine

	// The rest belongs to the apply goroutine.
	fx   core.Effects
	job  *job // the newest checkpoint; finished or under way
	refs references
	evac *evacuation // under way, or finished and not yet taken note of; nil if none
}

// Group opens group id: it loads the state of the newest checkpoint. Errors: a row that cannot be read, naming the group
// and the row's key; a group that is open already; a stored form of a newer version.
func (d *DB) Group(id uint64, o GroupOptions) (*Group, error) {
	g := &Group{id: id, db: d, o: o, fx: core.Effects{Node: o.Node}}
	d.mu.Lock()
	taken := d.groups[id] != nil
	if !taken {
		d.groups[id] = g
	}
	d.mu.Unlock()
	if taken {
		return nil, fmt.Errorf("group %d is open already", id)
	}
	if err := g.boot(); err != nil {
		d.mu.Lock()
		delete(d.groups, id)
		d.mu.Unlock()
		return nil, err
	}
	return g, nil
}

// boot brings the group to the newest checkpoint and tidies what a crash left behind.
func (g *Group) boot() error {
	state, _, err := readState(g.db.p, g.id, metaState)
	if err != nil {
		return err
	}
	floor, err := readIndex(g.db.p, g.id, metaFloor)
	if err != nil {
		return err
	}
	swept, err := readIndex(g.db.p, g.id, metaSwept)
	if err != nil {
		return err
	}
	if g.m, err = g.load(state.generation); err != nil {
		return err
	}
	g.applied, g.durable, g.conf = state.mark(), state.mark(), state.conf
	g.where.Store(&place{generation: state.generation, floor: floor})
	g.refs = countReferences(g.m, swept)
	g.m.SetFloor(swept)
	if err := g.sweepOrphans(state, floor); err != nil {
		return err
	}
	return g.resumeEvacuation(state.generation, swept, floor)
}

// damaged is the remedy in errors of rows that cannot be read.
const damaged = "the store is damaged: replace this member, or restore its data folder"

// load makes a machine of a generation's rows.
func (g *Group) load(generation uint64) (machine, error) {
	m := g.db.kind.make(g.id)
	return m, loadRows(g.db.p, m, g.id, generation)
}

// loadRows brings a new machine to the state that a generation's rows are.
func loadRows(p *pebble.DB, m machine, group, generation uint64) error {
	it, err := p.NewIter(&pebble.IterOptions{LowerBound: rowPrefix(group, generation), UpperBound: rowEnd(group, generation)})
	if err != nil {
		return fmt.Errorf("group %d: reading its rows: %w", group, err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		key := it.Key()[rowPrefixBytes:]
		value, err := it.ValueAndErr()
		if err == nil {
			err = m.Load(key, value)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("group %d: the row %x cannot be read: %w; %s", group, key, err, damaged), it.Close())
		}
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("group %d: reading its rows: %w; %s", group, err, damaged)
	}
	if err := m.Loaded(); err != nil {
		return fmt.Errorf("group %d: its rows do not fit together: %w; %s", group, err, damaged)
	}
	return nil
}

// Apply applies the committed entry index, which must be the one after Applied. An error stops the group.
func (g *Group) Apply(index, term uint64, data []byte) error {
	if index != g.applied.index+1 {
		return fmt.Errorf("group %d: entry %d cannot be applied after entry %d", g.id, index, g.applied.index)
	}
	g.machineMu.Lock()
	err := g.m.Apply(index, data, &g.fx)
	g.machineMu.Unlock()
	if err != nil {
		return fmt.Errorf("group %d: entry %d: %w", g.id, index, err)
	}
	g.setApplied(g.applied.next(index, term, data))
	return nil
}

// ApplyConf records a membership (opaque here) and its index; the checkpoint that carries both is on disk when it
// returns.
func (g *Group) ApplyConf(index, term uint64, conf []byte) error {
	if index < g.applied.index {
		return fmt.Errorf("group %d: membership change %d cannot be applied after entry %d", g.id, index, g.applied.index)
	}
	g.marks.Lock()
	if at := g.applied; index > at.index { // at the same place a membership is put in another's stead
		g.applied = at.next(index, term, nil)
	}
	g.conf = append([]byte{}, conf...)
	g.marks.Unlock()
	j := g.begin(nil) // behind one under way, if any: they are written in order
	<-j.finished
	return j.err
}

// effectsKept bounds the effects whose room is kept between rounds.
const effectsKept = 16 << 10

// changedMost bounds the objects that one checkpoint collects while nothing is applied, and those kept for it.
const changedMost = 32 << 10

// Round ends a run of Apply calls: what they gathered goes to OnEffects, and where much has changed a checkpoint begins.
func (g *Group) Round() {
	if len(g.fx.List) > 0 {
		if g.o.OnEffects != nil {
			g.o.OnEffects(g.id, &g.fx)
		}
		g.resetEffects()
	}
	g.settle()
	if g.m.Changed() >= changedMost {
		g.Checkpoint(nil)
	}
}

// resetEffects forgets the effects, and lets go of the entries that they point into.
func (g *Group) resetEffects() {
	g.fx.Linked = false
	if cap(g.fx.List) > effectsKept {
		g.fx.List = nil
		return
	}
	clear(g.fx.List)
	g.fx.List = g.fx.List[:0]
}

func (g *Group) setApplied(m mark) {
	g.marks.Lock()
	g.applied = m
	g.marks.Unlock()
}

// Applied is the last entry applied. Safe from any goroutine.
func (g *Group) Applied() (index, term uint64) {
	g.marks.Lock()
	defer g.marks.Unlock()
	return g.applied.index, g.applied.term
}

// RollingHash is the log's rolling hash (entry.Hash) up to the last entry applied, and that entry's index. Safe from any
// goroutine.
func (g *Group) RollingHash() (index, hash uint64) {
	g.marks.Lock()
	defer g.marks.Unlock()
	return g.applied.index, g.applied.hash
}

// Standing is the group's part in the standby link: see core.Machine.
func (g *Group) Standing() (standby bool, position, since uint64) {
	g.machineMu.Lock()
	defer g.machineMu.Unlock()
	return g.m.Standing()
}

// Durable is the newest checkpoint known to be on disk. Safe from any goroutine.
func (g *Group) Durable() (index, term uint64) {
	g.marks.Lock()
	defer g.marks.Unlock()
	return g.durable.index, g.durable.term
}

// Conf is the membership as last recorded, nil if none ever was. Safe from any goroutine; not to be changed.
func (g *Group) Conf() []byte {
	g.marks.Lock()
	defer g.marks.Unlock()
	return g.conf
}

// View runs f between two entries; f may only read, and the group applies nothing while it runs. f must not call the
// group. Safe from any goroutine.
func (g *Group) View(f func(*core.Machine)) {
	g.machineMu.Lock()
	defer g.machineMu.Unlock()
	if m, ok := g.m.(*core.Machine); ok {
		f(m)
	}
}

// Incarnation is a node's registration in the state.
func (g *Group) Incarnation(node uint64) (incarnation, nonce, seq uint64) {
	g.machineMu.Lock()
	defer g.machineMu.Unlock()
	return g.m.Incarnation(node)
}

// Stamp is the newest stamp applied, in Unix milliseconds.
func (g *Group) Stamp() int64 {
	g.machineMu.Lock()
	defer g.machineMu.Unlock()
	return g.m.Stamp()
}

// NextDeadline is the stamp at which something is due, in Unix milliseconds, 0 if nothing is.
func (g *Group) NextDeadline() int64 {
	g.machineMu.Lock()
	defer g.machineMu.Unlock()
	return g.m.NextDeadline()
}

// Fingerprint is a hash of the state.
func (g *Group) Fingerprint() uint64 {
	g.machineMu.Lock()
	defer g.machineMu.Unlock()
	return g.m.Fingerprint()
}

// Live counts live references to contents in the log's entries from <= index < to, and the bytes that they refer to; it may count a few
// too many near the edges. What was moved out of the log does not count.
func (g *Group) Live(from, to uint64) (references int, bytes int64) {
	g.settle()
	if from = max(from, g.refs.floor); from >= to {
		return 0, 0
	}
	g.machineMu.Lock()
	defer g.machineMu.Unlock()
	return g.m.Live(from, to)
}
