package session

import (
	"sync"
	"sync/atomic"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session/auth"
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
	// to be told code and text and closed. At most once; no Events come after it. It must not block.
	Closed(*Error)
	// Ending says that the client is told to go, or has gone, whatever the session knows of it. Safe from any goroutine.
	Ending() bool
}

// Error is a refusal that crosses to a protocol, which has one table from Code to its own codes.
type Error struct {
	Code core.Code
	Text string
	// Named says that it is about a named session that the client asked for.
	Named bool
}

func (e *Error) Error() string { return e.Text }

// flushBytes is how much a session encodes before it hands it on by itself, in the middle of a read burst.
const flushBytes = 128 << 10

// Session is an attachment to a session of the machine. The command methods encode; Flush hands on.
type Session struct {
	id, epoch uint64
	user      string
	vhost     string
	home      Home
	homeOf    func(vhost string) (Home, bool)
	group     *group
	endpoint  Endpoint
	access    *auth.Access // nil: all is allowed
	reading   reading
	holding   holding
	denied    func(user, vhost, text string)
	lastTold  string // what denied was told last
	cut       bool   // its endpoint was closed, and the machine does not know yet; guarded by group.mu

	grant     Grant
	dedup     *recogniser // nil for an anonymous session, and for one that asked for none
	takenOver atomic.Bool // another connection has the session now

	buf []byte // commands encoded since the last Flush
	n   int    // how many
	err error  // why an earlier hand-over failed

	pending []Event // of the dispatch that is going on

	written struct { // Written comes from the connection's writer
		sync.Mutex
		buf []byte
	}
}

// ID and Epoch name the attachment in the machine.
func (s *Session) ID() uint64 { return s.id }

// Epoch is the attachment's.
func (s *Session) Epoch() uint64 { return s.epoch }

// User is the authenticated user; Vhost the virtual host.
func (s *Session) User() string { return s.user }

// Vhost is the session's virtual host.
func (s *Session) Vhost() string { return s.vhost }

// Do encodes a command of this session; the caller has set its Channel.
func (s *Session) Do(cmd entry.Addressed) {
	if s.access != nil {
		if text := s.judgeChannel(cmd); text != "" {
			s.refuse(channelOf(cmd), cmd.Kind(), core.CodeNotAllowed, text)
			return
		}
		if text := s.judge(cmd); text != "" {
			s.refuse(channelOf(cmd), cmd.Kind(), core.CodeAccessRefused, text)
			return
		}
	}
	cmd.Address(s.id, s.epoch)
	s.buf = entry.Append(s.buf, cmd)
	s.encoded()
}

// Publish encodes a publish. rec is copied. With fragmented its body begins with the channel's Fragments and rec.Body is
// the rest.
func (s *Session) Publish(channel uint16, mandatory, fragmented bool, rec *message.Record) {
	if s.access != nil {
		if text := s.judgePublish(rec); text != "" {
			s.refuse(channel, entry.KindPublish, core.CodeAccessRefused, text)
			return
		}
	}
	x := entry.Publish{Ref: s.ref(channel), Mandatory: mandatory, Fragmented: fragmented}
	if s.dedup != nil {
		if wrong := s.dedup.recognise(rec); wrong != "" {
			s.refuse(channel, entry.KindPublish, core.CodePreconditionFailed, wrong)
			return
		}
		x.DedupID, x.Publisher, x.Sequence = s.dedup.id, s.dedup.publisher, s.dedup.sequence
	}
	s.buf = entry.AppendPublishHead(s.buf, &x, message.RecordBytes(rec))
	s.buf = message.AppendRecord(s.buf, rec)
	s.buf = append(s.buf, rec.Body...)
	s.encoded()
}

// refuse encodes a refusal in a command's place.
func (s *Session) refuse(channel uint16, kind entry.Kind, code core.Code, text string) {
	if code != core.CodePreconditionFailed && text != s.lastTold {
		s.lastTold = text
		s.denied(s.user, s.vhost, text)
	}
	s.buf = entry.Append(s.buf, &entry.Refuse{Ref: s.ref(channel), Command: kind, Code: uint8(code), Text: text})
	s.encoded()
}

