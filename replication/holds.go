package replication

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/replication/durable"
	"github.com/understudy-mq/understudy/replication/log"
)

const (
	holdsFile      = "link-holds.json"
	holdsBytes     = 1 << 20 // of the file
	holdsSaveEvery = 10 * time.Second
	holdsTellEvery = 2 * time.Second // each standby's place in a group, to the other nodes
	// holdGrace is how long a hold that was remembered lasts at least after a restart: the standby may have been kept
	// from asking by the very restart.
	holdGrace = time.Minute
	// holdForgotten is for how long after its end a hold is shown: its standby is gone for good.
	holdForgotten = 7 * 24 * time.Hour
	// holdsMost bounds how many names are kept; the one silent for longest goes.
	holdsMost = 16
)

// HoldState says how a standby's entries are kept in a node's log.
type HoldState string

// The states of a hold.
const (
	HoldReserved HoldState = "reserved" // the log has what the standby needs next, and would have it anyway
	HoldExtended HoldState = "extended" // the log is longer because of the hold
	HoldLost     HoldState = "lost"     // something that the standby needs next is gone: it needs a new seed
)

// Hold is what this node keeps for one standby.
type Hold struct {
	Name      string            `json:"name"`
	State     HoldState         `json:"state"`
	Positions map[uint64]uint64 `json:"positions"`      // by group: the last entry that the standby has
	Silent    float64           `json:"silent_seconds"` // since it was last heard of
	Held      int64             `json:"held_bytes"`     // of log that holds entries it has not
	Left      int64             `json:"left_bytes"`     // that the log may still grow by; -1 if that cannot be told
	Level     uint64            `json:"level"`          // the feature level that all of the standby's members read
	// Holding is false once the standby was silent for too long or the disk too full: nothing is kept for it any more.
	Holding bool   `json:"holding"`
	Reason  string `json:"reason,omitempty"` // why not
}

// holds remembers, for each standby by name, how far it has read.
type holds struct {
	fs     vfs.FS
	path   string // in dir
	now    func() time.Time
	usage  func() (vfs.DiskUsage, error)
	silent time.Duration
	fill   int // percent of the volume

	mu    sync.Mutex
	list  map[string]*hold
	saved time.Time
	dirty bool
	// full and looked are the last look at the volume.
	full   string
	left   int64
	looked time.Time
	// stretched: at its last look for segments to drop, the node kept one because of a hold.
	stretched bool
}

type hold struct {
	After    map[uint64]uint64 `json:"after"`
	Level    uint64            `json:"level"`
	Seen     time.Time         `json:"seen"`
	Reserved bool              `json:"reserved,omitempty"` // it has not read yet
	loosened string            // why nothing is kept for it any more; "" while something is
	told     map[uint64]time.Time
	recalled time.Time // when the node started that remembered it; zero once its standby was heard of again
}

func newHolds(o *Options) *holds {
	h := &holds{
		fs: o.FS, path: o.FS.PathJoin(o.Dir, holdsFile), now: o.Wall, list: map[string]*hold{}, left: -1,
		usage:  func() (vfs.DiskUsage, error) { return o.FS.GetDiskUsage(o.Dir) },
		silent: o.HoldSilence, fill: o.HoldDiskPercent,
	}
	return h
}

// load reads what was saved. A file that makes no sense costs the holds, not the start.
func (h *holds) load() error {
	b, err := durable.Read(h.fs, h.path, holdsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the standbys' holds: %w", err)
	}
	list := map[string]*hold{}
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("the standbys' holds in %s are forgotten: %w", h.path, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, x := range list {
		if x != nil && len(h.list) < holdsMost {
			x.recalled = h.now()
			h.list[name] = x
		}
	}
	return nil
}

// save writes the holds if they have changed, at most every holdsSaveEvery unless it is the last time. Those of standbys that are gone for
// good it forgets.
func (h *holds) save(last bool) error {
	h.mu.Lock()
	for name, x := range h.list {
		if h.now().Sub(x.Seen) > h.silent+holdForgotten {
			delete(h.list, name)
			h.dirty = true
		}
	}
	if !h.dirty || !last && h.now().Sub(h.saved) < holdsSaveEvery {
		h.mu.Unlock()
		return nil
	}
	h.dirty, h.saved = false, h.now()
	b, err := json.Marshal(h.list)
	h.mu.Unlock()
	if err != nil {
		return fmt.Errorf("encode the standbys' holds: %w", err)
	}
	if err := durable.Replace(h.fs, h.path, b); err != nil {
		return fmt.Errorf("save the standbys' holds: %w", err)
	}
	return nil
}

// note takes a standby's word how far it is in a group, and what its members read. It says whether the other nodes are to
// be told: now and then.
func (h *holds) note(name string, level, group, after uint64) (tell bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.list[name]
	if x == nil {
		h.makeRoom()
		x = &hold{After: map[uint64]uint64{}}
		h.list[name] = x
	}
	if x.told == nil {
		x.told = map[uint64]time.Time{}
	}
	x.After[group], x.Level, x.Seen, x.loosened, x.recalled, x.Reserved = after, level, h.now(), "", time.Time{}, false
	h.dirty = true
	if tell = h.now().Sub(x.told[group]) >= holdsTellEvery; tell {
		x.told[group] = h.now()
	}
	return tell
}

// drop forgets a standby.
func (h *holds) drop(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.list, name)
	h.dirty = true
}

// reserve holds for one that has not read yet.
func (h *holds) reserve(name string, level uint64, after map[uint64]uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.list[name] == nil {
		h.makeRoom()
	}
	h.list[name] = &hold{After: maps.Clone(after), Level: level, Seen: h.now(), Reserved: true}
	h.dirty = true
}

