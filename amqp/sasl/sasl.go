package sasl

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/understudy-mq/understudy/core/message"
)

// The mechanisms, by the names that they have on the wire.
const (
	Plain    = "PLAIN"
	AMQPlain = "AMQPLAIN"
	External = "EXTERNAL"
)

// Mechanisms is what a server offers, in the form of connection.start: separated by spaces. EXTERNAL is for clients whose
// certificate says who they are.
func Mechanisms(certified bool) string {
	if certified {
		return Plain + " " + AMQPlain + " " + External
	}
	return Plain + " " + AMQPlain
}

// ErrMechanism says that a mechanism is not offered.
var ErrMechanism = errors.New("mechanism is not offered")

// ErrResponse says that a response is not in its mechanism's form.
var ErrResponse = errors.New("malformed SASL response")

// Credentials are what a client logs in with.
type Credentials struct {
	User, Password string
	External       bool // what the connection itself says, instead
}

// Parse reads the initial response of a mechanism; certified is as for Mechanisms. The response of EXTERNAL is of no
// interest: clients put all kinds of things there, and RabbitMQ does not look. Errors: ErrMechanism, ErrResponse.
func Parse(mechanism string, response []byte, certified bool) (Credentials, error) {
	switch mechanism {
	case External:
		if certified {
			return Credentials{External: true}, nil
		}
	case Plain:
		return plain(response)
	case AMQPlain:
		return amqplain(response)
	}
	return Credentials{}, fmt.Errorf("%w: %.32q", ErrMechanism, mechanism)
}

// plain reads authzid NUL authcid NUL password. To act for another user (authzid) is not offered.
func plain(b []byte) (Credentials, error) {
	parts := bytes.Split(b, []byte{0})
	if len(parts) != 3 {
		return Credentials{}, fmt.Errorf("%w: PLAIN with %d parts, wanted 3", ErrResponse, len(parts))
	}
	c := Credentials{User: string(parts[1]), Password: string(parts[2])}
	if z := string(parts[0]); z != "" && z != c.User {
		return Credentials{}, fmt.Errorf("%w: PLAIN with an authorization identity of its own", ErrResponse)
	}
	return c, nil
}

// amqplain reads a field table (without its length) with the strings LOGIN and PASSWORD.
func amqplain(b []byte) (Credentials, error) {
	table, err := message.ParseTable(b)
	if err != nil {
		return Credentials{}, fmt.Errorf("%w: AMQPLAIN: %w", ErrResponse, err)
	}
	var c Credentials
	var user, password bool
	for _, f := range table {
		s, isText := f.Value.(string)
		switch f.Key {
		case "LOGIN":
			c.User, user = s, isText
		case "PASSWORD":
			c.Password, password = s, isText
		}
	}
	if !user || !password {
		return Credentials{}, fmt.Errorf("%w: AMQPLAIN without the strings LOGIN and PASSWORD", ErrResponse)
	}
	return c, nil
}
