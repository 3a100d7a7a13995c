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
	// upWithin is how long a peer that is new to this node may take to listen: the nodes of a cluster are not started in one moment.
	upWithin = 5 * time.Second
	// troublesMost bounds the peers whose incoming connections' troubles are told apart: who knocks says himself who he is.
	troublesMost = 64
)

// trouble decides what the log tells of failures with one peer: each cause when it is new, and then now and then. The zero
// value is ready; any goroutine may use it.
type trouble struct {
	begun time.Time // when the peer became known

	mu     sync.Mutex
	told   map[string]time.Time // by cause
	unsaid int                  // failures since one was told
	last   bool                 // whether the last word was of a failure
}

// tell says whether a failure is to be told, and how many before it were not.
func (x *trouble) tell(err error, now time.Time) (unsaid int, say bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.told, func(_ string, at time.Time) bool { return now.Sub(at) >= tellEvery })
	c := cause(err)
	if _, ok := x.told[c]; ok || len(x.told) == causesMost || x.starting(err, now) {
		x.unsaid++
		return 0, false
	}
	if x.told == nil {
		x.told = map[string]time.Time{}
	}
	x.told[c], x.last = now, true
	unsaid, x.unsaid = x.unsaid, 0
	return unsaid, true
}

// starting says that a failure is one of a peer that is not up yet.
func (x *trouble) starting(err error, now time.Time) bool {
	var op *net.OpError
	return now.Sub(x.begun) < upWithin && errors.As(err, &op) && op.Op == "dial"
}

// connected says whether it is to be told that a connection stands: when a failure was told before.
func (x *trouble) connected() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	say := x.last
	x.last = false
	return say
}

// over says that a connection that stood well has ended. What was told a moment ago, of the peer's other one, stays told.
func (x *trouble) over(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.told, func(_ string, at time.Time) bool { return now.Sub(at) >= soundAfter })
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
