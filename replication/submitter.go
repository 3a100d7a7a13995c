package replication

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// batchesInFlight is K: the open batch is sealed while fewer than this many of the node's batches are unapplied.
	batchesInFlight = 4
	batchBytes      = 256 << 10
	batchCommands   = 4096
	// windowBytes of a node's commands may be unapplied; then Submit blocks. It is far below raft's own limit, so that
	// clients feel back-pressure before raft drops anything.
	windowBytes = 8 << 20
	// bufferBytes is the largest batch buffer kept for reuse, buffersKept how many.
	bufferBytes = 2 * batchBytes
	buffersKept = 16
	// laterDelay is how long commands that nobody waits for may be held back for others to share an entry with, and a
	// disk's sync: at 500 messages a second the acknowledgements then cost none of their own.
	laterDelay = 5 * time.Millisecond
)

// batch is a sealed run of commands. It is kept until it is seen applied.
type batch struct {
	seq      uint64
	commands []byte
	n        int
	sealed   time.Time
}

// submitter gathers the commands of one node for one group into batches. Submit may be called from any goroutine; the
// group's goroutine takes sealed batches out and says when they are applied.
type submitter struct {
	wake func() // tells the group's goroutine that there is something to take

	mu          sync.Mutex
	room        sync.Cond
	err         error  // why Submit fails; nil while registered
	generation  uint64 // counts registrations lost, so that a blocked Submit notices
	incarnation uint64
	seq         uint64 // of the last batch sealed
	open        []byte
	openN       int
	urgent      bool // somebody waits for what is in open
	later       *time.Timer
	armed       bool    // later is running
	sealed      []batch // sealed because they were full, not yet taken
	flying      int     // batches taken and unapplied
	bytes       int     // of all commands unapplied
	woken       bool
	free        [][]byte

	latency atomic.Int64 // of the newest batch seen applied: nanoseconds since it was sealed
}

func newSubmitter(wake func()) *submitter {
	s := &submitter{wake: wake, err: ErrUnregistered}
	s.room.L = &s.mu
	return s
}

// submit appends n encoded commands to the open batch. It blocks while the node has windowBytes unapplied. What may come
// later waits a little for company.
func (s *submitter) submit(commands []byte, n int, later bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	generation := s.generation
	for s.err == nil && s.bytes > 0 && s.bytes+len(commands) > windowBytes {
		s.room.Wait()
	}
	if s.err != nil {
		return s.err
	}
	if s.generation != generation {
		return ErrUnregistered
	}
	if s.openN > 0 && (len(s.open)+len(commands) > batchBytes || s.openN+n > batchCommands) {
		s.seal()
	}
	s.open = append(s.open, commands...)
	s.openN += n
	s.bytes += len(commands)
	if len(s.open) >= batchBytes || s.openN >= batchCommands {
		s.seal()
	}
	if s.openN > 0 && later && !s.urgent {
		s.arm()
	} else if s.openN > 0 {
		s.urgent = true
	}
	s.rouse()
	return nil
}

// arm makes the open batch urgent in a while.
func (s *submitter) arm() {
	if s.armed {
		return
	}
	s.armed = true
	if s.later != nil {
		s.later.Reset(laterDelay)
		return
	}
	s.later = time.AfterFunc(laterDelay, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.armed, s.urgent = false, s.openN > 0
		s.rouse()
	})
}

// rouse wakes the group's goroutine where there is something for it to take.
func (s *submitter) rouse() {
	if !s.woken && (s.urgent && s.flying < batchesInFlight || len(s.sealed) > 0) {
		s.woken = true
		s.wake()
	}
}

func (s *submitter) seal() {
	s.seq++
	s.sealed = append(s.sealed, batch{seq: s.seq, commands: s.open, n: s.openN, sealed: time.Now()})
	size := len(s.open)
	s.open, s.openN, s.urgent = nil, 0, false
	if n := len(s.free); n > 0 {
		s.open, s.free = s.free[n-1], s.free[:n-1]
	} else if size > batchBytes/2 { // under load the next one will be as big
		s.open = make([]byte, 0, batchBytes+batchBytes/8)
	}
}

// take moves what is to be sent now behind dst: all full batches, and the open one while few are in flight.
func (s *submitter) take(dst []batch) []batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woken = false
	if s.urgent && s.flying+len(s.sealed) < batchesInFlight {
		s.seal()
	}
	s.flying += len(s.sealed)
	dst = append(dst, s.sealed...)
	s.sealed = slices.Delete(s.sealed, 0, len(s.sealed))
	return dst
}

// applied says that these batches, taken before, are applied. With reuse their buffers are used again.
func (s *submitter) applied(done []batch, reuse bool) {
	if len(done) == 0 {
		return
	}
	s.latency.Store(int64(time.Since(done[len(done)-1].sealed)))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range done {
		s.bytes -= len(b.commands)
		if reuse && len(s.free) < buffersKept && cap(b.commands) <= bufferBytes {
			s.free = append(s.free, b.commands[:0])
		}
	}
	s.flying -= len(done)
	s.room.Broadcast()
}

// register opens the submitter under an incarnation whose last applied batch is seq.
func (s *submitter) register(incarnation, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.incarnation, s.seq = nil, incarnation, seq
}

// close drops everything and lets Submit fail with err until register.
func (s *submitter) close(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.incarnation, s.generation = err, 0, s.generation+1
	s.open, s.openN, s.urgent, s.sealed, s.flying, s.bytes, s.free = nil, 0, false, nil, 0, 0, nil
	s.room.Broadcast()
}
