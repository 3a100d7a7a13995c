package v091

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/amqp/v091/wire/wiretest"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session"
)

// peer is a client of a Conn, over a connection in memory. It reads at once whatever comes, until it is told to stop.
type peer struct {
	t       *testing.T
	nc      net.Conn
	conn    *Conn
	session *fakeSession
	served  chan struct{}

	mu     sync.Mutex
	frames []string
	at     []time.Time
	gone   bool // the server closed the connection
	goneAt time.Time
}

func connect(t *testing.T, change func(*Options)) *peer {
	client, server := net.Pipe()
	p := &peer{t: t, nc: client, session: &fakeSession{}, served: make(chan struct{})}
	opts := &Options{
		Attach:       func(context.Context, session.Attach, session.Endpoint) (Session, error) { return p.session, nil },
		Authenticate: func(user, _ string, _ net.Addr) (string, error) { return user, nil },
	}
	if change != nil {
		change(opts)
	}
	opts.EnsureDefaults()
	p.conn = NewConn(server, time.Now(), opts)
	go func() {
		defer close(p.served)
		p.conn.Serve(func() {})
	}()
	go p.read()
	synctest.Wait()
	return p
}

func (p *peer) read() {
	var buf []byte
	chunk := make([]byte, 4096)
	for {
		n, err := p.nc.Read(chunk)
		buf = append(buf, chunk[:n]...)
		p.mu.Lock()
		for {
			var f wire.Frame
			w, _ := wire.Parse(buf, 1<<30, &f)
			if w == 0 {
				break
			}
			p.frames = append(p.frames, wiretest.Frame(&f))
			p.at = append(p.at, time.Now())
			buf = buf[w:]
		}
		if err != nil {
			p.gone, p.goneAt = true, time.Now()
		}
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *peer) send(frames ...[]byte) {
	p.t.Helper()
	for _, f := range frames {
		if _, err := p.nc.Write(f); err != nil {
			p.t.Fatal(err)
		}
	}
	synctest.Wait()
}

func (p *peer) open(heartbeat uint16) {
	p.t.Helper()
	p.send(startOk("guest", "guest"), tuneOk(0, 0, heartbeat), connectionOpen("/"), frame(1, &wire.ChannelOpen{}))
	p.conn.Events([]session.Event{reply(1, entry.KindChannelOpen)})
	synctest.Wait()
	p.taken()
	p.session.forget()
}

// taken answers the frames that came since the last time.
func (p *peer) taken() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.frames, p.at = nil, nil }()
	return p.frames
}

func (p *peer) closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// finish ends the connection from the client's side and waits for the server's.
func (p *peer) finish() {
	_ = p.nc.Close()
	<-p.served
}

func within(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s after %v, want %v to %v", what, got, least, most)
	}
}

func TestHandshakeThatStallsIsClosedAfterItsTimeout(t *testing.T) {
	for name, sent := range map[string][][]byte{
		"nothing sent":     nil,
		"only logged in":   {startOk("guest", "guest")},
		"only tuned":       {startOk("guest", "guest"), tuneOk(0, 0, 1)},
		"half of start-ok": {startOk("guest", "guest")[:20]},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				p := connect(t, nil)
				p.send(sent...)
				<-p.served
				within(t, "closed", time.Since(start), 9900*time.Millisecond, 10100*time.Millisecond)
			})
		})
	}
}

func TestHandshakeByOctetsIsClosedAfterItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := connect(t, nil)
		for _, b := range startOk("guest", "guest") {
			if _, err := p.nc.Write([]byte{b}); err != nil {
				break
			}
			time.Sleep(2 * time.Second)
		}
		<-p.served
		within(t, "closed", time.Since(start), 10*time.Second, 12*time.Second)
	})
}

func TestHeartbeatsAreSentAtHalfTheIntervalWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(10)
		for range 6 {
			time.Sleep(5 * time.Second)
			p.send(raw(8, 0, nil))
		}
		if got := p.taken(); len(got) != 6 || got[0] != "0 heartbeat" {
			t.Errorf("in 30 s at an interval of 10 s: %q", got)
		}
		p.finish()
	})
}

func TestHeartbeatsAreNotSentWhileThereIsTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(10)
		for range 10 {
			time.Sleep(4 * time.Second)
			p.conn.Events([]session.Event{confirmed(1, 1)})
			p.send(raw(8, 0, nil))
		}
		for _, f := range p.taken() {
			if f == "0 heartbeat" {
				t.Fatal("a heartbeat between confirms 4 s apart")
			}
		}
		p.finish()
	})
}

func TestB11_SilentClientIsCutAfterTwoIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(1)
		start := time.Now()
		<-p.served
		within(t, "cut", time.Since(start), 2*time.Second, 3*time.Second)
		if p.session.ended != "detach" {
			t.Errorf("the session: %q", p.session.ended)
		}
	})
}

