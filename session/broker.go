package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session/auth"
)

// Attach asks for a session.
type Attach struct {
	Vhost      string
	User       string
	Connection string        // display name: "peer -> local"
	Properties message.Table // the client's, which may name a session (Request)
	ClientID   string        // container-id of AMQP 1.0, "" for AMQP 0-9-1
	// Own says that the broker itself asks: nothing is judged, counted or limited.
	Own bool
}

// Grant is what a named session was granted.
type Grant struct {
	Named        bool
	State        core.SessionState
	Expiry       uint32 // seconds
	KeepInFlight bool
	KeepNumbers  bool
	Address      string // of this session alone, the same on every attachment: to make names of
	InFlight     int    // deliveries that it has
	Released     int    // deliveries that were taken from it as failed once too often
}

// Submitter takes encoded commands for one group, in order; replication's Group is one.
type Submitter interface {
	// Submit copies n commands. It blocks while too much is under way, and fails while the node is not registered.
	Submit(commands []byte, n int) error
	// SubmitLater is Submit for what nobody waits for: it may be held back for some milliseconds, in its place.
	SubmitLater(commands []byte, n int) error
}

// Contents reads message content of one group from this node's disk or cache; core/store's Group is one.
type Contents interface {
	Content(loc message.Loc, size uint32) ([]byte, error)
}

// Home says where a vhost is. A vhost that is deleted and made anew under the same name has another ID.
type Home struct {
	ID    string
	Group uint64
}

// Options configure a Broker.
type Options struct {
	Node      uint64
	Submit    map[uint64]Submitter // by data group
	Contents  map[uint64]Contents
	VhostHome func(vhost string) (Home, bool) // where a vhost is; safe from any goroutine
	// Access knows who may do what; nil allows everything to everybody (for tests of what lies beneath).
	Access *auth.Registry
	// IsTopic says whether an exchange is a topic exchange, or is not known here; nil is for always. Topic permissions
	// count for no others. Safe from any goroutine.
	IsTopic func(vhost, exchange string) bool
	// Denied hears of refusals, the first of a run of equal ones in a session; may be nil. Safe from any goroutine.
	Denied func(user, vhost, text string)
	// Elsewhere counts what a user holds on other nodes; nil is a node alone. Safe from any goroutine.
	Elsewhere func(user string) (connections, channels int)
	// Policy answers what policies say of a connection's session; nil is NoPolicy for all. Safe from any goroutine.
	Policy func(vhost, user, connectionName string) core.SessionPolicy
	// ExpiryMax caps what sessions ask for, in seconds; 0 is no cap. SessionsMax bounds the named sessions of a user in a
	// vhost; 0 is no bound.
	ExpiryMax, SessionsMax uint32
}

// Broker is a node's hub between the endpoints of its connections and the machines of its data groups.
type Broker struct {
	node   uint64
	home   func(string) (Home, bool)
	groups map[uint64]*group
	access *auth.Registry
	topics func(vhost, exchange string) bool
	denied func(user, vhost, text string)
	usage  *usage
	flow   Flow
	policy func(vhost, user, connectionName string) core.SessionPolicy
	bounds struct{ expiry, sessions uint32 }
	Stats  Stats
}

// Stats count since the node's start; what passes through the machines they count themselves (core.Counters).
type Stats struct{ Attached atomic.Uint64 }

type group struct {
	node      uint64
	submitter Submitter
	contents  Contents

	mu         sync.Mutex
	registered bool
	// registration counts them, so that what was for one is not sent under another.
	registration uint64
	reason       string // why it is not registered
	requests     uint64
	attaching    map[uint64]*attempt
	sessions     map[uint64]*Session

	touched []*Session // scratch of Dispatch
	spare   [][]Event  // slices for the sessions of the next round; an idle session keeps none
}

type attempt struct {
	session *Session
	answer  chan error // buffered: the dispatcher never waits
}

// New makes a Broker; its groups serve once Registered.
func New(o Options) *Broker {
	b := &Broker{node: o.Node, home: o.VhostHome, access: o.Access, topics: o.IsTopic, denied: o.Denied, usage: newUsage(o.Elsewhere), groups: map[uint64]*group{}}
	b.policy, b.bounds.expiry, b.bounds.sessions = o.Policy, o.ExpiryMax, o.SessionsMax
	if b.topics == nil {
		b.topics = func(string, string) bool { return true }
	}
	if b.denied == nil {
		b.denied = func(string, string, string) {}
	}
	if b.policy == nil {
		b.policy = func(string, string, string) core.SessionPolicy { return NoPolicy }
	}
	for id, s := range o.Submit {
		b.groups[id] = &group{
			node: o.Node, submitter: s, contents: o.Contents[id], reason: "node is starting",
			attaching: map[uint64]*attempt{}, sessions: map[uint64]*Session{},
		}
	}
	return b
}

