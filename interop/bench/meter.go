package bench

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// meter gathers what the drivers do, while it is on.
type meter struct {
	on                             atomic.Bool
	published, confirmed, consumed atomic.Int64
	failed                         chan error

	mu             sync.Mutex
	confirms, e2es []time.Duration // samples
}

func newMeter() *meter { return &meter{failed: make(chan error, 1)} }

// fail keeps the first error.
func (m *meter) fail(err error) {
	select {
	case m.failed <- err:
	default:
	}
}

func (m *meter) add(confirms, e2es []time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.confirms = append(m.confirms, confirms...)
	m.e2es = append(m.e2es, e2es...)
}

// percentiles answers the median and the 99th percentile in milliseconds, 0 without samples.
func percentiles(ds []time.Duration) (p50, p99 float64) {
	if len(ds) == 0 {
		return 0, 0
	}
	slices.Sort(ds)
	at := func(p int) float64 { return float64(ds[min(len(ds)*p/100, len(ds)-1)].Microseconds()) / 1000 }
	return at(50), at(99)
}

// window bounds what is unconfirmed and remembers when each was sent.
type window struct {
	mu    sync.Mutex
	moved *sync.Cond
	size  uint64
	open  uint64 // publishes that are not confirmed
	ended bool
	sent  []atomic.Int64 // Unix nanoseconds by tag
}

func newWindow(size int) *window {
	w := &window{size: uint64(size), sent: make([]atomic.Int64, 2*size)}
	w.moved = sync.NewCond(&w.mu)
	return w
}

// enter waits for room; idle is called first if it must wait. False once the window has ended.
func (w *window) enter(idle func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.open >= w.size && !w.ended {
		w.mu.Unlock()
		idle()
		w.mu.Lock()
		if w.open >= w.size && !w.ended {
			w.moved.Wait()
		}
	}
	w.open++
	return !w.ended
}

func (w *window) leave(n uint64) {
	w.mu.Lock()
	w.open -= min(n, w.open)
	w.mu.Unlock()
	w.moved.Signal()
}

func (w *window) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.moved.Broadcast()
}

func (w *window) stamp(tag uint64, now time.Time) {
	w.sent[tag%uint64(len(w.sent))].Store(now.UnixNano())
}

func (w *window) since(tag uint64) time.Duration {
	return time.Duration(time.Now().UnixNano() - w.sent[tag%uint64(len(w.sent))].Load())
}

// wait waits for d or the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
