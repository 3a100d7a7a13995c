package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/understudy-mq/understudy/replication/log"
	"github.com/understudy-mq/understudy/replication/transport"
)

// Node is this process's part in all groups.
type Node struct {
	opts   Options
	logger *slog.Logger
	start  time.Time
	log    *log.Log
	net    Network
	holds  *holds
	images *images              // the keeper's
	wires  *transport.Transport // net, but in a Manual node
	groups map[uint64]*Group

	ctx    context.Context // ends with Stop
	cancel context.CancelFunc
	wait   sync.WaitGroup
	failed sync.Once
	full   atomic.Pointer[string] // why nothing may be written

	opened      chan struct{} // closed once the groups, and with them the members, are known
	letGoAtOnce bool          // removed members are disconnected without delay

	mu      sync.Mutex
	conf    map[uint64]membership    // by group
	heardAt map[uint64]*atomic.Int64 // by peer, on mono's scale
	pins    map[*pinned]struct{}
	calls   map[uint64]chan response
	asked   map[uint64]asking
	number  uint64

	answering chan struct{} // holds what is answered at once
}

type pinned struct{ group, index uint64 }

// Start opens the log, brings the groups up from it and begins to take part. Errors: options that make no sense, a
// data folder in use or damaged, an address that cannot be listened on.
func Start(o Options) (*Node, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	n := newNode(o)
	l, err := log.Open(log.Options{
		Dir: o.Dir, FS: o.FS, SegmentBytes: o.SegmentBytes, Logger: o.Logger,
		Fatal: n.fatal, Full: n.diskFull, Synced: o.Observer.Synced,
	})
	if err != nil {
		n.cancel()
		return nil, fmt.Errorf("open the log: %w", err)
	}
	n.log = l
	if err := n.holds.load(); err != nil {
		n.logger.Error("a standby may need a new seed", "error", err)
	}
	if err := n.images.load(); err != nil {
		n.logger.Error("this node cannot be wound back, should its standby be promoted", "error", err)
	}
	if err := n.open(); err != nil {
		n.cancel()
		if n.wires != nil {
			_ = n.wires.Close()
		}
		return nil, errors.Join(err, l.Close())
	}
	n.run()
	return n, nil
}

