package replication

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
)

const heartbeatTicks = 2

// ErrUnregistered is Submit's answer while the node may not speak in the group: its clients are to be closed.
var ErrUnregistered = errors.New("node is not registered in the group")

// ErrReadOnly is what Submit's error wraps while the disk is full: nothing is taken until there is room.
var ErrReadOnly = errors.New("node is read-only")

// Options configure a Node.
type Options struct {
	NodeID uint64
	Dir    string // the log's folder
	FS     vfs.FS
	Listen string            // peer address to listen on; "" for a cluster of one that has no peers
	Peers  map[uint64]string // first members, this node included; ignored once there is data
	Join   bool              // start without members, to be added to a running cluster

	// Groups are the ids of the groups, 0 (the system group) first, and their machines.
	Groups   []uint64
	Machines map[uint64]Machine
	Codec    Codec
	Observer Observer

	// Standby: while nothing was ever applied here but local facts, the groups are standbys that wait to be attached to
	// their source. Seeded: the machines hold a source's snapshot, and wait for the same; a log that is empty begins after
	// it. Neither counts once a machine was attached or promoted.
	Standby, Seeded bool
	// Known says whether a node has been part of this cluster's life before, beyond what registrations tell: a standby's nodes do not
	// register. May be nil; safe from any goroutine.
	Known func(node uint64) bool

	// ClusterID answers the cluster's UUID, "" while none is known (a cluster that is forming). Safe from any goroutine.
	ClusterID func() string

	// Image copies the machines' states, as of their newest checkpoints or newer, to a folder that is not there yet. For the time that
	// a standby follows, images of states that it has reached are kept in ImageDir, with what of the log belongs to them: should it be
	// promoted, this node can be wound back to where it was cut. nil: none are kept. Fenced says whether this cluster is behind a
	// fence for good: then they are kept although the standby asks no more; nil is for never.
	Image    func(dir string) error
	ImageDir string
	Fenced   func() bool

	PeerTLS *tls.Config // mutual TLS between peers; nil is plain

	// PeerAddr overrides the address of a peer where it answers one (tests put a proxy between); may be nil. Safe from
	// any goroutine.
	PeerAddr func(id uint64) string

	// Answer answers what other nodes Ask this one; nil leaves them without an answer. Called from goroutines of their own,
	// some at once; question is Answer's to keep.
	Answer func(peer uint64, question []byte) []byte

	TickInterval     time.Duration // 100 ms
	ElectionTicks    int           // 15
	SegmentBytes     int64         // 64 MiB
	LogBytesMax      int64         // over this, what little is live in the oldest segments is moved out of the log; 128 MiB
	FollowerLagBytes int64         // log kept for a slow follower before it gets a snapshot; after that as much as it was sent and eight times this; 256 MiB
	HoldSilence      time.Duration // a standby that is silent for longer is no longer waited for by the log; 1 h
	HoldDiskPercent  int           // nothing is held for a standby, and FollowerLagBytes for a follower, while the volume is as full; 80, and 100 for always
	CheckpointBytes  int64         // log bytes between checkpoints; 64 MiB
	ImageInterval    time.Duration // between images, unless much is written; 30 s

	Logger *slog.Logger
	// Fatal ends the process; it is called once for a failed fsync and the like.
	Fatal func(error)
	// Wall is the wall clock; time.Now if nil.
	Wall func() time.Time
}

// Status is a group as this node sees it.
type Status struct {
	Group       uint64            `json:"group"`
	Leader      uint64            `json:"leader"`
	Term        uint64            `json:"term"`
	Commit      uint64            `json:"commit"`
	Applied     uint64            `json:"applied"`
	Fingerprint uint64            `json:"fingerprint"`
	Role        string            `json:"role"` // leader, follower, candidate, learner
	Voters      []uint64          `json:"voters"`
	Learners    []uint64          `json:"learners"`
	Addresses   map[uint64]string `json:"addresses"`
	FirstIndex  uint64            `json:"first_index"`
	LastIndex   uint64            `json:"last_index"`
	Standby     bool              `json:"standby,omitempty"`  // the group originates nothing
	Position    uint64            `json:"position,omitempty"` // of a standby: the source's entry replayed last
	Error       string            `json:"error,omitempty"`    // why the group stopped
	// CommitLatency is how long the newest of this node's batches took until it was applied here; 0 where none was yet.
	CommitLatency time.Duration `json:"commit_latency"`
}

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ClusterID == nil {
		o.ClusterID = func() string { return "" }
	}
	if len(o.Peers) == 0 && !o.Join {
		o.Peers = map[uint64]string{o.NodeID: o.Listen}
	}
	o.TickInterval = cmp.Or(o.TickInterval, 100*time.Millisecond)
	o.ElectionTicks = cmp.Or(o.ElectionTicks, 15)
	o.SegmentBytes = cmp.Or(o.SegmentBytes, 64<<20)
	o.LogBytesMax = cmp.Or(o.LogBytesMax, 128<<20)
	o.FollowerLagBytes = cmp.Or(o.FollowerLagBytes, 256<<20)
	o.HoldSilence = cmp.Or(o.HoldSilence, time.Hour)
	o.HoldDiskPercent = cmp.Or(o.HoldDiskPercent, 80)
	o.CheckpointBytes = cmp.Or(o.CheckpointBytes, 64<<20)
	o.ImageInterval = cmp.Or(o.ImageInterval, 30*time.Second)
	if o.Fenced == nil {
		o.Fenced = func() bool { return false }
	}
}

// Validate lists every fault of o.
func (o *Options) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.NodeID == 0 || raft.IsLocalMsgTarget(o.NodeID) {
		fault("replication: node id %d is not allowed", o.NodeID)
	}
	if o.Dir == "" {
		fault("replication: no folder given")
	}
	if o.Fatal == nil {
		fault("replication: no Fatal function given")
	}
	if len(o.Groups) == 0 {
		fault("replication: no groups given")
	}
	for _, id := range o.Groups {
		if o.Machines[id] == nil {
			fault("replication: group %d has no machine", id)
		}
	}
	if _, ok := o.Peers[o.NodeID]; !ok && !o.Join {
		fault("replication: this node (%d) is not among the first members", o.NodeID)
	}
	if (o.Image == nil) != (o.ImageDir == "") {
		fault("replication: images need both a folder and what makes them")
	}
	if o.HoldSilence < 0 || o.HoldDiskPercent < 0 || o.HoldDiskPercent > 100 {
		fault("replication: a hold of %v up to %d %% of the volume makes no sense", o.HoldSilence, o.HoldDiskPercent)
	}
	if o.ElectionTicks <= heartbeatTicks {
		fault("replication: an election after %d ticks is not above the heartbeat's %d", o.ElectionTicks, heartbeatTicks)
	}
	if len(o.Peers) > 1 && o.Listen == "" {
		fault("replication: no peer address to listen on, but there are peers")
	}
	if c := o.Codec; c.AppendHeader == nil || c.AppendBatch == nil || c.NodeUp == nil || c.NodeDown == nil || c.LeaderUp == nil || c.Tick == nil || c.Hash == nil {
		fault("replication: the codec is not whole")
	}
	return errors.Join(faults...)
}
