package session

import (
	"maps"
	"sync"
	"sync/atomic"
)

// heldBytesMax bounds what all endpoints of a node hold back together while publishers have to wait, in bytes.
const heldBytesMax = 64 << 20

// Flow tells the endpoints of a node whether publishers have to wait, all of them or those of some vhosts. An endpoint that
// is handed a publish meanwhile keeps it back, unconfirmed, and tells its client as its protocol can; everything that makes
// room goes on. Safe from any goroutine; the zero value lets everybody publish.
type Flow struct {
	waits    atomic.Pointer[waits] // nil: nobody waits
	held     atomic.Int64          // bytes
	mu       sync.Mutex            // guards changes
	watchers map[*func()]struct{}
}

// waits is why publishers wait. It is not changed once it is in a Flow.
type waits struct {
	all    string            // why those of every vhost do; "" if they do not
	vhosts map[string]string // why those of a vhost do
}

// Blocked says whether the publishers of a vhost have to wait, and why ("low on disk", in RabbitMQ's words).
func (f *Flow) Blocked(vhost string) (reason string, yes bool) {
	w := f.waits.Load()
	switch {
	case w == nil:
		return "", false
	case w.all != "":
		return w.all, true
	}
	reason, yes = w.vhosts[vhost]
	return reason, yes
}

// All is why the publishers of every vhost have to wait, "" if they have not.
func (f *Flow) All() string {
	if w := f.waits.Load(); w != nil {
		return w.all
	}
	return ""
}

// Vhosts is how many vhosts' publishers have to wait for a reason of their own.
func (f *Flow) Vhosts() int {
	if w := f.waits.Load(); w != nil {
		return len(w.vhosts)
	}
	return 0
}

// SetAll makes the publishers of every vhost wait for a reason, or with "" no longer for that one.
func (f *Flow) SetAll(reason string) { f.change(func(w *waits) { w.all = reason }) }

// SetVhosts makes the publishers of these vhosts wait, by vhost why, and those of no others. The map is the Flow's from
// then on.
func (f *Flow) SetVhosts(reasons map[string]string) { f.change(func(w *waits) { w.vhosts = reasons }) }

// change puts other reasons in place, and tells whoever watches if they do differ.
func (f *Flow) change(set func(*waits)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := waits{}
	if w := f.waits.Load(); w != nil {
		was = *w
	}
	next := was
	set(&next)
	if next.all == was.all && maps.Equal(next.vhosts, was.vhosts) {
		return
	}
	if next.all == "" && len(next.vhosts) == 0 {
		f.waits.Store(nil)
	} else {
		f.waits.Store(&next)
	}
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
