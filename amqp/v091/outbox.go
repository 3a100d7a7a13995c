package v091

import (
	"sync"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/session"
)

// Bounds of what waits for a slow socket.
const (
	// recordsKeptBytes is how many bytes of delivered records an outbox keeps in memory. Further ones are let go of and
	// read again when their turn comes: they are live in the machine until they are settled or written.
	recordsKeptBytes = 4 << 20
	// answersBytes is how much besides deliveries (answers, returns) may wait before the client is not read any more.
	// Deliveries do not count: not to read the client's acks because it is slow to take deliveries would wedge both.
	answersBytes = 8 << 20
	// eventBytes stands for what an event takes beside its record.
	eventBytes = 256
)

// notice is a frame of the endpoint's own on channel 0, for its place among the events: ahead of event number at.
type notice struct {
	at     int
	method wire.Method
}

// outbox is what waits to be written to one connection.
type outbox struct {
	mu      sync.Mutex
	drained sync.Cond     // answers was reduced, or the outbox closed
	wake    chan struct{} // one slot: there is something for the writer
	closed  bool
	last    bool // nothing comes any more

	events  []session.Event
	notices []notice
	records int // bytes of delivered records kept
	answers int // bytes of all else
}

func newOutbox() *outbox {
	o := &outbox{wake: make(chan struct{}, 1)}
	o.drained.L = &o.mu
	return o
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// push takes over what the machine told. It never blocks.
func (o *outbox) push(events []session.Event) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	start := len(o.events)
	o.events = append(o.events, events...)
	for i := start; i < len(o.events); i++ {
		o.account(&o.events[i])
	}
	o.mu.Unlock()
	o.signal()
}

func (o *outbox) account(e *session.Event) {
	if e.Kind != core.EffectDelivered {
		o.answers += eventBytes + len(e.Record)
		return
	}
	if o.records += len(e.Record); o.records > recordsKeptBytes {
		o.records -= len(e.Record)
		e.Record = nil
	}
}

// notify queues a frame of the endpoint's own on channel 0 behind all that waits.
func (o *outbox) notify(m wire.Method) {
	o.mu.Lock()
	if !o.closed {
		o.notices = append(o.notices, notice{at: len(o.events), method: m})
		o.answers += eventBytes
	}
	o.mu.Unlock()
	o.signal()
}

// Bounds of the slices that an outbox keeps between bursts.
const (
	eventsKept  = 1024
	noticesKept = 64
)

// take hands over all that waits, in exchange for slices whose contents are no longer needed. last says that no more
// will come.
func (o *outbox) take(events []session.Event, notices []notice) (_ []session.Event, _ []notice, last bool) {
	events, notices = emptied(events, eventsKept), emptied(notices, noticesKept)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events, events = events, o.events
	o.notices, notices = notices, o.notices
	o.records, o.answers = 0, 0
	o.drained.Broadcast()
	return events, notices, o.last || o.closed
}

func emptied[T any](s []T, kept int) []T {
	if cap(s) > kept {
		return nil
	}
	clear(s)
	return s[:0]
}

// finish says that nothing comes after what waits.
func (o *outbox) finish() {
	o.mu.Lock()
	o.last = true
	o.mu.Unlock()
	o.signal()
}

// await blocks while too many answers wait for the socket.
func (o *outbox) await() {
	o.mu.Lock()
	for o.answers > answersBytes && !o.closed {
		o.drained.Wait()
	}
	o.mu.Unlock()
}

// close drops what waits and all that is still to come.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.events, o.notices = nil, nil
	o.drained.Broadcast()
	o.mu.Unlock()
	o.signal()
}
