package replication

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/replication/durable"
	"github.com/understudy-mq/understudy/replication/log"
)

// Should a standby be promoted, it cuts this node's log at a place that it had reached, or beyond. An image is a state of all
// groups on disk, apart from the one that goes on. At most two are kept: the newest that every standby has reached, which
// lies at or before any cut, and a newer one that will take its place once they have reached it too.
//
// A segment that the state of now needs no more may hold content that an image's state has. It is kept until every image
// was begun after that was found.

const (
	imagesMost   = 2
	imageBytes   = 64 << 10 // of what is written down about one
	imageSuffix  = ".json"
	imageEvery   = 4 // times Options.CheckpointBytes of log, at the latest
	imageRetries = 3 // checkpoints that one may be under way before
)

// image is a state on disk.
type image struct {
	Number uint64 `json:"number"`
	// Most is, by group, the highest entry that it may be the state after.
	Most map[uint64]uint64 `json:"most"`
}

// reached says whether a standby at these places has all that the image has.
func (i *image) reached(at map[uint64]uint64) bool {
	for g, most := range i.Most {
		if at[g] < most {
			return false
		}
	}
	return true
}

// images are the keeper's.
type images struct {
	fs    vfs.FS
	dir   string // "" keeps none
	list  []image
	begun uint64 // the number of the newest that was begun
	// spentAt is, by segment that the state of now does not need, how many images had been begun when that was found.
	spentAt map[uint64]spentSegment
	tried   time.Duration
	written uint64 // bytes of log, when the newest was made
}

type spentSegment struct {
	begun uint64
	bytes int64
}

func newImages(o *Options) *images {
	return &images{fs: o.FS, dir: o.ImageDir, spentAt: map[uint64]spentSegment{}}
}

func (x *images) path(number uint64) string {
	return x.fs.PathJoin(x.dir, strconv.FormatUint(number, 10))
}

// load finds the images that an earlier process has left. What is not whole goes.
func (x *images) load() error {
	if x.dir == "" {
		return nil
	}
	names, err := x.fs.List(x.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for images: %w", err)
	}
	whole := map[string]bool{}
	for _, name := range names {
		number, is := strings.CutSuffix(name, imageSuffix)
		if !is {
			continue
		}
		if i, err := x.read(x.fs.PathJoin(x.dir, name)); err == nil && strconv.FormatUint(i.Number, 10) == number && slices.Contains(names, number) {
			x.list = append(x.list, i)
			whole[number], whole[name] = true, true
			x.begun = max(x.begun, i.Number)
		}
	}
	slices.SortFunc(x.list, func(a, b image) int { return int(int64(a.Number) - int64(b.Number)) })
	for _, name := range names {
		if !whole[name] {
			err = errors.Join(err, x.fs.RemoveAll(x.fs.PathJoin(x.dir, name)))
		}
	}
	return err
}

func (x *images) read(name string) (i image, err error) {
	b, err := durable.Read(x.fs, name, imageBytes)
	if err == nil {
		err = json.Unmarshal(b, &i)
	}
	return i, err
}

// keep takes an image down whose files are there.
func (x *images) keep(i image) error {
	b, err := json.Marshal(i)
	if err != nil {
		return fmt.Errorf("encode an image's record: %w", err)
	}
	if err := durable.Replace(x.fs, x.path(i.Number)+imageSuffix, b); err != nil {
		return err
	}
	x.list = append(x.list, i)
	return nil
}

// drop removes the oldest image. Its record goes first, for good: a cut must not bring back one whose files are gone.
func (x *images) drop() error {
	i := x.list[0]
	x.list = slices.Delete(x.list, 0, 1)
	err := durable.Remove(x.fs, x.path(i.Number)+imageSuffix)
	return errors.Join(err, x.fs.RemoveAll(x.path(i.Number)))
}

