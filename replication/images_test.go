package replication

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/replication/durable"
	"github.com/understudy-mq/understudy/replication/log"
)

// imagesRig is images in memory; an image is an empty folder.
type imagesRig struct {
	*images
	t  *testing.T
	fs *vfs.MemFS
}

func newImagesRig(t *testing.T) *imagesRig {
	r := &imagesRig{t: t, fs: vfs.NewCrashableMem()}
	r.open()
	return r
}

// open is a start of the node.
func (r *imagesRig) open() {
	r.t.Helper()
	r.images = newImages(&Options{FS: r.fs, ImageDir: "images"})
	if err := r.load(); err != nil {
		r.t.Fatal(err)
	}
}

// made makes an image of a state of group 1.
func (r *imagesRig) made(most uint64) {
	r.t.Helper()
	r.begun++
	if err := durable.MakeDir(r.fs, r.path(r.begun), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := r.keep(image{Number: r.begun, Most: map[uint64]uint64{1: most}}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *imagesRig) numbers() (list []uint64) {
	for _, i := range r.list {
		list = append(list, i.Number)
	}
	return list
}

// files are those in the images' folder.
func (r *imagesRig) files() []string {
	r.t.Helper()
	names, err := r.fs.List("images")
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func at(index uint64) map[uint64]uint64 { return map[uint64]uint64{1: index} }

// TestTheNewestImageIsKeptThatEveryStandbyHasReachedAndOneMore: the older goes only when the newer is reached, and a third is not made
// meanwhile.
func TestTheNewestImageIsKeptThatEveryStandbyHasReachedAndOneMore(t *testing.T) {
	r := newImagesRig(t)
	for _, c := range []struct {
		what  string
		has   int // images
		f     following
		drop  int
		more  bool
		steps func()
	}{
		{"without a standby", 0, following{}, 0, false, nil},
		{"a standby comes", 0, following{at: at(5), followed: true, written: 1}, 0, true, func() { r.made(12) }},
		{"it has not reached the image", 1, following{at: at(11), followed: true, written: 9}, 0, false, nil},
		{"it has, and nothing was written", 1, following{at: at(12), followed: true, written: 0}, 0, false, nil},
		{"it has", 1, following{at: at(12), followed: true, written: 9}, 0, true, func() { r.made(25) }},
		{"it has not reached the newer one", 2, following{at: at(24), followed: true, written: 99}, 0, false, nil},
		{"the volume is too full", 2, following{at: at(25), followed: true, fenced: true, pressed: true, written: 99}, 2, false, nil},
		{"no standby any more", 2, following{written: 99}, 2, false, nil},
		{"no standby, but a fence", 2, following{fenced: true, written: 99}, 0, false, nil},
		{"it has reached the newer one", 2, following{at: at(25), followed: true, written: 99}, 1, true, func() {
			if err := r.drop(); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		if len(r.list) != c.has {
			t.Fatalf("%s: %d images", c.what, len(r.list))
		}
		if drop, more := r.plan(c.f); drop != c.drop || more != c.more {
			t.Errorf("%s: %d go and another is made %v, want %d and %v", c.what, drop, more, c.drop, c.more)
		}
		if c.steps != nil {
			c.steps()
		}
	}
	if got := r.files(); !slices.Equal(got, []string{"2", "2.json"}) {
		t.Errorf("files %v", got)
	}
}

// TestASegmentIsKeptForAnImageUntilTheImageIsYoungerThanTheNeed: content that was live in it when the image was begun must be readable.
func TestASegmentIsKeptForAnImageUntilTheImageIsYoungerThanTheNeed(t *testing.T) {
	r := newImagesRig(t)
	s := log.SegmentInfo{ID: 7, Bytes: 100, Groups: []log.GroupRange{{Group: 1, First: 2, Last: 9}}}
	if r.spend(s); r.need(s.ID) || r.spent(7) || r.spentBytes() != 0 {
		t.Error("without an image a segment is kept")
	}
	r.made(12)
	if r.spend(s); !r.need(s.ID) || !r.spent(7) || r.spentBytes() != 100 {
		t.Error("a segment is not kept that the state of now has only just ceased to need")
	}
	r.made(25) // its state does not need it either
	if !r.need(s.ID) {
		t.Error("it is not kept for the older image")
	}
	if err := r.drop(); err != nil || r.need(s.ID) {
		t.Errorf("it is kept for an image begun after it was spent, %v", err)
	}
	if r.dropped(7); r.spent(7) {
		t.Error("a segment that is gone is remembered")
	}
}

func TestImagesOutliveARestartAndWhatIsNotWholeGoes(t *testing.T) {
	r := newImagesRig(t)
	r.made(12)
	r.made(25)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(r.fs.MkdirAll("images/3", 0o755)) // killed before its record
	r.made(41)
	must(r.fs.RemoveAll("images/3.json"))
	r.begun = 9
	r.made(51)
	must(r.fs.RemoveAll("images/10")) // a record without an image
	r.open()
	if got := r.numbers(); !slices.Equal(got, []uint64{1, 2}) || r.begun != 2 {
		t.Errorf("images %v, %d were begun", got, r.begun)
	}
	if got := r.files(); !slices.Equal(got, []string{"1", "1.json", "2", "2.json"}) {
		t.Errorf("files %v", got)
	}
	if i := r.list[1]; i.Most[1] != 25 {
		t.Errorf("image %+v", i)
	}
	s := log.SegmentInfo{ID: 7, Groups: []log.GroupRange{{Group: 1, First: 2, Last: 9}}}
	if r.spend(s); !r.need(s.ID) {
		t.Error("after a restart a segment is not kept for the images")
	}
}

// TestAnImageThatWasDroppedDoesNotComeBackWithAPowerCut: the log drops segments that it needs.
func TestAnImageThatWasDroppedDoesNotComeBackWithAPowerCut(t *testing.T) {
	r := newImagesRig(t)
	r.made(12)
	r.made(25)
	if err := r.drop(); err != nil {
		t.Fatal(err)
	}
	r.fs = r.fs.CrashClone(vfs.CrashCloneCfg{})
	r.open()
	if got := r.numbers(); !slices.Equal(got, []uint64{2}) {
		t.Errorf("images %v after the cut, want the second", got)
	}
}

func TestAHoldThatIsReservedHoldsTheLogAndCountsForNoStandby(t *testing.T) {
	r := newHoldsRig(t)
	r.reserve("former", 5, at(100))
	if !r.needs(1, 101) || r.needs(1, 100) {
		t.Error("the log is not kept")
	}
	if _, some := r.reached([]uint64{1}); some {
		t.Error("one that has not read counts as a standby")
	}
	r.dirty = true
	if err := r.save(true); err != nil {
		t.Fatal(err)
	}
	if r.open(); !r.list["former"].Reserved || r.one(2).Positions[1] != 100 {
		t.Errorf("after a restart: %+v", r.list["former"])
	}
	r.note("standby", 5, 1, 70)
	r.note("another", 5, 1, 60)
	if got, some := r.reached([]uint64{1, 2}); !some || got[1] != 60 || got[2] != 0 {
		t.Errorf("all standbys have %v, %v", got, some)
	}
	r.drop("standby")
	r.drop("another")
	if r.pass(2 * r.silent); r.needs(1, 101) || len(r.report(nil, nil)) != 0 {
		t.Error("one that never came is remembered")
	}
}
