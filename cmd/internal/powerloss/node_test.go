package powerloss

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/store"
	"github.com/understudy-mq/understudy/replication"
	"github.com/understudy-mq/understudy/session"
)

const (
	logDir   = "/data/log"
	storeDir = "/data/store"

	systemGroup = 0
	// followerLagBytes of log are kept for a follower that falls behind.
	followerLagBytes = 192 << 10
	segmentBytes     = 64 << 10
	// patience bounds every wait; nothing is expected to take nearly as long.
	patience = time.Minute
)

// groups are all groups; vhosts say which of them each vhost is in.
var (
	groups = []uint64{systemGroup, 1, 2}
	vhosts = map[string]uint64{"one": 1, "two": 2}
)

// settings are what differs between nodes.
type settings struct {
	id      uint64
	cluster string
	fs      vfs.FS
	peers   map[uint64]string // the first members; nil is a cluster of one
	join    bool              // it is not one of them
	listen  string
	addr    func(uint64) string // where a peer listens now; nil is a cluster of one
	header  func([]byte, int64) []byte
	ended   func() (lost bool) // called before crash stops anything; may be nil
}

// node is a whole node but for protocols and the command line.
type node struct {
	settings
	db     *store.DB
	states map[uint64]*store.Group
	raft   *replication.Node
	broker *session.Broker
	handle map[uint64]*handle
	failed chan error // what Fatal was called with

	checkpoints, installs, evacuated atomic.Int64 // the last: contents

	mu         sync.Mutex
	changed    sync.Cond
	registered map[uint64]bool

	crashed sync.Once
	up      chan struct{} // closed when boot is done with it
}

// handle is a group of replication's that is not there yet when its users are made.
type handle struct {
	group atomic.Pointer[replication.Group]
}

var errStarting = errors.New("node is starting")

// Submit implements session.Submitter.
func (h *handle) Submit(commands []byte, n int) error {
	if g := h.group.Load(); g != nil {
		return g.Submit(commands, n)
	}
	return errStarting
}

// SubmitLater is Submit: what may be held back need not be.
func (h *handle) SubmitLater(commands []byte, n int) error { return h.Submit(commands, n) }

func (h *handle) readEntry(index uint64, offset, size int) ([]byte, error) {
	if g := h.group.Load(); g != nil {
		return g.ReadEntry(index, offset, size)
	}
	return nil, errStarting
}

// boot starts a node over what its disk holds.
func boot(s settings) (*node, error) {
	n := &node{settings: s, states: map[uint64]*store.Group{}, handle: map[uint64]*handle{},
		failed: make(chan error, 1), registered: map[uint64]bool{}, up: make(chan struct{})}
	n.changed.L = &n.mu
	defer close(n.up)
	if err := n.openStore(); err != nil {
		return nil, err
	}
	if err := n.startRaft(); err != nil {
		return nil, errors.Join(err, n.db.Close())
	}
	return n, nil
}

// fatal ends the node as the process would end. It must not block.
func (n *node) fatal(err error) {
	logger(n.cluster, n.id).Error("the process ends", "error", err)
	select {
	case n.failed <- err:
		go n.crash()
	default:
	}
}

func (n *node) openStore() error {
	db, err := store.Open(n.fs, storeDir, store.Options{
		Fatal: n.fatal, Logger: logger(n.cluster, n.id), CacheBytes: 1 << 20, MemTableBytes: 64 << 10,
		Metrics: store.Metrics{
			Checkpoint: func(uint64, int, float64) { n.checkpoints.Add(1) },
			Evacuated:  func(_ uint64, contents int, _ int64) { n.evacuated.Add(int64(contents)) },
		},
	})
	if err != nil {
		return err
	}
	n.db = db
	submit, contents := map[uint64]session.Submitter{}, map[uint64]session.Contents{}
	for _, id := range groups {
		h := &handle{}
		n.handle[id] = h
		n.states[id], err = db.Group(id, store.GroupOptions{Node: n.id, ReadEntry: h.readEntry,
			OnEffects: func(group uint64, fx *core.Effects) { n.broker.Dispatch(group, fx) }})
		if err != nil {
			return errors.Join(err, db.Close())
		}
		submit[id], contents[id] = h, n.states[id]
	}
	n.broker = session.New(session.Options{Node: n.id, Submit: submit, Contents: contents,
		VhostHome: func(vhost string) (session.Home, bool) {
			group, ok := vhosts[vhost]
			return session.Home{ID: vhost, Group: group}, ok
		}})
	return nil
}

