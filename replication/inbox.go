package replication

import (
	"sync"

	pb "go.etcd.io/raft/v3/raftpb"
)

// peerBytesMost bounds what peers' messages may take in a group's inbox; raft copes with the loss of what is over.
const peerBytesMost = 128 << 20

type eventKind uint8

const (
	eventStep    eventKind = iota + 1 // a raft message from a peer
	eventStored                       // responses of the log or of the apply goroutine
	eventForward                      // a peer's batch
	eventExpect                       // a leader's expectation
	eventReport                       // what the apply goroutine has done
	eventPeer                         // a connection to a peer has come up
	eventGone                         // a peer has hung up
	eventCall                         // something rare
)

// event is one thing that a group's goroutine has to deal with. One flat type: they come in slices.
type event struct {
	kind    eventKind
	from    uint64
	size    int
	message *pb.Message
	stored  []*pb.Message
	forward forward
	expect  expectation
	report  *report
	call    func(*Group)
}

// inbox is a queue that any goroutine fills and one empties: a slice that is swapped under a mutex, and one wake-up.
type inbox struct {
	mu        sync.Mutex
	events    []event
	ticks     int
	peerBytes int
	wake      chan struct{}
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

func (in *inbox) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *inbox) put(e event) {
	in.mu.Lock()
	if in.peerBytes+e.size > peerBytesMost {
		in.mu.Unlock()
		return
	}
	in.peerBytes += e.size
	in.events = append(in.events, e)
	in.mu.Unlock()
	in.signal()
}

// tick counts a tick. A goroutine that was held up gets one for all that it missed: time that it could not use must not
// look like a leader's silence.
func (in *inbox) tick() {
	in.mu.Lock()
	in.ticks = 1
	in.mu.Unlock()
	in.signal()
}

// take empties the inbox into the caller's spare slice, which becomes the inbox's.
func (in *inbox) take(spare []event) (events []event, ticks int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	events, ticks = in.events, in.ticks
	in.events, in.ticks, in.peerBytes = spare[:0], 0, 0
	return events, ticks
}