// reached is, by group, how far all the standbys are that the log is kept for; false where there is none.
func (h *holds) reached(groups []uint64) (at map[uint64]uint64, some bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at = make(map[uint64]uint64, len(groups))
	for _, x := range h.list {
		if x.Reserved || !h.lasts(x) {
			continue
		}
		for _, g := range groups {
			if after := x.After[g]; !some || after < at[g] {
				at[g] = after
			}
		}
		some = true
	}
	return at, some
}

// pressed says whether the volume is too full for anything to be kept for a standby.
func (h *holds) pressed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look()
	return h.full != ""
}

func (h *holds) makeRoom() {
	for len(h.list) >= holdsMost {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(h.list)), func(a, b string) int {
			return cmp.Or(h.list[a].Seen.Compare(h.list[b].Seen), cmp.Compare(a, b))
		})
		delete(h.list, oldest)
	}
}

// level is what a standby's members read, as it told last; 0 for one that is not known.
func (h *holds) level(name string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.list[name]; x != nil {
		return x.Level
	}
	return 0
}

// needs says whether a standby, which is not silent for too long, still has to read an entry up to last of the group;
// and there is room for that.
func (h *holds) needs(group, last uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.list {
		if after, ok := x.After[group]; ok && after < last && h.lasts(x) {
			return true
		}
	}
	return false
}

// lasts says whether anything is kept for x. mu is held.
func (h *holds) lasts(x *hold) bool {
	x.loosened = ""
	if idle := h.now().Sub(x.Seen); idle > h.silent && h.now().Sub(x.recalled) > holdGrace {
		x.loosened = fmt.Sprintf("silent for more than %v", h.silent)
	} else if h.look(); h.full != "" {
		x.loosened = h.full
	}
	return x.loosened == ""
}

// look looks at the volume, once a second at most. mu is held.
func (h *holds) look() {
	now := h.now()
	if !h.looked.IsZero() && now.Sub(h.looked) < time.Second {
		return
	}
	h.looked, h.full, h.left = now, "", -1
	u, err := h.usage()
	if err != nil || u.UsedBytes+u.AvailBytes == 0 {
		return // not known is not full
	}
	size := u.UsedBytes + u.AvailBytes // what root keeps for itself counts for nobody, as with df
	most := size / 100 * uint64(h.fill)
	h.left = max(0, int64(most)-int64(u.UsedBytes))
	if u.UsedBytes >= most && h.fill < 100 {
		h.full = fmt.Sprintf("the volume is %d %% full, and may be %d %%", u.UsedBytes*100/size, h.fill)
	}
}

// stretch says whether the log is longer than it would be without holds.
func (h *holds) stretch(is bool) {
	h.mu.Lock()
	h.stretched = is
	h.mu.Unlock()
}

// report describes the holds; firsts are the groups' first entries.
func (h *holds) report(segments []log.SegmentInfo, firsts map[uint64]uint64) []Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]Hold, 0, len(h.list))
	for _, name := range slices.Sorted(maps.Keys(h.list)) {
		x := h.list[name]
		if x.Reserved && !h.lasts(x) { // it never came
			delete(h.list, name)
			h.dirty = true
			continue
		}
		r := Hold{Name: name, Positions: maps.Clone(x.After), Level: x.Level, Silent: h.now().Sub(x.Seen).Seconds(), State: HoldReserved}
		r.Holding = h.lasts(x)
		r.Reason, r.Left = x.loosened, h.left
		if h.stretched && r.Holding {
			r.State = HoldExtended
		}
		if group, ok := x.lacks(firsts); ok {
			r.State, r.Holding = HoldLost, false
			r.Reason = strings.TrimPrefix(fmt.Sprintf("%s; what it needs next of group %d is gone: it needs a new seed", x.loosened, group), "; ")
		}
		r.Held = heldBytes(segments, x.After)
		list = append(list, r)
	}
	return list
}

// lacks names a group whose next entry is no longer there.
func (x *hold) lacks(firsts map[uint64]uint64) (group uint64, ok bool) {
	for _, group := range slices.Sorted(maps.Keys(x.After)) {
		if x.After[group]+1 < firsts[group] {
			return group, true
		}
	}
	return 0, false
}

// heldBytes sums the segments that have entries after these.
func heldBytes(segments []log.SegmentInfo, after map[uint64]uint64) (sum int64) {
	for _, s := range segments {
		if slices.ContainsFunc(s.Groups, func(r log.GroupRange) bool {
			a, ok := after[r.Group]
			return ok && a < r.Last
		}) {
			sum += s.Bytes
		}
	}
	return sum
}

// Hold notes that the standby called name, whose members all read level, has every entry of the group up to after, and is
// alive: this node keeps what follows in its log, as far as HoldSilence and HoldDiskPercent allow, also across restarts. The place may be lower than
// before: a standby may have been made anew. The other nodes are told every few seconds. Safe from any goroutine.
func (n *Node) Hold(name string, level, group, after uint64) {
	if n.holds.note(name, level, group, after) {
		n.tellCovered(name, group, after)
	}
}

// Reserve is Hold for a standby that is expected and has not read yet, in all groups at once and on this node only: its members are
// taken to read level.
func (n *Node) Reserve(name string, level uint64, after map[uint64]uint64) {
	n.holds.reserve(name, level, after)
}

// Unhold forgets the standby called name.
func (n *Node) Unhold(name string) { n.holds.drop(name) }

// Holds describes what is kept for standbys. Safe from any goroutine.
func (n *Node) Holds() []Hold {
	firsts := map[uint64]uint64{}
	for id, g := range n.groups {
		if first, err := g.log.FirstIndex(); err == nil {
			firsts[id] = first
		}
	}
	return n.holds.report(n.log.Segments(), firsts)
}
