package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-mq/understudy/link/wire"
	"github.com/understudy-mq/understudy/replication"
)

// picture is a group's state that never changes.
type picture struct {
	text  string
	err   error
	ready chan struct{} // nil: at once
}

func (p *picture) Export(context.Context) (*replication.Export, error) {
	if p.ready != nil {
		<-p.ready
	}
	if p.err != nil {
		return nil, p.err
	}
	return &replication.Export{Snapshot: cut{p.text}, Hash: 9, Fingerprint: 8}, nil
}

// cut is a replication.Snapshot.
type cut struct{ text string }

func (c cut) Index() uint64 { return 5 }
func (c cut) Term() uint64  { return 2 }
func (c cut) Conf() []byte  { return nil }
func (c cut) Close() error  { return nil }
func (c cut) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, c.text)
	return int64(n), err
}

// seeding is a rig that serves seeds of a group 1.
func seeding(t *testing.T, p *picture) (*rig, *Seeds) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "seeds")
	if err := os.MkdirAll(filepath.Join(dir, "of an earlier process"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := OpenSeeds(dir, map[uint64]Exporter{1: p}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what an earlier process left is there: %v", err)
	}
	return newRig(t, 5, func(o *Options) { o.Seeds = s }), s
}

// seed asks for a reader's seed until it is ready.
func (r *rig) seedFor(reader string) (s wire.Seed, status int) {
	r.t.Helper()
	for {
		w := r.post(wire.PathSeed, "", wire.SeedRequest{Reader: reader, Standby: "standby"})
		if w.Code == http.StatusAccepted {
			continue
		}
		if w.Code == http.StatusOK {
			if err := wire.ReadJSON(w.Body, &s); err != nil {
				r.t.Fatal(err)
			}
		}
		return s, w.Code
	}
}

func (r *rig) get(path, part string) *httptest.ResponseRecorder {
	q := httptest.NewRequestWithContext(r.t.Context(), http.MethodGet, path, nil)
	if part != "" {
		q.Header.Set("Range", part)
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q)
	return w
}

func TestASeedIsServedInPartsWithItsChecksum(t *testing.T) {
	r, _ := seeding(t, &picture{text: "the whole state"})
	s, status := r.seedFor("reader")
	if status != http.StatusOK || len(s.Files) != 1 {
		t.Fatalf("status %d, %+v", status, s)
	}
	f, sum := s.Files[0], sha256.Sum256([]byte("the whole state"))
	if f.SHA256 != hex.EncodeToString(sum[:]) || f.Bytes != 15 || f.Fingerprint != 8 || f.Position.Index != 5 || f.Position.Term != 2 || f.Position.Hash != 9 {
		t.Errorf("file %+v", f)
	}
	path := wire.PathSeed + "/" + s.ID + "/1"
	if w := r.get(path, ""); w.Code != http.StatusOK || w.Body.String() != "the whole state" {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if w := r.get(path, "bytes=4-"); w.Code != http.StatusPartialContent || w.Body.String() != "whole state" {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	for _, path := range []string{wire.PathSeed + "/other/1", wire.PathSeed + "/" + s.ID + "/2", wire.PathSeed + "/" + s.ID + "/%2e%2e"} {
		if w := r.get(path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
	if again, _ := r.seedFor("reader"); again.ID != s.ID {
		t.Error("a reader that asks again gets another seed")
	}
}

func TestASeedThatTakesLongIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &picture{text: "state", ready: make(chan struct{})}
		r, _ := seeding(t, p)
		begin := time.Now()
		if w := r.post(wire.PathSeed, "", wire.SeedRequest{Reader: "reader"}); w.Code != http.StatusAccepted || time.Since(begin) != seedPatience {
			t.Errorf("status %d after %v", w.Code, time.Since(begin))
		}
		close(p.ready)
		if _, status := r.seedFor("reader"); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	})
}

func TestASeedThatCannotBeMadeSaysWhyAndIsTriedAgain(t *testing.T) {
	p := &picture{text: "state", err: errors.New("no room")}
	r, s := seeding(t, p)
	if w := r.post(wire.PathSeed, "", wire.SeedRequest{Reader: "reader"}); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "group 1: no room") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	p.err = nil
	if _, status := r.seedFor("reader"); status != http.StatusOK || len(s.seeds) != 1 {
		t.Errorf("status %d, %d seeds", status, len(s.seeds))
	}
}

// Snapshots take the room of the state: few are kept, and those that nobody asks for go, files and all.
func TestSeedsAreFewAndThoseThatNobodyAsksForGo(t *testing.T) {
	r, s := seeding(t, &picture{text: "state"})
	now := time.Unix(1_700_000_000, 0)
	s.now = func() time.Time { return now }
	for i := range seedsMax {
		if _, status := r.seedFor(string(rune('a' + i))); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	if _, status := r.seedFor("one more"); status != http.StatusServiceUnavailable {
		t.Errorf("status %d for one more", status)
	}
	now = now.Add(seedIdle + time.Second)
	x, status := r.seedFor("one more")
	if status != http.StatusOK {
		t.Errorf("status %d once the others are idle", status)
	}
	left, err := os.ReadDir(s.dir)
	if err != nil || len(left) != 1 || left[0].Name() != x.ID {
		t.Errorf("left %v, %v", left, err)
	}
}

// The hold is of the standby's name and at the place where the log ends before the snapshot is cut; asking again, while the
// snapshot is fetched, leaves it there.
func TestASeedsHoldStaysWhereItBegan(t *testing.T) {
	r, _ := seeding(t, &picture{text: "state"})
	r.seedFor("reader")
	r.log.n = 500
	r.seedFor("reader")
	if len(r.notes.list) != 2 {
		t.Fatalf("noted %+v", r.notes.list)
	}
	for _, n := range r.notes.list {
		if n.reader != "reader" || len(n.at) != 1 || n.at[0].Group != 1 || n.at[0].Index != 5 {
			t.Errorf("noted %+v", n)
		}
	}
}
