package replication

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/replication/log"
)

// holdsRig is holds with a clock and a volume of the test's.
type holdsRig struct {
	*holds
	t     *testing.T
	fs    vfs.FS
	clock time.Time
	disk  vfs.DiskUsage
	err   error
}

func newHoldsRig(t *testing.T) *holdsRig {
	r := &holdsRig{t: t, fs: vfs.NewMem(), clock: time.Unix(1_700_000_000, 0), disk: vfs.DiskUsage{TotalBytes: 1100, UsedBytes: 100, AvailBytes: 900}}
	r.open()
	return r
}

// open is a start of the node.
func (r *holdsRig) open() {
	o := Options{FS: r.fs, Dir: "/", Wall: func() time.Time { return r.clock }}
	o.EnsureDefaults()
	r.holds = newHolds(&o)
	r.usage = func() (vfs.DiskUsage, error) { return r.disk, r.err }
	if err := r.load(); err != nil {
		r.t.Error(err)
	}
}

func (r *holdsRig) pass(d time.Duration) { r.clock = r.clock.Add(d) }

// one is the report of the only hold; the group's log begins at first.
func (r *holdsRig) one(first uint64) Hold {
	r.t.Helper()
	list := r.report([]log.SegmentInfo{
		{ID: 1, Bytes: 10, Groups: []log.GroupRange{{Group: 1, First: 2, Last: 50}}},
		{ID: 2, Bytes: 20, Groups: []log.GroupRange{{Group: 1, First: 51, Last: 150}}},
		{ID: 3, Bytes: 40, Groups: []log.GroupRange{{Group: 2, First: 2, Last: 900}}},
	}, map[uint64]uint64{1: first})
	if len(list) != 1 {
		r.t.Fatalf("holds %+v", list)
	}
	return list[0]
}

func TestAHoldKeepsWhatTheStandbyHasNotRead(t *testing.T) {
	r := newHoldsRig(t)
	r.note("standby", 0, 1, 100)
	for _, c := range []struct {
		group, last uint64
		want        bool
	}{{1, 101, true}, {1, 100, false}, {1, 50, false}, {2, 101, false}} {
		if got := r.needs(c.group, c.last); got != c.want {
			t.Errorf("entries of group %d up to %d: needed %v, want %v", c.group, c.last, got, c.want)
		}
	}
	r.note("standby", 0, 1, 40) // made anew
	if !r.needs(1, 50) {
		t.Error("a place that is lower than before is not believed")
	}
}

func TestAHoldEndsWithSilence(t *testing.T) {
	r := newHoldsRig(t)
	r.note("standby", 0, 1, 100)
	if r.pass(time.Hour); !r.needs(1, 200) || !r.one(2).Holding {
		t.Error("the hold ended early")
	}
	if r.pass(time.Second); r.needs(1, 200) {
		t.Error("the hold outlasts its silence")
	}
	if h := r.one(2); h.Holding || !strings.Contains(h.Reason, "silent") || h.Silent != 3601 {
		t.Errorf("hold %+v", h)
	}
	if r.note("standby", 0, 1, 100); !r.needs(1, 200) {
		t.Error("a standby that is back is not held for")
	}
}

func TestAHoldGivesWayToAFullVolume(t *testing.T) {
	r := newHoldsRig(t)
	r.note("standby", 0, 1, 100)
	if h := r.one(2); h.Left != 700 {
		t.Errorf("%d bytes are left, want 700", h.Left)
	}
	r.disk.UsedBytes, r.disk.AvailBytes = 800, 200
	if r.pass(2 * time.Second); r.needs(1, 200) {
		t.Error("held on a volume that is full")
	}
	if h := r.one(2); h.Holding || h.Left != 0 || !strings.Contains(h.Reason, "80 %") {
		t.Errorf("hold %+v", h)
	}
	r.err = errors.New("no answer")
	if r.pass(2 * time.Second); !r.needs(1, 200) || r.one(2).Left != -1 {
		t.Error("a volume that cannot be looked at counts as full")
	}
}

