package store

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/core/message"
)

// ref is what key k refers to.
func (r *rig) ref(k uint16) ref { return r.toy().items[k].ref }

func TestContentIsReadableBeforeDuringAndAfterItsEvacuation(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	want := r.content(300)
	r.apply(put(want, 1))
	r.apply(put(r.content(20), 2))
	c := r.ref(1)
	look := func(when string) {
		t.Helper()
		if b, err := r.g.Content(c.loc, c.size); err != nil || !bytes.Equal(b, want) {
			t.Fatalf("%s: %d bytes, %v", when, len(b), err)
		}
	}
	look("before")
	// The evacuation stops in its first read of the log until it has been looked at.
	reading, resume := make(chan struct{}), make(chan struct{})
	read := r.g.o.ReadEntry
	r.g.o.ReadEntry = func(index uint64, offset, size int) ([]byte, error) {
		close(reading)
		<-resume
		return read(index, offset, size)
	}
	done := make(chan error, 1)
	r.g.Evacuate(0, 3, func(err error) { done <- err })
	wait(t, reading)
	r.g.o.ReadEntry = read
	look("during")
	close(resume)
	r.must(wait(t, done))
	r.log.truncate(3)
	look("when done was called")
	r.g.Round()
	look("after")
	r.reopen()
	r.replay()
	look("after a restart")
}

func TestEvacuatedContentGoesWithItsLastReference(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.apply(put(r.content(300), 1, 2, 3), put(r.content(10), 4))
	r.evacuate(2)
	r.g.Round()
	for _, k := range []uint16{1, 2} {
		r.apply(del(k))
		r.checkpoint()
		if n := r.moved(); n != 2 {
			t.Fatalf("%d contents in Pebble after key %d of 3 was deleted, want 2", n, k)
		}
	}
	r.reopen() // the counts are made anew
	r.replay()
	r.apply(del(3))
	r.checkpoint()
	if n := r.moved(); n != 1 {
		t.Fatalf("%d contents in Pebble after the last reference went, want the other one", n)
	}
	r.readable()
}

func TestContentSettledDuringItsEvacuationIsNotKept(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.apply(put(r.content(300), 1), put(r.content(300), 2))
	done := make(chan error, 1)
	r.g.Evacuate(0, 2, func(err error) { done <- err })
	r.apply(del(1))
	r.must(wait(t, done))
	r.g.Round()
	r.checkpoint()
	if n := r.moved(); n != 1 {
		t.Fatalf("%d contents in Pebble, want 1", n)
	}
	r.readable()
}

func TestLiveIsZeroForWhatWasEvacuated(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.random(100, 500)
	if n, bytes := r.g.Live(1, 60); n == 0 || bytes == 0 {
		t.Fatal("nothing is live")
	}
	r.evacuate(60)
	if n, bytes := r.g.Live(1, 60); n != 0 || bytes != 0 {
		t.Fatalf("%d live below the floor", n)
	}
	if n, _ := r.g.Live(1, 101); n == 0 {
		t.Fatal("nothing is live above the floor")
	}
	r.checkpoint()
	r.reopen()
	if n, bytes := r.g.Live(1, 60); n != 0 || bytes != 0 {
		t.Fatalf("%d live below the floor after a restart", n)
	}
}

func TestDiskIsGivenBackWhenEvacuatedContentsAreGone(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.apply(put([]byte("stays"), 0))
	r.checkpoint()
	base := r.db.p.Metrics().DiskSpaceUsage()
	const n = 400
	for k := uint16(1); k <= n; k++ {
		r.apply(put(r.content(20<<10), k))
	}
	r.evacuate(n + 2)
	r.g.Round()
	full := r.db.p.Metrics().DiskSpaceUsage()
	if full < base+n*20<<10 {
		t.Fatalf("%d bytes on disk with %d contents moved, %d without", full, n, base)
	}
	for k := range uint16(n + 1) {
		r.apply(del(k))
	}
	r.g.Round()
	r.checkpoint()
	r.until("the disk is given back", func() bool {
		r.db.p.TestOnlyWaitForCleaning()
		return r.db.p.Metrics().DiskSpaceUsage() < base+64<<10
	})
}

func TestEvacuateRefusesEntriesThatAreNotApplied(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.apply(put([]byte("x"), 1))
	done := make(chan error, 1)
	r.g.Evacuate(0, 3, func(err error) { done <- err })
	if err := wait(t, done); err == nil {
		t.Fatal("entry 2 was evacuated before it was applied")
	}
}

func TestFailedEvacuationLeavesContentsInTheLogAndNothingInPebble(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.random(50, 30)
	r.apply(put(r.content(10), 1))
	for k := range uint16(3) { // more than one batch of copies
		r.apply(put(r.content(batchBytes/2), 100+k))
	}
	r.apply(put(r.content(10), 2))
	read := r.g.o.ReadEntry
	fail := errors.New("bad sector")
	r.g.o.ReadEntry = func(index uint64, offset, size int) ([]byte, error) {
		if index == 55 {
			return nil, fail
		}
		return read(index, offset, size)
	}
	done := make(chan error, 1)
	r.g.Evacuate(0, 56, func(err error) { done <- err })
	if err := wait(t, done); !errors.Is(err, fail) {
		t.Fatalf("evacuation: %v", err)
	}
	r.g.o.ReadEntry = read
	if n := r.moved(); n != 0 {
		t.Fatalf("%d contents left in Pebble", n)
	}
	r.readable()
	r.evacuate(56)
	r.readable()
}

func TestContentMovedWhileItIsReadIsFoundInItsNewPlace(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.apply(put([]byte("moving"), 1))
	c := r.ref(1)
	read := r.g.o.ReadEntry
	r.g.o.ReadEntry = func(index uint64, offset, size int) ([]byte, error) {
		r.g.o.ReadEntry = read
		r.evacuate(2)
		return read(index, offset, size)
	}
	if b, err := r.g.Content(c.loc, c.size); err != nil || string(b) != "moving" {
		t.Fatalf("%q, %v", b, err)
	}
}

func TestCopiesOfAnEvacuationThatACrashCutShortAreDeletedAtBoot(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.random(20, 20)
	r.checkpoint()
	r.must(r.db.p.Set(contentKey(rigGroup, 0, message.NewLoc(3, 7)), []byte("copy"), pebble.NoSync))
	r.must(r.db.flush())
	r.reopen()
	if n := r.moved(); n != 0 {
		t.Fatalf("%d contents in Pebble", n)
	}
}

func TestContentThatIsNowhereIsAnError(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.apply(put([]byte("x"), 1))
	r.evacuate(2)
	for _, loc := range []message.Loc{message.NewLoc(1, 1), message.NewLoc(9, 0)} {
		if _, err := r.g.Content(loc, 5); err == nil {
			t.Fatalf("content at %d was found", loc)
		}
	}
}

func TestReferencesAgreeWithAModel(t *testing.T) {
	for seed := range uint64(20) {
		r := newRig(t, vfs.NewMem(), seed)
		for range 30 {
			r.random(1+r.rng.IntN(15), 40)
			at, _ := r.g.Applied()
			switch r.rng.IntN(4) {
			case 0:
				r.evacuate(at + 1 - min(at, uint64(r.rng.IntN(5))))
			case 1:
				r.checkpoint()
			case 2:
				r.reopen()
				r.replay()
			}
			r.readable()
		}
		tidy(r, "end")
	}
}
