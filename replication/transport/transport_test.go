package transport

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// end is a transport with what it was told.
type end struct {
	*Transport
	opts Options

	mu        sync.Mutex
	got       []Frame
	connected int
	log       bytes.Buffer
	staged    []byte
	stageErr  error
}

// Write gathers the log.
func (e *end) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.Write(p)
}

func (e *end) logged() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.String()
}

func (e *end) frames() []Frame {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Frame(nil), e.got...)
}

func newEnd(id uint64) *end {
	e := &end{}
	e.opts = Options{
		Self: id, Listen: "127.0.0.1:0",
		ClusterID: func() string { return "c1" },
		Fresh:     func() bool { return false },
		Admit:     func(Hello) error { return nil },
		Receive: func(_ uint64, f Frame) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			f.Payload = bytes.Clone(f.Payload)
			e.got = append(e.got, f)
			return nil
		},
		Connected: func(uint64) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.connected++
		},
		Snapshot: func(_ context.Context, _, _ uint64, header []byte, r io.ReadCloser) error {
			b, err := io.ReadAll(r)
			e.mu.Lock()
			defer e.mu.Unlock()
			e.staged = append(bytes.Clone(header), b...)
			return errors.Join(err, e.stageErr)
		},
	}
	e.opts.Logger = slog.New(slog.NewTextHandler(e, nil))
	return e
}

func (e *end) start(t *testing.T) {
	t.Helper()
	tr, err := Start(e.opts)
	if err != nil {
		t.Fatal(err)
	}
	e.Transport = tr
	t.Cleanup(func() { _ = tr.Close() })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// pair is two ends, the first sending to the second.
func pair(t *testing.T, change func(a, b *end)) (a, b *end) {
	a, b = newEnd(1), newEnd(2)
	if change != nil {
		change(a, b)
	}
	a.start(t)
	b.start(t)
	a.SetPeer(2, b.Addr().String())
	return a, b
}

func (e *end) send(t *testing.T, f Frame) {
	t.Helper()
	eventually(t, "connected", func() bool { return e.Send(2, f) })
}

func TestFramesArriveWholeAndInOrder(t *testing.T) {
	a, b := pair(t, nil)
	for i := range 200 {
		a.send(t, Frame{Kind: Batch, Group: uint64(i), Payload: bytes.Repeat([]byte{byte(i)}, i*100)})
	}
	eventually(t, "all there", func() bool { return len(b.frames()) == 200 })
	for i, f := range b.frames() {
		if f.Group != uint64(i) || len(f.Payload) != i*100 || (i > 0 && f.Payload[len(f.Payload)-1] != byte(i)) {
			t.Fatalf("frame %d came as group %d with %d bytes", i, f.Group, len(f.Payload))
		}
	}
}

func TestRestOfAFrameArrivesBehindItsPayload(t *testing.T) {
	a, b := pair(t, nil)
	big := bytes.Repeat([]byte("r"), 3*smallBytes)
	want := [][]byte{[]byte("head-one-two"), slices.Concat(big, big, []byte("x")), []byte("tail")}
	a.send(t, Frame{Kind: Append, Payload: []byte("head-"), Rest: [][]byte{[]byte("one-"), []byte("two")}})
	a.send(t, Frame{Kind: Append, Payload: big, Rest: [][]byte{big, []byte("x")}})
	a.send(t, Frame{Kind: Batch, Payload: []byte("tail")})
	eventually(t, "all there", func() bool { return len(b.frames()) == 3 })
	for i, f := range b.frames() {
		if !bytes.Equal(f.Payload, want[i]) {
			t.Errorf("frame %d has %d bytes, want %d", i, len(f.Payload), len(want[i]))
		}
	}
}

func TestUrgentFramesPassBulkThatIsStuck(t *testing.T) {
	release := make(chan struct{})
	a, b := pair(t, func(_, b *end) {
		receive := b.opts.Receive
		b.opts.Receive = func(from uint64, f Frame) error {
			if f.Kind == Batch {
				<-release
			}
			return receive(from, f)
		}
	})
	a.send(t, Frame{Kind: Batch, Payload: make([]byte, 1<<20)})
	a.send(t, Frame{Kind: Raft, Urgent: true})
	eventually(t, "the urgent frame", func() bool { f := b.frames(); return len(f) == 1 && f[0].Kind == Raft })
	close(release)
}

func TestConnectedIsToldAgainAfterABreak(t *testing.T) {
	a, b := pair(t, nil)
	eventually(t, "connected", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.connected == 1 })
	addr := b.Addr().String()
	_ = b.Close()
	b2 := newEnd(2)
	b2.opts.Listen = addr
	b2.start(t)
	eventually(t, "connected again", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.connected == 2 })
}

