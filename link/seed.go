package link

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/link/wire"
	"github.com/understudy-mq/understudy/replication/durable"
)

const (
	seedCall   = 30 * time.Second // a request for a seed; its making may take longer, and is asked for again
	seedStall  = 30 * time.Second // a download from which nothing comes
	seedChunk  = 256 << 10
	seedGroups = 65 // the system group and 64 of data: a seed has no more files
)

// SeedOptions say where a seed comes from and goes to.
type SeedOptions struct {
	Addresses []string // HOST:LINKPORT of the source's nodes
	TokenFile string
	TLS       *tls.Config // nil is plain
	// Reader is the name by which the standby will read; the source keeps its log under it from before the snapshot on.
	Reader, Standby string
	FS              vfs.FS // has Dir; nil is the system's
	Dir             string // the files come here, one a group by its number
	// Progress is told how many bytes of how many are there; may be nil.
	Progress func(done, total int64)
	Logger   *slog.Logger
}

// Fetched is a seed and the source node that has it.
type Fetched struct {
	wire.Seed
	Address string `json:"address"`
}

// seedTries is how often in a row a node is asked to go on before another one is asked to begin anew.
const seedTries = 5

// errSeedGone says that the source has the seed no more: it is begun anew.
var errSeedGone = errors.New("the source has this seed no more")

// FetchSeed downloads a snapshot of every group from one of the source's nodes, and answers what it is once every file is
// there, on disk, and has the checksum that it was announced with. What breaks off is gone on with where it stopped, as long as the
// source has the seed; known is the seed that an earlier call was told of (saved by save), empty for none. It tries until
// ctx ends.
func FetchSeed(ctx context.Context, o SeedOptions, known Fetched, save func(Fetched) error) (Fetched, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	f := &fetch{o: o, client: newClient(o.TokenFile, o.TLS, nil), seed: known, save: save}
	if err := durable.MakeDir(o.FS, o.Dir, 0o700); err != nil {
		return Fetched{}, fmt.Errorf("seed: %w", err)
	}
	pause, at := backOffLeast, max(slices.Index(o.Addresses, known.Address), 0)
	for try := 1; ; try++ {
		err := f.from(ctx, o.Addresses[at])
		if err == nil {
			return f.seed, nil
		}
		if ctx.Err() != nil {
			return Fetched{}, fmt.Errorf("seed: %w (%w)", ctx.Err(), err)
		}
		o.Logger.Warn("seeding from the source has to wait", "source", o.Addresses[at], "error", err)
		if f.seed.Address != o.Addresses[at] || try%seedTries == 0 {
			at = (at + 1) % len(o.Addresses)
		}
		sleep(ctx, pause)
		pause = min(2*pause, backOffMost)
	}
}

// fetch is a download under way.
type fetch struct {
	o      SeedOptions
	client *client
	seed   Fetched
	save   func(Fetched) error
}

// from downloads from one node, which may be another than that of the seed that is known: then it begins anew.
func (f *fetch) from(ctx context.Context, address string) error {
	next, err := f.ask(ctx, address)
	if err != nil {
		return err
	}
	if next.ID != f.seed.ID {
		if err := f.begin(Fetched{next, address}); err != nil {
			return err
		}
	}
	total, done := int64(0), int64(0)
	for _, x := range f.seed.Files {
		total += x.Bytes
	}
	for _, x := range f.seed.Files {
		err := f.file(ctx, address, x, func(n int64) {
			if f.o.Progress != nil {
				f.o.Progress(done+n, total)
			}
		})
		if err != nil {
			return fmt.Errorf("group %d: %w", x.Position.Group, err)
		}
		done += x.Bytes
	}
	return durable.SyncDir(f.o.FS, f.o.Dir)
}

// ask has the node make a snapshot, and waits until it is ready.
func (f *fetch) ask(ctx context.Context, address string) (seed wire.Seed, err error) {
	for {
		call, cancel := context.WithTimeout(ctx, seedCall)
		err = f.client.call(call, address, wire.PathSeed, wire.SeedRequest{Reader: f.o.Reader, Standby: f.o.Standby}, &seed)
		cancel()
		if err != nil || len(seed.Files) > 0 {
			break
		}
		if ctx.Err() != nil {
			return seed, ctx.Err()
		}
	}
	if err == nil && (len(seed.Files) > seedGroups || seed.Cluster == "") {
		err = fmt.Errorf("%w: a seed of %d files", wire.ErrDamaged, len(seed.Files))
	}
	return seed, err
}

// begin forgets what there is of an earlier seed.
func (f *fetch) begin(next Fetched) error {
	for _, x := range f.seed.Files {
		if err := f.o.FS.RemoveAll(f.path(x)); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	if err := f.save(next); err != nil {
		return err
	}
	f.seed = next
	return nil
}

func (f *fetch) path(x wire.SeedFile) string { return SeedPath(f.o.Dir, x.Position.Group) }

// SeedPath is the file of a group's snapshot in a folder of FetchSeed's.
func SeedPath(dir string, group uint64) string {
	return filepath.Join(dir, strconv.FormatUint(group, 10))
}

// file downloads what is missing of a file, and checks it.
func (f *fetch) file(ctx context.Context, address string, x wire.SeedFile, progress func(int64)) error {
	out, err := f.o.FS.OpenReadWrite(f.path(x), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer out.Close()
	sum := sha256.New()
	have, err := io.Copy(sum, out)
	if err != nil {
		return err
	}
	progress(have)
	for have < x.Bytes {
		n, err := f.part(ctx, address, x, io.MultiWriter(io.NewOffsetWriter(out, have), sum), have, progress)
		if have += n; err != nil {
			return errors.Join(err, out.Sync())
		}
	}
	if have != x.Bytes || hex.EncodeToString(sum.Sum(nil)) != x.SHA256 {
		return errors.Join(fmt.Errorf("%w: the file has another checksum than was announced; it is fetched anew", wire.ErrDamaged), f.o.FS.Remove(f.path(x)))
	}
	return out.Sync()
}

// part downloads from the byte at have on, until the end or a failure.
func (f *fetch) part(ctx context.Context, address string, x wire.SeedFile, to io.Writer, have int64, progress func(int64)) (n int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(seedStall, func() { cancel(errPaused) })
	defer stall.Stop()
	path := wire.PathSeed + "/" + f.seed.ID + "/" + strconv.FormatUint(x.Position.Group, 10)
	header := http.Header{"Range": {fmt.Sprintf("bytes=%d-", have)}}
	r, err := f.client.do(ctx, http.MethodGet, address, path, nil, header)
	if refused := (*refusal)(nil); errors.As(err, &refused) && refused.status == http.StatusNotFound {
		return 0, errSeedGone
	}
	if err != nil {
		return 0, caused(ctx, err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusPartialContent {
		return 0, fmt.Errorf("%w: the source does not answer ranges", wire.ErrDamaged)
	}
	for left := x.Bytes - have; ; {
		m, err := io.CopyN(to, r.Body, min(seedChunk, left-n))
		n += m
		progress(have + n)
		stall.Reset(seedStall)
		switch {
		case n == left:
			return n, nil
		case err != nil:
			return n, fmt.Errorf("broke off after %d of %d bytes: %w", have+n, x.Bytes, caused(ctx, err))
		}
	}
}
