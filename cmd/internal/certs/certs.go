package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Files names the PEM files of one side.
type Files struct {
	Cert, Key string // "" for none, on the dialling side of Client
	CA        string // authorities for the other side's certificate; "" for none
}

// Server is TLS for a listener: clients need no certificate, but one that they show must come from CA (if there is one).
// Errors: files that cannot be read or do not fit each other.
func Server(f Files, log *slog.Logger) (*tls.Config, error) {
	s, err := newSource(f, log)
	if err != nil {
		return nil, err
	}
	base := &tls.Config{MinVersion: tls.VersionTLS12}
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := s.current()
		c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{now.pair}}
		if now.pool != nil {
			c.ClientCAs, c.ClientAuth = now.pool, tls.VerifyClientCertIfGiven
		}
		return c, nil
	}
	return base, nil
}

// Mutual is TLS between nodes, for both the dialling and the accepting side: each proves itself to CA. Host names are
// not checked: the authority is the cluster's own, and nodes tell each other who they are.
func Mutual(f Files, log *slog.Logger) (*tls.Config, error) {
	if f.CA == "" {
		return nil, errors.New("TLS between nodes needs an authority")
	}
	s, err := newSource(f, log)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.current().pair, nil },
		GetClientCertificate:   func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &s.current().pair, nil },
		ClientAuth:             tls.RequireAnyClientCert, // checked below, against the authority of the moment
		InsecureSkipVerify:     true,                     // likewise
		VerifyConnection:       func(c tls.ConnectionState) error { return verify(c, s.current().pool) },
		SessionTicketsDisabled: true,
	}, nil
}

// Client is TLS for the dialling side that shows no certificate: the other side proves itself to the authority ca. Host
// names are not checked, as for Mutual.
func Client(ca string, log *slog.Logger) (*tls.Config, error) {
	s, err := newSource(Files{CA: ca}, log)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // checked below, against the authority of the moment
		VerifyConnection:   func(c tls.ConnectionState) error { return verify(c, s.current().pool) },
	}, nil
}

// verify checks the other node's chain against the cluster's authority.
func verify(c tls.ConnectionState, pool *x509.CertPool) error {
	if len(c.PeerCertificates) == 0 {
		return errors.New("the other node shows no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range c.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots:         pool,
		Intermediates: between,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return fmt.Errorf("the other node's certificate: %w", err)
	}
	return nil
}

// loaded is what the files held when they were last read.
type loaded struct {
	pair tls.Certificate
	pool *x509.CertPool
	seen [3]stamp
}

type stamp struct {
	at   time.Time
	size int64
}

// source reads the files anew when a handshake finds them changed.
type source struct {
	files Files
	log   *slog.Logger

	mu   sync.Mutex
	last *loaded
}

func newSource(f Files, log *slog.Logger) (*source, error) {
	first, err := read(f)
	if err != nil {
		return nil, err
	}
	return &source{files: f, log: log, last: first}, nil
}

// current answers what the files hold now, or what they last held in good order.
func (s *source) current() *loaded {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.files.stamps()
	if seen == s.last.seen {
		return s.last
	}
	next, err := read(s.files)
	if err != nil {
		s.log.Error("TLS files changed and cannot be used; going on with the former ones", "error", err)
		kept := *s.last
		kept.seen = seen // reported once per change
		s.last = &kept
		return s.last
	}
	s.log.Info("TLS files read again", "cert", s.files.Cert)
	s.last = next
	return next
}

// Leaf answers the certificate of a PEM file that its key is for: the first. Errors name the file.
func Leaf(file string) (*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, fmt.Errorf("%s holds no certificate", file)
}

func (f Files) stamps() (seen [3]stamp) {
	for i, name := range []string{f.Cert, f.Key, f.CA} {
		if info, err := os.Stat(name); err == nil {
			seen[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return seen
}

func read(f Files) (*loaded, error) {
	l := &loaded{seen: f.stamps()}
	var err error
	if f.Cert != "" {
		if l.pair, err = tls.LoadX509KeyPair(f.Cert, f.Key); err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
		}
	}
	if f.CA == "" {
		return l, nil
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	l.pool = x509.NewCertPool()
	if !l.pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("authority %s holds no certificate", f.CA)
	}
	return l, nil
}
