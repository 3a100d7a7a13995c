package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/understudy-mq/understudy/cmd/internal/certs"
	"github.com/understudy-mq/understudy/core/store"
	"github.com/understudy-mq/understudy/link"
	"github.com/understudy-mq/understudy/link/wire"
	"github.com/understudy-mq/understudy/replication/durable"
	"github.com/understudy-mq/understudy/replication/log"
)

// imagesDir has earlier states of the node (replication.Options.Image).
const imagesDir = "images"

// rewindDir has the copies of stores that are wound back.
const rewindDir = "rewind"

// RewindOptions say which node of a former source is to be wound back, and to where.
type RewindOptions struct {
	Folder  *Folder  // of the node, which does not run
	Sources []string // HOST:LINKPORT of the cluster that was promoted in its place
	Token   string   // file
	TLS     certs.Files
	To      string // the folder that the node will begin with; one that an earlier call made goes
	Logger  *slog.Logger
}

// Rewound is how a former source's node was wound back.
type Rewound struct {
	LinkBytes int64          `json:"link_bytes"` // that came from the cluster that serves now
	Bytes     int64          `json:"bytes"`      // of the state
	Groups    []RewoundGroup `json:"groups"`
}

// RewoundGroup is a group's: the entry at which it was cut, and the one whose state was there to begin with.
type RewoundGroup struct {
	Group uint64 `json:"group"`
	Cut   uint64 `json:"cut"`
	From  uint64 `json:"from"`
}

// ErrNoRewind is what an error wraps where the node cannot be wound back, and will not be able to be.
var ErrNoRewind = errors.New("the node cannot be wound back")

// errLagged is for a node that had not come to the cut when its cluster was lost; others had.
var errLagged = errors.New("this node lagged behind")

// Rewind makes in o.To the folder of a standby's first node that stands where its former cluster was cut: a seed, made of what the node
// has itself. A state at or before the cut, the newest checkpoint or an image, is copied, the node's own log applied to it up to
// the cut, and the outcome compared with what the promoted cluster tells of that place: term, rolling hash, fingerprint. The
// folder of the former node stays as it is (its log is opened, as a start of the node would), and o.To is only there once it is whole. Errors: ErrNoRewind; what may pass (nobody
// answers, no room), or does on another node of the former source (this one lagged behind).
func Rewind(ctx context.Context, o RewindOptions) (*Rewound, error) {
	r := &rewind{o: o, data: o.Folder.path, part: o.To + ".part"}
	secure, err := linkClientTLS(o.TLS, o.Logger)
	if err != nil {
		return nil, err
	}
	standby := uuid.NewString()
	told, err := link.AskCuts(ctx, link.SeedOptions{
		Addresses: o.Sources, TokenFile: o.Token, TLS: secure, Reader: readerName(standby), Standby: standby,
	}, o.Folder.Identity().ClusterID)
	if errors.Is(err, link.ErrRefused) {
		err = fmt.Errorf("%w: %w", ErrNoRewind, err)
	}
	if err != nil {
		return nil, err
	}
	r.cuts, r.out.LinkBytes = told.Cuts, told.Bytes
	if err := errors.Join(os.RemoveAll(o.To), os.RemoveAll(r.part), os.MkdirAll(filepath.Join(r.part, seedDir), 0o700)); err != nil {
		return nil, fmt.Errorf("rewind: %w", err)
	}
	files, err := r.files(ctx)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(r.part))
	}
	return &r.out, r.finish(&seedRecord{
		Standby: standby, Whole: true, Rewound: true,
		Seed: link.Fetched{Seed: wire.Seed{ID: uuid.NewString(), Cluster: told.Cluster, Generation: told.Generation, Files: files}},
	})
}

// rewind is one under way.
type rewind struct {
	o    RewindOptions
	data string // the former node's folder
	part string // the new one, until it is whole
	cuts []wire.Cut
	log  *log.Log
	out  Rewound
}

// finish writes the seed's record and gives the folder its name.
func (r *rewind) finish(s *seedRecord) error {
	if err := errors.Join(os.RemoveAll(filepath.Join(r.part, rewindDir)), durable.SyncDir(vfs.Default, filepath.Join(r.part, seedDir))); err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	if err := (&Folder{fs: vfs.Default, path: r.part}).writeSeed(s); err != nil {
		return err
	}
	if err := durable.Rename(vfs.Default, r.part, r.o.To); err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	return nil
}

