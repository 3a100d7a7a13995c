package auth

import (
	"fmt"
	"net"
	"net/netip"
	"time"
)

// nameBytesMax bounds user names, as AMQP's short strings do.
const nameBytesMax = 255

// Identity is a user who has logged in.
type Identity struct {
	User string
	Tags []string // RabbitMQ's: "administrator", "monitoring", ...
}

// User is what is known of a user.
type User struct {
	Name         string
	PasswordHash string
	Algorithm    string // of the hash; "" is AlgorithmSHA256
	Tags         []string
	LoopbackOnly bool
}

// Users is where users are kept.
type Users interface {
	// User answers the user of that name. It may be called from several goroutines.
	User(name string) (User, bool)
}

// Static is a set of users that does not change.
type Static map[string]User

var _ Users = Static(nil)

// User answers the user of that name.
func (s Static) User(name string) (User, bool) {
	u, ok := s[name]
	return u, ok
}

// DefaultUsers is the set that a node starts with: one administrator. The name guest is LoopbackOnly, since everybody
// knows its password.
func DefaultUsers(name, password string) Static {
	return Static{name: {
		Name:         name,
		PasswordHash: HashPassword(password),
		Tags:         []string{"administrator"},
		LoopbackOnly: name == "guest",
	}}
}

// Refusal is the error of a login that failed.
type Refusal struct {
	Reason string // for the log only; names the user
}

// Error says no more than a client may know.
func (r *Refusal) Error() string { return "login was refused" }

// Text is what the client is told, in RabbitMQ's words. mechanism is the SASL mechanism that it used.
func (r *Refusal) Text(mechanism string) string {
	return fmt.Sprintf("Login was refused using authentication mechanism %s. For details see the broker logfile.", mechanism)
}

func refuse(format string, args ...any) error { return &Refusal{Reason: fmt.Sprintf(format, args...)} }

// Options are what an Authenticator needs.
type Options struct {
	Users Users
	Now   func() time.Time // time.Now but for tests
	Limit Limit
	// Iterations is what a refusal costs where there is no slow hash to verify; that of HashSlowly if 0.
	Iterations int
}

// Authenticator judges logins.
type Authenticator struct {
	users    Users
	limiter  *limiter
	verifier *verifier
}

// New makes an Authenticator. Now and Limit have defaults.
func New(o Options) *Authenticator {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Iterations == 0 {
		o.Iterations = iterations
	}
	return &Authenticator{users: o.Users, limiter: newLimiter(o.Limit.withDefaults(), o.Now), verifier: newVerifier(o.Iterations)}
}

// Authenticate logs a user in by password. peer is the client's own address (from the PROXY header only where that is
// trusted). The error is a *Refusal.
func (a *Authenticator) Authenticate(user, password string, peer net.Addr) (*Identity, error) {
	if len(user) > nameBytesMax {
		return nil, refuse("user name of %d bytes, at most %d are allowed", len(user), nameBytesMax)
	}
	u, known := a.users.User(user)
	from := addressOf(peer)
	byUser := known && !(u.LoopbackOnly && !from.IsLoopback())
	if a.limiter.spent(from, user, byUser) {
		return nil, tooMany(user, from)
	}
	var begun attempt
	matches, ok := a.verifier.matches(u.PasswordHash, u.Algorithm, password, func() (ok bool) { // of nobody: nothing matches
		begun, ok = a.limiter.begin(from, user, byUser)
		return ok
	})
	switch {
	case !ok:
		return nil, tooMany(user, from)
	case password == "":
		return nil, refuse("user '%s' - blank password", user)
	case known && u.LoopbackOnly && !from.IsLoopback():
		return nil, refuse("user '%s' can only connect via localhost", user)
	case !known || !matches:
		return nil, refuse("user '%s' - invalid credentials", user)
	}
	begun.succeeded()
	return &Identity{User: u.Name, Tags: u.Tags}, nil
}

func tooMany(user string, from netip.Addr) error {
	return refuse("user '%s' - too many failed attempts of this user or from %s", user, from)
}

// Certified logs in the user that a certificate names, which was checked: no password is asked for. peer is as for
// Authenticate; the error is a *Refusal.
func (a *Authenticator) Certified(user string, peer net.Addr) (*Identity, error) {
	if len(user) > nameBytesMax {
		return nil, refuse("user name of %d bytes in a certificate, at most %d are allowed", len(user), nameBytesMax)
	}
	u, known := a.users.User(user)
	from := addressOf(peer)
	switch {
	case user == "":
		return nil, refuse("certificate from %s names no user", from)
	case !known:
		return nil, refuse("user '%s' of a certificate does not exist", user)
	case u.LoopbackOnly && !from.IsLoopback():
		return nil, refuse("user '%s' can only connect via localhost", user)
	}
	return &Identity{User: u.Name, Tags: u.Tags}, nil
}

// addressOf is the peer's IP address; the zero Addr, which is no loopback, where it has none.
func addressOf(peer net.Addr) netip.Addr {
	if peer == nil {
		return netip.Addr{}
	}
	if tcp, ok := peer.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	at, err := netip.ParseAddrPort(peer.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}