func (n *node) startRaft() error {
	machines := map[uint64]replication.Machine{}
	for id, g := range n.states {
		machines[id] = g
	}
	o := replication.Options{
		NodeID: n.id, Dir: logDir, FS: n.fs, Listen: n.listen, Peers: n.peers, Join: n.join, PeerAddr: n.addr,
		Groups: groups, Machines: machines, Codec: codec(), Fatal: n.fatal, Logger: logger(n.cluster, n.id),
		ClusterID: func() string { return n.cluster },
		Observer: replication.Observer{
			Registered: func(group, incarnation uint64) {
				n.broker.Registered(group, incarnation)
				n.setRegistered(group, true)
			},
			Unregistered: func(group uint64, reason string) {
				n.setRegistered(group, false)
				if strings.Contains(reason, "snapshot was installed") {
					n.installs.Add(1)
				}
				n.broker.Unregistered(group, reason)
			},
		},
		// Small, so that segments are sealed, emptied and dropped, and checkpoints made, all the time.
		TickInterval: 5 * time.Millisecond, ElectionTicks: 100, SegmentBytes: segmentBytes, LogBytesMax: 32 << 10,
		CheckpointBytes: 32 << 10, FollowerLagBytes: followerLagBytes, HoldDiskPercent: 100,
	}
	if n.peers == nil {
		o.TickInterval = 2 * time.Millisecond
	}
	if n.header != nil {
		o.Codec.AppendHeader = n.header
	}
	raft, err := replication.Start(o)
	if err != nil {
		return err
	}
	n.raft = raft
	for id, h := range n.handle {
		h.group.Store(raft.Group(id))
	}
	return nil
}

func codec() replication.Codec {
	return replication.Codec{
		AppendHeader: entry.AppendHeader,
		Hash:         entry.Hash,
		AppendBatch:  entry.AppendBatch,
		NodeUp:       func(node, nonce uint64) []byte { return entry.Append(nil, &entry.NodeUp{Node: node, Nonce: nonce}) },
		NodeDown: func(node, incarnation uint64) []byte {
			return entry.Append(nil, &entry.NodeDown{Node: node, Incarnation: incarnation})
		},
		LeaderUp: func(node, term uint64) []byte { return entry.Append(nil, &entry.LeaderUp{Node: node, Term: term}) },
		Tick:     func() []byte { return entry.Append(nil, &entry.Tick{}) },
	}
}

// logger is quiet unless the environment asks.
func logger(cluster string, id uint64) *slog.Logger {
	if os.Getenv("POWERLOSS_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("cluster", cluster[:4], "node", id)
}

func (n *node) setRegistered(group uint64, is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.registered[group] = is
	n.changed.Broadcast()
}

// awaitRegistered waits until the node may speak in the groups.
func (n *node) awaitRegistered(ids ...uint64) error {
	stop := time.AfterFunc(patience, func() { n.changed.Broadcast() })
	defer stop.Stop()
	end := time.Now().Add(patience)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		for !n.registered[id] {
			if time.Now().After(end) {
				return fmt.Errorf("node %d is not registered in group %d after %v: %+v", n.id, id, patience, n.raft.Group(id).Status())
			}
			n.changed.Wait()
		}
	}
	return nil
}

// makeVhosts has the cluster's vhosts made, whoever leads, and waits until this node has them.
func (n *node) makeVhosts(all map[uint64]*node) error {
	for name, group := range vhosts {
		cmd := entry.Append(nil, &entry.VhostCreate{ID: name, Name: name})
		if err := waitFor("vhost "+name, func() bool {
			if n.hasVhost(name) {
				return true
			}
			for _, other := range all {
				_ = other.raft.Group(group).Control(cmd) // repeating it does nothing
			}
			return false
		}); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) hasVhost(name string) (has bool) {
	n.states[vhosts[name]].View(func(m *core.Machine) {
		for _, v := range m.Vhosts() {
			has = has || v.Name == name
		}
	})
	return has
}

// crash ends the node's goroutines with no more ado than a power cut makes: its disk is to have been cloned before, and
// whatever it still writes is lost. Its clients lose their sessions.
func (n *node) crash() {
	n.crashed.Do(func() {
		if <-n.up; n.raft == nil {
			return // boot has failed, and has tidied up
		}
		now, cancel := context.WithCancel(context.Background())
		cancel()
		for _, id := range groups {
			n.broker.Unregistered(id, "the process has ended")
		}
		if n.ended == nil || !n.ended() {
			_ = n.raft.Stop(now)
			_ = n.db.Close()
			return
		}
		// Whatever waits for the disk (a snapshot that is received, a membership that is written) waits for ever, and so would a stop for it.
		go func() { _ = n.raft.Stop(now) }()
		n.awaitSilence()
	})
}

// awaitSilence waits until a node that is being stopped has no connections any more.
func (n *node) awaitSilence() {
	if n.listen == "" {
		return
	}
	_ = waitFor("its port is closed", func() bool {
		conn, err := net.Dial("tcp", n.listen)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

// waitFor polls for what happens in its own time.
func waitFor(what string, ok func() bool) error {
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", patience, what)
		}
	}
	return nil
}

// eventually is waitFor in a test.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if err := waitFor(what, ok); err != nil {
		t.Fatal(err)
	}
}
