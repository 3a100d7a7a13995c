package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/link"
	"github.com/understudy-mq/understudy/replication"
)

// The record of a seed, and the folder of its files until they are taken in.
const (
	seedFile = "link-seed.json"
	seedDir  = "link-seed"
)

// seedRecord is what a folder knows of the seed that it began with. It is kept for good: a seed is taken once.
type seedRecord struct {
	Standby string       `json:"standby"` // the cluster's own UUID, drawn before the source was asked
	Seed    link.Fetched `json:"seed"`
	Whole   bool         `json:"whole"` // every file is here
	Taken   bool         `json:"taken"` // every group stands on its snapshot
	// Rewound: it was not downloaded, but made of what the node had as one of the source's former source (Rewind).
	Rewound bool `json:"rewound,omitempty"`
}

// readSeed reads the record; nil if there is none.
func (f *Folder) readSeed() (*seedRecord, error) {
	b, err := f.readFile(seedFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	r := new(seedRecord)
	if err == nil {
		err = json.Unmarshal(b, r)
	}
	if err != nil {
		return nil, fmt.Errorf("the record of the seed in %s: %w", f.path, err)
	}
	return r, nil
}

func (f *Folder) writeSeed(r *seedRecord) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = f.replace(seedFile, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("record of the seed: %w", err)
	}
	return nil
}

// seeded answers how a group began whose folder began with a seed.
func (f *Folder) seeded(group uint64) (b link.Beginning, ok bool) {
	r, err := f.readSeed()
	if err != nil || r == nil {
		return b, false
	}
	for _, x := range r.Seed.Files {
		if x.Position.Group == group {
			return link.Beginning{At: x.Position.Position, Fingerprint: x.Fingerprint, Rewound: r.Rewound}, true
		}
	}
	return b, false
}

// seedFolder downloads the seed of a fresh folder whose node is to begin with one, or goes on with a download that was
// begun. Afterwards the folder has the cluster's UUID and its number of groups. It returns once the seed is whole: without
// it the node must not begin, for it would begin empty.
func (n *Node) seedFolder(ctx context.Context) (*seedRecord, error) {
	r, err := n.folder.readSeed()
	if err != nil || r != nil && r.Whole {
		return r, err
	}
	if r == nil {
		if !n.folder.Fresh() || n.cfg.LinkSeed != n.cfg.NodeID {
			return nil, nil
		}
		r = &seedRecord{Standby: uuid.NewString()}
		if err := n.folder.writeSeed(r); err != nil {
			return nil, err
		}
	}
	secure, err := n.linkClientTLS()
	if err != nil {
		return nil, err
	}
	stop := n.showSeeding()
	defer stop()
	shown := time.Now()
	r.Seed, err = link.FetchSeed(ctx, link.SeedOptions{
		Addresses: n.cfg.LinkSources(), TokenFile: n.cfg.LinkTokenFile, TLS: secure, Reader: readerName(r.Standby), Standby: r.Standby,
		FS: n.folder.fs, Dir: filepath.Join(n.cfg.Data, seedDir), Logger: n.log,
		Progress: func(done, total int64) {
			n.linkage.seeding.set(done, total)
			if time.Since(shown) > 2*time.Second || done == total {
				shown = time.Now()
				n.log.Info("seeding from the source", "bytes", done, "of", total)
			}
		},
	}, r.Seed, func(s link.Fetched) error { r.Seed = s; return n.folder.writeSeed(r) })
	if err != nil {
		return nil, err
	}
	r.Whole = true
	return r, n.folder.writeSeed(r)
}

// takeSeed makes each group's snapshot its state, which is idempotent, and removes the files, also those that an earlier process
// died over: they take the room of the whole state.
func (n *Node) takeSeed(ctx context.Context, r *seedRecord) error {
	if r == nil {
		return nil
	}
	dir := filepath.Join(n.cfg.Data, seedDir)
	if r.Taken {
		return n.folder.fs.RemoveAll(dir)
	}
	conf := replication.FirstMembership(n.cfg.NodeID, n.cfg.Peer)
	for _, x := range r.Seed.Files {
		g := n.states[x.Position.Group]
		if index, _ := g.Applied(); index > 0 {
			continue
		}
		in, err := n.folder.fs.Open(link.SeedPath(dir, x.Position.Group))
		if err != nil {
			return fmt.Errorf("seed of group %d: %w", x.Position.Group, err)
		}
		if err := errors.Join(g.Seed(ctx, in, conf), in.Close()); err != nil {
			return fmt.Errorf("seed of group %d: %w", x.Position.Group, err)
		}
	}
	r.Taken = true
	return errors.Join(n.folder.writeSeed(r), n.folder.fs.RemoveAll(dir))
}

// seedProgress is how far a download is.
type seedProgress struct{ done, total atomic.Int64 }

func (p *seedProgress) set(done, total int64) { p.done.Store(done); p.total.Store(total) }

// ratio is from 0 to 1; 1 where nothing is downloaded.
func (p *seedProgress) ratio() float64 {
	total := p.total.Load()
	if total == 0 {
		return 0
	}
	return float64(p.done.Load()) / float64(total)
}

// showSeeding answers on the admin port while the node downloads its seed and has nothing else to say.
func (n *Node) showSeeding() (stop func()) {
	n.showMeanwhile("the node downloads a snapshot of its source", map[string]http.HandlerFunc{
		"/api/link": func(w http.ResponseWriter, _ *http.Request) {
			why := fmt.Sprintf("downloading a snapshot of the source: %.1f %%", 100*n.linkage.seeding.ratio())
			_ = json.NewEncoder(w).Encode(api.Link{Role: "standby", Groups: []api.LinkGroup{{State: string(link.Seeding), Role: "standby", Error: &why}}})
		},
		"/metrics": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			fmt.Fprintf(w, "# TYPE understudy_link_seed_progress_ratio gauge\nunderstudy_link_seed_progress_ratio %g\n", n.linkage.seeding.ratio())
		},
	})
	return func() { n.linkage.seeding.set(1, 1) }
}
