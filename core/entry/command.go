package entry

import "fmt"

// Kind tells a command's type; it is the command's first octet. Kinds are never renumbered or reused.
type Kind uint8

// The kinds of command.
const (
	KindNone Kind = iota
	// Control: idempotent, also outside the batch sequence.
	KindNodeUp
	KindNodeDown
	KindLeaderUp
	KindTick
	KindClusterInit
	KindVhostCreate
	// Session.
	KindAttach
	KindDetach
	KindEnd
	// Channel.
	KindChannelOpen
	KindChannelClose
	KindConfirmSelect
	KindQos
	KindExchangeDeclare
	KindExchangeDelete
	KindExchangeBind
	KindExchangeUnbind
	KindQueueDeclare
	KindQueueDelete
	KindQueuePurge
	KindQueueBind
	KindQueueUnbind
	KindConsume
	KindCancel
	KindGet
	KindPublish
	KindFragment
	KindSettle
	KindRecover
	KindWritten
	KindTxSelect
	KindTxCommit
	KindTxRollback
	// Control again.
	KindVhostDelete
	KindVhostLimit
	KindPolicySet
	KindPolicyDelete
	kindEnd
)

// Command is one request to the machine.
type Command interface {
	Kind() Kind
	code(*coder)
}

// Ref says on whose behalf a command comes: a session of the group, the epoch of the attachment it was sent under, and
// an AMQP channel number (0: the session itself).
type Ref struct {
	Session uint64
	Epoch   uint64
	Channel uint16
}

// Address fills in whose command it is; the channel stays.
func (r *Ref) Address(session, epoch uint64) { r.Session, r.Epoch = session, epoch }

// Addressed is a command on behalf of a session.
type Addressed interface {
	Command
	Address(session, epoch uint64)
}

func (r *Ref) code(c *coder) { c.u64(&r.Session); c.u64(&r.Epoch); c.u16(&r.Channel) }

