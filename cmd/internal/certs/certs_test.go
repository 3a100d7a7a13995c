package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// authority issues certificates for tests.
type authority struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	next int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir(), next: 1}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) write(name, kind string, der []byte) string {
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// issue writes a new certificate with its key and answers where, and its serial number.
func (a *authority) issue(name string) (Files, int64) {
	a.next++
	key := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	f := Files{
		Cert: a.write(name+".pem", "CERTIFICATE", der),
		Key:  a.write(name+".key", "EC PRIVATE KEY", keyDER),
		CA:   filepath.Join(a.dir, "ca.pem"),
	}
	return f, a.next
}

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

func (a *authority) client() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, ServerName: "localhost"}
}

func TestARenewedCertificateIsUsedWithoutARestart(t *testing.T) {
	a := newAuthority(t)
	files, first := a.issue("server")
	server, err := Server(files, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := shake(server, a.client()); err != nil || got != first {
		t.Fatalf("serial %d, %v, want %d", got, err, first)
	}
	_, second := a.issue("server")
	touch(t, files, 1)
	if got, err := shake(server, a.client()); err != nil || got != second {
		t.Fatalf("after renewal: serial %d, %v, want %d", got, err, second)
	}
}

func TestBrokenFilesLeaveTheFormerOnesInUse(t *testing.T) {
	a := newAuthority(t)
	files, first := a.issue("server")
	var lines strings.Builder
	server, err := Server(files, slog.New(slog.NewTextHandler(&lines, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Key, []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := shake(server, a.client()); err != nil || got != first {
			t.Fatalf("serial %d, %v, want %d", got, err, first)
		}
	}
	if n := strings.Count(lines.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d error lines, want 1:\n%s", n, lines.String())
	}
}

// touch makes sure that files differ from before, whatever the file system's clock resolves.
func touch(t *testing.T, f Files, hours int) {
	at := time.Now().Add(time.Duration(hours) * time.Hour)
	for _, name := range []string{f.Cert, f.Key} {
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAClientsCertificateOfAnotherAuthorityIsRefused(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	files, _ := a.issue("server")
	server, err := Server(files, quiet())
	if err != nil {
		t.Fatal(err)
	}
	foreign, _ := other.issue("client")
	pair, err := tls.LoadX509KeyPair(foreign.Cert, foreign.Key)
	if err != nil {
		t.Fatal(err)
	}
	client := a.client()
	client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	if _, err := shake(server, client); err == nil {
		t.Error("it was let in")
	}
}

func TestNodesProveThemselvesToTheirAuthority(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	one, _ := a.issue("one")
	two, _ := a.issue("two")
	stranger, _ := other.issue("three")
	mutual := func(f Files) *tls.Config {
		c, err := Mutual(f, quiet())
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
	a := newAuthority(t)
	files, _ := a.issue("server")
	noKey, badCA := files, files
	noKey.Key = "/no/such/file"
	badCA.CA = files.Key
	for name, f := range map[string]Files{"no key": noKey, "no authority in its file": badCA} {
		if _, err := Server(f, quiet()); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := Mutual(Files{Cert: files.Cert, Key: files.Key}, quiet()); err == nil {
		t.Error("mutual TLS without an authority was taken")
	}
}
