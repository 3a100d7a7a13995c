package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/wire"
	"github.com/understudy-mq/understudy/replication"
)

const (
	seedsMax     = 2                // snapshots kept ready at a time: they take the room of the state
	seedIdle     = 10 * time.Minute // a snapshot that nobody has asked for goes
	seedPatience = 5 * time.Second  // how long a request waits for a snapshot to be ready before it is told to ask again
)

// Exporter cuts a snapshot of a group; *replication.Group is one.
type Exporter interface {
	Export(ctx context.Context) (*replication.Export, error)
}

// Seeds are snapshots of the whole cluster that wait for their standbys, as files of this node. They are not synced, and past the
// node's vfs.FS: no start takes them up, and a standby whose download a power cut broke off begins with another seed.
type Seeds struct {
	dir    string
	groups map[uint64]Exporter
	logger *slog.Logger
	now    func() time.Time

	mu    sync.Mutex
	seeds map[string]*spool // by reader
}

// spool is a seed that is being made, or ready.
type spool struct {
	wire.Seed
	dir   string
	ready chan struct{} // closed once Files is whole or err is set
	err   error
	used  time.Time
}

// OpenSeeds makes the place for snapshots at dir; what an earlier process left there goes.
func OpenSeeds(dir string, groups map[uint64]Exporter, logger *slog.Logger) (*Seeds, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("link seeds: %w", err)
	}
	return &Seeds{dir: dir, groups: groups, logger: logger, now: time.Now, seeds: map[string]*spool{}}, nil
}

var errTooManySeeds = errors.New("this node has as many snapshots ready for standbys as it may: try again in 10 minutes, or another node")

// get answers the seed of a reader, which is begun where there is none.
func (s *Seeds) get(reader string, base wire.Seed) (*spool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if p := s.seeds[reader]; p != nil {
		p.used = s.now()
		return p, nil
	}
	if len(s.seeds) >= seedsMax {
		return nil, errTooManySeeds
	}
	base.ID = uuid.NewString()
	p := &spool{Seed: base, dir: filepath.Join(s.dir, base.ID), ready: make(chan struct{}), used: s.now()}
	s.seeds[reader] = p
	go s.make(p)
	return p, nil
}

// expire drops what failed or was not asked for in a while. s.mu is held.
func (s *Seeds) expire() {
	for reader, p := range s.seeds {
		select {
		case <-p.ready:
		default:
			continue
		}
		if p.err != nil || s.now().Sub(p.used) > seedIdle {
			delete(s.seeds, reader)
			_ = os.RemoveAll(p.dir)
		}
	}
}

// make writes every group's snapshot to a file.
func (s *Seeds) make(p *spool) {
	defer close(p.ready)
	if p.err = os.MkdirAll(p.dir, 0o700); p.err != nil {
		return
	}
	for _, g := range slices.Sorted(maps.Keys(s.groups)) {
		f, err := s.write(p, g)
		if err != nil {
			p.err = fmt.Errorf("snapshot of group %d: %w", g, err)
			s.logger.Error("a seed for a standby could not be made", "error", p.err)
			return
		}
		p.Files = append(p.Files, f)
	}
	s.logger.Info("a seed for a standby is ready", "seed", p.ID, "groups", len(p.Files))
}

func (s *Seeds) write(p *spool, group uint64) (f wire.SeedFile, err error) {
	cut, err := s.groups[group].Export(context.Background())
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, cut.Close()) }()
	out, err := os.Create(filepath.Join(p.dir, strconv.FormatUint(group, 10)))
	if err != nil {
		return f, err
	}
	sum := sha256.New()
	f.Bytes, err = cut.WriteTo(io.MultiWriter(out, sum))
	f.Position = wire.Position{Group: group, Position: entry.Position{Index: cut.Index(), Term: cut.Term(), Hash: cut.Hash}}
	f.Fingerprint, f.SHA256 = cut.Fingerprint, hex.EncodeToString(sum.Sum(nil))
	return f, errors.Join(err, out.Close())
}

// open finds a file of a seed that is ready.
func (s *Seeds) open(id, group string) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.seeds {
		if p.ID != id {
			continue
		}
		p.used = s.now()
		g, err := strconv.ParseUint(group, 10, 64)
		if err != nil || s.groups[g] == nil {
			return nil, os.ErrNotExist
		}
		return os.Open(filepath.Join(p.dir, strconv.FormatUint(g, 10)))
	}
	return nil, os.ErrNotExist
}

// seed has a snapshot made, and answers its files once it is ready.
func (s *Server) seed(w http.ResponseWriter, r *http.Request) {
	var q wire.SeedRequest
	if !s.decode(w, r, &q) {
		return
	}
	if reason := s.admits(q.Reader, q.Standby); reason != "" {
		s.refuse(w, r, http.StatusConflict, reason)
		return
	}
	if s.o.Seeds == nil {
		http.NotFound(w, r)
		return
	}
	s.hold(q.Reader, q.Standby)
	id := s.o.Identity()
	p, err := s.o.Seeds.get(q.Reader, wire.Seed{Cluster: id.Cluster, Generation: id.Generation})
	if err != nil {
		s.refuse(w, r, http.StatusServiceUnavailable, err.Error())
		return
	}
	select {
	case <-p.ready:
	case <-time.After(seedPatience):
		wire.WriteJSON(w, http.StatusAccepted, wire.Seed{ID: p.ID})
		return
	case <-r.Context().Done():
		return
	}
	if p.err != nil {
		s.refuse(w, r, http.StatusServiceUnavailable, p.err.Error())
		return
	}
	wire.WriteJSON(w, http.StatusOK, p.Seed)
}

// hold keeps the log from before the snapshot on, under the name that the standby will read with. While the snapshot is
// fetched each request renews it.
func (s *Server) hold(reader, standby string) {
	s.mu.Lock()
	known := s.readers[reader]
	s.mu.Unlock()
	positions := make([]wire.Position, 0, len(s.o.Logs))
	for _, g := range slices.Sorted(maps.Keys(s.o.Logs)) {
		at := wire.Position{Group: g, Position: entry.Position{Index: s.o.Logs[g].Status().Applied}}
		if known != nil && known.Positions[g].Index > 0 && known.Positions[g].Index < at.Index {
			at = known.Positions[g]
		}
		positions = append(positions, at)
	}
	s.note(reader, standby, 0, positions)
}

// seedFile answers a part of a group's snapshot, the one that its Range asks for.
func (s *Server) seedFile(w http.ResponseWriter, r *http.Request) {
	if s.o.Seeds == nil {
		http.NotFound(w, r)
		return
	}
	f, err := s.o.Seeds.open(r.PathValue("id"), r.PathValue("group"))
	if err != nil {
		s.refuse(w, r, http.StatusNotFound, "this node has no such seed (any more)")
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, f)
}
