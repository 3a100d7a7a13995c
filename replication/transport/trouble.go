package transport

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"
)

const (
	// tellEvery is how often the log tells of the same trouble with a peer while it lasts: connections are tried every second.
	tellEvery = 30 * time.Second
	// causesMost are told in that time, where causes take turns.
	causesMost = 4
	// soundAfter is how long a connection has to stand for the next trouble to be news.
	soundAfter = silenceMost
	// troublesMost bounds the peers whose incoming connections' troubles are told apart: who knocks says himself who he is.
	troublesMost = 64
)

// trouble decides what the log tells of failures with one peer: each cause when it is new, and then now and then. The zero
// value is ready; any goroutine may use it.
type trouble struct {
	mu     sync.Mutex
	told   map[string]time.Time // by cause
	unsaid int                  // failures since one was told
}

// tell says whether a failure is to be told, and how many before it were not.
func (x *trouble) tell(err error, now time.Time) (unsaid int, say bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.told, func(_ string, at time.Time) bool { return now.Sub(at) >= tellEvery })
	c := cause(err)
	if _, ok := x.told[c]; ok || len(x.told) == causesMost {
		x.unsaid++
		return 0, false
	}
	if x.told == nil {
		x.told = map[string]time.Time{}
	}
	x.told[c] = now
	unsaid, x.unsaid = x.unsaid, 0
	return unsaid, true
}

// over says that a connection stood well.
func (x *trouble) over() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.told)
	x.unsaid = 0
}

// cause is an error's text without the numbers that differ each time: a network error's has this end's port in it.
func cause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Sprintf("%s: %v", op.Op, op.Err)
	}
	return err.Error()
}

// knocking is the trouble with connections from a peer.
func (t *Transport) knocking(from uint64) *trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.troubles[from] == nil && len(t.troubles) >= troublesMost {
		from = 0 // as those who did not come to say who they are
	}
	if t.troubles[from] == nil {
		t.troubles[from] = &trouble{}
	}
	return t.troubles[from]
}