// Attach attaches endpoint e to a session and answers once the machine has applied it. Refusals are *Error.
func (b *Broker) Attach(ctx context.Context, a Attach, e Endpoint) (*Session, error) {
	home, ok := b.home(a.Vhost)
	g := b.groups[home.Group]
	if !ok || g == nil {
		return nil, &Error{Code: core.CodeNotAllowed, Text: fmt.Sprintf("vhost %s not found", a.Vhost)}
	}
	s := &Session{group: g, endpoint: e, user: a.User, vhost: a.Vhost, home: home, homeOf: b.home, denied: b.denied}
	if !a.Own {
		if err := b.enter(s); err != nil {
			return nil, err
		}
	}
	cmd, err := b.ask(a, s)
	if err == nil {
		err = g.attach(ctx, cmd, s)
	}
	if err == nil {
		if why := s.outlawed(); why != nil { // meanwhile, when Reauthorize may not have seen it yet
			s.Detach()
			err = why
		}
	}
	if err != nil {
		s.release()
		return nil, about(err, cmd.Key != "")
	}
	b.Stats.Attached.Add(1)
	return s, nil
}

// about says of a refusal whether the client had asked for a named session.
func about(err error, named bool) error {
	var e *Error
	if !named || !errors.As(err, &e) {
		return err
	}
	x := *e
	x.Named = true
	return &x
}

// ask makes of what the client says the command that attaches.
func (b *Broker) ask(a Attach, s *Session) (entry.Attach, error) {
	cmd := entry.Attach{Vhost: a.Vhost, VhostID: s.home.ID, User: a.User, Connection: a.Connection}
	r, err := ParseRequest(a.Properties, a.ClientID, b.policy(a.Vhost, a.User, ConnectionName(a.Properties)))
	if err != nil {
		return cmd, &Error{Code: core.CodeNotAllowed, Text: err.Error(), Named: true}
	}
	if r.Key == "" {
		return cmd, nil
	}
	if b.bounds.expiry > 0 {
		r.Expiry = min(r.Expiry, b.bounds.expiry)
	}
	s.dedup = newRecogniser(&r)
	s.grant = Grant{Named: true, Expiry: r.Expiry, KeepInFlight: r.KeepInFlight, KeepNumbers: r.KeepNumbers}
	cmd.Key, cmd.Process, cmd.Expiry, cmd.Expect = r.Key, r.Incarnation, r.Expiry, entry.Expect(r.Expect)
	cmd.KeepInFlight, cmd.KeepOnClose, cmd.SessionsMax = r.KeepInFlight, r.KeepOnClose, b.bounds.sessions
	cmd.Address = rand.Text()
	return cmd, nil
}

// enter judges whether the session's user may come in.
func (b *Broker) enter(s *Session) error {
	if b.access == nil {
		return nil
	}
	var refusal *Error
	var ok bool
	if s.access, ok = b.access.Enter(s.user, s.vhost, func(exchange string) bool { return b.topics(s.vhost, exchange) }); !ok {
		refusal = &Error{Code: core.CodeNotAllowed, Text: noEntry(s.user, s.vhost)}
	} else if refusal = s.hold(b.usage); refusal == nil {
		return nil
	}
	b.denied(s.user, s.vhost, refusal.Text)
	return refusal
}

// attach proposes the attachment and waits until it is applied.
func (g *group) attach(ctx context.Context, cmd entry.Attach, s *Session) error {
	request, try, err := g.attempt(s)
	if err != nil {
		return err
	}
	cmd.Request = request
	if err := g.submitter.Submit(entry.Append(nil, &cmd), 1); err != nil {
		g.abandon(request)
		return &Error{Code: core.CodeConnectionForced, Text: "node cannot reach the vhost's leader: " + err.Error()}
	}
	select {
	case err = <-try.answer:
	case <-ctx.Done():
		if !g.abandon(request) { // answered in this very moment
			if err = <-try.answer; err == nil {
				s.Detach()
			}
		}
		err = ctx.Err()
	}
	return err
}

func (g *group) attempt(s *Session) (uint64, *attempt, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.registered {
		return 0, nil, &Error{Code: core.CodeConnectionForced, Text: g.reason}
	}
	g.requests++
	try := &attempt{session: s, answer: make(chan error, 1)}
	g.attaching[g.requests] = try
	return g.requests, try, nil
}

// abandon gives up an attempt; false if it has been answered. An attach that is applied later is undone by attached.
func (g *group) abandon(request uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.attaching[request]
	delete(g.attaching, request)
	return ok
}

// forget takes a session out, and answers under which registration it was there; false if it had gone already.
func (g *group) forget(s *Session) (registration uint64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sessions[s.id] != s {
		return 0, false
	}
	delete(g.sessions, s.id)
	return g.registration, true
}

// Attached says whether a session of a group is attached to this node, by a connection that goes on.
func (b *Broker) Attached(id, session uint64) bool {
	g := b.groups[id]
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.sessions[session]
	return s != nil && !s.cut && !s.endpoint.Ending()
}

