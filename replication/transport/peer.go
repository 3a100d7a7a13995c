package transport

import (
	"context"
	"net"
	"sync"
	"time"
)

const (
	bulkBytesMost   = 128 << 20
	urgentBytesMost = 4 << 20
)

// peer is another node, as this one sends to it.
type peer struct {
	id     uint64
	ctx    context.Context
	cancel context.CancelFunc
	bulk   *pipe
	urgent *pipe

	mu      sync.Mutex
	address string
}

func newPeer(t *Transport, id uint64, address string) *peer {
	p := &peer{id: id, address: address}
	p.ctx, p.cancel = context.WithCancel(t.ctx)
	shared := &trouble{begun: time.Now()}
	p.bulk = newPipe(t, id, roleBulk, bulkBytesMost, shared)
	p.urgent = newPipe(t, id, roleUrgent, urgentBytesMost, shared)
	return p
}

func (p *peer) pipe(urgent bool) *pipe {
	if urgent {
		return p.urgent
	}
	return p.bulk
}

func (p *peer) setAddress(a string) {
	p.mu.Lock()
	p.address = a
	p.mu.Unlock()
}

func (p *peer) currentAddress() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address
}

// pipe is one outgoing connection and the frames that wait for it.
type pipe struct {
	t    *Transport
	to   uint64
	role role
	most int

	trouble *trouble // of both of a peer's

	mu    sync.Mutex
	up    bool
	queue []Frame
	bytes int
	wake  chan struct{}
}

func newPipe(t *Transport, to uint64, r role, most int, shared *trouble) *pipe {
	return &pipe{t: t, to: to, role: r, most: most, trouble: shared, wake: make(chan struct{}, 1)}
}

func (p *pipe) put(f Frame) bool {
	size := f.size()
	p.mu.Lock()
	if !p.up || p.bytes+size > p.most {
		p.mu.Unlock()
		return false
	}
	p.queue = append(p.queue, f)
	p.bytes += size + prefixBytes
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return true
}

func (p *pipe) take(spare []Frame) []Frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	frames := p.queue
	p.queue, p.bytes = spare[:0], 0
	return frames
}

func (p *pipe) set(up bool) {
	p.mu.Lock()
	p.up, p.queue, p.bytes = up, nil, 0
	p.mu.Unlock()
}

// run connects, and connects again, until ctx ends.
func (p *pipe) run(ctx context.Context) {
	wait := backoffMin
	for ctx.Err() == nil {
		conn, fr, err := p.t.dial(ctx, p.to, p.role)
		if err == nil {
			wait = backoffMin
			err = p.stand(ctx, conn, fr)
		}
		if ctx.Err() != nil {
			return
		}
		p.log(err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = min(2*wait, backoffMax)
	}
}

// log tells of a failure, unless it did so a moment ago.
func (p *pipe) log(err error) {
	if err == nil {
		return
	}
	if unsaid, say := p.trouble.tell(err, time.Now()); say {
		p.t.opts.Logger.Warn("no connection to a peer", "peer", p.to, "error", err, "failures_before", unsaid)
	}
}

// stand is serve. One connection that stood for a while makes the next failure news.
func (p *pipe) stand(ctx context.Context, conn net.Conn, fr *frameReader) error {
	begun := time.Now()
	err := p.serve(ctx, conn, fr)
	if time.Since(begun) > soundAfter {
		p.trouble.over(time.Now())
	}
	return err
}

// serve sends what is queued until the connection fails. The peer's pongs are awaited: one that no longer reads, or a
// line that swallows everything, ends the connection.
func (p *pipe) serve(ctx context.Context, conn net.Conn, fr *frameReader) error {
	failed := make(chan error, 1)
	go func() {
		err := readPongs(conn, fr)
		failed <- err
	}()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	p.set(true)
	if p.trouble.connected() {
		p.t.opts.Logger.Info("connected to a peer again", "peer", p.to)
	}
	if p.role == roleBulk {
		p.t.opts.Connected(p.to)
	}
	err := p.send(conn, failed)
	p.set(false)
	stop()
	_ = conn.Close()
	if err == nil {
		return <-failed
	}
	<-failed
	return err
}

func readPongs(conn net.Conn, fr *frameReader) error {
	for {
		if err := conn.SetReadDeadline(time.Now().Add(silenceMost)); err != nil {
			return err
		}
		f, err := fr.next()
		if err != nil {
			return err
		}
		if f.Kind != kindPong {
			return errUnexpected
		}
	}
}

// send writes everything that waits at each wake, in one vectored write. It answers nil when the reader has failed.
func (p *pipe) send(conn net.Conn, failed chan error) error {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	var frames []Frame
	var out writer
	for {
		select {
		case err := <-failed:
			failed <- err
			return nil
		case <-ping.C:
			frames = append(p.take(frames), Frame{Kind: kindPing})
		case <-p.wake:
			frames = p.take(frames)
		}
		if len(frames) == 0 {
			continue
		}
		if err := conn.SetWriteDeadline(time.Now().Add(writeMost)); err != nil {
			return err
		}
		if err := out.write(conn, frames); err != nil {
			return err
		}
		clear(frames)
	}
}

// smallBytes is the payload up to which copying is cheaper than one more piece in a vectored write.
const smallBytes = 4096

// writer gathers frames: prefixes and small payloads in one buffer, big payloads as they are.
type writer struct {
	buf    []byte
	pieces net.Buffers
}

func (w *writer) write(conn net.Conn, frames []Frame) error {
	need := 0
	for i := range frames {
		need += prefixBytes
		if n := len(frames[i].Payload); n <= smallBytes {
			need += n
		}
	}
	if cap(w.buf) < need { // grown ahead: pieces must stay views into one array
		w.buf = make([]byte, 0, 2*need)
	}
	b, from := w.buf[:0], 0
	pieces := w.pieces[:0]
	for i := range frames {
		f := &frames[i]
		b = appendPrefix(b, f)
		if len(f.Payload) <= smallBytes {
			b = append(b, f.Payload...)
		} else {
			pieces = append(pieces, b[from:], f.Payload)
			from = len(b)
		}
		for _, r := range f.Rest {
			if from < len(b) {
				pieces = append(pieces, b[from:])
				from = len(b)
			}
			pieces = append(pieces, r)
		}
	}
	if from < len(b) {
		pieces = append(pieces, b[from:])
	}
	w.pieces = pieces
	whole := pieces
	_, err := whole.WriteTo(conn)
	clear(w.pieces)
	return err
}
