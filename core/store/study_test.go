package store

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/core"
)

// contentsOf are the files in a folder with their bytes.
func contentsOf(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, info.Size())
		if _, err := f.ReadAt(b, 0); err != nil && len(b) > 0 {
			t.Fatal(err)
		}
		f.Close()
		all[name] = string(b)
	}
	return all
}

func TestAStudiedStateIsTheNewestCheckpointAndGoesOnInMemoryOnly(t *testing.T) {
	b, live := newSourceBroker(t)
	b.checkpoint()
	checkpoint, _ := b.g.Applied()
	live(50) // is in the log alone
	want, last := b.g.Fingerprint(), b.log.last
	b.close()
	before := contentsOf(t, b.fs, b.dir)
	m, applied, err := Study(b.fs, b.dir, brokerGroup)
	if err != nil {
		t.Fatal(err)
	}
	if applied != checkpoint {
		t.Errorf("the state is at entry %d, want %d", applied, checkpoint)
	}
	for i := applied + 1; i <= last; i++ {
		if err := m.Apply(i, b.log.entries[i], &core.Effects{}); err != nil {
			t.Fatal(err)
		}
	}
	if m.Fingerprint() != want {
		t.Error("the log applied to the studied state leads elsewhere")
	}
	after := contentsOf(t, b.fs, b.dir)
	if len(after) != len(before) {
		t.Errorf("%d files, %d before", len(after), len(before))
	}
	for name, content := range before {
		if after[name] != content {
			t.Errorf("%s was changed", name)
		}
	}
	if _, _, err := Study(vfs.NewMem(), "nothing", brokerGroup); err == nil {
		t.Error("a store that is not there was studied")
	}
}
