package store

import (
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestStoreOnARealDiskRestartsAndIsOpenedByOneProcessOnly(t *testing.T) {
	dir := t.TempDir()
	b := &broker{t: t, fs: vfs.Default, dir: dir, log: newToyLog()}
	b.open()
	defer b.close()
	if _, err := Open(vfs.Default, dir, Options{}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Fatalf("a second opening: %v", err)
	}
	b.setUp()
	b.batch(publishes(100, "body"))
	b.checkpoint()
	b.batch(publishes(100, "body"))
	b.evacuate(b.log.last)
	b.restart()
	b.allIntact()
}

// flip damages one byte in the middle of each table of the store.
func flip(t *testing.T, fs vfs.FS) {
	t.Helper()
	names, err := fs.List("store")
	if err != nil {
		t.Fatal(err)
	}
	flipped := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		path := fs.PathJoin("store", name)
		in, err := fs.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
		data[len(data)/3] ^= 1
		out, err := fs.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(data); err != nil {
			t.Fatal(err)
		}
		out.Close()
		flipped++
	}
	if flipped == 0 {
		t.Fatalf("no tables among %v", names)
	}
}

func TestDamagedTableStopsTheOpening(t *testing.T) {
	r := newRig(t, vfs.NewMem(), 1)
	r.random(300, 3000)
	r.checkpoint()
	r.close()
	flip(t, r.fs)
	db, err := open(r.fs, "store", Options{Fatal: func(error) {}}, toyKind)
	if err != nil {
		return // as good
	}
	defer db.Close()
	if _, err := db.Group(rigGroup, GroupOptions{}); err == nil || !strings.Contains(err.Error(), "group 3") {
		t.Fatalf("the group was opened: %v", err)
	}
}
