package certs_test

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/certs"
	"github.com/understudy-mq/understudy/cmd/internal/certs/certstest"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// shake does a handshake over loopback and answers the server's certificate's serial number.
func shake(server, client *tls.Config) (int64, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	b, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, err
	}
	a, err := l.Accept()
	if err != nil {
		return 0, err
	}
	for _, c := range []net.Conn{a, b} {
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return 0, err
		}
	}
	defer a.Close()
	defer b.Close()
	served := make(chan error, 1)
	s := tls.Server(a, server)
	go func() {
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x")) // TLS 1.3 tells a client of its refusal with the first read
		}
		served <- err
		a.Close()
	}()
	c := tls.Client(b, client)
	err = c.Handshake()
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	b.Close()
	if err := errors.Join(err, <-served); err != nil {
		return 0, err
	}
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func client(a *certstest.Authority) *tls.Config {
	return &tls.Config{RootCAs: a.Pool(), ServerName: "localhost"}
}

func TestARenewedCertificateIsUsedWithoutARestart(t *testing.T) {
	a := certstest.New(t)
	files, first := a.Issue("server")
	server, err := certs.Server(files, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := shake(server, client(a)); err != nil || got != first {
		t.Fatalf("serial %d, %v, want %d", got, err, first)
	}
	_, second := a.Issue("server")
	touch(t, files, 1)
	if got, err := shake(server, client(a)); err != nil || got != second {
		t.Fatalf("after renewal: serial %d, %v, want %d", got, err, second)
	}
}

func TestBrokenFilesLeaveTheFormerOnesInUse(t *testing.T) {
	a := certstest.New(t)
	files, first := a.Issue("server")
	var lines strings.Builder
	server, err := certs.Server(files, slog.New(slog.NewTextHandler(&lines, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Key, []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := shake(server, client(a)); err != nil || got != first {
			t.Fatalf("serial %d, %v, want %d", got, err, first)
		}
	}
	if n := strings.Count(lines.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d error lines, want 1:\n%s", n, lines.String())
	}
}

// touch makes sure that files differ from before, whatever the file system's clock resolves.
func touch(t *testing.T, f certs.Files, hours int) {
	at := time.Now().Add(time.Duration(hours) * time.Hour)
	for _, name := range []string{f.Cert, f.Key} {
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAClientsCertificateOfAnotherAuthorityIsRefused(t *testing.T) {
	a, other := certstest.New(t), certstest.New(t)
	files, _ := a.Issue("server")
	server, err := certs.Server(files, quiet())
	if err != nil {
		t.Fatal(err)
	}
	foreign, _ := other.Issue("client")
	pair, err := tls.LoadX509KeyPair(foreign.Cert, foreign.Key)
	if err != nil {
		t.Fatal(err)
	}
	c := client(a)
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	if _, err := shake(server, c); err == nil {
		t.Error("it was let in")
	}
}

func TestNodesProveThemselvesToTheirAuthority(t *testing.T) {
	a, other := certstest.New(t), certstest.New(t)
	one, _ := a.Issue("one")
	two, _ := a.Issue("two")
	stranger, _ := other.Issue("three")
	mutual := func(f certs.Files) *tls.Config {
		c, err := certs.Mutual(f, quiet())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if _, err := shake(mutual(one), mutual(two)); err != nil {
		t.Errorf("two nodes of one authority: %v", err)
	}
	if _, err := shake(mutual(one), mutual(stranger)); err == nil {
		t.Error("a stranger was let in")
	}
	if _, err := shake(mutual(stranger), mutual(two)); err == nil {
		t.Error("a stranger was dialled")
	}
	if _, err := shake(mutual(one), &tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Error("a node without a certificate was let in")
	}
}

func TestUnusableFilesStopTheStart(t *testing.T) {
	a := certstest.New(t)
	files, _ := a.Issue("server")
	noKey, badCA := files, files
	noKey.Key = "/no/such/file"
	badCA.CA = files.Key
	for name, f := range map[string]certs.Files{"no key": noKey, "no authority in its file": badCA} {
		if _, err := certs.Server(f, quiet()); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := certs.Mutual(certs.Files{Cert: files.Cert, Key: files.Key}, quiet()); err == nil {
		t.Error("mutual TLS without an authority was taken")
	}
}
