package link

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/source"
	"github.com/understudy-mq/understudy/link/wire"
	"github.com/understudy-mq/understudy/replication"
)

// patience bounds every wait of these tests.
const patience = time.Minute

// eventually waits until what is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// history is a log that a source's nodes have in common: a group of one.
type history struct {
	mu      sync.Mutex
	entries []replication.LinkEntry // from index 2 on
	first   uint64                  // the first that is kept
	moved   chan struct{}
}

func newHistory() *history { return &history{first: 2, moved: make(chan struct{})} }

func (h *history) add(term uint64, data ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range data {
		next := h.end().Next(term, []byte(d))
		h.entries = append(h.entries, replication.LinkEntry{
			Index: next.Index, Term: term, Own: d == "", Data: []byte(d), Hash: next.Hash, Fingerprint: next.Hash ^ 7, Printed: true,
		})
	}
	close(h.moved)
	h.moved = make(chan struct{})
}

// many adds n entries.
func (h *history) many(term uint64, n int) {
	data := make([]string, n)
	for i := range data {
		data[i] = fmt.Sprintf("entry %d of term %d", i, term)
	}
	h.add(term, data...)
}

// at is the place after the entry i of the history, which is a log's entry i+2; h.mu is held.
func (h *history) at(i int) entry.Position {
	if i < 0 {
		return entry.Origin()
	}
	e := h.entries[i]
	return entry.Position{Index: e.Index, Term: e.Term, Hash: e.Hash}
}

func (h *history) end() entry.Position { return h.at(len(h.entries) - 1) }

func (h *history) last() entry.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.end()
}

// purge drops the entries before first.
func (h *history) purge(first uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first = first
}

// ReadLink implements source.Log.
func (h *history) ReadLink(index, term, hash uint64, bytesMax int) (replication.LinkRead, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := replication.LinkRead{Status: replication.ReadEntries, Applied: h.end().Index, First: h.first}
	switch {
	case index+1 < h.first:
		r.Status = replication.ReadPurged
		return r, nil
	case index > r.Applied:
		r.Status = replication.ReadAhead
		return r, nil
	}
	if h.at(int(index)-2) != (entry.Position{Index: index, Term: term, Hash: hash}) {
		r.Status = replication.ReadMismatch
		return r, nil
	}
	for _, e := range h.entries[index-1:] {
		if bytesMax -= len(e.Data); bytesMax < 0 && len(r.Entries) > 0 {
			break
		}
		r.Entries = append(r.Entries, e)
	}
	return r, nil
}

// Status implements source.Log.
func (h *history) Status() replication.Status { return replication.Status{Applied: h.last().Index} }

// Committed implements source.Log: a node of the rig's has a majority always.
func (h *history) Committed(context.Context) (uint64, error) { return h.last().Index, nil }

// Changed implements source.Log.
func (h *history) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.moved
}

var _ source.Log = (*history)(nil)

// notes takes down what readers tell.
type notes struct {
	mu   sync.Mutex
	list map[string]wire.Position
}

func (n *notes) Note(reader, _ string, _ uint64, ps []wire.Position) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range ps {
		n.list[reader] = p
	}
}

func (n *notes) Hurried(uint64) bool { return true }
func (n *notes) Returned(string)     {}

func (n *notes) Held(string) *wire.Hold { return nil }

func (n *notes) of(reader string) wire.Position {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list[reader]
}

// replica is a standby's group as one node has it: what is handed over is applied at once.
type replica struct {
	mu        sync.Mutex
	s         Standing
	applied   []entry.Replay
	lose      int // so many of what is handed over next are lost
	slow      int // so many are kept back
	kept      []entry.Replay
	most      int // the most that were ever kept back
	moved     chan struct{}
	diverging uint64 // the index at which the state differs
}

func newReplica() *replica {
	return &replica{s: Standing{Role: Standby, Leads: true, Position: entry.Origin()}, moved: make(chan struct{})}
}

func (r *replica) Standing() Standing {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.s
}

func (r *replica) set(change func(*Standing)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.s)
}

func (r *replica) Replay(entries []entry.Replay) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		if r.lose > 0 {
			r.lose--
			continue
		}
		r.kept = append(r.kept, e)
		r.most = max(r.most, len(r.kept))
	}
	r.apply()
	return nil
}

// apply applies what is not kept back. r.mu is held.
func (r *replica) apply() {
	for len(r.kept) > r.slow {
		e := r.kept[0]
		r.kept = r.kept[1:]
		if e.Position != r.s.Position.Next(e.Position.Term, e.Inner) {
			continue
		}
		if e.Position.Index == r.diverging {
			r.s.Diverged = "the state differs"
			continue
		}
		r.s.Position, r.s.Source = e.Position, e.Source
		r.applied = append(r.applied, e)
	}
	close(r.moved)
	r.moved = make(chan struct{})
}

func (r *replica) hold(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow = n
	r.apply()
}

func (r *replica) Wait(ctx context.Context, index uint64) {
	for {
		r.mu.Lock()
		there, moved := r.s.Position.Index >= index, r.moved
		r.mu.Unlock()
		if there {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}

// sourceNode is a node of the source with its link port.
type sourceNode struct {
	*httptest.Server
	log   *history
	notes *notes
	id    source.Identity
}

func (n *sourceNode) address() string { return strings.TrimPrefix(n.URL, "http://") }

const (
	sourceID  = "the-source"
	standbyID = "the-standby"
)

func serve(t *testing.T, log *history, change func(*source.Options)) *sourceNode {
	t.Helper()
	n := &sourceNode{log: log, notes: &notes{list: map[string]wire.Position{}}, id: source.Identity{Cluster: sourceID, Role: "primary"}}
	o := source.Options{
		Node: 1, Logs: map[uint64]source.Log{1: log}, Notes: n.notes, Logger: slog.New(slog.DiscardHandler), Open: true,
		Identity: func() source.Identity { return n.id },
	}
	if change != nil {
		change(&o)
	}
	n.Server = httptest.NewServer(source.New(o))
	t.Cleanup(n.Close)
	return n
}

// tokenFile holds lines.
func tokenFile(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// follow runs a standby node's link to the addresses.
func follow(t *testing.T, r *replica, token string, addresses ...string) *Link {
	t.Helper()
	return followReading(t, r, token, nil, addresses...)
}

// followReading is follow for a version that reads what readable lets pass.
func followReading(t *testing.T, r *replica, token string, readable func([]byte) error, addresses ...string) *Link {
	t.Helper()
	l := New(Options{
		Readable: readable, Addresses: addresses, TokenFile: token, Name: func() string { return "reader" }, Cluster: func() string { return standbyID },
		Groups: []uint64{1}, Replicas: map[uint64]Replica{1: r}, Active: func() bool { return r.Standing().Role == Standby }, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return l
}

func (l *Link) only() Follower { return l.Followers()[0] }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
