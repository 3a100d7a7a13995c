package v091

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/understudy-mq/understudy/amqp/sasl"
	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/session"
)

// reportAfter is how long the machine may wait to hear that deliveries were written.
const reportAfter = time.Second

// Conn drives one connection.
type Conn struct {
	opts   *Options
	nc     net.Conn
	name   string
	log    *slog.Logger
	since  time.Time
	due    time.Time // until then the client must have opened the connection; the reader's
	out    *outbox
	shared *shared
	recv   *receiver
	send   *sender

	opened   func()
	expiring sync.Once
	over     chan struct{} // closed when the connection is to end without more ado
	ending   sync.Once

	frameMax  atomic.Uint32
	heartbeat atomic.Int64 // time.Duration, 0 for none
	received  atomic.Uint64
	sent      atomic.Uint64

	heedless func()         // ends the watch over who has to wait
	waits    sync.WaitGroup // of declarations
	called   chan struct{}  // one slot: the reader is called

	mu      sync.Mutex
	calls   bool       // the read was interrupted, for the reader to heed
	resumed []*waiting // that have waited long enough
	session Session
	broken  error // why the writer could not go on
	info    Info
}

var _ session.Endpoint = (*Conn)(nil)

// NewConn makes the endpoint of a connection that was accepted at since and whose protocol header has been read. opts must
// have its defaults.
func NewConn(nc net.Conn, since time.Time, opts *Options) *Conn {
	c := &Conn{
		opts: opts, nc: nc, since: since, due: since.Add(opts.HandshakeTimeout), out: newOutbox(), shared: newShared(opts.ChannelMax), over: make(chan struct{}),
		called: make(chan struct{}, 1), heedless: func() {},
		name: peerOf(nc.RemoteAddr()) + " -> " + peerOf(nc.LocalAddr()),
	}
	c.log = opts.Logger.With("connection", c.name)
	c.recv = newReceiver(opts, c.log, c, c.out, c.shared)
	c.send = newSender(opts, c.log, c.shared, c.attached, c.announce, counted{c})
	return c
}

// counted is the connection's socket as the sender writes to it.
type counted struct{ c *Conn }

func (w counted) Write(b []byte) (int, error) {
	n, err := w.c.nc.Write(b)
	w.c.sent.Add(uint64(n))
	return n, err
}

// Serve carries the connection out; it returns when the socket is closed and the session is left. It calls opened once
// the client has opened the connection.
func (c *Conn) Serve(opened func()) {
	c.opened = opened
	defer c.nc.Close() //nolint:errcheck // nothing is left to lose
	_ = c.nc.SetReadDeadline(c.due)
	c.recv.start()
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write()
	}()
	err := c.read()
	c.mourn(err)
	c.heedless()
	c.recv.dropHeld()
	if c.recv.phase == finished {
		c.part(written)
	}
	c.end()
	<-written
	if s := c.attached(); s != nil {
		s.Detach() // does nothing to a session that has ended
	}
	c.waits.Wait()
	c.log.Debug("connection over", "error", err)
}

// end closes the socket and stops both goroutines.
func (c *Conn) end() {
	c.ending.Do(func() {
		close(c.over)
		_ = c.nc.Close()
		c.out.close()
	})
}

// expire ends the connection soon: a close is under way, and the client may be too slow for it or gone.
func (c *Conn) expire() {
	c.expiring.Do(func() { time.AfterFunc(c.opts.CloseTimeout, c.end) })
}

// part lets the last frames out, and the client read them: to close a socket with unread input would reset it.
func (c *Conn) part(written <-chan struct{}) {
	c.expire()
	c.out.finish()
	<-written
	if w, ok := c.nc.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	} else {
		return
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(c.opts.CloseTimeout))
	_, _ = io.Copy(io.Discard, c.nc)
}

// read takes frames until the connection is over.
func (c *Conn) read() error {
	var in inbuf
	mark := lowWaterOf(c.nc)
	for {
		in.arrange(int(c.recv.payloadMax()) + wire.FrameOverhead)
		if c.expectOctets(mark.raised()) {
			c.heed()
			c.burst()
			if c.recv.phase == finished {
				return nil
			}
			continue
		}
		n, err := c.nc.Read(in.room())
		c.received.Add(uint64(n))
		if n > 0 {
			in.filled(n)
			in.taken(c.recv.input(in.octets()))
			c.burst()
		}
		switch {
		case c.recv.phase == finished:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded) && mark.raised():
			mark.lower()
		case err != nil && !c.interrupted(err):
			return err
		case c.recv.phase == running:
			mark.came(n, time.Now())
		}
	}
}

