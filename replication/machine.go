package replication

import (
	"context"
	"io"
)

// Machine is what replication needs of a group's state machine, in builtin types; core/store's Group satisfies it.
//
// Boot: Applied, then Apply from Applied()+1 on. A snapshot is at the newest checkpoint.
type Machine interface {
	// Apply applies a committed entry. Errors stop the group (an unknown version, damage).
	Apply(index, term uint64, data []byte) error
	// ApplyConf records a membership change and its index. The checkpoint that carries it is on disk when it returns.
	ApplyConf(index, term uint64, conf []byte) error
	// Round ends a run of Apply calls: effects gathered are handed on.
	Round()
	// Applied is the last entry applied. Safe from any goroutine.
	Applied() (index, term uint64)
	// Durable is the newest checkpoint on disk: a restart replays the log after it. Safe from any goroutine.
	Durable() (index, term uint64)
	// Conf is the membership as last recorded by ApplyConf, Bootstrap or Install (opaque to the machine), nil if none.
	Conf() []byte
	// Checkpoint begins to write what has changed since the last one; done is called, from any goroutine, once it is on
	// disk. At most one runs at a time; a call during one returns false.
	Checkpoint(done func(error)) bool

	// Incarnation is a node's registration in the state: its newest incarnation, the nonce it was made for, and the
	// sequence number of its last batch. The nonce is 0 when the node is marked down (NodeDown) or was never up. What was marked down comes
	// back with another nonce only: NodeUp is repeated, and may be applied after NodeDown.
	Incarnation(node uint64) (incarnation, nonce, seq uint64)
	// Stamp is the newest stamp applied (Unix ms); NextDeadline the stamp at which something is due, 0 if nothing is.
	Stamp() int64
	NextDeadline() int64
	// Fingerprint is a hash of the state.
	Fingerprint() uint64

	// Standing is the group's part in the standby link: whether it is a standby, the index in its source's log up to which
	// it has replayed, and the own index at which it was promoted (0: it never was).
	Standing() (standby bool, position, since uint64)
	// RollingHash is the wrapping sum of Codec.Hash over the log up to the last entry applied, and that entry's index. Safe
	// from any goroutine.
	RollingHash() (index, hash uint64)

	// Live counts live references to log content in entries from <= index < to, and the bytes that they refer to.
	Live(from, to uint64) (references int, bytes int64)
	// Evacuate copies the live content of entries from <= index < to out of the log. done is called, from any
	// goroutine, when the copies are on disk; from then on the machine reads none of it from the log.
	Evacuate(from, to uint64, done func(error))

	// Snapshot cuts a consistent snapshot at (index, term), with the content that it refers to. It must be closed.
	Snapshot() (Snapshot, error)
	// Stage reads a snapshot's bytes from r and keeps them aside, on disk; nothing changes yet. Errors: a snapshot that is
	// truncated or damaged, by its checksum. Safe from any goroutine; one at a time.
	Stage(ctx context.Context, r io.Reader) (index, term uint64, conf []byte, err error)
	// Install makes the staged snapshot at index the state, on disk when it returns. Idempotent: at boot it is called
	// again if the log says that a snapshot was decided beyond Applied.
	Install(index, term uint64) error
}

// Snapshot is a consistent cut of a machine. It is an alias, so that core/store can return it without importing this
// package.
type Snapshot = interface {
	Index() uint64
	Term() uint64
	Conf() []byte
	// WriteTo streams it, ending with a checksum.
	io.WriterTo
	io.Closer
}

// Codec is how entries are framed; core/entry provides it (cmd wires it), so that replication needs no import of ours.
type Codec struct {
	// AppendHeader begins an entry stamped stamp (Unix ms); AppendBatch adds a node's batch. Incarnation 0 is control.
	AppendHeader func(dst []byte, stamp int64) []byte
	AppendBatch  func(dst []byte, node, incarnation, seq uint64, commands []byte) []byte
	// The control commands, encoded.
	NodeUp   func(node, nonce uint64) []byte
	NodeDown func(node, incarnation uint64) []byte
	LeaderUp func(node, term uint64) []byte
	Tick     func() []byte
	// Hash is what an entry counts in the rolling hash of a log; data is nil for raft's own entries.
	Hash func(index, term uint64, data []byte) uint64
}

// Observer is told of a node's changes of fortune, per group. Functions may be nil; none may block.
type Observer struct {
	// Registered: the node has incarnation n in the group; Submit works.
	Registered func(group, incarnation uint64)
	// Unregistered: it lost its registration (its own NodeDown, a NodeUp of its id with another nonce, a snapshot was
	// installed, no leader for too long): close the group's clients with reason. Registered follows when it is back.
	Unregistered func(group uint64, reason string)
	// Leader: the group's leader as this node knows it, 0 for none.
	Leader func(group, leader, term uint64)
	// Covered: the standby called name has the group's entries up to index for good, says this node or a peer.
	Covered func(name string, group, index uint64)
	// Synced: an fsync of the log took seconds.
	Synced func(seconds float64)
}
