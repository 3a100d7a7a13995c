package durable

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// cut is the disk after a power cut that takes whatever was not synced.
func cut(mem *vfs.MemFS) *vfs.MemFS { return mem.CrashClone(vfs.CrashCloneCfg{}) }

// crash is the disk after one that takes about half of it.
func crash(mem *vfs.MemFS, seed uint64) *vfs.MemFS {
	return mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(seed, 0))})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// holds checks what is in a file; "" is for none.
func holds(t *testing.T, fs vfs.FS, name, want string) {
	t.Helper()
	got, err := Read(fs, name, 100)
	if err != nil && (want != "" || !errors.Is(err, os.ErrNotExist)) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
	if string(got) != want {
		t.Errorf("%s holds %q, want %q", name, got, want)
	}
}

func isThere(t *testing.T, fs vfs.FS, dir string) {
	t.Helper()
	if _, err := fs.Stat(dir); err != nil {
		t.Errorf("after the cut: %v", err)
	}
}

func TestAFolderOutlastsAPowerCut(t *testing.T) {
	mem := vfs.NewCrashableMem()
	must(t, MakeDir(mem, "/a/b/c", 0o700))
	isThere(t, cut(mem), "/a/b/c")
	must(t, MakeDir(mem, "/a/b/c/d", 0o700))
	isThere(t, cut(mem), "/a/b/c/d")
}

func TestAFileOutlastsAPowerCut(t *testing.T) {
	mem := vfs.NewCrashableMem()
	for _, text := range []string{"one", "two"} {
		must(t, Replace(mem, "/f", []byte(text)))
		holds(t, cut(mem), "/f", text)
	}
	must(t, Rename(mem, "/f", "/g"))
	holds(t, cut(mem), "/f", "")
	holds(t, cut(mem), "/g", "two")
	must(t, Remove(mem, "/g"))
	holds(t, cut(mem), "/g", "")
	if err := Remove(mem, "/g"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// dying lets so many operations through to the disk; all later ones fail, as for a process that was killed.
func dying(mem *vfs.MemFS, after int64) vfs.FS {
	var done atomic.Int64
	return errorfs.Wrap(mem, errorfs.InjectorFunc(func(errorfs.Op) error {
		if done.Add(1) > after {
			return errorfs.ErrInjected
		}
		return nil
	}))
}

func TestAFolderThatADeadProcessHadBegunOutlastsAPowerCut(t *testing.T) {
	for after := int64(0); ; after++ {
		mem := vfs.NewCrashableMem()
		err := MakeDir(dying(mem, after), "/a/b/c", 0o700)
		must(t, MakeDir(mem, "/a/b/c", 0o700))
		isThere(t, cut(mem), "/a/b/c")
		if err == nil {
			return
		}
	}
}

func TestAFileIsWholeWheneverThePowerGoes(t *testing.T) {
	for after := int64(0); ; after++ {
		mem := vfs.NewCrashableMem()
		must(t, Replace(mem, "/f", []byte("former")))
		err := Replace(dying(mem, after), "/f", []byte("new"))
		for seed := range uint64(20) {
			holdsOneOf(t, crash(mem, seed), "/f", "former", "new")
		}
		holdsOneOf(t, mem, "/f", "former", "new")
		must(t, Replace(mem, "/f", []byte("newest")))
		holds(t, cut(mem), "/f", "newest")
		if err == nil {
			return
		}
	}
}

func holdsOneOf(t *testing.T, fs vfs.FS, name string, want ...string) {
	t.Helper()
	got, err := Read(fs, name, 100)
	for _, w := range want {
		if err == nil && string(got) == w {
			return
		}
	}
	t.Errorf("%s holds %q (%v), want one of %q", name, got, err, want)
}

func TestAFolderAboveThatMayNotBeReadIsTheOperators(t *testing.T) {
	mem := vfs.NewCrashableMem()
	must(t, mem.MkdirAll("/data", 0o700))
	for _, c := range []struct {
		err  error
		want bool
	}{{os.ErrPermission, true}, {errors.New("the disk is ill"), false}} {
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpOpenDir && op.Path == "/" {
				return c.err
			}
			return nil
		}))
		if err := MakeDir(fs, "/data", 0o700); (err == nil) != c.want {
			t.Errorf("with %v above: %v", c.err, err)
		}
		if err := MakeDir(fs, "/fresh", 0o700); err == nil {
			t.Errorf("with %v above a folder was made that may not last", c.err)
		}
		must(t, mem.RemoveAll("/fresh"))
	}
}

func TestAFileThatIsTooLongIsNotRead(t *testing.T) {
	mem := vfs.NewCrashableMem()
	must(t, Replace(mem, "/f", []byte("12345")))
	if b, err := Read(mem, "/f", 5); string(b) != "12345" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := Read(mem, "/f", 4); err == nil || !strings.Contains(err.Error(), "more than 4 bytes") {
		t.Errorf("a file of 5 bytes was read as one of 4: %v", err)
	}
}
