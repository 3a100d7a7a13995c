package powercut

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// content is a file of the model: what it had when it was synced last, and after each write since.
type content struct {
	versions [][]byte
	handle   vfs.File
}

func (c *content) now() []byte { return c.versions[len(c.versions)-1] }

func (c *content) write(at int64, b []byte) {
	next := slices.Clone(c.now())
	if grown := int(at) + len(b) - len(next); grown > 0 {
		next = append(next, make([]byte, grown)...)
	}
	copy(next[at:], b)
	c.versions = append(c.versions, next)
}

// names is a folder of the model: its names when it was synced last, and after each change since.
type names []map[string]*content

func (n names) now() map[string]*content { return n[len(n)-1] }

// disk is the file system beside its model.
type disk struct {
	fs      *FS
	root    string
	folders map[string]names
}

func newDisk(t *rapid.T, root string) *disk {
	d := &disk{root: root, folders: map[string]names{root: {{}}, filepath.Join(root, "sub"): {{}}}}
	d.restart(t)
	if err := d.fs.MkdirAll(filepath.Join(root, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.syncFolder(t, root)
	return d
}

// restart is a new process, after a kill -9.
func (d *disk) restart(t *rapid.T) {
	var err error
	if d.fs, err = Open(d.root); err != nil {
		t.Fatal(err)
	}
	for _, f := range d.folders {
		for _, c := range f.now() {
			c.handle = nil
		}
	}
}

func (d *disk) syncFolder(t *rapid.T, dir string) {
	f, err := d.fs.OpenDir(dir)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	d.folders[dir] = names{d.folders[dir].now()}
}

func (d *disk) folder(t *rapid.T) string {
	return rapid.SampledFrom(slices.Sorted(maps.Keys(d.folders))).Draw(t, "folder")
}

// file draws a name that is there, made now if there is none.
func (d *disk) file(t *rapid.T) (dir, name string, c *content) {
	dir = d.folder(t)
	if len(d.folders[dir].now()) == 0 {
		d.create(t, dir)
	}
	name = rapid.SampledFrom(slices.Sorted(maps.Keys(d.folders[dir].now()))).Draw(t, "name")
	return dir, name, d.folders[dir].now()[name]
}

func freeName(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "to")) }

// change follows a change of names.
func (d *disk) change(dir string, how func(map[string]*content)) {
	next := maps.Clone(d.folders[dir].now())
	how(next)
	d.folders[dir] = append(d.folders[dir], next)
}

// open answers the file's handle, some of which were opened long ago.
func (d *disk) open(t *rapid.T, dir, name string, c *content) vfs.File {
	if c.handle != nil && rapid.Bool().Draw(t, "an old handle") {
		return c.handle
	}
	f, err := d.fs.OpenReadWrite(filepath.Join(dir, name), "")
	if err != nil {
		t.Fatal(err)
	}
	c.handle = f
	return f
}

func (d *disk) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"write": d.write, "sync": d.sync, "close": d.close, "rename": d.rename, "link": d.link, "remove": d.remove,
		"create":      func(t *rapid.T) { d.create(t, d.folder(t)) },
		"sync folder": func(t *rapid.T) { d.syncFolder(t, d.folder(t)) },
		"kill":        d.restart,
		"cut":         d.cut,
		"":            d.look,
	}
}

func (d *disk) create(t *rapid.T, dir string) {
	name := freeName(t)
	f, err := d.fs.Create(filepath.Join(dir, name), "")
	if err != nil {
		t.Fatal(err)
	}
	d.change(dir, func(n map[string]*content) { n[name] = &content{versions: [][]byte{nil}, handle: f} })
}

func (d *disk) write(t *rapid.T) {
	dir, name, c := d.file(t)
	b := bytes.Repeat([]byte{byte(1 + rapid.IntRange(0, 254).Draw(t, "byte"))}, rapid.IntRange(1, 9000).Draw(t, "length"))
	at := int64(rapid.IntRange(0, 9000).Draw(t, "at"))
	if _, err := d.open(t, dir, name, c).WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
	c.write(at, b)
}

func (d *disk) sync(t *rapid.T) {
	dir, name, c := d.file(t)
	f := d.open(t, dir, name, c)
	sync := f.Sync
	if rapid.Bool().Draw(t, "data only") {
		sync = f.SyncData
	}
	if err := sync(); err != nil {
		t.Fatal(err)
	}
	c.versions = [][]byte{c.now()}
}

