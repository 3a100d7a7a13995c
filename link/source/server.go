package source

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/wire"
	"github.com/understudy-mq/understudy/replication"
)

// Log is a group's log as this node has it; *replication.Group is one.
type Log interface {
	// ReadLink reads what this node has applied after a place, at least one entry if there is any.
	ReadLink(index, term, hash uint64, bytesMax int) (replication.LinkRead, error)
	Status() replication.Status
	// Committed is an entry beyond which nothing was committed anywhere when it was called; an error once ctx ends.
	Committed(ctx context.Context) (index uint64, err error)
	// Changed is closed when something of Status has changed.
	Changed() <-chan struct{}
}

var _ Log = (*replication.Group)(nil)

// Identity is whose log this is.
type Identity struct {
	Cluster    string
	Generation entry.Generation
	Role       string // primary, standby, promoted
	Fenced     bool
}

// Notes takes down how far readers are.
type Notes interface {
	// Note says that a reader has everything up to these positions, and the feature level that its members can read.
	Note(reader, standby string, level uint64, positions []wire.Position)
	// Returned says that the former source, a cluster's UUID, is coming back as a reader.
	Returned(former string)
	// Held is what this node's log keeps for a reader; nil for nothing.
	Held(reader string) *wire.Hold
	// Hurried says whether somebody waits for the reader's next position (a confirm mode), so that nothing is to be gathered.
	Hurried(group uint64) bool
}

// Options configure a Server.
type Options struct {
	Node     uint64
	Logs     map[uint64]Log
	Identity func() Identity
	Notes    Notes
	Switch   Switch // what drains and fences
	Seeds    *Seeds // nil: no seed is served
	// Cuts are where the former source, a cluster's UUID, was cut at this cluster's promotion, with the log that follows still
	// here; nil: there was none. Errors that wrap ErrConflict do not pass.
	Cuts   func(former string) ([]wire.Cut, error)
	Read   *Tokens // who may read; nil with Open
	Fence  *Tokens // who may also fence
	Open   bool    // the listener itself has proved who calls (a client certificate): no token is needed to read
	Logger *slog.Logger
}

// Server answers the link's routes.
type Server struct {
	o       Options
	mux     *http.ServeMux
	buffers sync.Pool

	mu      sync.Mutex
	readers map[string]*Reader
	warned  time.Time // of a token that was refused
}

// Reader is a standby that reads here.
type Reader struct {
	Name, Standby string
	Seen          time.Time
	Level         uint64
	Positions     map[uint64]wire.Position
	answers       map[uint64]time.Time // of the newest answer to a read, by group
}

// New makes a Server.
func New(o Options) *Server {
	s := &Server{o: o, mux: http.NewServeMux(), readers: map[string]*Reader{}}
	s.buffers.New = func() any { return new(buffer) }
	s.mux.HandleFunc("POST "+wire.PathRead, s.reading(s.read))
	s.mux.HandleFunc("POST "+wire.PathBeat, s.reading(s.beat))
	s.mux.HandleFunc("POST "+wire.PathSeed, s.reading(s.seed))
	s.mux.HandleFunc("GET "+wire.PathSeed+"/{id}/{group}", s.reading(s.seedFile))
	s.mux.HandleFunc("POST "+wire.PathRewind, s.reading(s.rewind))
	s.mux.HandleFunc("POST "+wire.PathDrain, s.fencing(s.drain))
	s.mux.HandleFunc("POST "+wire.PathFence, s.fencing(s.fence))
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, wire.BodyBytesMax)
	s.mux.ServeHTTP(w, r)
}

var _ http.Handler = (*Server)(nil)

// reading lets those through that may read.
func (s *Server) reading(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := bearer(r)
		switch {
		case s.o.Open, token != "" && (s.o.Read.has(token) || s.o.Fence.has(token)):
			next(w, r)
		case !s.o.Read.any() && !s.o.Fence.any():
			http.NotFound(w, r)
		default:
			s.refuse(w, r, http.StatusUnauthorized, "the link token is missing or wrong")
		}
	}
}