type (
	// NodeUp registers a node that has started. The machine assigns the next incarnation once per nonce, and detaches
	// what older incarnations held.
	NodeUp struct{ Node, Nonce uint64 }
	// NodeDown is the leader's word that a node was silent too long. It names the incarnation that it saw, so that a
	// late one does nothing to a newer.
	NodeDown struct{ Node, Incarnation uint64 }
	// LeaderUp is a new leader's first entry: timers of detached sessions start anew.
	LeaderUp struct{ Node, Term uint64 }
	// Tick says only that time has passed: what is due happens.
	Tick struct{}
	// ClusterInit gives the cluster its UUID; the first one counts. One that names the present UUID as Former replaces it:
	// a cluster that was made anew from one survivor must not take its former members for its own. A local fact of
	// group 0.
	ClusterInit struct{ ID, Former string }
	// VhostCreate makes a virtual host in this group, with the type of queues that do not name theirs ("" for classic).
	// Repeated for an ID that is there it changes name and queue type to what it says; it does nothing while another vhost
	// has the name.
	VhostCreate struct{ ID, Name, QueueType string }

	// ChannelOpen opens a channel of the session.
	ChannelOpen struct{ Ref }
	// ChannelClose closes one: deliveries return to their queues. Reply is false when it acknowledges the machine's own
	// refusal (the client's close-ok).
	ChannelClose struct {
		Ref
		Reply bool
	}
	// ConfirmSelect turns on publisher confirms.
	ConfirmSelect struct {
		Ref
		NoWait bool
	}
	// Qos sets how many unsettled deliveries: per new consumer, or with Global for the channel. 0 is no limit.
	Qos struct {
		Ref
		Prefetch uint32
		Global   bool
	}
	// ExchangeDeclare declares an exchange. Arguments is a field table (message.ParseTable).
	ExchangeDeclare struct {
		Ref
		Name, Type                                     string
		Passive, Durable, AutoDelete, Internal, NoWait bool
		Arguments                                      []byte
	}
	// ExchangeDelete deletes one.
	ExchangeDelete struct {
		Ref
		Name             string
		IfUnused, NoWait bool
	}
	// ExchangeBind binds exchange Destination to exchange Source.
	ExchangeBind struct{ Binding }
	// ExchangeUnbind undoes ExchangeBind.
	ExchangeUnbind struct{ Binding }
	// QueueDeclare declares a queue. For a server-named queue the node made the name: Generated.
	QueueDeclare struct {
		Ref
		Name                                                       string
		Passive, Durable, Exclusive, AutoDelete, NoWait, Generated bool
		Arguments                                                  []byte
	}
	// QueueDelete deletes one.
	QueueDelete struct {
		Ref
		Name                      string
		IfUnused, IfEmpty, NoWait bool
	}
	// QueuePurge drops the ready messages of one.
	QueuePurge struct {
		Ref
		Name   string
		NoWait bool
	}
	// QueueBind binds queue Destination to exchange Source.
	QueueBind struct{ Binding }
	// QueueUnbind undoes QueueBind.
	QueueUnbind struct{ Binding }
	// Binding is the body of the four binding commands.
	Binding struct {
		Ref
		Destination, Source, Key string
		NoWait                   bool
		Arguments                []byte
	}
	// Consume starts a consumer. Tag is never empty: the node makes one where the client sent none.
	Consume struct {
		Ref
		Queue, Tag                        string
		NoLocal, NoAck, Exclusive, NoWait bool
		Arguments                         []byte
	}
	// Cancel ends a consumer; its deliveries stay with the channel.
	Cancel struct {
		Ref
		Tag    string
		NoWait bool
	}
	// Get asks for one message.
	Get struct {
		Ref
		Queue string
		NoAck bool
	}
	// Publish routes one message. Record is the content (package message), kept as it is. With Fragmented the body
	// begins with what the channel's Fragment commands carried.
	//
	// A named session's publish may say how to recognise it if it is sent again: by DedupID, or by Publisher (at most
	// PublisherBytesMax) and Sequence (from 1). A repetition is confirmed and does nothing else. A Sequence that is too far
	// behind the publisher's highest to tell is nacked. What was nacked or routed nowhere may be sent again. An anonymous
	// session's are ignored. Whoever encodes the command takes the headers that it found them in out of Record: they were
	// for the broker, and no consumer must publish them again by accident.
	Publish struct {
		Ref
		Mandatory, Fragmented bool
		DedupID               []byte // its digest counts, any length will do
		Publisher             []byte
		Sequence              uint64
		Record                []byte
	}
	// Fragment carries a piece (at most 1 MiB) of a big message's body, ahead of its Publish.
	Fragment struct {
		Ref
		Piece []byte
	}
	// Settle gives the fate of deliveries. Without Multiple every tag from First to Last must be unsettled; with it,
	// all unsettled tags up to Last are meant (Last 0: all).
	//
	// In a named session a tag that is settled already is no error, only one above the channel's highest. With Multiple only
	// those tags are meant whose last sending was on the same attachment as Last's; the node replaces a client's 0 by the
	// highest tag that it has written to the socket on this attachment, and sends nothing where it has written none.
	Settle struct {
		Ref
		Outcome     Outcome
		Multiple    bool
		First, Last uint64
	}
	// Recover returns all unsettled deliveries of the channel to their queues. With Requeue false they are sent again on the
	// channel instead: only a session with KeepInFlight may ask for that.
	Recover struct {
		Ref
		Requeue, NoWait bool
	}
	// Written says that delivery Tag, and every one that the channel was sent before it on this attachment, has reached the
	// socket: windows of consumers without a prefetch renew, and no-ack deliveries are settled. After a resume old tags are
	// sent again, so that the last one sent need not be the highest.
	Written struct {
		Ref
		Tag uint64
	}
	// TxSelect makes the channel transactional: publishes are routed and settlements checked as they come, and take
	// effect together with TxCommit, or never after TxRollback.
	TxSelect struct{ Ref }
	// TxCommit carries out what the channel has gathered, in one step.
	TxCommit struct{ Ref }
	// TxRollback forgets it.
	TxRollback struct{ Ref }

	// VhostDelete ends the virtual host of that id: its sessions end at once, its queues go in pieces. One that is not
	// there is no error.
	VhostDelete struct{ ID string }
	// VhostLimit sets how many queues and connections a virtual host may have; -1 is no limit.
	VhostLimit struct {
		Vhost                  string
		MaxQueues, Connections int64
	}
	// PolicySet makes or replaces a policy, or with Operator an operator policy. Definition is a field table with
	// RabbitMQ's keys; ApplyTo is "all", "queues", "classic_queues", "quorum_queues", "exchanges" or another that
	// core.CheckPolicy knows. It tells what is wrong with a policy; the machine ignores those.
	PolicySet struct {
		Vhost, Name, Pattern, ApplyTo string
		Priority                      int64
		Operator                      bool
		Definition                    []byte
	}
	// PolicyDelete removes one. One that is not there is no error.
	PolicyDelete struct {
		Vhost, Name string
		Operator    bool
	}
)

// Outcome is what became of a delivery, in the words of AMQP 1.0.
type Outcome uint8

// The outcomes. 0-9-1: ack is accepted, reject and nack without requeue rejected, nack with requeue released, reject
// with requeue modified (a failed delivery).
const (
	Accepted Outcome = iota
	Rejected
	Released
	Modified
	// ByNack beside Rejected says that it was 0-9-1's nack and not its reject. The machine tells them apart only where it
	// refuses the command.
	ByNack Outcome = 1 << 7
)

