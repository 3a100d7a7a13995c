package amqp

import (
	"errors"
	"net"

	"github.com/understudy-mq/understudy/session/auth"
)

// Logins lets the endpoints check logins with an authenticator; it is v091.Options.Authenticate. Its errors carry the
// reason, which is for the log and not for the client.
func Logins(a *auth.Authenticator) func(user, password string, peer net.Addr) (string, error) {
	return func(user, password string, peer net.Addr) (string, error) {
		return nameOf(a.Authenticate(user, password, peer))
	}
}

// CertifiedLogin is Logins for a client whose certificate has shown to be good and names user.
func CertifiedLogin(a *auth.Authenticator, user string, peer net.Addr) (string, error) {
	return nameOf(a.Certified(user, peer))
}

func nameOf(identity *auth.Identity, err error) (string, error) {
	var r *auth.Refusal
	switch {
	case errors.As(err, &r):
		return "", errors.New(r.Reason)
	case err != nil:
		return "", err
	}
	return identity.User, nil
}
