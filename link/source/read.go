package source

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/wire"
	"github.com/understudy-mq/understudy/replication"
)

const (
	stepBytes = 1 << 20 // read from the log at once
	// pace is the least time between two answers about a group to one reader: what comes meanwhile goes together. A busy source
	// would be asked as often as a standby can apply otherwise, and asking costs it more than entries do. Not where a
	// confirm waits for the reader.
	pace = 20 * time.Millisecond
	// proveTimeout is how long a beat waits for a majority: it is answered without a proof then, and comes again.
	proveTimeout = 500 * time.Millisecond
)

// buffer is an answer's, used again.
type buffer struct{ w *bufio.Writer }

func (b *buffer) to(w io.Writer) *bufio.Writer {
	if b.w == nil {
		b.w = bufio.NewWriterSize(w, 32<<10)
	} else {
		b.w.Reset(w)
	}
	return b.w
}

// read answers the entries after a position, as soon as there are some.
func (s *Server) read(w http.ResponseWriter, r *http.Request) {
	var q wire.ReadRequest
	if !s.decode(w, r, &q) {
		return
	}
	if reason := s.admits(q.Reader, q.Standby); reason != "" {
		s.refuse(w, r, http.StatusConflict, reason)
		return
	}
	log := s.o.Logs[q.After.Group]
	if log == nil {
		s.refuse(w, r, http.StatusConflict, "this cluster has no such group: both need the same --groups")
		return
	}
	s.note(q.Reader, q.Standby, q.Level, []wire.Position{q.After})
	s.await(r.Context(), log, q)
	s.answered(q)
	s.answer(w, log, q)
}

// await waits until there is something after the position, and it is time to tell of it.
func (s *Server) await(ctx context.Context, log Log, q wire.ReadRequest) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(min(max(q.WaitMillis, 0), wire.WaitMillisMax))*time.Millisecond)
	defer cancel()
	if early := pace - s.sinceAnswer(q); early > 0 && !s.o.Notes.Hurried(q.After.Group) {
		pause(ctx, early)
	}
	for {
		changed := log.Changed()
		if log.Status().Applied > q.After.Index {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (s *Server) answer(w http.ResponseWriter, log Log, q wire.ReadRequest) {
	id, at := s.o.Identity(), q.After
	most := min(max(q.BytesMax, 1), wire.ReadBytesMax)
	first, err := log.ReadLink(at.Index, at.Term, at.Hash, min(stepBytes, most))
	if err != nil {
		s.o.Logger.Error("the log cannot be read for a standby", "group", at.Group, "after", at.Index, "error", err)
		wire.WriteJSON(w, http.StatusServiceUnavailable, wire.Refusal{Reason: "this node cannot read its log: " + err.Error()})
		return
	}
	head := wire.Head{
		Status: statuses[first.Status], Cluster: id.Cluster, Generation: id.Generation, Node: s.o.Node,
		Applied: first.Applied, Stamp: first.Stamp, First: first.First, Term: first.Term, Hash: first.Hash,
	}
	if q.Cluster != "" && q.Cluster != id.Cluster {
		head.Status, first.Entries = wire.Mismatch, nil
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	b := s.buffers.Get().(*buffer)
	defer s.buffers.Put(b)
	out := b.to(w)
	stream(wire.NewWriter(out, head), log, first, most)
	_ = out.Flush() // who does not get the end asks again
}

var statuses = map[replication.ReadStatus]wire.Status{
	replication.ReadEntries: wire.Entries, replication.ReadPurged: wire.Purged,
	replication.ReadMismatch: wire.Mismatch, replication.ReadAhead: wire.Ahead,
}

// stream writes entries, the first of which are read already, until there are most bytes of them or what is applied is reached.
func stream(out *wire.Writer, log Log, r replication.LinkRead, most int) {
	sum := 0
	for len(r.Entries) > 0 {
		for _, e := range r.Entries {
			item := wire.Item{Position: entry.Position{Index: e.Index, Term: e.Term, Hash: e.Hash}, Data: e.Data}
			if e.Printed {
				item.Fingerprint = e.Fingerprint
			}
			if out.Item(item) != nil {
				return
			}
			sum += len(e.Data)
		}
		if sum >= most {
			break
		}
		last := r.Entries[len(r.Entries)-1]
		var err error
		if r, err = log.ReadLink(last.Index, last.Term, last.Hash, min(stepBytes, most-sum)); err != nil {
			break // what was sent is whole
		}
	}
	_ = out.End()
}

// beat takes down how far a standby is in every group, and answers how far this node is.
func (s *Server) beat(w http.ResponseWriter, r *http.Request) {
	var q wire.Beat
	if !s.decode(w, r, &q) {
		return
	}
	if reason := s.admits(q.Reader, q.Standby); reason != "" {
		s.refuse(w, r, http.StatusConflict, reason)
		return
	}
	id := s.o.Identity()
	var proven map[uint64]uint64
	if q.Cluster == "" || q.Cluster == id.Cluster {
		s.note(q.Reader, q.Standby, q.Level, q.Positions)
		proven = s.prove(r.Context(), q)
	}
	a := wire.BeatAnswer{Cluster: id.Cluster, Generation: id.Generation, Node: s.o.Node, Role: id.Role, Fenced: id.Fenced, Hold: s.o.Notes.Held(q.Reader)}
	for g, log := range s.o.Logs {
		now := log.Status()
		a.Groups = append(a.Groups, wire.GroupBeat{Group: g, Applied: now.Applied, Leads: now.Leader == s.o.Node, Committed: proven[g]})
	}
	wire.WriteJSON(w, http.StatusOK, a)
}

// prove answers, by group, what was committed when the beat came, where that is asked for and can be said in time.
func (s *Server) prove(ctx context.Context, q wire.Beat) map[uint64]uint64 {
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	var wait sync.WaitGroup
	var mu sync.Mutex
	proven := map[uint64]uint64{}
	for g, log := range s.o.Logs {
		i := slices.IndexFunc(q.Positions, func(p wire.Position) bool { return p.Group == g })
		if i < 0 || !slices.Contains(q.Prove, g) {
			continue
		}
		wait.Go(func() {
			if index, ok := committed(ctx, log, q.Positions[i]); ok {
				mu.Lock()
				proven[g] = index
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return proven
}

// committed is what is committed in a group's log, if that has the standby's position: what another history has committed (a source
// that was restored from a backup) proves nothing to a standby.
func committed(ctx context.Context, log Log, at wire.Position) (uint64, bool) {
	index, err := log.Committed(ctx)
	if err != nil {
		return 0, false
	}
	r, err := log.ReadLink(at.Index, at.Term, at.Hash, 0)
	return index, err == nil && r.Status == replication.ReadEntries
}
