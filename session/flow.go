package session

import (
	"sync"
	"sync/atomic"
)

// heldBytesMax bounds what all endpoints of a node hold back together while publishers have to wait, in bytes.
const heldBytesMax = 64 << 20

// Flow tells the endpoints of a node whether publishers have to wait. An endpoint that is handed a publish meanwhile keeps
// it back, unconfirmed, and tells its client as its protocol can; everything that makes room goes on. Safe from any
// goroutine; the zero value lets everybody publish.
type Flow struct {
	reason   atomic.Pointer[string] // nil: nobody waits
	held     atomic.Int64           // bytes
	mu       sync.Mutex
	watchers map[*func()]struct{}
}

// Blocked says whether publishers have to wait, and in RabbitMQ's words why ("low on disk").
func (f *Flow) Blocked() (reason string, yes bool) {
	if r := f.reason.Load(); r != nil {
		return *r, true
	}
	return "", false
}

// Set makes publishers wait for a reason, or with "" lets them go on, and tells whoever watches. Calls come from one
// goroutine.
func (f *Flow) Set(reason string) {
	if was, _ := f.Blocked(); was == reason {
		return
	}
	next := &reason
	if reason == "" {
		next = nil
	}
	f.reason.Store(next)
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watchers {
		(*w)()
	}
}

// Watch has changed called after every change, until stop. It must not block, nor call Watch or stop.
func (f *Flow) Watch(changed func()) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watchers == nil {
		f.watchers = map[*func()]struct{}{}
	}
	f.watchers[&changed] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, &changed)
	}
}

// Hold counts bytes that an endpoint keeps back (or, below 0, does not any more), and says whether there is room for more
// of all endpoints together.
func (f *Flow) Hold(bytes int) (room bool) { return f.held.Add(int64(bytes)) < heldBytesMax }

// Flow is what the endpoints of this broker's clients heed.
func (b *Broker) Flow() *Flow { return &b.flow }
