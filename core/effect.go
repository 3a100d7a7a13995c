package core

import (
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// EffectKind tells what the outside must do.
type EffectKind uint8

// The kinds of effect. Those that name a session are for the node where it is attached.
const (
	EffectNone EffectKind = iota
	// EffectReply: the command Command has been carried out. Name is a declared queue's name or a consumer's tag;
	// Messages and Consumers are counts where the command's reply has them. Not emitted for commands with NoWait. The
	// reply of an End is the last effect of its attachment; a Detach has none. Count is 1 for a VhostPut that made a vhost.
	EffectReply
	// EffectRefused: the command Command was refused with Code and Text (a channel error, or with Code.Hard() a connection
	// error). The channel (or session) is failed: later commands on it are dead until it is closed. Command is KindNone where
	// no command was at fault: a delivery was not settled in time.
	EffectRefused
	// EffectAttached: session Session now belongs to the connection that made attempt Request on node Node, under Epoch.
	// State says how it came to that; Messages is how many deliveries it has in flight, Count how many of those that it
	// had were taken from it (as failed once too often), Name its address (entry.Attach). Where the session was attached
	// elsewhere, an EffectDetached under the old epoch comes before.
	EffectAttached
	// EffectDetached: the attachment Epoch of the session is over. Text is the reason, for the client. Command is KindAttach
	// where another connection took the session over: the node closes the connection with CodeConnectionForced at once, and
	// says Answered if that was still alive. It is KindNone where the node or the session is gone.
	EffectDetached
	// EffectStatus: the answer of a SessionStatus: Status.
	EffectStatus
	// EffectConfirmed: the next Count publishes of a confirming channel, in order, are confirmed.
	EffectConfirmed
	// EffectNacked: the next Count publishes of a confirming channel are refused.
	EffectNacked
	// EffectReturned: a mandatory publish found no queue; Record is the message. Comes before its confirm.
	EffectReturned
	// EffectDelivered: a delivery Tag to consumer Name of the channel.
	EffectDelivered
	// EffectGot: the answer of a Get: delivery Tag, Messages left in the queue.
	EffectGot
	// EffectGetEmpty: the other answer of a Get.
	EffectGetEmpty
	// EffectConsumerCancelled: the machine ended consumer Name (its queue was deleted).
	EffectConsumerCancelled
	// EffectNode: node Node has a new incarnation Incarnation for nonce Request, or with Incarnation 0 is down.
	EffectNode
	// EffectLink: the group's part in the standby link has changed by a command Command, as Machine.Link tells: it was
	// fenced (its clients are to be closed with Text), promoted, and so on. For every node.
	EffectLink
)

// Effect is one thing that the outside must do because of an entry. One flat type for all kinds: they are made once per
// message, in order, in one slice.
type Effect struct {
	Kind        EffectKind
	Command     entry.Kind
	Code        Code
	Redelivered bool
	NoAck       bool // the delivery needs no settlement by the client; it needs a Written
	Windowed    bool // the consumer has no prefetch: its window renews with Written
	Channel     uint16
	Count       uint32
	Messages    uint32
	Consumers   uint32
	State       SessionState
	Outcome     entry.Outcome // EffectRefused of a Settle: what the client had said
	Session     uint64
	Epoch       uint64
	Node        uint64
	Tag         uint64 // delivery tag
	Request     uint64
	Incarnation uint64
	Name        string
	Text        string
	Status      *SessionStatus
	Content
}

// Content says where a message's content is.
type Content struct {
	Number uint64         // vhost-wide message number
	Loc    message.Loc    // of the record
	Size   uint32         // of the record, in bytes
	Record []byte         // the record itself where the entry at hand carries it, else nil: read it by Loc
	Parts  []message.Part // of a fragmented body, ahead of the record's own body; nil for all others
	Extra  *Extra         // what the broker adds (Render); nil for nothing
}

// Effects gathers the effects of a run of entries.
type Effects struct {
	// Node limits what is gathered to sessions attached at that node; 0 gathers all (tests).
	Node uint64
	List []Effect
	// Linked says that an EffectLink is among them: they are rare, and nobody should have to look for them.
	Linked bool
}

// Code classes a refusal. Each protocol has one table from Code to its own reply code or condition.
type Code uint8

// The codes, named after AMQP 0-9-1's where it has one.
const (
	CodeOK Code = iota
	CodeContentTooLarge
	CodeNoRoute
	CodeAccessRefused
	CodeNotFound
	CodeResourceLocked
	CodePreconditionFailed
	// From here on hard: the connection is closed.
	CodeConnectionForced
	CodeInvalidPath
	CodeFrameError
	CodeSyntaxError
	CodeCommandInvalid
	CodeChannelError
	CodeUnexpectedFrame
	CodeResourceError
	CodeNotAllowed
	CodeNotImplemented
	CodeInternalError
)

// Hard says whether a refusal with this code ends the connection rather than the channel.
func (c Code) Hard() bool { return c >= CodeConnectionForced }