// takesNothing tells the client of a session that its commands came to nothing, unless it was told already.
func (g *group) takesNothing(s *Session, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sessions[s.id] != s || s.cut {
		return
	}
	s.cut = true
	s.endpoint.Closed(&Error{Code: core.CodeConnectionForced, Text: "node takes nothing for the vhost: " + why.Error()})
}

const insistEvery = 200 * time.Millisecond

// insist submits a command that the machine must hear of: again while the group takes nothing (a full disk), until the
// registration is lost, with which the machine ends the node's sessions by itself.
func (g *group) insist(registration uint64, command []byte) {
	for g.submitter.Submit(command, 1) != nil {
		time.Sleep(insistEvery)
		g.mu.Lock()
		lost := !g.registered || g.registration != registration
		g.mu.Unlock()
		if lost {
			return
		}
	}
}

// Registered says that the node may speak for the group.
func (b *Broker) Registered(id, _ uint64) {
	if g := b.groups[id]; g != nil {
		g.mu.Lock()
		g.registered = true
		g.registration++
		g.mu.Unlock()
	}
}

// Unregistered says that it may not any longer: the group's endpoints are closed with reason.
func (b *Broker) Unregistered(id uint64, reason string) {
	g := b.groups[id]
	if g == nil {
		return
	}
	refusal := &Error{Code: core.CodeConnectionForced, Text: reason}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.registered, g.reason = false, reason
	for _, s := range g.sessions {
		s.closed(refusal)
	}
	for _, try := range g.attaching {
		try.answer <- refusal
	}
	clear(g.sessions)
	clear(g.attaching)
}

// Dispatch hands the effects of an apply round to the endpoints. Called from the group's apply goroutine.
func (b *Broker) Dispatch(id uint64, fx *core.Effects) {
	g := b.groups[id]
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var s *Session // of the event before: events come in runs
	for i := range fx.List {
		e := &fx.List[i]
		switch e.Kind {
		case core.EffectAttached:
			g.attached(e)
			continue
		case core.EffectNode, core.EffectLink:
			continue
		}
		if e.Session == 0 {
			g.refused(e)
			continue
		}
		if s == nil || s.id != e.Session {
			if s = g.sessions[e.Session]; s == nil {
				continue
			}
		}
		if s.cut && e.Kind != core.EffectDetached {
			continue
		}
		if e.Kind == core.EffectDetached {
			g.detached(s, e)
			s = nil
			continue
		}
		if e.Kind == core.EffectConsumerCancelled {
			s.reading.remove(e.Channel, e.Name)
		}
		if len(s.pending) == 0 {
			g.touched = append(g.touched, s)
			s.pending = g.takeSpare()
		}
		s.pending = append(s.pending, *e)
	}
	for i, s := range g.touched {
		g.deliver(s)
		g.touched[i] = nil
	}
	g.touched = g.touched[:0]
}

// Bounds of what the group keeps for the next round: slices, and events in each.
const (
	spareMax       = 64
	spareEventsMax = 8192
)

func (g *group) takeSpare() []Event {
	if n := len(g.spare) - 1; n >= 0 {
		s := g.spare[n]
		g.spare = g.spare[:n]
		return s
	}
	return nil
}

func (g *group) deliver(s *Session) {
	if len(s.pending) == 0 {
		return
	}
	s.endpoint.Events(s.pending)
	clear(s.pending) // lets go of the records
	if len(g.spare) < spareMax && cap(s.pending) <= spareEventsMax {
		g.spare = append(g.spare, s.pending[:0])
	}
	s.pending = nil
}

// detached ends an attachment for a reason of the machine's.
func (g *group) detached(s *Session, e *Event) {
	g.deliver(s)
	if e.Command == entry.KindAttach {
		s.takenOver.Store(true)
	}
	s.closed(&Error{Code: core.CodeConnectionForced, Text: e.Text})
	delete(g.sessions, s.id)
}

func (g *group) attached(e *Event) {
	if e.Node != g.node {
		return
	}
	try := g.attaching[e.Request]
	if try == nil { // the client did not wait for it
		lost := entry.Detach{Ref: entry.Ref{Session: e.Session, Epoch: e.Epoch}}
		go g.insist(g.registration, entry.Append(nil, &lost))
		return
	}
	delete(g.attaching, e.Request)
	s := try.session
	s.id, s.epoch = e.Session, e.Epoch
	s.grant.State, s.grant.Address = e.State, e.Name
	s.grant.InFlight, s.grant.Released = int(e.Messages), int(e.Count)
	g.sessions[e.Session] = try.session
	try.answer <- nil
}

func (g *group) refused(e *Event) {
	if try := g.attaching[e.Request]; e.Kind == core.EffectRefused && e.Node == g.node && try != nil {
		delete(g.attaching, e.Request)
		try.answer <- &Error{Code: e.Code, Text: e.Text}
	}
}
