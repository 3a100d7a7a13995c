package audit

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, dir string, o Options) *Log {
	t.Helper()
	o.Logger, o.Now = slog.New(slog.DiscardHandler), func() time.Time { return time.Unix(1e9, 0) }
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func lines(t *testing.T, path string) (all []Event) {
	t.Helper()
	f, err := os.Open(path)
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

func TestLinesAreAppendedOverRestarts(t *testing.T) {
	dir := t.TempDir()
	for _, user := range []string{"a", "b\n\"c"} {
		l := open(t, dir, Options{})
		l.Write(Event{Event: "login", User: user, Text: strings.Repeat("x", 5000)})
		_ = l.Close()
	}
	got := lines(t, filepath.Join(dir, Name))
	if len(got) != 2 || got[1].User != "b\n\"c" || !got[0].Time.Equal(time.Unix(1e9, 0)) || len(got[0].Text) != textBytesMax {
		t.Errorf("%+v", got)
	}
}

func TestTheFilesAreBounded(t *testing.T) {
	for _, files := range []int{1, 3} {
		dir := t.TempDir()
		l := open(t, dir, Options{FileBytesMax: 500, Files: files})
		for range 200 {
			l.Write(Event{Event: "login", User: "u"})
		}
		l.Write(Event{Event: "last"})
		found, err := os.ReadDir(dir)
		if err != nil || len(found) != files {
			t.Errorf("%d files, want %d (%v)", len(found), files, err)
		}
		for _, f := range found {
			if info, err := f.Info(); err != nil || info.Size() > 500 {
				t.Errorf("%s has %d bytes", f.Name(), info.Size())
			}
		}
		if got := lines(t, filepath.Join(dir, Name)); got[len(got)-1].Event != "last" {
			t.Errorf("the last line is %+v", got[len(got)-1])
		}
	}
}

func TestAClosedLogLosesLinesQuietly(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	_ = l.Close()
	l.Write(Event{Event: "login"})
}