// burst ends a read burst: what it asked for is handed on. While too much is held back it waits: the client is not read.
func (c *Conn) burst() {
	for {
		if err := c.recv.flush(); err != nil {
			c.Close("node takes nothing now: " + err.Error()) // where the session is gone, it may have told why before
		}
		if c.recv.phase >= closing || c.shared.closing.Load() {
			c.expire()
			return
		}
		c.out.await()
		if !c.recv.hold.full() {
			return
		}
		select {
		case <-c.called:
			c.heed()
		case <-c.over:
			return
		}
	}
}

// call has the reader heed who has to wait, and who need not any more. It never blocks.
func (c *Conn) call() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callLocked()
}

func (c *Conn) callLocked() {
	c.calls = true
	_ = c.nc.SetReadDeadline(longAgo)
	select {
	case c.called <- struct{}{}:
	default:
	}
}

// heed does what the reader was called for.
func (c *Conn) heed() {
	c.mu.Lock()
	resumed := c.resumed
	c.resumed = nil
	c.mu.Unlock()
	c.recv.flowChanged()
	for _, w := range resumed {
		c.recv.resume(w)
	}
}

// await waits for a declaration beside the reader.
func (c *Conn) await(w *waiting, wait func(context.Context)) (stop func()) {
	ctx, stop := context.WithTimeout(context.Background(), c.opts.OccupiedWait)
	c.waits.Go(func() {
		defer stop()
		wait(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.resumed = append(c.resumed, w)
		c.callLocked()
	})
	return stop
}

// longAgo interrupts a read.
var longAgo = time.Unix(1, 0)

// interrupted says whether a read failed because call interrupted it.
func (c *Conn) interrupted(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls && errors.Is(err, os.ErrDeadlineExceeded)
}

// expectOctets sets until when the client must be heard of: any octet counts. The time that the broker itself kept the
// connection waiting does not. Where some may lie in the socket unnoticed it is waited for a moment only. It answers whether the reader is
// called: that is to be heeded first.
func (c *Conn) expectOctets(unnoticed bool) bool {
	if c.recv.phase < running {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls {
		c.calls = false
		return true
	}
	var until time.Time
	if d := time.Duration(c.heartbeat.Load()); unnoticed {
		until = time.Now().Add(lowWaterWait)
	} else if d > 0 {
		until = time.Now().Add(2 * d)
	}
	_ = c.nc.SetReadDeadline(until)
	return false
}

// write sends what the outbox holds, heartbeats, and reports, until the connection is over.
func (c *Conn) write() {
	defer c.shared.close()
	var events []session.Event
	var notices []notice
	var last bool
	var clock pace
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(clock.wait(time.Now(), time.Duration(c.heartbeat.Load())))
		select {
		case <-c.out.wake:
		case <-timer.C:
			c.send.buf = nil // there was nothing to send for a while
		case <-c.over:
			return
		}
		events, notices, last = c.out.take(events, notices)
		if err := c.turn(&clock, events, notices); err != nil {
			c.breaks(err)
			c.end()
			return
		}
		if last {
			return
		}
	}
}

// turn does one round of the writer.
func (c *Conn) turn(clock *pace, events []session.Event, notices []notice) error {
	if n := int(c.frameMax.Load()); n > 0 {
		c.send.frameMax = n
	}
	if len(events)+len(notices) > 0 {
		if err := c.send.send(events, notices); err != nil {
			return err
		}
		clock.wrote = time.Now()
	}
	if c.send.closed {
		c.expire()
		clock.ended = true
		return nil
	}
	if clock.heartbeatDue(time.Now(), time.Duration(c.heartbeat.Load())) {
		if err := c.send.heartbeat(); err != nil {
			return err
		}
		clock.wrote = time.Now()
	}
	if len(c.send.reports) > 0 {
		// An error means that the session is gone: Closed tells.
		_ = c.send.reported(clock.reportDue(time.Now()))
	}
	clock.reports(time.Now(), len(c.send.reports) > 0)
	return nil
}

// pace is when the writer has to do something unasked.
type pace struct {
	wrote  time.Time
	report time.Time // zero: nothing to report
	ended  bool      // a close was written: nothing is due any more
}

func (p *pace) heartbeatDue(now time.Time, interval time.Duration) bool {
	return interval > 0 && now.Sub(p.wrote) >= interval/2
}

func (p *pace) reportDue(now time.Time) bool { return !p.report.IsZero() && !now.Before(p.report) }

// reports notes whether deliveries are unreported after a round.
func (p *pace) reports(now time.Time, some bool) {
	switch {
	case !some:
		p.report = time.Time{}
	case p.report.IsZero() || !now.Before(p.report):
		p.report = now.Add(reportAfter)
	}
}

// wait is how long nothing is due.
func (p *pace) wait(now time.Time, interval time.Duration) time.Duration {
	d := time.Hour
	if p.ended {
		return d
	}
	if interval > 0 {
		d = min(d, p.wrote.Add(interval/2).Sub(now))
	}
	if !p.report.IsZero() {
		d = min(d, p.report.Sub(now))
	}
	return max(d, 0)
}

// Events takes what the machine told. It never blocks.
func (c *Conn) Events(events []session.Event) { c.out.push(events) }

// Closed closes the connection for a reason of the broker's. It never blocks.
func (c *Conn) Closed(e *session.Error) {
	c.shared.close()
	c.out.notify(connectionClose(&fault{code: e.Code, text: e.Text}))
	c.expire()
}

// Ending says that the connection is closed, or about to be.
func (c *Conn) Ending() bool { return c.shared.closing.Load() }

// Close closes the connection with 320 and text. A client that has not opened it yet sees its socket closed: some take a
// connection.close at that point for a refusal of their password and never come back (bunny 2).
func (c *Conn) Close(text string) {
	if c.attached() == nil {
		c.end()
		return
	}
	c.Closed(&session.Error{Code: core.CodeConnectionForced, Text: text})
}

func (c *Conn) attached() Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

var errLogin = errors.New("malformed login")

// certificate is what the client has proved to be its own, nil for none.
func (c *Conn) certificate() *x509.Certificate {
	secured, ok := c.nc.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil
	}
	chains := secured.ConnectionState().VerifiedChains
	if len(chains) == 0 {
		return nil
	}
	return chains[0][0]
}

