package replication

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrUnregistered is Submit's answer while the node may not speak in the group: its clients are to be closed.
var ErrUnregistered = errors.New("node is not registered in the group")

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

	// ClusterID answers the cluster's UUID, "" while none is known (a cluster that is forming). Safe from any goroutine.
	ClusterID func() string

	PeerTLS *tls.Config // mutual TLS between peers; nil is plain

	TickInterval     time.Duration // 100 ms
	ElectionTicks    int           // 15
	SegmentBytes     int64         // 64 MiB
	LogBytesMax      int64         // the log beyond the checkpoints is brought under this by evacuation; 256 MiB
	FollowerLagBytes int64         // log kept for a slow follower before it gets a snapshot; 256 MiB
	CheckpointBytes  int64         // log bytes between checkpoints; 64 MiB

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
	Error       string            `json:"error,omitempty"` // why the group stopped
}

// The rest of the package's face:
//
//	Start(Options) (*Node, error)
//	(*Node) Group(id uint64) *Group
//	(*Node) Stop(ctx) error                        moves leadership away first, then stops
//	(*Node) AddMember(ctx, id uint64, address string) error      as a learner, in every group
//	(*Node) PromoteMember(ctx, id uint64) error; RemoveMember(ctx, id uint64) error
//	(*Node) TransferLeader(ctx, group, id uint64) error
//	(*Node) ReadOnly() (bool, string)              a full disk: leadership is given up, nothing is written
//	(*Group) Submit(commands []byte, n int) error  blocks while too much is under way (back-pressure); copies commands
//	(*Group) Control(commands []byte) error        proposes idempotent commands once, if this node leads; no promise
//	(*Group) Status() Status
//	(*Group) ReadEntry(index uint64, offset, size int) ([]byte, error)   a piece of an entry's data, from the tail cache
//	                                               or the log's file, CRC checked; safe from any goroutine
