package node

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/audit"
	"github.com/understudy-mq/understudy/cmd/internal/certs"
	"github.com/understudy-mq/understudy/cmd/internal/certs/certstest"
)

// external logs in with the certificate in files, or with none if it is empty.
func external(t *testing.T, n *Node, server *certstest.Authority, files certs.Files) (*amqp.Connection, error) {
	t.Helper()
	secure := &tls.Config{RootCAs: server.Pool(), ServerName: "localhost"}
	if files.Cert != "" {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		secure.Certificates = []tls.Certificate{pair}
	}
	c, err := amqp.DialConfig("amqps://"+address(n, protocolAMQPS)+"/", amqp.Config{SASL: []amqp.Authentication{&amqp.ExternalAuth{}}, TLSClientConfig: secure})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// startExternal starts a node that takes the authority's clients by what from says.
func startExternal(t *testing.T, authority *certstest.Authority, from string) *Node {
	t.Helper()
	files, _ := authority.Issue("node")
	c := settings(t, 1)
	c.AMQPS, c.TLSCert, c.TLSKey, c.TLSCA, c.TLSLoginFrom = "127.0.0.1:0", files.Cert, files.Key, files.CA, from
	n := start(t, c)
	ready(t, n)
	return n
}

// allow makes a user without a password who may do everything.
func allow(t *testing.T, n *Node, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	noPassword := ""
	if err := n.accounts.PutUser(ctx, "test", name, api.NewUser{PasswordHash: &noPassword}); err != nil {
		t.Fatal(err)
	}
	if err := n.accounts.SetPermission(ctx, "test", api.Permission{User: name, Vhost: "/", Configure: ".*", Write: ".*", Read: ".*"}); err != nil {
		t.Fatal(err)
	}
}

func TestACertificateLogsItsUserIn(t *testing.T) {
	authority, stranger := certstest.New(t), certstest.New(t)
	n := startExternal(t, authority, certs.DistinguishedName)
	allow(t, n, "CN=alice")
	alice, _ := authority.Issue("alice")
	client, err := external(t, n, authority, alice)
	if err != nil {
		t.Fatal(err)
	}
	send(t, client, "q", "x")
	if got := n.Connections(t.Context()); len(got) != 1 || got[0].User != "CN=alice" {
		t.Errorf("connections %+v", got)
	}

	bob, _ := authority.Issue("bob")
	if _, err := external(t, n, authority, bob); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a user that is not there: %v, want 403", err)
	}
	if _, err := external(t, n, authority, certs.Files{}); err == nil || !strings.Contains(err.Error(), "SASL could not negotiate") {
		t.Errorf("EXTERNAL without a certificate: %v", err)
	}
	forged, _ := stranger.Issue("alice")
	if _, err := external(t, n, authority, forged); err == nil {
		t.Error("a certificate of another authority was taken")
	}
	n.audit.Keep(audit.Event{}) // and with it all before it
	log, err := os.ReadFile(filepath.Join(n.cfg.Data, audit.Name))
	if err != nil || !strings.Contains(string(log), `"user":"CN=alice"`) || !strings.Contains(string(log), "user 'CN=bob' of a certificate does not exist") {
		t.Errorf("audit log: %s, %v", log, err)
	}
}

func TestACommonNameLogsItsUserIn(t *testing.T) {
	authority := certstest.New(t)
	n := startExternal(t, authority, certs.CommonName)
	allow(t, n, "alice")
	alice, _ := authority.Issue("alice")
	if _, err := external(t, n, authority, alice); err != nil {
		t.Error(err)
	}
}
