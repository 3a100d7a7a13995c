package amqp_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/amqp"
	"github.com/understudy-mq/understudy/amqp/v091"
	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/session"
)

// memoryListener accepts connections in memory, so that time is the test's own.
type memoryListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func listenInMemory() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (l *memoryListener) dial() net.Conn {
	a, b := net.Pipe()
	l.conns <- b
	return a
}

// serveInMemory runs a server inside a synctest bubble.
func serveInMemory(t *testing.T, change func(*amqp.Options), config *tls.Config, body func(*amqp.Server, *memoryListener)) {
	synctest.Test(t, func(t *testing.T) {
		o := amqp.Options{V091: v091.Options{}}
		if change != nil {
			change(&o)
		}
		s, l := amqp.New(o), listenInMemory()
		served := make(chan error, 1)
		go func() { served <- s.Serve(t.Context(), l, config) }()
		body(s, l)
		if err := s.Close(context.Background(), "shutdown"); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestProtocolHeadersThatAreRefused(t *testing.T) {
	for name, header := range map[string]string{
		"01 seven random octets":        "\x8f\x01\x33\xa0\xff\x00\x17",
		"01 one wrong octet":            "X",
		"02 unknown protocol id":        "AMQP\x09\x00\x09\x01",
		"02 unknown version":            "AMQP\x00\x00\x09\x02",
		"02 version 0-8":                "AMQP\x01\x01\x08\x00",
		"AMQP 1.0":                      "AMQP\x00\x01\x00\x00",
		"AMQP 1.0 with SASL":            "AMQP\x03\x01\x00\x00",
		"B7 HTTP":                       "GET / HTTP/1.1\r\n",
		"B7 TLS on the plain port":      "\x16\x03\x01\x02\x00",
		"B7 wrong only in the last one": "AMQP\x00\x00\x09\x00",
	} {
		t.Run(name, func(t *testing.T) {
			serveInMemory(t, nil, nil, func(_ *amqp.Server, l *memoryListener) {
				c := l.dial()
				go io.WriteString(c, header) //nolint:errcheck // the server need not read all of it
				got, _ := io.ReadAll(c)
				if string(got) != v091.Header {
					t.Errorf("answer %q", got)
				}
			})
		})
	}
}

func TestOldHeaderIsServed(t *testing.T) {
	serveInMemory(t, nil, nil, func(_ *amqp.Server, l *memoryListener) {
		c := l.dial()
		if _, err := io.WriteString(c, v091.HeaderOld); err != nil {
			t.Fatal(err)
		}
		var b [11]byte
		if _, err := io.ReadFull(c, b[:]); err != nil || string(b[7:]) != "\x00\x0a\x00\x0a" {
			t.Errorf("%q, want connection.start; %v", b, err)
		}
		_ = c.Close()
	})
}

func TestB7_ProbeThatClosesAtOnceLeavesNothing(t *testing.T) {
	serveInMemory(t, nil, nil, func(s *amqp.Server, l *memoryListener) {
		_ = l.dial().Close()
		synctest.Wait()
		if n := len(s.Connections()); n > 0 {
			t.Errorf("%d connections", n)
		}
	})
}

func Test03_HeaderByOctetsIsClosedAfterTheHandshakeTimeout(t *testing.T) {
	serveInMemory(t, nil, nil, func(_ *amqp.Server, l *memoryListener) {
		c, start := l.dial(), time.Now()
		for _, b := range []byte(v091.Header) {
			if _, err := c.Write([]byte{b}); err != nil {
				break
			}
			time.Sleep(2 * time.Second)
		}
		if d := time.Since(start); d < 10*time.Second || d > 12*time.Second {
			t.Errorf("closed after %v", d)
		}
	})
}

func Test03_HeaderAndHandshakeHaveOneTimeout(t *testing.T) {
	serveInMemory(t, nil, nil, func(_ *amqp.Server, l *memoryListener) {
		c, start := l.dial(), time.Now()
		time.Sleep(9 * time.Second)
		if _, err := io.WriteString(c, v091.Header); err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(c)
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("closed after %v", d)
		}
	})
}

func Test04_SilentTLSHandshakeIsClosedAfterFiveSeconds(t *testing.T) {
	serveInMemory(t, nil, &tls.Config{MinVersion: tls.VersionTLS12}, func(_ *amqp.Server, l *memoryListener) {
		c, start := l.dial(), time.Now()
		if _, err := c.Write([]byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(c)
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("closed after %v", d)
		}
	})
}

func Test04b_HandshakesAreCapped(t *testing.T) {
	serveInMemory(t, func(o *amqp.Options) { o.HandshakesMax = 2 }, nil, func(s *amqp.Server, l *memoryListener) {
		a, b := l.dial(), l.dial()
		third := make(chan net.Conn)
		go func() { third <- l.dial() }()
		synctest.Wait()
		select {
		case <-third:
			t.Error("a third handshake was taken on")
		default:
		}
		_ = a.Close()
		_ = (<-third).Close()
		_ = b.Close()
	})
}

func TestOpenConnectionGivesItsHandshakeSlotBack(t *testing.T) {
	_, _, address := serve(t, func(o *amqp.Options) { o.HandshakesMax = 1 })
	for range 3 {
		dial(t, address)
	}
}

func TestConnectionsWithoutAHeaderDoNotHoldUpClose(t *testing.T) {
	serveInMemory(t, nil, nil, func(s *amqp.Server, l *memoryListener) {
		l.dial()
		synctest.Wait()
		start := time.Now()
		if err := s.Close(context.Background(), "shutdown"); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > 0 {
			t.Errorf("closed after %v", d)
		}
	})
}

// deaf is a session that nothing comes from.
type deaf struct{ v091.Session }

func (deaf) Flush() error      { return nil }
func (deaf) FlushLater() error { return nil }
func (deaf) End()              {}
func (deaf) Detach()           {}
func (deaf) Answered()         {}

func (deaf) Grant() session.Grant { return session.Grant{} }

func TestClientsThatDoNotAnswerAreCutOffWhenCloseMustEnd(t *testing.T) {
	attaches := func(o *amqp.Options) {
		o.V091.Attach = func(context.Context, session.Attach, session.Endpoint) (v091.Session, error) { return deaf{}, nil }
		o.V091.Authenticate = func(user, _ string, _ net.Addr) (string, error) { return user, nil }
	}
	serveInMemory(t, attaches, nil, func(s *amqp.Server, l *memoryListener) {
		c := l.dial()
		go func() { _, _ = io.Copy(io.Discard, c) }()
		hello := []byte(v091.Header)
		for _, m := range []wire.Method{&wire.ConnectionStartOk{Mechanism: "PLAIN", Response: []byte("\x00u\x00p")}, &wire.ConnectionTuneOk{}, &wire.ConnectionOpen{VirtualHost: "/"}} {
			hello = wire.AppendMethod(hello, 0, m)
		}
		if _, err := c.Write(hello); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		if err := s.Close(ctx, "shutdown"); err == nil {
			t.Error("Close did not say that it cut a client off")
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("closed after %v", d)
		}
	})
}

func TestServeOfAClosedServerTakesNobody(t *testing.T) {
	s := amqp.New(amqp.Options{})
	if err := s.Close(t.Context(), "shutdown"); err != nil {
		t.Fatal(err)
	}
	l := listenInMemory()
	if err := s.Serve(t.Context(), l, nil); err != nil {
		t.Error(err)
	}
	select {
	case <-l.done:
	default:
		t.Error("the listener is open")
	}
}

// selfSigned is a certificate for 127.0.0.1.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestClientsAreServedOverTLS(t *testing.T) {
	s, _, _ := serve(t, nil)
	certificate := selfSigned(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(context.Background(), l, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}) //nolint:errcheck // serve waits for it
	roots := x509.NewCertPool()
	roots.AddCert(certificate.Leaf)
	c, err := client.DialTLS("amqps://guest:guest@"+l.Addr().String()+"/", &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck
	ch := channel(t, c)
	q := declare(t, ch, "")
	if err := ch.Publish("", q, false, false, client.Publishing{Body: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	if d, ok, err := ch.Get(q, true); err != nil || !ok || string(d.Body) != "hello" {
		t.Errorf("%v %v %q", ok, err, d.Body)
	}
}
