package store

import (
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/message"
)

// machine is what the store needs of *core.Machine; its docstrings say what the methods do.
type machine interface {
	Apply(index uint64, data []byte, fx *core.Effects) error
	Stamp() int64
	NextDeadline() int64
	Incarnation(node uint64) (incarnation, nonce, seq uint64)
	Fingerprint() uint64
	Standing() (standby bool, position, since uint64)

	Changed() int
	Exact()
	Checkpoint(put func(key, value []byte), del func(key []byte))
	Load(key, value []byte) error
	Loaded() error

	Live(from, to uint64) (references int, bytes int64)
	Contents(from, to uint64, visit func(message.Loc, uint32))
	SetFloor(index uint64)
	TakeReferences(begun, ended func(message.Loc))
}

// machineKind makes machines and knows their rows.
type machineKind struct {
	make        func(group uint64) machine
	rowContents func(key, value []byte, visit func(message.Loc, uint32)) error
	localRow    func(key []byte) bool // what no snapshot for another cluster carries
}

var _ machine = (*core.Machine)(nil)

// coreMachine is the kind that serves; tests of crashes use a smaller one.
var coreMachine = machineKind{
	make:        func(group uint64) machine { return core.New(group) },
	rowContents: core.RowContents,
	localRow:    core.LocalRow,
}
