package powercut

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// rig is a file system whose calls must succeed.
type rig struct {
	*FS
	t    *testing.T
	root string
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, root: t.TempDir()}
	r.start()
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) start() {
	r.t.Helper()
	fs, err := Open(r.root)
	r.must(err)
	r.FS = fs
}

func (r *rig) path(name string) string { return filepath.Join(r.root, name) }

// put makes a file, which is on disk where it says so.
func (r *rig) put(name, text string, synced bool) {
	r.t.Helper()
	f, err := r.Create(r.path(name), "")
	r.must(err)
	_, err = f.Write([]byte(text))
	r.must(err)
	if synced {
		r.must(f.Sync())
	}
	r.must(f.Close())
}

func (r *rig) sync(dir string) {
	r.t.Helper()
	f, err := r.OpenDir(r.path(dir))
	r.must(err)
	r.must(errors.Join(f.Sync(), f.Close()))
}

func (r *rig) cut() Loss {
	r.t.Helper()
	loss, err := Cut(r.root, 1, 0)
	r.must(err)
	return loss
}

// has says what a file has; "-" for none.
func (r *rig) has(name, want string) {
	r.t.Helper()
	b, err := os.ReadFile(r.path(name))
	if errors.Is(err, os.ErrNotExist) {
		b, err = []byte("-"), nil
	}
	r.must(err)
	if string(b) != want {
		r.t.Errorf("%s has %q, want %q", name, b, want)
	}
}

func TestAFolderThatWasNotSyncedTakesWithItWhatWasSyncedInIt(t *testing.T) {
	r := newRig(t)
	r.must(r.MkdirAll(r.path("a/b"), 0o755))
	r.put("a/b/file", "text", true)
	r.sync("a/b")
	r.sync("a")
	r.cut()
	if _, err := os.Stat(r.path("a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder a: %v", err)
	}
	r.start()
	r.must(r.MkdirAll(r.path("a/b"), 0o755))
	r.put("a/b/file", "text", true)
	for _, dir := range []string{"", "a", "a/b"} {
		r.sync(dir)
	}
	r.cut()
	r.has("a/b/file", "text")
}

func TestAFolderThatWasRemovedWithAllInItComesBackWithAllInIt(t *testing.T) {
	r := newRig(t)
	r.must(r.MkdirAll(r.path("a/b"), 0o755))
	r.put("a/b/file", "text", true)
	for _, dir := range []string{"", "a", "a/b"} {
		r.sync(dir)
	}
	r.put("a/b/fresh", "text", true) // its name is not synced
	r.must(r.RemoveAll(r.path("a")))
	r.must(r.MkdirAll(r.path("a/b"), 0o755)) // others of the same names
	r.put("a/b/file", "another", true)
	r.sync("a/b")
	r.cut()
	r.has("a/b/file", "text")
	r.has("a/b/fresh", "-")
	r.start()
	r.must(r.RemoveAll(r.path("a")))
	r.sync("")
	r.cut()
	if _, err := os.Stat(r.path("a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder a: %v", err)
	}
}

func TestWhatAnEndedProcessDidNotSyncIsStillNotSynced(t *testing.T) {
	r := newRig(t)
	r.put("file", "synced", true)
	r.put("gone", "synced", true)
	r.sync("")
	f, err := r.OpenReadWrite(r.path("file"), "")
	r.must(err)
	_, err = f.WriteAt([]byte("unsynced"), 0)
	r.must(err)
	r.must(r.Remove(r.path("gone")))
	r.start()
	r.has("file", "unsynced")
	r.has("gone", "-")
	loss := r.cut()
	r.has("file", "synced")
	r.has("gone", "synced")
	if loss != (Loss{Names: 1, Blocks: 1}) {
		t.Errorf("loss %+v", loss)
	}
}