func TestFullQueueDropsAndSaysSo(t *testing.T) {
	p := newPipe(nil, 2, roleBulk, 1000, nil)
	if p.put(Frame{Payload: make([]byte, 10)}) {
		t.Error("a frame was taken without a connection")
	}
	p.set(true)
	if !p.put(Frame{Payload: make([]byte, 600)}) || p.put(Frame{Payload: make([]byte, 600)}) {
		t.Error("the bound on the queue does not hold")
	}
}

func TestHelloRefusalsAreLoggedOnBothSides(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(a, b *end)
	}{
		{"another cluster", "of cluster c1, this node of cluster c2", func(_, b *end) { b.opts.ClusterID = func() string { return "c2" } }},
		{"another node", "this is node 3", func(_, b *end) { b.opts.Self = 3 }},
		{"no member", "node 1 is a stranger", func(_, b *end) {
			b.opts.Admit = func(h Hello) error { return errors.New("node 1 is a stranger") }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := pair(t, c.change)
			for _, e := range []*end{a, b} {
				eventually(t, "the refusal is logged", func() bool { return strings.Contains(e.logged(), c.want) })
			}
			if a.Send(2, Frame{Kind: Raft}) {
				t.Error("connected all the same")
			}
		})
	}
}

func TestDialerJudgesWhomItHasReached(t *testing.T) {
	a, _ := pair(t, func(a, b *end) {
		a.opts.Admit = func(h Hello) error {
			if h.From != 2 || !h.Fresh {
				return nil
			}
			return errors.New("node 2 has lost its data")
		}
		b.opts.Fresh = func() bool { return true }
	})
	eventually(t, "the refusal is logged", func() bool { return strings.Contains(a.logged(), "lost its data") })
	if a.Send(2, Frame{Kind: Raft}) {
		t.Error("connected all the same")
	}
}

func TestFormingNodeTakesAnyClustersWord(t *testing.T) {
	a, b := pair(t, func(a, _ *end) { a.opts.ClusterID = func() string { return "" } })
	a.send(t, Frame{Kind: Raft})
	eventually(t, "received", func() bool { return len(b.frames()) == 1 })
}

// raw dials an end and introduces itself as node 1.
func raw(t *testing.T, e *end) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", e.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	h := Hello{Cluster: "c1", From: 1, To: 2}
	_, _ = io.WriteString(conn, magic)
	_ = writeFrame(conn, Frame{Kind: kindHello, Payload: h.encode()})
	f, err := newFrameReader(conn).next()
	if err != nil || f.Kind != kindHello {
		t.Fatalf("no welcome: %v", err)
	}
	return conn
}

func TestDamageAndNonsenseCloseTheConnection(t *testing.T) {
	damaged := append(appendPrefix(nil, &Frame{Kind: Raft, Payload: []byte("abc")}), "abd"...)
	long := binary.BigEndian.AppendUint32(nil, frameBytesMost+100)
	for _, c := range []struct {
		name, want string
		bytes      []byte
	}{
		{"a flipped bit", "checksum", damaged},
		{"an endless frame", "too long", append(long, make([]byte, prefixBytes)...)},
		{"a length below the least", "too long", make([]byte, prefixBytes)},
		{"a kind that no peer sends", "unexpected", appendPrefix(nil, &Frame{Kind: kindPong})},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnd(2)
			e.start(t)
			conn := raw(t, e)
			_, _ = conn.Write(c.bytes)
			if _, err := io.ReadAll(conn); errors.Is(err, context.DeadlineExceeded) {
				t.Error("the connection stays open")
			}
			eventually(t, "the reason is logged", func() bool { return strings.Contains(e.logged(), c.want) })
			if len(e.frames()) > 0 {
				t.Error("the frame was handed on")
			}
		})
	}
}

func TestStrangersAtThePeerPortAreTurnedAway(t *testing.T) {
	e := newEnd(2)
	e.start(t)
	conn, err := net.Dial("tcp", e.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	_, _ = io.ReadAll(conn)
	eventually(t, "the reason is logged", func() bool { return strings.Contains(e.logged(), "not a peer") })
}

func TestAnnouncedLengthTakesNoMemoryBeforeItsBytesCome(t *testing.T) {
	head := binary.BigEndian.AppendUint32(nil, frameBytesMost)
	fr := newFrameReader(bytes.NewReader(append(head, make([]byte, 100)...)))
	if _, err := fr.next(); err == nil {
		t.Fatal("a frame that never came was read")
	}
	if cap(fr.buf) > 2*readStep {
		t.Errorf("%d bytes were taken for a promise", cap(fr.buf))
	}
}

// body is a snapshot's bytes.
type body []byte

func (b body) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b)
	return int64(n), err
}

func TestSnapshotIsStreamedWhole(t *testing.T) {
	a, b := pair(t, nil)
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	if err := a.Stream(t.Context(), 2, 7, []byte("head"), body(data)); err != nil {
		t.Fatal(err)
	}
	if want := append([]byte("head"), data...); !bytes.Equal(b.staged, want) {
		t.Errorf("%d bytes came, %d were sent", len(b.staged), len(want))
	}
}