func (d *disk) close(t *rapid.T) {
	_, _, c := d.file(t)
	if c.handle == nil {
		return
	}
	if err := c.handle.Close(); err != nil {
		t.Fatal(err)
	}
	c.handle = nil
}

func (d *disk) rename(t *rapid.T) {
	dir, name, c := d.file(t)
	to := freeName(t)
	if d.folders[dir].now()[to] == c {
		return // it would do nothing
	}
	if err := d.fs.Rename(filepath.Join(dir, name), filepath.Join(dir, to)); err != nil {
		t.Fatal(err)
	}
	d.change(dir, func(n map[string]*content) { delete(n, name); n[to] = c })
}

func (d *disk) link(t *rapid.T) {
	dir, name, c := d.file(t)
	to := freeName(t)
	err := d.fs.Link(filepath.Join(dir, name), filepath.Join(dir, to))
	if _, taken := d.folders[dir].now()[to]; taken != (err != nil) {
		t.Fatalf("the name is taken: %v; link: %v", taken, err)
	}
	if err == nil {
		d.change(dir, func(n map[string]*content) { n[to] = c })
	}
}

func (d *disk) remove(t *rapid.T) {
	dir, name, _ := d.file(t)
	if err := d.fs.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	d.change(dir, func(n map[string]*content) { delete(n, name) })
}

func (d *disk) cut(t *rapid.T) {
	keep := rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "keep")
	if _, err := Cut(d.root, rapid.Uint64().Draw(t, "seed"), keep); err != nil {
		t.Fatal(err)
	}
	d.judge(t, keep)
	d.restart(t)
}

// look says whether a living process reads all that it has written, synced or not.
func (d *disk) look(t *rapid.T) {
	for dir, n := range d.folders {
		if !same(d.read(t, dir), n.now(), 100) {
			t.Fatalf("folder %s is not what was made of it", dir)
		}
	}
}

// found is a file of the real folder.
type found struct {
	bytes []byte
	ino   uint64
}

// read is what a folder has.
func (d *disk) read(t *rapid.T, dir string) map[string]found {
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]found{}
	for _, e := range list {
		if e.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = found{b, number(info)}
	}
	return files
}

// judge says whether what a cut has left may be, and goes on from there.
func (d *disk) judge(t *rapid.T, keep int) {
	for _, dir := range slices.Sorted(maps.Keys(d.folders)) {
		files, may := d.read(t, dir), d.folders[dir]
		switch keep {
		case 0:
			may = may[:1]
		case 100:
			may = may[len(may)-1:]
		}
		i := slices.IndexFunc(may, func(n map[string]*content) bool { return same(files, n, keep) })
		if i < 0 {
			t.Fatalf("folder %s is as it never was: %v, of %d states", dir, slices.Sorted(maps.Keys(files)), len(may))
		}
		d.folders[dir] = names{may[i]}
		for name, c := range may[i] {
			c.versions = [][]byte{files[name].bytes}
		}
	}
}

// same says whether files can be those of the model.
func same(files map[string]found, n map[string]*content, keep int) bool {
	if len(files) != len(n) {
		return false
	}
	for name, c := range n {
		f, ok := files[name]
		if !ok || !possible(f.bytes, c.versions, keep) {
			return false
		}
		for other, o := range n { // names of one file are so still
			if (c == o) != (f.ino == files[other].ino) {
				return false
			}
		}
	}
	return true
}

// possible says whether each block of b is that of a version.
func possible(b []byte, versions [][]byte, keep int) bool {
	switch keep {
	case 0:
		return bytes.Equal(b, versions[0])
	case 100:
		return bytes.Equal(b, versions[len(versions)-1])
	}
	if len(b) < len(versions[0]) || !slices.ContainsFunc(versions, func(v []byte) bool { return len(v) >= len(b) }) {
		return false
	}
	for at := 0; at < len(b); at += 512 {
		block := b[at:min(at+512, len(b))]
		if !slices.ContainsFunc(versions, func(v []byte) bool { return bytes.Equal(block, piece(v, at, len(block))) }) {
			return false
		}
	}
	return true
}

// piece is a part of v, zero behind its end.
func piece(v []byte, at, length int) []byte {
	p := make([]byte, length)
	_, _ = bytes.NewReader(v).ReadAt(p, int64(at))
	return p
}

func TestACutTakesWhatIsNotSyncedAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp("", "powercut-")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(root) }()
		t.Repeat(newDisk(t, root).actions())
	})
}