func TestAHoldsStates(t *testing.T) {
	r := newHoldsRig(t)
	r.note("standby", 0, 1, 100)
	if h := r.one(2); h.State != HoldReserved || h.Held != 20 || h.Positions[1] != 100 {
		t.Errorf("hold %+v", h)
	}
	r.stretch(true)
	if h := r.one(2); h.State != HoldExtended {
		t.Errorf("hold %+v", h)
	}
	if h := r.one(101); h.State != HoldExtended {
		t.Errorf("the next entry is the log's first: %+v", h)
	}
	if h := r.one(102); h.State != HoldLost || h.Holding || !strings.Contains(h.Reason, "group 1 is gone: it needs a new seed") {
		t.Errorf("the next entry is gone: %+v", h)
	}
}

func TestHoldsOutliveARestart(t *testing.T) {
	r := newHoldsRig(t)
	r.note("standby", 7, 1, 100)
	if err := r.save(true); err != nil {
		t.Fatal(err)
	}
	r.pass(2 * time.Hour) // the node was down
	r.open()
	if !r.needs(1, 200) {
		t.Fatal("the hold was forgotten")
	}
	if h := r.one(2); h.Level != 7 {
		t.Errorf("what the standby's members read was forgotten: %+v", h)
	}
	if r.pass(holdGrace + time.Second); r.needs(1, 200) {
		t.Error("a standby that did not come back is held for")
	}
}

func TestAHoldOfAStandbyThatIsGoneForGoodIsForgotten(t *testing.T) {
	r := newHoldsRig(t)
	r.note("standby", 0, 1, 100)
	listed := func() bool {
		if err := r.save(true); err != nil {
			t.Fatal(err)
		}
		return len(r.report(nil, map[uint64]uint64{1: 102})) > 0
	}
	listed()
	r.pass(holdForgotten)
	r.open() // a restart does not make the standby heard of again
	if r.pass(time.Hour); !listed() {
		t.Error("it is forgotten early")
	}
	if r.pass(time.Second); listed() {
		t.Error("it is shown for ever")
	}
	if r.open(); listed() {
		t.Error("it is shown again after a restart")
	}
}

func TestHoldsAreSavedNowAndThen(t *testing.T) {
	r := newHoldsRig(t)
	saved := func() bool {
		_ = r.fs.Remove(r.path)
		if err := r.save(false); err != nil {
			t.Fatal(err)
		}
		_, err := r.fs.Stat(r.path)
		return err == nil
	}
	r.note("standby", 0, 1, 100)
	if !saved() {
		t.Error("the first word of a standby was not saved")
	}
	if r.note("standby", 0, 1, 101); saved() {
		t.Error("saved twice within the interval")
	}
	if r.pass(holdsSaveEvery); !saved() || saved() {
		t.Error("not saved after the interval, or without need")
	}
}

func TestAFileOfHoldsThatMakesNoSenseCostsTheHoldsOnly(t *testing.T) {
	r := newHoldsRig(t)
	f, err := r.fs.Create(r.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("{")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.load(); err == nil || !strings.Contains(err.Error(), holdsFile) {
		t.Errorf("error %v", err)
	}
}

func TestHoldsAreFew(t *testing.T) {
	r := newHoldsRig(t)
	for i := range 3 * holdsMost {
		r.pass(time.Second)
		r.note(fmt.Sprint(i), 0, 1, 100)
	}
	if n := len(r.list); n != holdsMost || r.list[fmt.Sprint(3*holdsMost-1)] == nil {
		t.Errorf("%d holds, the newest %v", n, r.list[fmt.Sprint(3*holdsMost-1)])
	}
}

func TestAHoldThatWasSavedOutlastsAPowerCut(t *testing.T) {
	r := newHoldsRig(t)
	mem := vfs.NewCrashableMem()
	r.fs = mem
	r.open()
	r.note("standby", 0, 1, 100)
	if err := r.save(false); err != nil {
		t.Fatal(err)
	}
	r.fs = mem.CrashClone(vfs.CrashCloneCfg{})
	if r.open(); !r.needs(1, 200) {
		t.Error("the hold is forgotten")
	}
}