// spent says whether the state of now is known not to need a segment.
func (x *images) spent(segment uint64) bool { _, ok := x.spentAt[segment]; return ok }

func (x *images) spend(s log.SegmentInfo) {
	if len(x.list) > 0 {
		x.spentAt[s.ID] = spentSegment{x.begun, s.Bytes}
	}
}

func (x *images) dropped(segment uint64) { delete(x.spentAt, segment) }

// spentBytes are in segments that only images need.
func (x *images) spentBytes() (sum int64) {
	for _, s := range x.spentAt {
		sum += s.bytes
	}
	return sum
}

// need says whether an image needs a spent segment: content that was live in it when the image was begun, or entries after the
// image's state. One that was begun later needs neither, since a segment is spent only once a checkpoint is beyond it.
func (x *images) need(segment uint64) bool {
	return slices.ContainsFunc(x.list, func(i image) bool { return i.Number <= x.spentAt[segment].begun })
}

// following is what images depend on.
type following struct {
	at       map[uint64]uint64 // by group, what every standby has
	followed bool              // there is a standby that the log is kept for
	fenced   bool
	pressed  bool   // the volume is too full
	written  uint64 // bytes of log
}

// plan says how many of the oldest images are to go, and whether there may be another one.
func (x *images) plan(f following) (drop int, more bool) {
	n := len(x.list)
	switch {
	case f.pressed || !f.followed && !f.fenced:
		return n, false
	case !f.followed:
		return 0, false
	case n > 1 && x.list[1].reached(f.at):
		drop, n = 1, n-1
	}
	newest := n == 0 || x.list[drop].reached(f.at) && f.written != x.written
	return drop, n < imagesMost && newest
}

// image sees to it that there is an image of a state that every standby has reached. written are the bytes that the log has written.
func (k *keeper) image(ctx context.Context, written uint64) {
	x, n := k.n.images, k.n
	if x.dir == "" {
		return
	}
	f := following{fenced: n.opts.Fenced(), pressed: n.holds.pressed(), written: written}
	f.at, f.followed = n.holds.reached(n.opts.Groups)
	drop, more := x.plan(f)
	for range drop {
		n.warn("an image could not be removed", x.drop())
	}
	// The log is longer by what is written between images.
	early := n.mono()-x.tried < n.opts.ImageInterval && written-x.written < imageEvery*uint64(n.opts.CheckpointBytes)
	if !more || x.tried != 0 && early {
		return
	}
	x.tried, x.written = n.mono(), written
	k.since, k.sinceBytes = x.tried, written // it begins with a checkpoint
	n.warn("no image was made of the state: this node may not be wound back, should its standby be promoted", k.makeImage(ctx))
}

func (n *Node) warn(what string, err error) {
	if err != nil && n.ctx.Err() == nil {
		n.logger.Warn(what, "error", err)
	}
}

var errBusyCheckpoint = errors.New("no checkpoint came to what had been applied")

// makeImage makes the next image, of a state at or after what is applied now.
func (k *keeper) makeImage(ctx context.Context) error {
	x, n := k.n.images, k.n
	x.begun++
	now := n.applied()
	for try := 0; n.durableBefore(now); try++ {
		if try == imageRetries {
			return errBusyCheckpoint
		}
		n.checkpoint(ctx)
	}
	if err := n.opts.Image(x.path(x.begun)); err != nil {
		return err
	}
	return x.keep(image{Number: x.begun, Most: n.applied()})
}

// durableBefore says whether a group's newest checkpoint is of an entry before these.
func (n *Node) durableBefore(at map[uint64]uint64) bool {
	for id, g := range n.groups {
		if durable, _ := g.machine.Durable(); durable < at[id] {
			return true
		}
	}
	return false
}

// applied is by group what this node has applied.
func (n *Node) applied() map[uint64]uint64 {
	at := map[uint64]uint64{}
	for id, g := range n.groups {
		at[id], _ = g.machine.Applied()
	}
	return at
}