// Fate is the outcome without what says how it was put.
func (o Outcome) Fate() Outcome { return o &^ ByNack }

func (o *Outcome) code(c *coder) { c.u8((*uint8)(o)) }

var makers = [kindEnd]func() Command{
	KindNodeUp:          func() Command { return new(NodeUp) },
	KindNodeDown:        func() Command { return new(NodeDown) },
	KindLeaderUp:        func() Command { return new(LeaderUp) },
	KindTick:            func() Command { return new(Tick) },
	KindClusterInit:     func() Command { return new(ClusterInit) },
	KindVhostCreate:     func() Command { return new(VhostCreate) },
	KindAttach:          func() Command { return new(Attach) },
	KindDetach:          func() Command { return new(Detach) },
	KindEnd:             func() Command { return new(End) },
	KindChannelOpen:     func() Command { return new(ChannelOpen) },
	KindChannelClose:    func() Command { return new(ChannelClose) },
	KindConfirmSelect:   func() Command { return new(ConfirmSelect) },
	KindQos:             func() Command { return new(Qos) },
	KindExchangeDeclare: func() Command { return new(ExchangeDeclare) },
	KindExchangeDelete:  func() Command { return new(ExchangeDelete) },
	KindExchangeBind:    func() Command { return new(ExchangeBind) },
	KindExchangeUnbind:  func() Command { return new(ExchangeUnbind) },
	KindQueueDeclare:    func() Command { return new(QueueDeclare) },
	KindQueueDelete:     func() Command { return new(QueueDelete) },
	KindQueuePurge:      func() Command { return new(QueuePurge) },
	KindQueueBind:       func() Command { return new(QueueBind) },
	KindQueueUnbind:     func() Command { return new(QueueUnbind) },
	KindConsume:         func() Command { return new(Consume) },
	KindCancel:          func() Command { return new(Cancel) },
	KindGet:             func() Command { return new(Get) },
	KindPublish:         func() Command { return new(Publish) },
	KindFragment:        func() Command { return new(Fragment) },
	KindSettle:          func() Command { return new(Settle) },
	KindRecover:         func() Command { return new(Recover) },
	KindWritten:         func() Command { return new(Written) },
	KindTxSelect:        func() Command { return new(TxSelect) },
	KindTxCommit:        func() Command { return new(TxCommit) },
	KindTxRollback:      func() Command { return new(TxRollback) },
	KindVhostDelete:     func() Command { return new(VhostDelete) },
	KindVhostLimit:      func() Command { return new(VhostLimit) },
	KindPolicySet:       func() Command { return new(PolicySet) },
	KindPolicyDelete:    func() Command { return new(PolicyDelete) },
}

// maker answers what makes commands of a kind, nil for a kind that is not known.
func maker(k Kind) func() Command {
	switch {
	case k < kindEnd:
		return makers[k]
	case KindUserPut <= k && k < kindAccessEnd:
		return accessMakers[k-KindUserPut]
	case KindVhostPut <= k && k < kindVhostsEnd:
		return vhostMakers[k-KindVhostPut]
	case KindLinkAttach <= k && k < kindLinkEnd:
		return linkMakers[k-KindLinkAttach]
	case KindAnswered <= k && k < kindSessionsEnd:
		return sessionMakers[k-KindAnswered]
	case KindNodeAlarm <= k && k < kindNodesEnd:
		return nodeMakers[k-KindNodeAlarm]
	case k == KindNodeAddress:
		return func() Command { return new(NodeAddress) }
	}
	return nil
}

// Append encodes a command behind dst.
func Append(dst []byte, cmd Command) []byte {
	c := coder{buf: append(dst, byte(cmd.Kind())), encoding: true}
	cmd.code(&c)
	return c.buf
}

// Next decodes the first command of b and answers what follows it. Byte fields are views into b. The machine reads the
// hot kinds (Publish, Settle, Written) with their own decoders instead, which allocate nothing.
func Next(b []byte) (cmd Command, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, fmt.Errorf("%w: empty command", ErrMalformed)
	}
	k := Kind(b[0])
	make := maker(k)
	if make == nil {
		return nil, nil, fmt.Errorf("%w: command kind %d", ErrUnknown, k)
	}
	cmd = make()
	rest, err = Decode(b, cmd)
	return cmd, rest, err
}

// Decode decodes the first command of b, whose kind the caller has seen to be cmd's, into cmd.
func Decode(b []byte, cmd Command) (rest []byte, err error) {
	if len(b) == 0 || Kind(b[0]) != cmd.Kind() {
		return nil, fmt.Errorf("%w: not a command of kind %d", ErrMalformed, cmd.Kind())
	}
	c := coder{buf: b[1:]}
	cmd.code(&c)
	return c.buf, c.err
}