func newNode(o Options) *Node {
	n := &Node{
		opts: o, logger: o.Logger, holds: newHolds(&o), images: newImages(&o), start: time.Now(),
		groups: map[uint64]*Group{}, conf: map[uint64]membership{}, heardAt: map[uint64]*atomic.Int64{},
		pins: map[*pinned]struct{}{}, calls: map[uint64]chan response{},
		asked: map[uint64]asking{}, answering: make(chan struct{}, asksMost),
	}
	n.opened = make(chan struct{})
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// open starts the transport and then the groups, which send through it.
func (n *Node) open() error {
	t, err := transport.Start(transport.Options{
		Self: n.opts.NodeID, Listen: n.opts.Listen, Advertise: n.opts.Peers[n.opts.NodeID], TLS: n.opts.PeerTLS,
		ClusterID: n.opts.ClusterID, Fresh: n.fresh, Admit: n.admit,
		Receive: n.receive, Connected: n.connected, HungUp: n.hungUp, Snapshot: n.receiveSnapshot,
		PeerAddr: n.opts.PeerAddr, Logger: n.logger,
	})
	if err != nil {
		return err
	}
	n.net, n.wires = t, t
	if err := n.openGroups(n.env(), func(id uint64) GroupLog { return n.log.Group(id) }); err != nil {
		return err
	}
	close(n.opened)
	return nil
}

func (n *Node) openGroups(e *env, logOf func(uint64) GroupLog) error {
	groups := map[uint64]*Group{}
	for _, id := range n.opts.Groups {
		g, err := newGroup(id, e, logOf(id), n.opts.Machines[id])
		if err != nil {
			return err
		}
		groups[id] = g
	}
	n.mu.Lock()
	n.groups = groups
	n.mu.Unlock()
	return nil
}

func (n *Node) env() *env {
	return &env{
		self: n.opts.NodeID, opts: &n.opts, network: n.net, logger: n.logger,
		mono: n.mono, fatal: n.fatal, peers: n.membersChanged, heard: n.heard, pin: n.pin,
		readOnly: n.readOnly,
		after:    func(d time.Duration, f func()) (stop func() bool) { return time.AfterFunc(d, f).Stop },
		spawn:    n.spawn,
		written:  func() int64 { return int64(n.log.Stats().Bytes) },
		pressed:  n.holds.pressed,
	}
}

// spawn runs f on a goroutine of its own until the node stops or stop is called.
func (n *Node) spawn(f func(context.Context)) (stop func()) {
	ctx, stop := context.WithCancel(n.ctx)
	n.wait.Go(func() {
		defer stop()
		f(ctx)
	})
	return stop
}

func (n *Node) run() {
	for _, g := range n.groups {
		n.wait.Go(func() { n.guard(g, g.run) })
		n.wait.Go(func() { n.guard(g, g.runApply) })
		g.in.signal()
	}
	n.wait.Go(n.tick)
	n.wait.Go(func() { (&keeper{n: n}).run(n.ctx) })
}

// guard turns a broken invariant in a group into the end of the process: its state is not to be trusted any more.
func (n *Node) guard(g *Group, run func(<-chan struct{})) {
	defer func() {
		if p := recover(); p != nil {
			n.fatal(fmt.Errorf("group %d: a broken invariant: %v", g.id, p))
		}
	}()
	run(n.ctx.Done())
}

func (n *Node) tick() {
	t := time.NewTicker(n.opts.TickInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			for _, g := range n.groups {
				g.in.tick()
			}
		case <-n.ctx.Done():
			return
		}
	}
}

// Group is the group with this id, nil if the node has none.
func (n *Node) Group(id uint64) *Group { return n.groups[id] }

// ReadOnly says whether the disk is full, and how full. Leadership is given up then, and nothing is written until there
// is room again.
func (n *Node) ReadOnly() (bool, string) {
	if s := n.full.Load(); s != nil {
		return true, *s
	}
	return false, ""
}

// Stats are the log's counters: bytes, writes, syncs.
func (n *Node) Stats() log.Stats { return n.log.Stats() }

// Stop moves leadership away, makes a checkpoint and stops. ctx bounds the first two; stopping itself is always done.
func (n *Node) Stop(ctx context.Context) error {
	n.HandOver(ctx)
	n.checkpoint(ctx)
	for _, g := range n.groups {
		g.submits.close(ErrUnregistered)
	}
	n.cancel()
	err := n.wires.Close()
	n.wait.Wait()
	return errors.Join(err, n.holds.save(true), n.log.Close())
}

func (n *Node) fatal(err error) {
	n.failed.Do(func() { n.opts.Fatal(err) })
}

func (n *Node) mono() time.Duration { return time.Since(n.start) }

// readOnly is why nothing may be written.
func (n *Node) readOnly() error {
	if s := n.full.Load(); s != nil {
		return fmt.Errorf("%w: %s", ErrReadOnly, *s)
	}
	return nil
}

// diskFull is the log's word that it has run out of room, or has room again.
func (n *Node) diskFull(err error) {
	if err == nil {
		n.full.Store(nil)
		n.logger.Warn("there is room on the disk again: writing goes on")
		return
	}
	n.full.Store(new(err.Error()))
	n.logger.Error("the disk is full: this node takes nothing until there is room", "error", err)
	n.tell(event{kind: eventCall, call: (*Group).giveWay})
}

func (n *Node) heard(peer uint64) time.Duration {
	return time.Duration(n.heardFrom(peer).Load())
}

func (n *Node) heardFrom(peer uint64) *atomic.Int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.heardAt[peer]
	if h == nil {
		h = new(atomic.Int64)
		n.heardAt[peer] = h
	}
	return h
}