// files makes the groups' snapshots at their cuts.
func (r *rewind) files(ctx context.Context) (files []wire.SeedFile, err error) {
	failed := make(chan error, 1)
	r.log, err = log.Open(log.Options{Dir: filepath.Join(r.data, LogDir), FS: vfs.Default, Logger: r.o.Logger, Fatal: func(err error) { failed <- err }})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoRewind, err)
	}
	defer func() { err = errors.Join(err, r.log.Close()) }()
	from, err := r.choose()
	if err != nil {
		return nil, err
	}
	for i, dir := range r.stores() {
		if len(from[dir]) == 0 {
			continue
		}
		list, err := r.replay(ctx, dir, filepath.Join(r.part, rewindDir, strconv.Itoa(i)), from[dir])
		if err != nil {
			return nil, err
		}
		files = append(files, list...)
	}
	slices.SortFunc(files, func(a, b wire.SeedFile) int { return int(a.Position.Group) - int(b.Position.Group) })
	return files, nil
}

// stores are the folders with states of the node: the newest, and the images.
func (r *rewind) stores() []string {
	list := []string{filepath.Join(r.data, StoreDir)}
	images, _ := filepath.Glob(filepath.Join(r.data, imagesDir, "*"))
	for _, i := range images {
		if s, err := os.Stat(i); err == nil && s.IsDir() {
			list = append(list, i)
		}
	}
	return list
}

// choose finds for each group the folder with its newest state at or before the cut.
func (r *rewind) choose() (from map[string][]wire.Cut, err error) {
	ids := make([]uint64, len(r.cuts))
	for i, c := range r.cuts {
		ids[i] = c.Former.Group
	}
	if want := r.o.Folder.Identity().Groups + 1; len(ids) != want {
		return nil, fmt.Errorf("%w: the cluster that serves now has %d groups, this one %d", ErrNoRewind, len(ids), want)
	}
	states, damage := map[string]map[uint64]uint64{}, []error(nil)
	for _, dir := range r.stores() {
		at, err := store.Checkpointed(vfs.Default, dir, ids)
		if err != nil {
			damage = append(damage, err)
			continue
		}
		states[dir] = at
	}
	from = map[string][]wire.Cut{}
	for _, c := range r.cuts {
		best, at := "", uint64(0)
		for dir, s := range states {
			if x := s[c.Former.Group]; x > at && x <= c.Former.Index {
				best, at = dir, x
			}
		}
		if best == "" {
			return nil, errors.Join(append([]error{fmt.Errorf("%w: it has no state of group %d at or before the cut, entry %d",
				ErrNoRewind, c.Former.Group, c.Former.Index)}, damage...)...)
		}
		if err := r.reaches(c, at); err != nil {
			return nil, err
		}
		from[best] = append(from[best], c)
		r.out.Groups = append(r.out.Groups, RewoundGroup{Group: c.Former.Group, Cut: c.Former.Index, From: at})
	}
	return from, nil
}

// reaches checks that the node's log has what lies between a state and the cut.
func (r *rewind) reaches(c wire.Cut, from uint64) error {
	g := r.log.Group(c.Former.Group)
	first, err1 := g.FirstIndex()
	last, err2 := g.LastIndex()
	switch {
	case err1 != nil || err2 != nil:
		return fmt.Errorf("%w: %w", ErrNoRewind, errors.Join(err1, err2))
	case last < c.Former.Index:
		return fmt.Errorf("%w: its log of group %d ends at entry %d, and the cut is at %d: wind another node of the former source back",
			errLagged, c.Former.Group, last, c.Former.Index)
	case from < c.Former.Index && from+1 < first:
		return fmt.Errorf("%w: its log of group %d begins at entry %d, and the state to begin with is of entry %d",
			ErrNoRewind, c.Former.Group, first, from)
	}
	return nil
}