func TestACutOfWhatWasNotWrittenThroughItIsAnError(t *testing.T) {
	r := &rig{t: t, root: t.TempDir()}
	r.must(os.WriteFile(r.path("file"), []byte("text"), 0o644))
	if _, err := Cut(r.root, 1, 0); err == nil {
		t.Error("no error")
	}
	r.has("file", "text")
	r.start()
	r.put("other", "text", true)
	r.cut()
	if loss := r.cut(); loss != (Loss{}) {
		t.Errorf("a second cut took %+v", loss)
	}
}

// A process may die between writing down what it is about to do and doing it.
func TestAChangeThatDidNotHappenIsNotUndone(t *testing.T) {
	for name, c := range map[string]change{
		"create":               {Name: "new"},
		"create over another":  {Name: "file", Trash: "7"},
		"remove":               {Name: "file", Gone: true, Trash: "8"},
		"rename":               {Name: "new", From: "file"},
		"rename over another":  {Name: "other", From: "file", Trash: "9"},
		"half of a note of it": {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.put("file", "text", true)
			r.put("other", "text too", true)
			r.sync("")
			info, err := os.Stat(r.root)
			r.must(err)
			if c.Name == "" {
				r.must(os.WriteFile(r.home.namesOf(number(info)), []byte(`{"Name":"fil`), 0o644))
			} else {
				_, err = r.home.append(number(info), c)
				r.must(err)
			}
			if c.Trash != "" && !c.Gone {
				r.must(os.Link(r.path(c.Name), r.home.trash(c.Trash)))
			}
			r.start()
			r.put("later", "text", true)
			r.cut()
			r.has("file", "text")
			r.has("other", "text too")
			r.has("new", "-")
			r.has("later", "-")
		})
	}
}

func TestAWriteOfWhichOnlyHalfANoteIsThereDidNotHappen(t *testing.T) {
	r := newRig(t)
	r.put("file", "synced", true)
	r.sync("")
	f, err := r.OpenReadWrite(r.path("file"), "")
	r.must(err)
	_, err = f.WriteAt([]byte("more"), 0)
	r.must(err)
	info, err := f.Stat()
	r.must(err)
	note, err := os.ReadFile(r.home.dataOf(number(info)))
	r.must(err)
	r.must(os.WriteFile(r.home.dataOf(number(info)), bytes.Repeat(note, 2)[:2*len(note)-3], 0o644))
	r.start()
	f, err = r.OpenReadWrite(r.path("file"), "")
	r.must(err)
	_, err = f.WriteAt([]byte("longer text"), 0)
	r.must(err)
	r.cut()
	r.has("file", "synced")
}

func TestARefusedChangeLeavesNothingToUndo(t *testing.T) {
	r := newRig(t)
	r.must(r.MkdirAll(r.path("dir"), 0o755))
	r.put("dir/file", "text", true)
	r.put("file", "text", true)
	r.sync("")
	r.sync("dir")
	for what, err := range map[string]error{
		"a link to a name that is taken":     r.Link(r.path("file"), r.path("dir/file")),
		"a removal of a folder that is full": r.Remove(r.path("dir")),
		"a removal of what is not there":     r.Remove(r.path("none")),
		"a rename of what is not there":      r.Rename(r.path("none"), r.path("file")),
		"a rename to another folder":         r.Rename(r.path("file"), r.path("dir/other")),
		"a rename onto a folder":             r.Rename(r.path("file"), r.path("dir")),
	} {
		if err == nil {
			t.Errorf("%s was not refused", what)
		}
	}
	if loss := r.cut(); loss != (Loss{}) {
		t.Errorf("loss %+v", loss)
	}
	r.has("file", "text")
	r.has("dir/file", "text")
}

func TestAFileThatIsReusedKeepsItsFormerBytesUntilItIsSynced(t *testing.T) {
	r := newRig(t)
	r.put("old", "former text", true)
	r.sync("")
	f, err := r.ReuseForWrite(r.path("old"), r.path("new"), vfs.WriteCategoryUnspecified)
	r.must(err)
	_, err = f.Write([]byte("new"))
	r.must(err)
	r.sync("")
	r.has("new", "newmer text")
	r.cut()
	r.has("new", "former text")
	r.has("old", "-")
}