func TestB11_AnyOctetIsASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(1)
		p.send(frame(1, &wire.BasicPublish{}), header(1, 100))
		for _, b := range bodyOf(1, strings.Repeat("x", 100)) {
			time.Sleep(1500 * time.Millisecond)
			p.send([]byte{b})
		}
		if got := p.session.told(); len(got) != 1 || p.closed() {
			t.Errorf("after a publish of one octet each 1.5 s: commands %q, closed %t", got, p.closed())
		}
		p.finish()
	})
}

func TestB11_HeartbeatOfZeroIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(0)
		time.Sleep(24 * time.Hour)
		if got := p.taken(); len(got) > 0 || p.closed() {
			t.Errorf("after a day: %q, closed %t", got, p.closed())
		}
		p.finish()
	})
}

func TestB11_HeartbeatIsUnsigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(65535)
		time.Sleep(32767 * time.Second)
		want(t, "before half the interval", p.taken())
		time.Sleep(2 * time.Second)
		want(t, "after half the interval", p.taken(), "0 heartbeat")
		time.Sleep(2*65535*time.Second - 40000*time.Second)
		if p.closed() {
			t.Error("cut before two intervals")
		}
		p.finish()
	})
}

func TestRefusedLoginIsAnsweredAfterADelay(t *testing.T) {
	for _, malformed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := connect(t, func(o *Options) {
				o.Authenticate = func(string, string, net.Addr) (string, error) { return "", errors.New("wrong") }
			})
			p.taken()
			login := startOk("guest", "wrong")
			if malformed {
				login = frame(0, &wire.ConnectionStartOk{ClientProperties: clientProperties(true), Mechanism: "PLAIN", Response: []byte("x")})
			}
			p.send(login)
			want(t, "at once", p.taken())
			time.Sleep(p.conn.opts.LoginDelay)
			synctest.Wait()
			want(t, "after the delay", p.taken(), strings.Replace(refusedLogin, "%s", "PLAIN", 1))
			p.finish()
		})
	}
}

// Behind a fail-over thousands wait for their passwords to be checked.
func TestTimeThatItsLoginTakesIsNotTheClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, func(o *Options) {
			o.Authenticate = func(user, _ string, _ net.Addr) (string, error) {
				time.Sleep(time.Minute)
				return user, nil
			}
		})
		p.taken()
		p.send(startOk("guest", "guest"))
		time.Sleep(time.Minute)
		synctest.Wait()
		p.taken()
		p.send(tuneOk(2047, 131072, 0), connectionOpen("/"))
		want(t, "after a minute of its judges'", p.taken(), "0 ConnectionOpenOk")
		p.finish()
	})
}

func TestClientThatDoesNotAnswerConnectionCloseIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(0)
		start := time.Now()
		p.send(frame(9, &wire.QueueDeclare{}))
		if got := p.taken(); len(got) != 1 || !strings.Contains(got[0], "ReplyCode=504") {
			t.Errorf("%q", got)
		}
		<-p.served
		within(t, "cut", time.Since(start), 3*time.Second, 3*time.Second)
	})
}

// A writer that has something due all the while would spin until then: time stands still for it here, and the test does not end.
func TestNothingIsDueOnceAConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(60)
		e := delivery(1, 1, "x")
		e.NoAck = true // the machine wants to hear that it was written
		p.conn.Events([]session.Event{e})
		synctest.Wait()
		start := time.Now()
		p.conn.Close("node is being stopped")
		<-p.served
		within(t, "cut", time.Since(start), 3*time.Second, 3*time.Second)
	})
}

func TestClientThatDoesNotAnswerTheMachinesRefusalIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(0)
		start := time.Now()
		e := refused404(1)
		e.Code = core.CodeNotAllowed
		p.conn.Events([]session.Event{e})
		<-p.served
		within(t, "cut", time.Since(start), 3*time.Second, 3*time.Second)
	})
}

func TestClientThatTakesNoReturnsCannotPublishOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(0)
		_ = p.nc.SetReadDeadline(time.Now()) // the client stops reading
		synctest.Wait()
		for range 3 {
			p.conn.Events([]session.Event{returned(1, strings.Repeat("x", answersBytes+1))})
			time.Sleep(time.Millisecond)
		}
		sent := make(chan struct{})
		go func() {
			_, _ = p.nc.Write(publish(1, "", "q", "first"))
			_, _ = p.nc.Write(publish(1, "", "q", "second"))
			close(sent)
		}()
		time.Sleep(time.Minute)
		select {
		case <-sent:
			t.Error("it could publish on")
		default:
		}
		_ = p.nc.SetReadDeadline(time.Time{})
		go p.read()
		<-sent
		p.finish()
	})
}

func TestClientStillWritingCanReadWhyItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(0)
		p.send([]byte{3, 0, 1, 0xff, 0xff, 0xff, 0xff}) // a frame too large, and its payload comes behind it
		rest := make([]byte, 1<<20)
		if n, err := p.nc.Write(rest); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after %d octets: %v", n, err)
		}
		if got := p.taken(); len(got) != 1 || !strings.Contains(got[0], "ReplyCode=501") {
			t.Errorf("%q", got)
		}
		p.finish()
	})
}

func TestOrderlyCloseEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(0)
		p.send(frame(0, &wire.ConnectionClose{ReplyCode: 200}))
		<-p.served
		want(t, "frames", p.taken(), "0 ConnectionCloseOk")
		if p.session.ended != "end" {
			t.Errorf("the session: %q", p.session.ended)
		}
	})
}

func TestLostConnectionDetachesTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(0)
		p.finish()
		if p.session.ended != "detach" {
			t.Errorf("the session: %q", p.session.ended)
		}
	})
}

func TestBrokerClosesWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(0)
		p.conn.Closed(&session.Error{Code: core.CodeConnectionForced, Text: "no leader"})
		p.conn.Close("a second reason")
		synctest.Wait()
		want(t, "frames", p.taken(), `0 ConnectionClose ReplyCode=320 ReplyText="CONNECTION_FORCED - no leader"`)
		if p.conn.Info().State != "closing" {
			t.Errorf("state %s", p.conn.Info().State)
		}
		p.send(publish(1, "", "q", "discarded"), frame(0, &wire.ConnectionCloseOk{}))
		<-p.served
		want(t, "commands", p.session.told())
	})
}

func TestClientThatHasNotOpenedIsCutWithoutAWord(t *testing.T) {
	for name, frames := range map[string][][]byte{"before the login": nil, "after the login": {startOk("guest", "guest"), tuneOk(0, 0, 0)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := connect(t, nil)
				p.send(frames...)
				p.taken()
				p.conn.Close("no leader")
				<-p.served
				synctest.Wait()
				if want(t, "frames", p.taken()); !p.closed() {
					t.Error("the socket is open")
				}
			})
		})
	}
}

func TestDeliveriesAreReportedAsWrittenOnATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, nil)
		p.open(0)
		e := delivery(1, 1, "x")
		e.NoAck = true
		p.conn.Events([]session.Event{e})
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		want(t, "before a second", p.session.told())
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		want(t, "after a second", p.session.told(), "Written 1 1")
		time.Sleep(time.Minute)
		want(t, "only once", p.session.told(), "Written 1 1")
		p.finish()
	})
}

func TestClientThatTakesNoAnswersIsNotReadAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newOutbox()
		out.push([]session.Event{delivery(1, 1, strings.Repeat("x", answersBytes+1))})
		out.await() // deliveries do not count
		out.push([]session.Event{returned(1, strings.Repeat("x", answersBytes+1))})
		read := false
		go func() { out.await(); read = true }()
		synctest.Wait()
		if read {
			t.Error("it is read although its answers wait")
		}
		out.take(nil, nil)
		synctest.Wait()
		if !read {
			t.Error("it is not read although its answers were taken")
		}
	})
}

func TestReadBufferGrowsOnlyWithWhatComes(t *testing.T) {
	const frameMax = 131072 + wire.FrameOverhead
	var in inbuf
	in.arrange(frameMax)
	if len(in.room()) != readBytesMin {
		t.Fatalf("it begins with %d octets", len(in.room()))
	}
	in.filled(readBytesMin)
	copy(in.buf[readBytesMin-4:], "tail")
	in.taken(readBytesMin - 4)
	if in.arrange(frameMax); len(in.buf) != readBytesMin || string(in.octets()) != "tail" {
		t.Errorf("a tail is moved to the front of %d octets: %q", len(in.buf), in.octets())
	}
	in.taken(4)
	in.arrange(frameMax)
	copy(in.buf, wire.Begin(nil, wire.FrameBody, 1))
	copy(in.buf[3:], be32(131072))
	for in.filled(len(in.room())); in.end < frameMax; in.filled(len(in.room())) {
		in.arrange(frameMax)
		if len(in.room()) == 0 {
			t.Fatalf("no room behind %d octets", in.end)
		}
		if in.octets()[4] != 2 {
			t.Fatal("the frame at hand was lost")
		}
	}
	if len(in.buf) > readBytesMax {
		t.Errorf("the buffer grew to %d octets", len(in.buf))
	}
}

func TestReadBufferShrinksWhenLittleComes(t *testing.T) {
	in := inbuf{buf: make([]byte, readBytesMax)}
	for range smallReadsMax {
		in.filled(100)
		in.taken(100)
		in.arrange(0)
	}
	if len(in.buf) != readBytesMin {
		t.Errorf("it has %d octets", len(in.buf))
	}
}
