package replication

import (
	"context"
	"io"
	"time"

	"github.com/understudy-mq/understudy/replication/transport"
)

// Manual is a node without goroutines, log files or sockets: it moves only when told to, so that a simulation decides
// on every interleaving. It is made for simtest, of the very parts that a Node is made of.
type Manual struct {
	node *Node
	now  func() time.Duration
}

// StartManual brings a node up over logs, a network and a monotonic clock that are handed in. What a node does beside its groups, which is
// to send snapshots, is handed to spawn, to be run when that will. Nothing of it may be called from more than one goroutine.
func StartManual(o Options, logs map[uint64]GroupLog, network Network, mono func() time.Duration, spawn func(func())) (*Manual, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	n := newNode(o)
	n.net = network
	e := n.env()
	e.mono = mono
	e.after = func(time.Duration, func()) func() bool { return func() bool { return false } }
	e.spawn = func(f func(context.Context)) func() {
		ctx, stop := context.WithCancel(n.ctx)
		spawn(func() { f(ctx) })
		return stop
	}
	e.written = n.appended
	n.letGoAtOnce = true
	m := &Manual{node: n, now: mono}
	return m, n.openGroups(e, func(id uint64) GroupLog { return logs[id] })
}

// appended counts what the groups have given their logs.
func (n *Node) appended() (sum int64) {
	for _, g := range n.groups {
		sum += g.appended.bytes
	}
	return sum
}

// Group is the group with this id.
func (m *Manual) Group(id uint64) *Group { return m.node.groups[id] }

// Tick lets one tick pass in every group.
func (m *Manual) Tick() {
	for _, id := range m.node.opts.Groups {
		m.node.groups[id].in.tick()
	}
}

// Turn lets a group's goroutine, as it were, deal with all that has come in.
func (m *Manual) Turn(group uint64) { m.node.groups[group].turn() }

// Apply lets a group's apply goroutine deal with what waits; false if nothing did.
func (m *Manual) Apply(group uint64) bool { return m.node.groups[group].apply.step() }

// Receive takes a frame as if it had come over the network.
func (m *Manual) Receive(from uint64, f transport.Frame) error {
	m.node.heardFrom(from).Store(int64(m.now()))
	return m.node.take(from, f)
}

// Connected says that a connection to a peer has come up.
func (m *Manual) Connected(peer uint64) { m.node.connected(peer) }

// HungUp says that a peer has ended its connection.
func (m *Manual) HungUp(peer uint64) { m.node.hungUp(peer) }

// Full says that the disk has run out of room (err) or has room again (nil), as the log says it.
func (m *Manual) Full(err error) { m.node.diskFull(err) }

// ReceiveSnapshot takes a snapshot as if it had been streamed.
func (m *Manual) ReceiveSnapshot(from, group uint64, header []byte, r io.ReadCloser) error {
	return m.node.groups[group].receiveSnapshot(m.node.ctx, from, header, r)
}

// Truncate cuts a group's log as far as its followers and the machine's checkpoint allow.
func (m *Manual) Truncate(group uint64) {
	g := m.node.groups[group]
	index := g.needless()
	if first, err := g.log.FirstIndex(); err != nil || index < first {
		return
	}
	if term, err := g.log.Term(index); err == nil {
		g.log.TruncateTo(index, term)
	}
}

// Change asks a group for a membership change, if this node leads it; answer is called once, sooner or later.
func (m *Manual) Change(group uint64, verb Verb, node uint64, address string, answer func(error)) {
	g := m.node.groups[group]
	g.change(request{verb: uint64(verb), node: node, address: address}, func(err error, _ bool) { answer(err) })
}

// Committed is Group.Committed; answer is called once, if ever.
func (m *Manual) Committed(group uint64, answer func(index uint64)) {
	m.node.groups[group].inquire(context.Background(), answer)
}

// Verb is a membership change.
type Verb uint64

// The changes that Manual.Change makes.
const (
	Add      Verb = verbAdd
	Promote  Verb = verbPromote
	Remove   Verb = verbRemove
	Transfer Verb = verbTransfer
)