// pin keeps a group's entries from index on in the log until release.
func (n *Node) pin(group, index uint64) (release func()) {
	p := &pinned{group, index}
	n.mu.Lock()
	n.pins[p] = struct{}{}
	n.mu.Unlock()
	return func() {
		n.mu.Lock()
		delete(n.pins, p)
		n.mu.Unlock()
	}
}

// Pin keeps the group's entries from index on readable by ReadEntry until release is called, for readers that come to
// them later. What is gone already is not brought back.
func (n *Node) Pin(group, index uint64) (release func()) { return n.pin(group, index) }

func (n *Node) pinned(group, last uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.pins {
		if p.group == group && p.index <= last {
			return true
		}
	}
	return false
}

// receive takes a peer's frame; an error closes its connection.
func (n *Node) receive(from uint64, f transport.Frame) error {
	n.heardFrom(from).Store(int64(n.mono()))
	return n.take(from, f)
}

func (n *Node) take(from uint64, f transport.Frame) error {
	switch f.Kind {
	case transport.Response:
		return n.answered(f.Payload)
	case transport.Covered:
		return n.takeCovered(f.Payload)
	case transport.Ask:
		return n.takeAsk(from, f.Payload)
	case transport.Tell:
		return n.takeTell(from, f.Payload)
	}
	g := n.group(f.Group)
	if g == nil {
		return nil // still starting, or a group that only newer nodes have
	}
	if f.Kind == transport.Request {
		q, err := decodeRequest(f.Payload)
		if err != nil {
			return err
		}
		n.serve(g, from, q)
		return nil
	}
	e, err := received(from, f)
	if err != nil || e.kind == 0 {
		return err
	}
	g.in.put(e)
	return nil
}

// received is what a frame is to its group: nothing, where only newer nodes send such.
func received(from uint64, f transport.Frame) (e event, err error) {
	switch f.Kind {
	case transport.Raft:
		m := new(pb.Message)
		if err := proto.Unmarshal(f.Payload, m); err != nil || m.GetFrom() != from {
			return e, errFrame
		}
		return event{kind: eventStep, from: from, size: len(f.Payload), message: m}, nil
	case transport.Append:
		m, err := decodeAppend(f.Payload)
		if err != nil || m.GetFrom() != from || m.GetType() != pb.MsgApp {
			return e, errFrame
		}
		return event{kind: eventStep, from: from, size: len(f.Payload), message: m}, nil
	case transport.Batch:
		fw, err := decodeForward(f.Payload)
		fw.commands = slices.Clone(fw.commands)
		return event{kind: eventForward, from: from, size: len(fw.commands), forward: fw}, err
	case transport.Replay:
		return receiveReplay(from, f.Payload)
	case transport.Lent:
		l, err := decodeLoan(f.Payload)
		return event{kind: eventCall, from: from, size: len(f.Payload), call: func(g *Group) { g.takeLoan(l) }}, err
	case transport.Expect:
		x, err := decodeExpectation(f.Payload)
		return event{kind: eventExpect, from: from, expect: x}, err
	}
	return e, nil
}

func (n *Node) group(id uint64) *Group {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.groups[id]
}

func (n *Node) connected(peer uint64) { n.tell(event{kind: eventPeer, from: peer}) }

func (n *Node) hungUp(peer uint64) { n.tell(event{kind: eventGone, from: peer}) }

// tell puts an event into every group's inbox.
func (n *Node) tell(e event) {
	n.mu.Lock()
	groups := slices.Collect(maps.Values(n.groups))
	n.mu.Unlock()
	for _, g := range groups {
		g.in.put(e)
	}
}

func (n *Node) receiveSnapshot(ctx context.Context, from, group uint64, header []byte, r io.ReadCloser) error {
	g := n.group(group)
	if g == nil {
		return fmt.Errorf("this node has no group %d (yet)", group)
	}
	n.heardFrom(from).Store(int64(n.mono()))
	return g.receiveSnapshot(ctx, from, header, r)
}
