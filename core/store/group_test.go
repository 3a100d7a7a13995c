package store

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/core"
)

func (r *rig) count(lower, upper []byte) int {
	r.t.Helper()
	it, err := r.db.p.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	r.must(err)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	r.must(it.Close())
	return n
}

func TestRestartRestoresTheStateOfTheNewestCheckpoint(t *testing.T) {
	for seed := range uint64(5) {
		r := newRig(t, vfs.NewMem(), seed)
		for range 4 {
			r.random(50, 200)
			r.checkpoint()
			at, _ := r.g.Durable()
			r.random(20, 200)
			r.reopen()
			if got, _ := r.g.Applied(); got != at {
				t.Fatalf("reopened at %d, the checkpoint was at %d", got, at)
			}
			if got, want := r.g.Fingerprint(), r.log.sums[at]; got != want {
				t.Fatalf("reopened with fingerprint %x, want %x", got, want)
			}
			r.replay()
			r.readable()
		}
	}
}

func TestApplyRefusesAnyEntryButTheNext(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.apply(put([]byte("x"), 1))
	for _, index := range []uint64{0, 1, 3} {
		if err := r.g.Apply(index, 1, nil); err == nil {
			t.Fatalf("entry %d was applied after entry 1", index)
		}
	}
	if err := r.g.ApplyConf(0, 1, nil); err == nil {
		t.Fatal("membership change 0 was applied after entry 1")
	}
}

func TestApplyNamesTheEntryThatCannotBeApplied(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	if err := r.g.Apply(1, 1, []byte("?")); err == nil || err.Error() != `group 3: entry 1: toy operation '?'` {
		t.Fatal(err)
	}
	if at, _ := r.g.Applied(); at != 0 {
		t.Fatalf("applied is %d", at)
	}
}

func TestMembershipIsOnDiskWhenApplyConfReturns(t *testing.T) {
	fs := vfs.NewCrashableMem()
	r := newRig(t, fs, 1)
	if r.g.Conf() != nil {
		t.Fatal("a new group has a membership")
	}
	r.must(r.g.ApplyConf(1, 1, []byte("one")))
	r.log.append(nil)
	r.random(20, 20)
	r.g.Checkpoint(nil) // under way
	at, _ := r.g.Applied()
	r.must(r.g.ApplyConf(at+1, 2, []byte("two")))
	if durable, _ := r.g.Durable(); durable != at+1 {
		t.Fatalf("durable is %d, the membership is of %d", durable, at+1)
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	r.close()
	r.fs = crashed
	r.open(Options{})
	if i, term := r.g.Applied(); i != at+1 || term != 2 || string(r.g.Conf()) != "two" {
		t.Fatalf("after the crash: %d/%d %q", i, term, r.g.Conf())
	}
}

func TestOneCheckpointAtATime(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.random(10, 10)
	if !r.g.Checkpoint(nil) {
		t.Fatal("refused with none under way")
	}
	r.g.awaitJob()
	// From the moment that done is called the next may begin.
	for range 20 {
		r.random(1, 10)
		r.checkpoint()
	}
	r.random(10, 10)
	r.g.job = &job{finished: make(chan struct{})} // one that takes its time
	if r.g.Checkpoint(nil) {
		t.Fatal("two at a time")
	}
	r.g.job = nil
}

func TestRoundHandsOnEffectsOnceAndBoundsWhatItKeeps(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	var counts []int
	r.g.o.OnEffects = func(group uint64, fx *core.Effects) {
		if group != rigGroup {
			t.Errorf("effects of group %d", group)
		}
		counts = append(counts, len(fx.List))
	}
	r.apply(put([]byte("x"), 1), put([]byte("y"), 2))
	r.apply(put([]byte("z"), 1))
	r.g.Round()
	r.g.Round()
	r.apply(put([]byte("z"), 1))
	r.g.Round()
	if len(counts) != 2 || counts[0] != 3 || counts[1] != 1 {
		t.Fatalf("effects per round: %v", counts)
	}
	if cap(r.g.fx.List) == 0 || r.g.fx.List[:1][0].Kind != core.EffectNone {
		t.Fatal("room is not kept, or effects in it")
	}
	r.g.fx.List = make([]core.Effect, effectsKept+1)
	r.g.Round()
	if cap(r.g.fx.List) != 0 {
		t.Fatal("room for too many effects is kept")
	}
}

func TestGroupsShareAStoreWithoutSeeingEachOther(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	other, err := r.db.Group(rigGroup+1, GroupOptions{})
	r.must(err)
	if _, err := r.db.Group(rigGroup+1, GroupOptions{}); err == nil {
		t.Fatal("a group was opened twice")
	}
	r.must(other.ApplyConf(1, 1, []byte("other")))
	r.random(50, 50)
	r.checkpoint()
	r.reopen()
	if r.g.Fingerprint() != r.log.sums[r.log.last] {
		t.Fatal("fingerprint changed")
	}
	other, err = r.db.Group(rigGroup+1, GroupOptions{})
	r.must(err)
	if other.Fingerprint() != 0 || string(other.Conf()) != "other" {
		t.Fatalf("the other group has fingerprint %x and conf %q", other.Fingerprint(), other.Conf())
	}
}

func TestContentAfterCloseIsAnError(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.apply(put([]byte("x"), 1))
	c, g := r.ref(1), r.g
	r.close()
	if _, err := g.Content(c.loc, c.size); err != ErrClosed {
		t.Fatal(err)
	}
}

func TestACheckpointBeginsByItselfWhereMuchHasChanged(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	keys := make([]uint16, 128)
	for k := range uint16(changedMost) {
		keys[k%128] = k
		if k%128 == 127 {
			if r.g.job != nil {
				t.Fatal("it began early")
			}
			r.apply(put(nil, keys...))
			r.g.Round()
		}
	}
	r.g.awaitJob()
	applied, _ := r.g.Applied()
	if durable, _ := r.g.Durable(); durable != applied {
		t.Errorf("on disk is entry %d, applied %d", durable, applied)
	}
}