func TestSnapshotThatTheReceiverRefusesIsAnErrorWithItsReason(t *testing.T) {
	a, _ := pair(t, func(_, b *end) { b.stageErr = errors.New("no room") })
	if err := a.Stream(t.Context(), 2, 7, []byte("head"), body("x")); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("error %v", err)
	}
}

// cutOff is a snapshot whose source fails in the middle.
type cutOff struct{}

func (cutOff) WriteTo(w io.Writer) (int64, error) {
	n, _ := w.Write(make([]byte, 2*chunkBytes))
	return int64(n), errors.New("the source failed")
}

func TestSnapshotThatIsCutOffIsNotTakenForWhole(t *testing.T) {
	a, b := pair(t, func(_, b *end) {
		b.opts.Snapshot = func(_ context.Context, _, _ uint64, _ []byte, r io.ReadCloser) error {
			_, err := io.ReadAll(r)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.stageErr = err
			return err
		}
	})
	if err := a.Stream(t.Context(), 2, 7, []byte("head"), cutOff{}); err == nil {
		t.Error("no error at the sender")
	}
	eventually(t, "the receiver sees a cut", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return errors.Is(b.stageErr, io.ErrUnexpectedEOF) || b.stageErr != nil && strings.Contains(b.stageErr.Error(), "reset")
	})
}

func TestStreamThatNobodyReadsEndsWithItsContext(t *testing.T) {
	a, _ := pair(t, func(_, b *end) {
		b.opts.Snapshot = func(ctx context.Context, _, _ uint64, _ []byte, _ io.ReadCloser) error {
			<-ctx.Done()
			return ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := a.Stream(ctx, 2, 7, []byte("head"), endless{cancel}); err == nil || ctx.Err() == nil {
		t.Errorf("it ended with %v, its context with %v", err, ctx.Err())
	}
}

// endless is a snapshot that calls off its own stream when it has filled what lies between the two ends.
type endless struct{ cancel func() }

func (e endless) WriteTo(w io.Writer) (n int64, err error) {
	stuck := time.AfterFunc(time.Second, e.cancel)
	defer stuck.Stop()
	for err == nil {
		stuck.Reset(time.Second)
		_, err = w.Write(make([]byte, chunkBytes))
		n += chunkBytes
	}
	return n, err
}

func TestReceiverEndsAStreamFromAnotherGoroutine(t *testing.T) {
	ended := make(chan error, 1)
	a, _ := pair(t, func(_, b *end) {
		b.opts.Snapshot = func(_ context.Context, _, _ uint64, _ []byte, r io.ReadCloser) error {
			first := make([]byte, 1)
			if _, err := io.ReadFull(r, first); err != nil {
				return err
			}
			go r.Close()
			_, err := io.ReadAll(r)
			ended <- err
			return err
		}
	})
	stands := make(chan struct{})
	go func() {
		_ = a.Stream(t.Context(), 2, 7, []byte("head"), writes(func(w io.Writer) {
			_, _ = w.Write(make([]byte, chunkBytes))
			<-stands
		}))
	}()
	defer close(stands)
	if err := <-ended; err == nil {
		t.Error("a stream without an end was read to its end")
	}
}

// writes is a snapshot that a function writes.
type writes func(io.Writer)

func (f writes) WriteTo(w io.Writer) (int64, error) { f(w); return 0, nil }

// authority makes mutual TLS configurations.
func authority(t *testing.T) func() *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return func() *tls.Config {
		return &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		}
	}
}

func TestMutualTLSLetsOnlyTheAuthoritysNodesIn(t *testing.T) {
	config := authority(t)
	a, b := pair(t, func(a, b *end) { a.opts.TLS, b.opts.TLS = config(), config() })
	a.send(t, Frame{Kind: Raft})
	eventually(t, "received", func() bool { return len(b.frames()) == 1 })

	c, d := pair(t, func(a, b *end) { a.opts.TLS, b.opts.TLS = authority(t)(), config() })
	eventually(t, "refused", func() bool { return strings.Contains(c.logged(), "certificate") })
	if c.Send(2, Frame{Kind: Raft}) || len(d.frames()) > 0 {
		t.Error("a node of another authority was let in")
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(append(appendPrefix(nil, &Frame{Kind: Raft, Payload: []byte("abc")}), "abc"...))
	f.Add([]byte("\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fr := newFrameReader(bytes.NewReader(b))
		for {
			frame, err := fr.next()
			if err != nil {
				break
			}
			if frame.Kind == kindHello {
				_, _ = decodeHello(frame.Payload)
			}
		}
		if cap(fr.buf) > 2*readStep+2*len(b) {
			t.Errorf("%d bytes taken for %d", cap(fr.buf), len(b))
		}
		_, _ = decodeHello(b)
	})
}
