package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func open(t *testing.T, fs vfs.FS, o Options) *Log {
	t.Helper()
	o.FS, o.Now = fs, func() time.Time { return time.Unix(1e9, 0) }
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l, err := Open("", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// lines are those of a file, none if it is not there.
func lines(t *testing.T, disk vfs.FS, name string) (all []Event) {
	t.Helper()
	f, err := disk.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var e Event
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			t.Fatalf("%q: %v", s.Text(), err)
		}
		all = append(all, e)
	}
	return all
}

// users are those of all lines, the oldest first.
func users(t *testing.T, disk vfs.FS) (all []string) {
	t.Helper()
	var events []Event
	for n := 99; n > 0; n-- {
		events = append(events, lines(t, disk, Name+"."+strconv.Itoa(n))...)
	}
	for _, e := range append(events, lines(t, disk, Name)...) {
		all = append(all, e.User)
	}
	return all
}

// cut is the disk after a power cut that takes whatever was not synced.
func cut(mem *vfs.MemFS) *vfs.MemFS { return mem.CrashClone(vfs.CrashCloneCfg{}) }

func TestLinesAreAppendedOverRestarts(t *testing.T) {
	mem := vfs.NewMem()
	for _, user := range []string{"a", "b\n\"c"} {
		l := open(t, mem, Options{})
		l.Note(Event{Event: "login", User: user, Text: strings.Repeat("x", 5000)})
		_ = l.Close()
	}
	got := lines(t, mem, Name)
	if len(got) != 2 || got[1].User != "b\n\"c" || !got[0].Time.Equal(time.Unix(1e9, 0)) || len(got[0].Text) != textBytesMax {
		t.Errorf("%+v", got)
	}
}

func TestTheFilesAreBounded(t *testing.T) {
	for _, files := range []int{1, 3} {
		mem := vfs.NewMem()
		l := open(t, mem, Options{FileBytesMax: 500, Files: files})
		for range 200 {
			l.Note(Event{Event: "login", User: "u"})
		}
		l.Keep(Event{Event: "last"})
		found, err := mem.List("")
		if err != nil || len(found) != files {
			t.Errorf("%d files, want %d (%v)", len(found), files, err)
		}
		for _, name := range found {
			if info, err := mem.Stat(name); err != nil || info.Size() > 500 {
				t.Errorf("%s has %d bytes", name, info.Size())
			}
		}
		if got := lines(t, mem, Name); got[len(got)-1].Event != "last" {
			t.Errorf("the last line is %+v", got[len(got)-1])
		}
	}
}

func TestALineLongerThanAFileHasOneOfItsOwn(t *testing.T) {
	mem := vfs.NewMem()
	l := open(t, mem, Options{FileBytesMax: 100, Files: 9})
	for _, user := range []string{"a", strings.Repeat("b", 200), "c"} {
		l.Keep(Event{User: user})
	}
	if got := users(t, mem); len(got) != 3 || got[2] != "c" {
		t.Errorf("lines of %v", got)
	}
}

// What was noted before a kept line is on disk with it, also where files were changed in between.
func TestAKeptLineOutlastsAPowerCutAndThoseBeforeItToo(t *testing.T) {
	mem := vfs.NewCrashableMem()
	l := open(t, mem, Options{FileBytesMax: 300, Files: 50})
	var want []string
	for i := range 20 {
		noted, kept := fmt.Sprint("noted", i), fmt.Sprint("kept", i)
		l.Note(Event{Event: "login", User: noted})
		l.Keep(Event{Event: "user_put", User: kept})
		want = append(want, noted, kept)
		if got := users(t, cut(mem)); !slices.Equal(got, want) {
			t.Fatalf("after a power cut there are lines of %v, want %v", got, want)
		}
	}
}

func TestANotedLineComesToTheDiskByItself(t *testing.T) {
	mem := vfs.NewCrashableMem()
	l := open(t, mem, Options{})
	for _, user := range []string{"a", "b"} { // the second one during the pause
		l.Note(Event{Event: "login", User: user})
	}
	deadline := time.Now().Add(time.Minute)
	for len(users(t, cut(mem))) < 2 {
		if time.Now().After(deadline) {
			t.Fatal("a line is not on disk after a minute")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWhatAPowerCutToreIsGoneAtTheNextStart(t *testing.T) {
	mem := vfs.NewCrashableMem()
	whole := `{"event":"login","user":"a"}` + "\n"
	f, err := mem.Create(Name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write([]byte(whole + "\x00\x00\x00\n" + `in","user":"x"}` + "\n" + whole + `{"event":"log`))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	l := open(t, mem, Options{Logger: slog.New(slog.NewTextHandler(&told, nil))})
	l.Keep(Event{Event: "login", User: "b"})
	if got := users(t, cut(mem)); !slices.Equal(got, []string{"a", "a", "b"}) {
		t.Errorf("lines of %v", got)
	}
	if !strings.Contains(told.String(), "lines=3") {
		t.Errorf("it is not told: %q", told.String())
	}
}

// stuckFS has files whose syncs wait.
type stuckFS struct {
	vfs.FS
	syncs chan struct{} // one is let through for each value
}

type stuckFile struct {
	vfs.File
	syncs chan struct{}
}

func (s stuckFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := s.FS.OpenReadWrite(name, c, o...)
	return stuckFile{f, s.syncs}, err
}

func (s stuckFile) Sync() error { <-s.syncs; return s.File.Sync() }

func TestABatchThatGoesOverSeveralFilesOutlastsAPowerCut(t *testing.T) {
	mem, syncs := vfs.NewCrashableMem(), make(chan struct{})
	l := open(t, stuckFS{mem, syncs}, Options{FileBytesMax: 300, Files: 50})
	for range 20 {
		l.Note(Event{Event: "login", User: "u"})
	}
	close(syncs)
	l.Keep(Event{Event: "user_put", User: "last"})
	if got := users(t, cut(mem)); len(got) != 21 || got[20] != "last" {
		t.Errorf("after a power cut there are lines of %v", got)
	}
}

func TestADiskThatStandsStillHoldsNobodyUpAndTakesBoundedMemory(t *testing.T) {
	mem, syncs := vfs.NewMem(), make(chan struct{})
	var told strings.Builder
	l := open(t, stuckFS{mem, syncs}, Options{Logger: slog.New(slog.NewTextHandler(&told, nil))})
	long := strings.Repeat("x", textBytesMax)
	const notes = 3 * waitingBytesMax / textBytesMax
	for range notes {
		l.Note(Event{Event: "denied", Text: long})
	}
	l.mu.Lock()
	waiting := len(l.next.lines)
	l.mu.Unlock()
	if waiting > waitingBytesMax {
		t.Errorf("%d bytes wait", waiting)
	}
	close(syncs)
	_ = l.Close()
	there := len(lines(t, mem, Name))
	if there == notes || !strings.Contains(told.String(), "audit log lost lines") {
		t.Errorf("%d of %d lines are there, and it was told: %s", there, notes, told.String())
	}
}

func TestAClosedLogLosesLinesQuietly(t *testing.T) {
	l := open(t, vfs.NewMem(), Options{})
	_ = l.Close()
	l.Note(Event{Event: "login"})
	l.Keep(Event{Event: "user_put"})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
