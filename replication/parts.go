package replication

import (
	"context"
	"io"
	"log/slog"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/understudy-mq/understudy/replication/log"
	"github.com/understudy-mq/understudy/replication/transport"
)

// GroupLog is what a group needs of the node's log; *log.Group carries it out, and simtest has one in memory.
type GroupLog interface {
	raft.Storage
	SetConfState(*raftpb.ConfState)
	SetSnapshot(func() (*raftpb.Snapshot, error))
	// Append makes w visible at once and never blocks; done runs in call order, with w.Sync once it is on disk.
	Append(w log.Write, done func())
	TruncateTo(index, term uint64)
	Bytes(index uint64, offset, size int) ([]byte, error)
}

var _ GroupLog = (*log.Group)(nil)

// Network is what a node needs of the transport; *transport.Transport carries it out, and simtest has one with faults.
type Network interface {
	// Send queues a frame for a peer. It never blocks; false means that the frame was dropped. A frame that was queued
	// may still be lost.
	Send(to uint64, f transport.Frame) bool
	// Stream sends a snapshot: header, then what body writes. It returns when the receiver has it on disk.
	Stream(ctx context.Context, to, group uint64, header []byte, body io.WriterTo) error
	// SetPeer says where a peer listens; RemovePeer forgets it.
	SetPeer(id uint64, address string)
	RemovePeer(id uint64)
}

var _ Network = (*transport.Transport)(nil)

// env is what a group sees of its node.
type env struct {
	self     uint64
	opts     *Options
	network  Network
	logger   *slog.Logger
	mono     func() time.Duration
	fatal    func(error)
	peers    func(group uint64, m membership) // a group's membership has changed
	heard    func(peer uint64) time.Duration  // when the node last heard from a peer, on mono's scale
	pin      func(group, index uint64) (release func())
	readOnly func() error // why nothing may be written, nil if it may
	// after runs f on another goroutine when d has passed.
	after func(d time.Duration, f func()) (stop func() bool)
	// spawn runs f beside the group, until the node stops or stop is called.
	spawn   func(f func(ctx context.Context)) (stop func())
	written func() int64 // bytes of log since the start, of all groups
	pressed func() bool  // the volume is too full for anything to be kept that is not needed here
}

func (e *env) wallMillis() int64 { return e.opts.Wall().UnixMilli() }

// silence is how long ago the node last heard from a peer.
func (e *env) silence(peer uint64) time.Duration { return e.mono() - e.heard(peer) }

// electionTime is T.
func (e *env) electionTime() time.Duration {
	return time.Duration(e.opts.ElectionTicks) * e.opts.TickInterval
}
