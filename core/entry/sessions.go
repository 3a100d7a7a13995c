package entry

// The kinds of command about named sessions.
const (
	KindAnswered Kind = iota + 80
	KindSessionStatus
	KindSessionClose
	kindSessionsEnd
)

// Expect is what an Attach wants to find under its key.
type Expect uint8

// The expectations.
const (
	ExpectAny    Expect = iota // resume the session, or make it
	ExpectResume               // refuse if there is none
	ExpectNew                  // end the one that is there, if any, and make a new one
)

func (x *Expect) code(c *coder) { c.u8((*uint8)(x)) }

type (
	// Attach opens a session on the sending node, or resumes it. The answer is an EffectAttached, or an EffectRefused with
	// Request and no session: with core.CodeNotFound (ExpectResume, and there is none), CodeResourceLocked (contended: see
	// Answered), CodeConnectionForced (another process has attached since this one did) or CodeNotAllowed (a limit, no
	// such vhost, a key that is too long). The text is for the client.
	Attach struct {
		Request    uint64 // the node's own number for the attempt; it comes back in the effect
		Vhost      string
		User       string // authenticated
		Key        string // names the session among the user's in the vhost; "" for an anonymous one, which needs none of what follows
		Connection string // the connection's display name
		// Process is a random value per start of the client's process (x-session-incarnation), "" if the client gives none.
		// Once another process has attached, an earlier one is refused for ever; the empty one never is.
		Process string
		// Expiry is how long the session outlives its connection, in seconds, as granted: the node has capped it. 0 ends it
		// with the connection.
		Expiry uint32
		Expect Expect
		// KeepInFlight says that the client still has the deliveries of its lost connection and will settle them: they are
		// not sent again. It counts only while Process stays the same.
		KeepInFlight bool
		// KeepOnClose makes of an End a Detach.
		KeepOnClose bool
		// SessionsMax bounds the user's named sessions in the vhost, attached or not; 0 is no limit. It judges new ones only.
		SessionsMax uint32
		// Address is a random text that nobody can guess. The session keeps the first one, and every EffectAttached names
		// it: of it the node makes names that outlive the connection, such as that of a direct reply-to queue.
		Address string
		// VhostID is the vhost's id, so that nobody gets into a later vhost of the same name; "" for whichever has the name.
		VhostID string
	}
	// Detach says that the connection is lost, for whatever reason but an orderly close: an anonymous session ends with it,
	// a named one lives on until its expiry.
	Detach struct{ Ref }
	// End closes a session in good order. A named one with KeepOnClose is detached instead. Both are answered.
	End struct{ Ref }

	// Answered reports that the connection whose attachment Ref names was still alive when another took its session over
	// (EffectDetached with Command KindAttach): it answered the close, say. After three such takeovers in 30 s between
	// connections with the same Process the session is contended: it is detached, and refuses every Attach for 30 s.
	Answered struct{ Ref }
	// SessionStatus asks for an EffectStatus, in the channel's order: what basic.get and a passive queue.declare of
	// amq.session answer.
	SessionStatus struct{ Ref }
	// SessionClose ends a session by its id, attached or not: its deliveries return, its queues go, and its connection hears
	// Text. It is the operator's, and no error if there is none.
	SessionClose struct {
		Session uint64
		Text    string
	}
)

func (*Answered) Kind() Kind      { return KindAnswered }
func (*SessionStatus) Kind() Kind { return KindSessionStatus }
func (*SessionClose) Kind() Kind  { return KindSessionClose }

func (x *Attach) code(c *coder) {
	c.u64(&x.Request)
	c.str(&x.Vhost)
	c.str(&x.User)
	c.str(&x.Key)
	c.str(&x.Connection)
	c.str(&x.Process)
	c.u32(&x.Expiry)
	x.Expect.code(c)
	c.boolean(&x.KeepInFlight)
	c.boolean(&x.KeepOnClose)
	c.u32(&x.SessionsMax)
	c.str(&x.Address)
	c.str(&x.VhostID)
}
func (x *Answered) code(c *coder)      { x.Ref.code(c) }
func (x *SessionStatus) code(c *coder) { x.Ref.code(c) }
func (x *SessionClose) code(c *coder)  { c.u64(&x.Session); c.str(&x.Text) }

var sessionMakers = [kindSessionsEnd - KindAnswered]func() Command{
	func() Command { return new(Answered) },
	func() Command { return new(SessionStatus) },
	func() Command { return new(SessionClose) },
}
