package replication

import (
	"fmt"
	"sync"

	pb "go.etcd.io/raft/v3/raftpb"
)

// work is one item for a group's apply goroutine; exactly one of its parts is set, responses apart.
type work struct {
	entries   []*pb.Entry
	confs     [][]byte // the membership after each change among entries, in order
	install   *pb.SnapshotMetadata
	conf      []byte // of install
	responses []*pb.Message
	held      bool          // responses of the log that had to wait for an install
	task      func(Machine) // gets nil once the group has stopped: its machine may be halfway through an entry
}

// lane is a node's registration as the machine has it.
type lane struct{ node, incarnation, nonce, seq uint64 }

// report tells the group's goroutine what the apply goroutine has done in a run.
type report struct {
	index     uint64
	leadTerm  uint64 // the newest term of which a non-empty entry was applied
	entries   int    // non-empty entries of that term in this run, and their bytes
	bytes     int
	lanes     []lane
	stamp     int64
	deadline  int64
	print     uint64
	term      uint64 // of the last entry applied
	standby   bool
	position  uint64 // of a standby
	since     uint64 // own index at which the group was promoted
	installed *pb.SnapshotMetadata
	conf      []byte
	err       error
}

// applier runs a group's machine. Only its goroutine calls the machine.
type applier struct {
	machine Machine
	watch   func() []uint64 // the nodes whose registrations matter
	stored  func([]*pb.Message)
	report  func(*report)

	mu    sync.Mutex
	queue []work
	held  int // items in the queue with held responses or an install
	wake  chan struct{}

	spare  []work
	failed error
}

func newApplier(m Machine) *applier { return &applier{machine: m, wake: make(chan struct{}, 1)} }

func (a *applier) put(w work) {
	a.mu.Lock()
	a.queue = append(a.queue, w)
	if w.held || w.install != nil {
		a.held++
	}
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// holding says whether responses of the log must pass through the queue, behind an install that is under way.
func (a *applier) holding() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held > 0
}

// step does everything that waits; false if there was nothing.
func (a *applier) step() bool {
	a.mu.Lock()
	items := a.queue
	a.queue = a.spare[:0]
	a.mu.Unlock()
	if len(items) == 0 {
		a.spare = items
		return false
	}
	r := &report{}
	var responses []*pb.Message
	applied := false
	for i := range items {
		w := &items[i]
		applied = applied || w.entries != nil
		a.do(w, r)
		if w.install != nil || w.held {
			a.flush(&responses)
			if w.install != nil && r.err == nil {
				a.machine.Round()
				a.finish(r) // ahead of the responses: what raft does next builds on the new membership
				r, applied = &report{}, false
			}
			a.stored(w.responses)
			a.release()
			continue
		}
		responses = append(responses, w.responses...)
	}
	if applied {
		a.machine.Round()
	}
	a.flush(&responses)
	if applied || r.err != nil {
		a.finish(r)
	}
	clear(items)
	a.spare = items
	return true
}

func (a *applier) flush(responses *[]*pb.Message) {
	if len(*responses) > 0 {
		a.stored(*responses)
		*responses = nil
	}
}

func (a *applier) release() {
	a.mu.Lock()
	a.held--
	a.mu.Unlock()
}

func (a *applier) do(w *work, r *report) {
	switch {
	case a.failed != nil && w.task != nil:
		w.task(nil)
	case a.failed != nil:
	case w.task != nil:
		w.task(a.machine)
	case w.install != nil:
		a.install(w, r)
	case w.entries != nil:
		a.apply(w, r)
	}
	if a.failed != nil {
		r.err = a.failed
		w.responses = nil
	}
}

func (a *applier) install(w *work, r *report) {
	index, term := w.install.GetIndex(), w.install.GetTerm()
	if err := a.machine.Install(index, term); err != nil {
		a.failed = fmt.Errorf("install the snapshot at %d: %w", index, err)
		return
	}
	r.installed, r.conf = w.install, w.conf
}

func (a *applier) apply(w *work, r *report) {
	confs := w.confs
	for _, e := range w.entries {
		index, term := e.GetIndex(), e.GetTerm()
		var err error
		if e.GetType() == pb.EntryNormal {
			err = a.machine.Apply(index, term, e.GetData())
			r.count(term, len(e.GetData()))
		} else {
			err = a.machine.ApplyConf(index, term, confs[0])
			confs = confs[1:]
		}
		if err != nil {
			a.failed = fmt.Errorf("apply entry %d of term %d: %w", index, term, err)
			return
		}
	}
}

func (r *report) count(term uint64, size int) {
	if size == 0 {
		return
	}
	if term != r.leadTerm {
		r.leadTerm, r.entries, r.bytes = term, 0, 0
	}
	r.entries++
	r.bytes += size
}

func (a *applier) finish(r *report) {
	a.survey(r)
	a.report(r)
}

// survey fills in what the machine says of itself.
func (a *applier) survey(r *report) {
	ids := a.watch()
	r.lanes = make([]lane, 0, len(ids))
	for _, id := range ids {
		l := lane{node: id}
		l.incarnation, l.nonce, l.seq = a.machine.Incarnation(id)
		r.lanes = append(r.lanes, l)
	}
	r.index, r.term = a.machine.Applied()
	r.standby, r.position, r.since = a.machine.Standing()
	r.stamp, r.deadline, r.print = a.machine.Stamp(), a.machine.NextDeadline(), a.machine.Fingerprint()
}
