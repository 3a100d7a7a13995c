package source

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/understudy-mq/understudy/link/wire"
)

// ErrPurged says that entries asked for are no longer kept.
var ErrPurged = errors.New("entries are no longer in the log")

const (
	stepBytes = 1 << 20 // read from the log at once
	// gather is how long a reader that has caught up is let wait for more to come, so that a busy source is not asked a
	// thousand times a second. Not where a confirm waits for it.
	gather = 5 * time.Millisecond
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
	s.answer(w, log, q)
}

// await waits until there is something after the position.
func (s *Server) await(ctx context.Context, log Log, q wire.ReadRequest) {
	if log.State().Index != q.After.Index {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(min(max(q.WaitMillis, 0), wire.WaitMillisMax))*time.Millisecond)
	defer cancel()
	log.Wait(ctx, q.After.Index)
	if s.o.Notes.Hurried(q.After.Group) || ctx.Err() != nil {
		return
	}
	select {
	case <-time.After(gather):
	case <-ctx.Done():
	}
}

func (s *Server) answer(w http.ResponseWriter, log Log, q wire.ReadRequest) {
	id, state := s.o.Identity(), log.State()
	head := wire.Head{
		Status: wire.Entries, Cluster: id.Cluster, Generation: id.Generation, Node: s.o.Node,
		Applied: state.Index, Stamp: state.Stamp, First: log.First(),
	}
	head.Status, head.Term, head.Hash = s.judge(log, head, state, q)
	var entries []Entry
	if head.Status == wire.Entries && state.Index > q.After.Index {
		var err error
		if entries, err = log.Read(q.After.Index, stepBytes); errors.Is(err, ErrPurged) {
			head.Status, head.First = wire.Purged, log.First()
		} else if err != nil {
			s.o.Logger.Error("the log cannot be read for a standby", "group", q.After.Group, "after", q.After.Index, "error", err)
			wire.WriteJSON(w, http.StatusServiceUnavailable, wire.Refusal{Reason: "this node cannot read its log: " + err.Error()})
			return
		}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	b := s.buffers.Get().(*buffer)
	defer s.buffers.Put(b)
	out := b.to(w)
	if stream(wire.NewWriter(out, head), log, entries, state, q) {
		s.known[q.After.Group].add(state.Position)
	}
	_ = out.Flush() // who does not get the end asks again
}

// judge compares a position with this node's log.
func (s *Server) judge(log Log, head wire.Head, state State, q wire.ReadRequest) (status wire.Status, term, hash uint64) {
	at := q.After
	switch {
	case q.Cluster != "" && q.Cluster != head.Cluster:
		return wire.Mismatch, 0, 0
	case at.Index > state.Index:
		return wire.Ahead, 0, 0
	case at.Index+1 < head.First:
		return wire.Purged, 0, 0
	}
	term, ok := log.Term(at.Index)
	if !ok {
		return wire.Purged, 0, 0
	}
	if term != at.Term {
		return wire.Mismatch, term, 0
	}
	if hash, ok := s.known[at.Group].hash(log, at.Position, state); ok && hash != at.Hash {
		return wire.Mismatch, term, hash
	}
	return wire.Entries, 0, 0
}

// stream writes entries, the first of which are read already, until the request's measure or the applied state is reached,
// which it says. Where the position's hash does not lead to the state's, the last entry is held back: the next request's
// position is so near that judge finds the difference.
func stream(out *wire.Writer, log Log, entries []Entry, state State, q wire.ReadRequest) (reached bool) {
	at, sum := q.After.Position, 0
	most := min(max(q.BytesMax, 1), wire.ReadBytesMax)
	for at.Index < state.Index && sum < most {
		if len(entries) == 0 {
			var err error
			if entries, err = log.Read(at.Index, min(stepBytes, most-sum)); err != nil || len(entries) == 0 {
				break // what was sent is whole
			}
		}
		for _, e := range entries {
			next := at.Next(e.Term, e.Data)
			item := wire.Item{Position: next, Data: e.Data}
			if next.Index == state.Index {
				if next != state.Position {
					_ = out.End()
					return false
				}
				item.Fingerprint = state.Fingerprint
			}
			if next.Index > state.Index {
				break
			}
			if out.Item(item) != nil {
				return false
			}
			at, sum = next, sum+len(e.Data)
		}
		entries = nil
	}
	_ = out.End()
	return at.Index == state.Index
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
	if q.Cluster == "" || q.Cluster == id.Cluster {
		s.note(q.Reader, q.Standby, q.Level, q.Positions)
	}
	a := wire.BeatAnswer{Cluster: id.Cluster, Generation: id.Generation, Node: s.o.Node, Role: id.Role, Fenced: id.Fenced}
	for g, log := range s.o.Logs {
		state := log.State()
		a.Groups = append(a.Groups, wire.GroupBeat{
			Group: g, Applied: state.Index, Term: state.Term, Stamp: state.Stamp, StaleMillis: state.Stale.Milliseconds(),
		})
	}
	wire.WriteJSON(w, http.StatusOK, a)
}
