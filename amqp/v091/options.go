package v091

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"log/slog"
	"net"
	"time"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
)

// Session is what the endpoint needs of an attached session; *session.Session is one.
type Session interface {
	Do(entry.Addressed)
	Publish(channel uint16, mandatory, fragmented bool, rec *message.Record)
	Fragment(channel uint16, piece []byte)
	Settle(channel uint16, outcome entry.Outcome, multiple bool, first, last uint64)
	Flush() error
	FlushLater() error
	Written(channel uint16, tag uint64) error
	Content(*session.Event) (record []byte, parts [][]byte, err error)
	// Impersonates says whether the user may publish in another's name.
	Impersonates() bool
	Grant() session.Grant
	Answered()
	End()
	Detach()
}

var _ Session = (*session.Session)(nil)

// Options configure the endpoint. Zero values stand for the defaults named.
type Options struct {
	// Attach attaches a connection to a session. Refusals are *session.Error.
	Attach func(context.Context, session.Attach, session.Endpoint) (Session, error)
	// Authenticate checks a login from peer and answers the user's name. An error that is a *session.Error says that nobody
	// can be judged now; the client is told that when it opens a vhost, since a close before would look like a wrong password.
	Authenticate func(user, password string, peer net.Addr) (name string, err error)
	// Certified logs a client in by its certificate, which was found good; errors are as Authenticate's. Without it EXTERNAL
	// is not offered.
	Certified func(cert *x509.Certificate, peer net.Addr) (name string, err error)

	// Occupied answers nil where a queue may be declared at once. Else the queue is another connection's, and it answers what
	// comes back once the queue is free, or that connection known to be there, or ctx has ended. May be nil.
	Occupied func(vhost, queue string) (wait func(ctx context.Context))

	// Flow says when publishers have to wait; nil is never.
	Flow *session.Flow

	MaxMessageBytes  uint64        // 16 MiB
	AssemblyBytes    uint64        // received bytes of unfinished messages per connection; 4 x MaxMessageBytes
	ChannelMax       uint16        // 2047
	FrameMax         uint32        // 131072
	Heartbeat        time.Duration // proposed to clients, in whole seconds; 60 s
	HandshakeTimeout time.Duration // from the protocol header to connection.open, without what it takes to judge the login; 10 s
	CloseTimeout     time.Duration // for the client's close-ok, and for a last write; 3 s
	LoginDelay       time.Duration // before a refused login is answered; 500 ms
	OccupiedWait     time.Duration // that a declaration waits for an occupied queue at most; 10 s

	Product     string // "Understudy"
	Version     string
	Platform    string
	ClusterName func() string
	// Announce sends a message of the broker's own to a queue, soon; may be nil. It must not block.
	Announce func(vhost, queue string, properties, body []byte)
	// Hosts are the addresses, host:port, at which the cluster serves clients; may be nil.
	Hosts  func() []string
	Logger *slog.Logger // discards

	random func() string // of generated names
}

// EnsureDefaults fills in what is zero.
func (o *Options) EnsureDefaults() {
	defaults(&o.MaxMessageBytes, 16<<20)
	defaults(&o.AssemblyBytes, 4*o.MaxMessageBytes)
	defaults(&o.ChannelMax, 2047)
	defaults(&o.FrameMax, 131072)
	defaults(&o.Heartbeat, time.Minute)
	defaults(&o.HandshakeTimeout, 10*time.Second)
	defaults(&o.CloseTimeout, 3*time.Second)
	defaults(&o.LoginDelay, 500*time.Millisecond)
	defaults(&o.OccupiedWait, 10*time.Second)
	defaults(&o.Product, "Understudy")
	defaults(&o.Platform, "Go")
	if o.Occupied == nil {
		o.Occupied = func(string, string) func(context.Context) { return nil }
	}
	if o.Flow == nil {
		o.Flow = &session.Flow{}
	}
	if o.ClusterName == nil {
		o.ClusterName = func() string { return "understudy" }
	}
	if o.Announce == nil {
		o.Announce = func(string, string, []byte, []byte) {}
	}
	if o.Hosts == nil {
		o.Hosts = func() []string { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.random == nil {
		o.random = randomName
	}
}

func defaults[T comparable](field *T, value T) {
	if zero := *new(T); *field == zero {
		*field = value
	}
}

// randomName is 128 random bits, as RabbitMQ's generated names have behind their prefix.
func randomName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
