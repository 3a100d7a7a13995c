package session

import (
	"context"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// Event is what the machine tells a session's endpoint. (The machine's own effect: made once per message, not copied
// into another shape on the way.)
type Event = core.Effect

// Endpoint is a protocol's side of an attached session.
type Endpoint interface {
	// Events hands on what has happened, in order. The slice is the caller's again afterwards; the records it refers to
	// are immutable and may be kept. Called from the apply goroutine: it must not block.
	Events([]Event)
	// Closed says that the attachment is over for a reason of the broker's (taken over, no leader, drain): the client is
	// to be told code and text and closed. At most once; no Events come after it.
	Closed(*Error)
}

// Error is a refusal that crosses to a protocol, which has one table from Code to its own codes.
type Error struct {
	Code core.Code
	Text string
}

func (e *Error) Error() string { return e.Text }

// Attach asks for a session.
type Attach struct {
	Vhost      string
	User       string
	Key        string // "" is an anonymous session, which ends with its connection
	Connection string // display name: "peer -> local"
}

// Submitter takes encoded commands for one group; replication's Group is one.
type Submitter interface {
	Submit(commands []byte, n int) error
}

// The package's face, carried out in broker.go:
//
//	New(Options) *Broker
//	(*Broker) Attach(ctx context.Context, a Attach, e Endpoint) (*Session, error)    waits until it is applied
//	(*Broker) Dispatch(group uint64, fx *core.Effects)                               from the apply goroutine
//	(*Broker) Registered(group, incarnation uint64); Unregistered(group uint64, reason string)
//	(*Broker) Drain(reason string)
//
//	(*Session) Do(cmd entry.Command)                  encodes a command (its Ref is filled in by Do from channel)
//	(*Session) Publish(...), Settle(...)              the hot ones, without allocation
//	(*Session) Flush() error                          hands on what was encoded since the last Flush
//	(*Session) Written(channel uint16, tag uint64)
//	(*Session) Content(*Event) (record []byte, parts [][]byte, err error)
//	(*Session) End(), Detach()
type _ = struct {
	context.Context
	entry.Command
}