func (c *Conn) certified() bool { return c.opts.Certified != nil && c.certificate() != nil }

// login answers refusals after a fixed delay, whatever was wrong; that nobody can be judged is none. The client is not charged
// for the time that its judges take: many may log in at once.
func (c *Conn) login(with sasl.Credentials) (string, error) {
	name, err, begun := "", errLogin, time.Now()
	if with.External {
		name, err = c.opts.Certified(c.certificate(), c.nc.RemoteAddr())
	} else if with.User != "" {
		name, err = c.opts.Authenticate(with.User, with.Password, c.nc.RemoteAddr())
	}
	c.due = c.due.Add(time.Since(begun))
	_ = c.nc.SetReadDeadline(c.due)
	if err != nil && !errors.As(err, new(*session.Error)) {
		delay := time.NewTimer(c.opts.LoginDelay)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-c.over:
		}
	}
	return name, err
}

func (c *Conn) tuned(frameMax uint32, heartbeatSeconds uint16) {
	c.frameMax.Store(frameMax)
	c.heartbeat.Store(int64(heartbeatSeconds) * int64(time.Second))
	c.out.signal() // the writer has to learn of its heartbeat
}

func (c *Conn) announce(queue string, properties, body []byte) {
	c.mu.Lock()
	vhost := c.info.Vhost
	c.mu.Unlock()
	c.opts.Announce(vhost, queue, properties, body)
}

func (c *Conn) attach(a session.Attach) (Session, error) {
	ctx, cancel := context.WithDeadline(context.Background(), c.due)
	defer cancel()
	a.Connection = c.name
	s, err := c.opts.Attach(ctx, a, c)
	if errors.Is(err, context.DeadlineExceeded) {
		err = &session.Error{Code: core.CodeConnectionForced, Text: "vhost " + a.Vhost + " has no leader that answers"}
	}
	if err != nil {
		return nil, err
	}
	defer c.opened()
	c.heedless = c.opts.Flow.Watch(c.call)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = s
	c.info.User, c.info.Vhost = a.User, a.Vhost
	c.info.Title, c.info.Properties = c.recv.client.name, c.recv.client.shown
	c.info.ChannelMax = c.recv.channelMax
	return s, nil
}
