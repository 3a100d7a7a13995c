package simtest

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/understudy-mq/understudy/replication"
	"github.com/understudy-mq/understudy/replication/transport"
)

var errCut = errors.New("the simulated network is cut")

// link is one direction between two nodes on one connection: in order, or cut. What is on it when it is cut is lost.
type link struct {
	from, to uint64
	urgent   bool
	up       bool
	blocked  bool // a partition: it does not come up
	queue    []parcel
}

type parcel struct {
	frame transport.Frame
	due   int // step at which it arrives
}

// network is the links of a cluster.
type network struct {
	rng   *rand.Rand
	links map[[3]uint64]*link
	order []*link // in the order of their making, for determinism
	step  int
	rush  bool // links come up at once
	torn  int  // the next streams of snapshots that fail
	slow  int  // the most steps that a frame takes
	acks  int  // acknowledgements of entries sent
	pace  int  // pieces of snapshots that arrive in a step
	taken int  // in this step
	sim   *Sim

	errands []*errand
	running *errand
}

func (n *network) link(from, to uint64, urgent bool) *link {
	key := [3]uint64{from, to, 0}
	if urgent {
		key[2] = 1
	}
	l := n.links[key]
	if l == nil {
		l = &link{from: from, to: to, urgent: urgent}
		n.links[key] = l
		n.order = append(n.order, l)
	}
	return l
}

// wire is one node's view of the network.
type wire struct {
	*network
	self uint64
}

var _ replication.Network = wire{}

// Send puts a frame on its link, if that is up.
func (w wire) Send(to uint64, f transport.Frame) bool {
	l := w.link(w.self, to, f.Urgent)
	if !l.up {
		return false
	}
	due := w.step + w.rng.IntN(w.slow+1)
	if n := len(l.queue); n > 0 {
		due = max(due, l.queue[n-1].due)
	}
	f.Payload = slices.Concat(append([][]byte{f.Payload}, f.Rest...)...)
	f.Rest = nil
	l.queue = append(l.queue, parcel{f, due})
	if m := new(pb.Message); f.Kind == transport.Raft && proto.Unmarshal(f.Payload, m) == nil && m.GetType() == pb.MsgAppResp {
		w.acks++
	}
	return true
}

// Stream hands a snapshot over piece by piece, or fails. It is one of the errands of its node.
func (w wire) Stream(ctx context.Context, to, group uint64, header []byte, body io.WriterTo) error {
	if w.torn > 0 {
		w.torn--
		return errCut
	}
	target := w.sim.nodes[to]
	if target == nil || target.node == nil || w.rng.IntN(4) == 0 {
		return errCut
	}
	next, stop := iter.Pull(pieces(body))
	defer stop()
	w.sim.Snapshots++
	r := &pieceReader{ctx: ctx, net: w.network, link: w.link(w.self, to, false), node: target, at: target.node, next: next, errand: w.running}
	return target.node.ReceiveSnapshot(w.self, group, header, r)
}

// pieces are what is written, a piece for each write. Whoever writes waits for each to be taken.
func pieces(body io.WriterTo) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		_, _ = body.WriteTo(writerFunc(func(b []byte) (int, error) { // its end shows: there is a checksum in it
			if !yield(b) {
				return 0, errCut
			}
			return len(b), nil
		}))
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// pieceReader is a snapshot as it arrives.
type pieceReader struct {
	ctx    context.Context
	net    *network
	link   *link
	node   *simNode
	at     *replication.Manual // the process that receives
	next   func() ([]byte, bool)
	errand *errand // the sender's
	left   []byte
}

// Read implements io.Reader.
func (r *pieceReader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		if r.errand.freed || r.ctx.Err() != nil || r.link.blocked || r.node.node != r.at {
			r.net.sim.Broken++
			return 0, errCut
		}
		if r.net.taken >= r.net.pace || r.node.full {
			if !r.errand.yield(struct{}{}) {
				return 0, errCut
			}
			continue
		}
		piece, more := r.next()
		if !more {
			return 0, io.EOF
		}
		r.net.taken++
		r.left = piece
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// Close implements io.Closer.
func (r *pieceReader) Close() error { r.errand.freed = true; return nil }

// SetPeer makes the links to a peer.
func (w wire) SetPeer(id uint64, _ string) {
	w.link(w.self, id, false)
	w.link(w.self, id, true)
}

// RemovePeer does nothing: a removed node is no more spoken to.
func (w wire) RemovePeer(uint64) {}

// advance delivers what is due and brings links up again.
func (n *network) advance() {
	n.step++
	n.taken = 0
	n.runErrands()
	for _, l := range slices.Clone(n.order) {
		to, from := n.sim.nodes[l.to], n.sim.nodes[l.from]
		if to == nil || from == nil || to.node == nil || from.node == nil || l.blocked {
			l.up, l.queue = false, nil
			continue
		}
		if !l.up {
			if n.rng.IntN(8) != 0 && !n.rush {
				continue
			}
			l.up = true
			n.link(l.to, l.from, l.urgent) // who is called knows where to answer
			if !l.urgent {
				from.node.Connected(l.to)
			}
		}
		for len(l.queue) > 0 && l.queue[0].due <= n.step {
			f := l.queue[0].frame
			l.queue = l.queue[1:]
			if err := to.node.Receive(l.from, f); err != nil {
				n.sim.fail("node %d refused a frame of node %d: %v", l.to, l.from, err)
			}
		}
	}
}

// cut breaks a link: what is on it is lost.
func (l *link) cut() { l.up, l.queue = false, nil }
