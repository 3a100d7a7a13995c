package store

import (
	"bytes"
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// entryBytes reads the broker's log.
func (b *broker) entryBytes(index uint64, offset, size int) ([]byte, error) {
	return b.log.read(index, offset, size)
}

// wind opens a copy of the image in dir and applies the broker's log to it up to an entry.
func (b *broker) wind(dir string, to uint64) *Group {
	b.t.Helper()
	copied := dir + "-copy"
	b.must(CopyImage(b.fs, dir, copied))
	db, err := Open(b.fs, copied, Options{Fatal: func(err error) { b.t.Errorf("fatal: %v", err) }})
	b.must(err)
	b.t.Cleanup(func() { b.must(db.Close()) })
	g, err := db.Group(brokerGroup, GroupOptions{Node: ^uint64(0), ReadEntry: b.entryBytes})
	b.must(err)
	at, _ := g.Applied()
	for i := at + 1; i <= to; i++ {
		b.must(g.Apply(i, term, b.log.entries[i]))
		g.Round()
	}
	return g
}

// TestAnImageAndTheLogLeadToAnyLaterState: what the store goes on with changes nothing of it, and a snapshot of the state
// that it is brought to is the one that was cut there at the time.
func TestAnImageAndTheLogLeadToAnyLaterState(t *testing.T) {
	b, live := newSourceBroker(t)
	b.checkpoint()
	checkpoint, _ := b.g.Applied()
	b.must(b.db.Image("image"))
	b.must(vfs.Copy(b.fs, "store/LOCK", "image/LOCK")) // as reading it leaves one
	before := contentsOf(t, b.fs, "image")
	live(60)
	cut, _ := b.g.Applied()
	_, hash := b.g.RollingHash()
	print := b.g.Fingerprint()
	want := (&rig{t: t, g: b.g}).stream()
	live(100)
	b.checkpoint()

	at, err := Checkpointed(b.fs, "image", []uint64{brokerGroup, brokerGroup + 1})
	b.must(err)
	if at[brokerGroup] != checkpoint || at[brokerGroup+1] != 0 {
		t.Errorf("the image's states are %v, want entry %d", at, checkpoint)
	}
	g := b.wind("image", cut)
	if i, h := g.RollingHash(); i != cut || h != hash || g.Fingerprint() != print {
		t.Errorf("entry %d with rolling hash %x and fingerprint %x, want %d, %x and %x", i, h, g.Fingerprint(), cut, hash, print)
	}
	got := (&rig{t: t, g: g}).stream()
	if !bytes.Equal(got, want) {
		t.Errorf("its snapshot of %d bytes is not the one of %d bytes that was cut then", len(got), len(want))
	}
	to := newBroker(t, vfs.NewMem())
	to.must(to.g.Seed(context.Background(), bytes.NewReader(got), []byte("one voter")))
	if to.g.Fingerprint() != print {
		t.Error("a group that was seeded with it has another state")
	}
	after := contentsOf(t, b.fs, "image")
	for name, content := range before {
		if after[name] != content {
			t.Errorf("%s of the image was changed", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("the image has %d files, had %d", len(after), len(before))
	}
}

func TestAnImageThatIsDamagedIsRefused(t *testing.T) {
	b, _ := newSourceBroker(t)
	b.checkpoint()
	b.must(b.db.Image("image"))
	if err := b.db.Image("image"); err == nil {
		t.Error("an image was made over another")
	}
	if _, err := Checkpointed(b.fs, "nothing", []uint64{brokerGroup}); err == nil {
		t.Error("a store that is not there was looked at")
	}
	names, err := b.fs.List("image")
	b.must(err)
	for _, name := range names {
		if ext := b.fs.PathBase(name); len(ext) > 4 && ext[len(ext)-4:] == ".sst" {
			b.must(b.fs.Remove("image/" + name))
		}
	}
	if _, err := Checkpointed(b.fs, "image", []uint64{brokerGroup}); err == nil {
		t.Error("an image without its tables was read")
	}
}