// replay brings groups, whose states lie in the store in dir, to their cuts in a copy of it, and writes their snapshots.
func (r *rewind) replay(ctx context.Context, dir, copied string, cuts []wire.Cut) (files []wire.SeedFile, err error) {
	if err := store.CopyImage(vfs.Default, dir, copied); err != nil {
		return nil, err
	}
	failed := make(chan error, 1)
	db, err := store.Open(vfs.Default, copied, store.Options{Logger: r.o.Logger, Fatal: func(err error) { failed <- err }})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoRewind, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, c := range cuts {
		file, err := r.group(ctx, db, c)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	select {
	case err := <-failed:
		return nil, err
	default:
		return files, nil
	}
}

// group brings a group to its cut and writes its snapshot.
func (r *rewind) group(ctx context.Context, db *store.DB, c wire.Cut) (f wire.SeedFile, err error) {
	id := c.Former.Group
	g, err := db.Group(id, store.GroupOptions{Node: ^uint64(0), ReadEntry: r.log.Group(id).Bytes})
	if err != nil {
		return f, fmt.Errorf("%w: %w", ErrNoRewind, err)
	}
	if err := r.apply(ctx, g, c); err != nil {
		return f, err
	}
	if err := fits(g, c); err != nil {
		return f, fmt.Errorf("%w: group %d: %w", ErrNoRewind, id, err)
	}
	f = wire.SeedFile{Position: c.Here, Fingerprint: c.Fingerprint}
	f.Bytes, f.SHA256, err = writeSnapshot(g, link.SeedPath(filepath.Join(r.part, seedDir), id))
	if err != nil {
		return f, fmt.Errorf("%w: the state of group %d at the cut cannot be written: %w", ErrNoRewind, id, err)
	}
	r.out.Bytes += f.Bytes
	return f, nil
}

// rewindBytes of entries are read at a time.
const rewindBytes = 4 << 20

// apply applies the node's log to a group up to the cut.
func (r *rewind) apply(ctx context.Context, g *store.Group, c wire.Cut) error {
	entries := r.log.Group(c.Former.Group)
	for began := time.Now(); ; {
		at, _ := g.Applied()
		if at >= c.Former.Index {
			return ctx.Err()
		}
		if time.Since(began) > 2*time.Second {
			began = time.Now()
			r.o.Logger.Info("winding back", "group", c.Former.Group, "entry", at, "of", c.Former.Index)
		}
		list, err := entries.Entries(at+1, c.Former.Index+1, rewindBytes)
		if errors.Is(err, raft.ErrCompacted) || errors.Is(err, raft.ErrUnavailable) {
			err = fmt.Errorf("its log has no entry %d: %w", at+1, err)
		}
		for _, e := range list {
			if err == nil && e.GetType() == raftpb.EntryNormal {
				err = g.Apply(e.GetIndex(), e.GetTerm(), e.GetData())
			} else if err == nil {
				err = g.Apply(e.GetIndex(), e.GetTerm(), nil)
			}
		}
		if err != nil {
			return fmt.Errorf("%w: group %d: %w", ErrNoRewind, c.Former.Group, err)
		}
		g.Round()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// fits compares a group at its cut with what the promoted cluster has there.
func fits(g *store.Group, c wire.Cut) error {
	index, term := g.Applied()
	_, hash := g.RollingHash()
	switch {
	case index != c.Former.Index || term != c.Former.Term || hash != c.Former.Hash:
		return fmt.Errorf("its log differs from what was replayed of it: at entry %d it has term %d and rolling hash %016x, not term %d and %016x",
			index, term, hash, c.Former.Term, c.Former.Hash)
	case g.Fingerprint() != c.Fingerprint:
		return fmt.Errorf("its state at the cut differs: fingerprint %016x, not %016x", g.Fingerprint(), c.Fingerprint)
	}
	return nil
}

// writeSnapshot writes a group's snapshot to a file, which is on disk when it returns.
func writeSnapshot(g *store.Group, name string) (bytes int64, sha string, err error) {
	s, err := g.Snapshot()
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	out, err := os.Create(name)
	if err != nil {
		return 0, "", err
	}
	sum := sha256.New()
	bytes, err = s.WriteTo(io.MultiWriter(out, sum))
	return bytes, hex.EncodeToString(sum.Sum(nil)), errors.Join(err, out.Sync(), out.Close())
}
