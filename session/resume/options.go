package resume

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Options say where to connect and how the session is to be. URLs is all that is needed.
type Options struct {
	// URLs are the addresses to try, in turn: the cluster's nodes, and the standby's behind them. All have the same user and
	// vhost. What the broker tells of further nodes is tried after them.
	URLs []string
	// Session is the session's id, 1..128 printable bytes. It is a capability: choose what nobody can guess. Default: a random
	// one, so that the session ends with the process.
	Session string
	// Expiry is how long the broker keeps the session after a lost connection, in whole seconds; 60 s.
	Expiry time.Duration
	// Config is for amqp.DialConfig: SASL, TLS, heartbeat, properties. Recovery must be nil.
	Config amqp.Config
	// Setup declares what the application needs. It is called on a channel of its own whenever the session is new, which is at
	// the first start and when it was away for longer than its expiry; and after a promotion, for the standby may not have heard
	// of what was declared last. It may be called again when it was interrupted.
	Setup func(*amqp.Channel) error
	// Events hears of what happens to the connection; may be nil. It must return soon.
	Events func(Event)

	// Outbox is how many messages of one Publisher may be unconfirmed before Publish blocks; 1000.
	Outbox int
	// Replay is how far back confirmed and settled messages are remembered for a promotion; 10 s. Negative is not at all.
	Replay time.Duration
	// ReplayBytes bounds what each Publisher remembers for that, in bytes of bodies; 16 MiB.
	ReplayBytes int
	// DialTimeout bounds one attempt to connect; 5 s.
	DialTimeout time.Duration
}

// EventKind is what happened to a session's connection.
type EventKind uint8

// The kinds of Event.
const (
	Attached EventKind = iota // to a new session: the first, or the one before is lost
	Resumed                   // the session goes on
	Promoted                  // it goes on, on a cluster that was promoted
	Lost                      // the connection; it is being made again
	Failed                    // an attempt to connect
)

func (k EventKind) String() string {
	return [...]string{"attached", "resumed", "promoted", "lost", "failed"}[k]
}

// Event tells what happened. Address is host:port, Err why for Lost and Failed.
type Event struct {
	Kind    EventKind
	Address string
	Err     error
}

var (
	// ErrClosed says that the session was closed by Close.
	ErrClosed = errors.New("session is closed")
	// ErrTakenOver says that another process attached to the session: this one will not fight for it.
	ErrTakenOver = errors.New("session taken over by another process")
	// ErrNacked says that the broker refused a message (a full queue that rejects publishes).
	ErrNacked = errors.New("message refused by the broker")
	// ErrReturned says that a mandatory message had no queue to go to.
	ErrReturned = errors.New("message returned: it routes to no queue")
	// ErrNoSessions says that the server is none that keeps sessions.
	ErrNoSessions = errors.New("server does not offer session_resumption")
)

func (o *Options) ensureDefaults() error {
	if len(o.URLs) == 0 {
		return errors.New("resume: Options.URLs is empty: name at least one node")
	}
	for _, u := range o.URLs {
		if _, err := amqp.ParseURI(u); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
	}
	if o.Config.Recovery != nil {
		return errors.New("resume: Options.Config.Recovery must be nil: the session recovers by itself")
	}
	if o.Session == "" {
		o.Session = random()
	}
	defaults(&o.Expiry, time.Minute)
	defaults(&o.Outbox, 1000)
	defaults(&o.Replay, 10*time.Second)
	defaults(&o.ReplayBytes, 16<<20)
	defaults(&o.DialTimeout, 5*time.Second)
	if o.Events == nil {
		o.Events = func(Event) {}
	}
	return nil
}

func defaults[T comparable](field *T, value T) {
	if zero := *new(T); *field == zero {
		*field = value
	}
}

// properties are the client properties of every connection.
func (o *Options) properties(incarnation string) amqp.Table {
	p := amqp.NewConnectionProperties()
	maps.Copy(p, o.Config.Properties)
	p["x-session-id"] = o.Session
	p["x-session-incarnation"] = incarnation
	p["x-session-expiry"] = strconv.FormatInt(int64(o.Expiry/time.Second), 10)
	p["x-session-inflight"] = "redeliver"
	p["x-session-numbers"] = "true"
	return p
}

// random is 128 random bits as text.
func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