// fencing lets those through that may fence.
func (s *Server) fencing(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := bearer(r)
		switch {
		case token != "" && s.o.Fence.has(token):
			next(w, r)
		case !s.o.Read.any() && !s.o.Fence.any() && !s.o.Open:
			http.NotFound(w, r)
		case s.o.Open || token != "" && s.o.Read.has(token):
			s.refuse(w, r, http.StatusForbidden, "this token may read, not fence (--link-fence-token-file on the source)")
		default:
			s.refuse(w, r, http.StatusUnauthorized, "the link token is missing or wrong")
		}
	}
}

func bearer(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, reason string) {
	s.o.Logger.Log(r.Context(), s.gravity(status), "link request refused", "path", r.URL.Path, "from", r.RemoteAddr, "status", status, "reason", reason)
	wire.WriteJSON(w, status, wire.Refusal{Reason: reason})
}

// warnEvery is how often the log tells of tokens that are refused: who has a wrong one shows it several times a second.
const warnEvery = time.Minute

// gravity is how loudly a refusal is logged.
func (s *Server) gravity(status int) slog.Level {
	if status != http.StatusUnauthorized && status != http.StatusForbidden {
		return slog.LevelDebug
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.warned) < warnEvery {
		return slog.LevelDebug
	}
	s.warned = time.Now()
	return slog.LevelWarn
}

// decode reads a request's body; it has answered already where it fails.
func (s *Server) decode(w http.ResponseWriter, r *http.Request, v any) bool {
	if err := wire.ReadJSON(r.Body, v); err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return false
	}
	return true
}

// admits says why a standby that calls is not served: "" if it is.
func (s *Server) admits(reader, standby string) string {
	id := s.o.Identity()
	switch {
	case reader == "" || len(reader) > wire.NameBytesMax || len(standby) > wire.NameBytesMax:
		return "a reader needs a name of 1 to 128 bytes"
	case id.Cluster == "":
		return "this cluster is still forming"
	case standby == id.Cluster:
		return ReasonSelf
	case id.Role == RoleStandby:
		return ReasonStandby
	}
	return ""
}

// RoleStandby is Identity's word for a cluster that replays another.
const RoleStandby = "standby"

// Why a reader is not served.
const (
	ReasonSelf    = "the source is the standby itself"
	ReasonStandby = "this cluster is a standby itself: point the link at its source"
)

// note takes down how far a reader is.
func (s *Server) note(reader, standby string, level uint64, positions []wire.Position) {
	s.o.Notes.Note(reader, standby, level, positions)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.readers[reader]
	if r == nil {
		if len(s.readers) >= readersMax {
			return
		}
		r = &Reader{Name: reader, Positions: map[uint64]wire.Position{}, answers: map[uint64]time.Time{}}
		s.readers[reader] = r
	}
	r.Standby, r.Level, r.Seen = standby, level, time.Now()
	for _, p := range positions {
		if s.o.Logs[p.Group] != nil {
			r.Positions[p.Group] = p
		}
	}
}

// sinceAnswer is how long ago the reader was answered about the group last.
func (s *Server) sinceAnswer(q wire.ReadRequest) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.readers[q.Reader]; r != nil {
		return time.Since(r.answers[q.After.Group])
	}
	return pace
}

// answered notes that the reader is answered now.
func (s *Server) answered(q wire.ReadRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.readers[q.Reader]; r != nil {
		r.answers[q.After.Group] = time.Now()
	}
}

// readersMax bounds the readers that are remembered: names come from outside.
const readersMax = 64

// Readers are those that have called since the node started.
func (s *Server) Readers() []Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Reader, 0, len(s.readers))
	for _, r := range s.readers {
		c := *r
		c.Positions, c.answers = maps.Clone(r.Positions), nil
		list = append(list, c)
	}
	return list
}
