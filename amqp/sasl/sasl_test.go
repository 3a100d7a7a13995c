package sasl

import (
	"errors"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/message"
)

func table(fields ...message.Field) string { return string(message.AppendTable(nil, fields)) }

func TestResponsesAreRead(t *testing.T) {
	for _, c := range []struct{ mechanism, response, user, password string }{
		{"PLAIN", "\x00guest\x00secret", "guest", "secret"},
		{"PLAIN", "guest\x00guest\x00secret", "guest", "secret"},
		{"PLAIN", "\x00\x00", "", ""},
		{"AMQPLAIN", table(message.Field{Key: "LOGIN", Value: "guest"}, message.Field{Key: "PASSWORD", Value: "secret"}), "guest", "secret"},
	} {
		got, err := Parse(c.mechanism, []byte(c.response), false)
		if err != nil || got != (Credentials{User: c.user, Password: c.password}) {
			t.Errorf("%s %q: %+v, %v", c.mechanism, c.response, got, err)
		}
	}
}

func TestMalformedResponsesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, mechanism, response string
		err                       error
	}{
		{"51 no NUL", "PLAIN", "guest", ErrResponse},
		{"51 one NUL", "PLAIN", "guest\x00guest", ErrResponse},
		{"51 three NULs", "PLAIN", "\x00guest\x00guest\x00", ErrResponse},
		{"51 a million NULs", "PLAIN", strings.Repeat("\x00", 1<<20), ErrResponse},
		{"51 another's identity", "PLAIN", "root\x00guest\x00guest", ErrResponse},
		{"52 no keys", "AMQPLAIN", "", ErrResponse},
		{"52 no password", "AMQPLAIN", table(message.Field{Key: "LOGIN", Value: "guest"}), ErrResponse},
		{"52 login that is no string", "AMQPLAIN", table(message.Field{Key: "LOGIN", Value: int32(1)}, message.Field{Key: "PASSWORD", Value: "x"}), ErrResponse},
		{"52 no table", "AMQPLAIN", "\x05LOGINS\xff\xff\xff\xff", ErrResponse},
		{"53 not offered", "EXTERNAL", "", ErrMechanism},
		{"53 names are exact", "plain", "\x00guest\x00guest", ErrMechanism},
	} {
		if _, err := Parse(c.mechanism, []byte(c.response), false); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
	}
}

func TestExternalIsForClientsWithACertificate(t *testing.T) {
	for _, response := range []string{"", "guest", "\x00*\x00*"} {
		if got, err := Parse("EXTERNAL", []byte(response), true); err != nil || got != (Credentials{External: true}) {
			t.Errorf("response %q: %+v, %v", response, got, err)
		}
	}
	if with, without := Mechanisms(true), Mechanisms(false); with != "PLAIN AMQPLAIN EXTERNAL" || without != "PLAIN AMQPLAIN" {
		t.Errorf("offered %q with a certificate, %q without", with, without)
	}
}

func TestErrorsDoNotQuoteTheResponse(t *testing.T) {
	_, err := Parse("PLAIN", []byte("x\x00guest\x00secret"), false)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("PLAIN", []byte("\x00guest\x00guest"))
	f.Add("AMQPLAIN", []byte(table(message.Field{Key: "LOGIN", Value: "guest"})))
	f.Add("EXTERNAL", []byte("guest"))
	f.Fuzz(func(t *testing.T, mechanism string, response []byte) {
		if c, err := Parse(mechanism, response, true); err != nil && c != (Credentials{}) {
			t.Errorf("credentials %+v with %v", c, err)
		}
	})
}