// Fragment encodes a piece (at most 512 KiB) of a big body, ahead of its Publish.
func (s *Session) Fragment(channel uint16, piece []byte) {
	s.buf = entry.Append(s.buf, &entry.Fragment{Ref: s.ref(channel), Piece: piece})
	s.encoded()
}

// Settle encodes the fate of deliveries: first to last each, or with multiple all unsettled up to last (0: all).
func (s *Session) Settle(channel uint16, outcome entry.Outcome, multiple bool, first, last uint64) {
	x := entry.Settle{Ref: s.ref(channel), Outcome: outcome, Multiple: multiple, First: first, Last: last}
	s.buf = entry.AppendSettle(s.buf, &x)
	s.encoded()
}

func (s *Session) ref(channel uint16) entry.Ref {
	return entry.Ref{Session: s.id, Epoch: s.epoch, Channel: channel}
}

func (s *Session) encoded() {
	s.n++
	if len(s.buf) >= flushBytes {
		s.err = s.Flush()
	}
}

// Flush hands on what was encoded. It blocks while the group has too much under way: back-pressure on this connection.
// An error means that the node may not speak for the group now; Endpoint.Closed says why.
func (s *Session) Flush() error { return s.handOn(s.group.submitter.Submit) }

// FlushLater is Flush for commands that nobody waits for, as are the acknowledgements of a client that has deliveries
// enough to go on with.
func (s *Session) FlushLater() error { return s.handOn(s.group.submitter.SubmitLater) }

func (s *Session) handOn(submit func([]byte, int) error) error {
	if s.err != nil || s.n == 0 {
		return s.err
	}
	s.err = submit(s.buf, s.n)
	s.n = 0
	if s.buf = s.buf[:0]; cap(s.buf) > 4*flushBytes {
		s.buf = nil // one big fragment must not make every connection big
	}
	if s.err != nil {
		s.group.takesNothing(s, s.err)
	}
	return s.err
}

// Written says that the channel's deliveries up to tag have reached the socket. Safe beside the command methods.
func (s *Session) Written(channel uint16, tag uint64) error {
	s.written.Lock()
	defer s.written.Unlock()
	s.written.buf = entry.Append(s.written.buf[:0], &entry.Written{Ref: s.ref(channel), Tag: tag})
	return s.group.submitter.Submit(s.written.buf, 1)
}

// Content reads a delivery's record, and the parts that precede the record's own body where it is fragmented. Safe from
// any goroutine.
func (s *Session) Content(e *Event) (record []byte, parts [][]byte, err error) {
	if record = e.Record; record == nil {
		if record, err = s.group.contents.Content(e.Loc, e.Size); err != nil {
			return nil, nil, err
		}
	}
	for _, p := range e.Parts {
		b, err := s.group.contents.Content(p.Loc, p.Size)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, b)
	}
	return record, parts, nil
}

// Grant is what the client got of what it asked for; the zero Grant is an anonymous session's.
func (s *Session) Grant() Grant { return s.grant }

// Answered says that the client has answered the close of its connection: it is alive. That counts where the session was
// taken from it, so that two processes that fight for one are told to stop.
func (s *Session) Answered() {
	if s.takenOver.CompareAndSwap(true, false) {
		// Not to be told is harmless: this node is not registered, so this was no fight.
		_ = s.group.submitter.Submit(entry.Append(nil, &entry.Answered{Ref: s.ref(0)}), 1)
	}
}

// End closes the session in good order; Detach says that its connection is lost. No events come afterwards.
func (s *Session) End() { s.leave(&entry.End{}) }

// Detach says that the session's connection is lost.
func (s *Session) Detach() { s.leave(&entry.Detach{}) }

func (s *Session) leave(cmd entry.Addressed) {
	registration, ok := s.group.forget(s)
	if !ok {
		return
	}
	defer s.release()
	s.Do(cmd)
	if s.Flush() != nil { // what was encoded is lost; that the session is over must not be
		go s.group.insist(registration, entry.Append(nil, cmd))
	}
}
