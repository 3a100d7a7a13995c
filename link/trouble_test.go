package link

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/link/source"
	"github.com/understudy-mq/understudy/link/wire"
)

func TestTroubleWithASourceNodeIsLoggedWhenItBeginsAndEnds(t *testing.T) {
	n := serve(t, newHistory(), func(o *source.Options) { o.Open, o.Read = false, tokensOf(t, "good") })
	token := tokenFile(t, "bad")
	var log bytes.Buffer
	l := New(Options{
		Addresses: []string{n.address()}, TokenFile: token, Name: func() string { return "reader" }, Cluster: func() string { return standbyID },
		Groups: []uint64{1}, Replicas: map[uint64]Replica{1: newReplica()}, Active: func() bool { return true },
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	beat := func(times int, want string) {
		t.Helper()
		log.Reset()
		for range times {
			_ = l.beat(t.Context(), 0, nil) // what it says of itself is looked at
		}
		if got := log.String(); strings.Count(got, "\n") != min(1, len(want)) || !strings.Contains(got, want) {
			t.Errorf("logged %q, want %q in one line", got, want)
		}
	}
	beat(3, "refuses the token (--link-token-file here")
	if err := os.WriteFile(token, []byte("good"), 0o600); err != nil {
		t.Fatal(err)
	}
	beat(3, "a node of the source answers")
	if err := os.WriteFile(token, []byte("bad"), 0o600); err != nil {
		t.Fatal(err)
	}
	beat(3, "") // a node that comes and goes fills no log
}

func TestTroubleWithTLSNamesTheFlags(t *testing.T) {
	start := func(secure bool, ask tls.ClientAuthType) *httptest.Server {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		if secure {
			s.TLS = &tls.Config{ClientAuth: ask}
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		return s
	}
	trusts := func(s *httptest.Server, mine ...tls.Certificate) *tls.Config {
		roots := x509.NewCertPool()
		roots.AddCert(s.Certificate())
		return &tls.Config{RootCAs: roots, Certificates: mine}
	}
	open, asks, checks, plain := start(true, tls.NoClientCert), start(true, tls.RequireAnyClientCert), start(true, tls.RequireAndVerifyClientCert), start(false, 0)
	for name, c := range map[string]struct {
		to   *httptest.Server
		with *tls.Config
		want string
	}{
		"no certificate":        {asks, trusts(asks), "(it asks for a certificate: --link-tls-cert and --link-tls-key here)"},
		"a foreign one":         {checks, trusts(checks, open.TLS.Certificates[0]), "it does not take the certificate of --link-tls-cert here"},
		"another authority":     {open, &tls.Config{RootCAs: x509.NewCertPool()}, "the authority of --link-tls-ca here has to have signed"},
		"a source without":      {plain, &tls.Config{}, "leave --link-tls-ca out here"},
		"a standby without":     {open, nil, "the source serves its link with TLS (--link-tls-ca here)"},
		"nothing is the matter": {open, trusts(open), "the source serves no link"},
	} {
		err := newClient("", c.with, nil).call(t.Context(), c.to.Listener.Addr().String(), wire.PathBeat, nil, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
