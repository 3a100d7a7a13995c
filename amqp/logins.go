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
		identity, err := a.Authenticate(user, password, peer)
		var r *auth.Refusal
		switch {
		case errors.As(err, &r):
			return "", errors.New(r.Reason)
		case err != nil:
			return "", err
		}
		return identity.User, nil
	}
}
