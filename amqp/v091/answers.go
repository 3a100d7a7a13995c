package v091

import (
	"sync"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
)

// wanted is what the receiver expects of an answer that the machine will give on a channel.
type wanted struct {
	what    purpose
	quietly bool        // the client wants no answer
	method  wire.Method // the answer, where the endpoint has it
	source  string
	queue   string // that is told what what stands for
}

type purpose uint8

const (
	wantStatus      purpose = iota // of the session, as the message of a basic.get
	wantCounts                     // of the session, as a queue.declare-ok
	wantMethod                     // nothing of the machine but the answer's place
	wantName                       // of a queue that the client left to name
	wantNameQuietly                // the same, but the client wants no answer
	wantNothing                    // the name of a queue that the client named itself
	wantBound                      // an ordinary binding
	wantHosts                      // a binding whose queue is told of the cluster's nodes
	wantGeneration                 // one whose queue is told of the cluster's generation
	wantSession                    // one whose queue is told of the session: its status is asked for next
	wantAnnounced                  // the status of the session, for a queue
)

func (w purpose) ofName() bool { return w == wantName || w == wantNameQuietly }

// answers is where the receiver notes what answers are to be made of, and learns the names of queues that the machine chose:
// re-declared without a name, a named session's queue has the name that it had.
type answers struct {
	mu       sync.Mutex
	answered sync.Cond
	over     bool
	expected map[uint16][]wanted
	names    map[uint16]string // the last one, by channel
}

// expect notes what the next such answer on a channel is wanted for.
func (a *answers) expect(channel uint16, w wanted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.expected == nil {
		a.expected, a.names = map[uint16][]wanted{}, map[uint16]string{}
	}
	a.expected[channel] = append(a.expected[channel], w)
}

// take takes what an answer was wanted for; name is what it says.
func (a *answers) take(channel uint16, name string) (w wanted, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.expected[channel]
	if len(list) == 0 {
		return wanted{}, false
	}
	w, a.expected[channel] = list[0], list[1:]
	if w.what.ofName() {
		a.names[channel] = name
		a.answered.Broadcast()
	}
	return w, true
}

// name answers the name of the queue that the channel declared last without one, once it is known; "" if it never will be.
func (a *answers) name(channel uint16) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.over {
		pending := false
		for _, w := range a.expected[channel] {
			pending = pending || w.what.ofName()
		}
		if !pending {
			return a.names[channel]
		}
		a.answered.Wait()
	}
	return ""
}

// drop forgets what was expected on a channel that is shut.
func (a *answers) drop(channel uint16) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.expected, channel)
	delete(a.names, channel)
	a.answered.Broadcast()
}

// abandon says that no more answers come.
func (a *answers) abandon() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.answered.Broadcast()
}
