package amqp

import (
	"errors"

	"github.com/understudy-mq/understudy/session/auth"
)

// NameOf is what the endpoints want to know of a login (v091.Options.Authenticate and Certified): the user's name. An
// *auth.Refusal's reason becomes the error, which is for the log and not for the client.
func NameOf(identity *auth.Identity, err error) (string, error) {
	var r *auth.Refusal
	switch {
	case errors.As(err, &r):
		return "", errors.New(r.Reason)
	case err != nil:
		return "", err
	}
	return identity.User, nil
}
