package link

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/link/source"
	"github.com/understudy-mq/understudy/link/wire"
	"github.com/understudy-mq/understudy/replication"
)

// seedServer serves a seed of one file, and can break answers off or change bytes of them.
type seedServer struct {
	content []byte
	id      string
	breakAt int // bytes of an answer before it breaks off, -1 for never
	flip    bool
	served  int // bytes of the file that went out
	gone    bool
}

func (s *seedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == wire.PathSeed {
		sum := sha256.Sum256(s.content)
		wire.WriteJSON(w, http.StatusOK, wire.Seed{ID: s.id, Cluster: sourceID, Files: []wire.SeedFile{
			{Bytes: int64(len(s.content)), SHA256: hex.EncodeToString(sum[:])},
		}})
		return
	}
	if s.gone {
		http.NotFound(w, r)
		return
	}
	content := s.content
	if s.flip {
		content, s.flip = bytes.Clone(content), false
		content[len(content)/2] ^= 1
	}
	if s.breakAt >= 0 {
		w = &breaking{w, s}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	s.served += len(s.content)
}

// breaking ends the connection in the middle of an answer's body.
type breaking struct {
	http.ResponseWriter
	s *seedServer
}

func (b *breaking) Write(p []byte) (int, error) {
	if len(p) > b.s.breakAt {
		n, _ := b.ResponseWriter.Write(p[:b.s.breakAt])
		_ = n
		_ = http.NewResponseController(b.ResponseWriter).Flush()
		b.s.breakAt = -1
		panic(http.ErrAbortHandler)
	}
	b.s.breakAt -= len(p)
	return b.ResponseWriter.Write(p)
}

func fetchFrom(t *testing.T, s *seedServer, dir string, known Fetched) (Fetched, []Fetched, error) {
	t.Helper()
	h := httptest.NewServer(s)
	defer h.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var saved []Fetched
	f, err := FetchSeed(ctx, SeedOptions{
		Addresses: []string{strings.TrimPrefix(h.URL, "http://")}, Reader: "reader", Dir: dir, Logger: discard(),
	}, known, func(f Fetched) error { saved = append(saved, f); return nil })
	return f, saved, err
}

func TestASeedThatIsWholeOutlastsAPowerCut(t *testing.T) {
	content, mem := []byte("a snapshot"), vfs.NewCrashableMem()
	h := httptest.NewServer(&seedServer{content: content, id: "one", breakAt: -1})
	defer h.Close()
	o := SeedOptions{Addresses: []string{strings.TrimPrefix(h.URL, "http://")}, Reader: "reader", FS: mem, Dir: "/seed", Logger: discard()}
	if err := mem.MkdirAll(o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := mem.OpenDir("/") // the folder that the seed's is in is its caller's
	if err == nil {
		err = root.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FetchSeed(t.Context(), o, Fetched{}, func(Fetched) error { return nil }); err != nil {
		t.Fatal(err)
	}
	f, err := mem.CrashClone(vfs.CrashCloneCfg{}).Open(SeedPath(o.Dir, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); !bytes.Equal(got, content) {
		t.Errorf("after the cut it has %q, %v, want %q", got, err, content)
	}
}

func sameFile(t *testing.T, dir string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(SeedPath(dir, 0))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, %v; want %d", len(got), err, len(want))
	}
}

func TestASeedThatBreaksOffAtAnyByteGoesOnFromThere(t *testing.T) {
	content := []byte(strings.Repeat("a snapshot ", 2))
	for at := range content {
		dir := t.TempDir()
		s := &seedServer{content: content, id: "one", breakAt: at}
		if _, saved, err := fetchFrom(t, s, dir, Fetched{}); err != nil || len(saved) != 1 {
			t.Fatalf("broken off at byte %d: %v, %d seeds", at, err, len(saved))
		}
		sameFile(t, dir, content)
	}
}

// A process that died in the middle finds its part of the file again.
func TestASeedIsGoneOnWithByANewProcess(t *testing.T) {
	content, dir := []byte(strings.Repeat("snapshot", 1000)), t.TempDir()
	s := &seedServer{content: content, id: "one", breakAt: -1}
	if err := os.WriteFile(SeedPath(dir, 0), content[:5000], 0o600); err != nil {
		t.Fatal(err)
	}
	known := Fetched{Seed: wire.Seed{ID: "one", Files: []wire.SeedFile{{Bytes: int64(len(content))}}}}
	sum := sha256.Sum256(content)
	known.Files[0].SHA256 = hex.EncodeToString(sum[:])
	_, saved, err := fetchFrom(t, s, dir, known)
	if err != nil || len(saved) != 0 {
		t.Fatal(err, saved)
	}
	sameFile(t, dir, content)
}

func TestASeedThatTheSourceHasNoMoreIsBegunAnew(t *testing.T) {
	content, dir := []byte("another snapshot"), t.TempDir()
	if err := os.WriteFile(SeedPath(dir, 0), []byte("of an old"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &seedServer{content: content, id: "two", breakAt: -1}
	known := Fetched{Seed: wire.Seed{ID: "one", Files: []wire.SeedFile{{Bytes: 100}}}}
	if _, saved, err := fetchFrom(t, s, dir, known); err != nil || len(saved) != 1 || saved[0].ID != "two" {
		t.Fatal(err, saved)
	}
	sameFile(t, dir, content)
}

func TestASeedWithAChangedByteIsNotTaken(t *testing.T) {
	content, dir := []byte(strings.Repeat("snapshot", 100)), t.TempDir()
	s := &seedServer{content: content, id: "one", breakAt: -1, flip: true}
	if _, _, err := fetchFrom(t, s, dir, Fetched{}); err != nil {
		t.Fatal(err)
	}
	sameFile(t, dir, content)
	if s.served <= len(content) {
		t.Error("the changed file was not fetched again")
	}
}

func TestASeedIsWaitedForButNotForLongerThanIsAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := FetchSeed(ctx, SeedOptions{Addresses: []string{"127.0.0.1:1"}, Dir: t.TempDir(), Logger: discard()}, Fetched{},
		func(Fetched) error { return fmt.Errorf("nothing to save") })
	if err == nil {
		t.Error("a seed came from nowhere")
	}
}

// exporting is a group that cuts no snapshot, but tells when it is asked to.
type exporting func()

func (x exporting) Export(context.Context) (*replication.Export, error) {
	x()
	return nil, errors.New("no snapshot in this test")
}

// What a standby reads first after its seed must be in the log still: the hold is there before the snapshot is cut.
func TestTheLogIsHeldForASeedBeforeItIsCut(t *testing.T) {
	h := newHistory()
	h.many(2, 20)
	held := make(chan uint64, 1)
	var n *sourceNode
	seeds, err := source.OpenSeeds(t.TempDir(), map[uint64]source.Exporter{1: exporting(func() { held <- n.notes.of("reader").Index })}, discard())
	if err != nil {
		t.Fatal(err)
	}
	n = serve(t, h, func(o *source.Options) { o.Seeds = seeds })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go FetchSeed(ctx, SeedOptions{Addresses: []string{n.address()}, Reader: "reader", Dir: t.TempDir(), Logger: discard()}, //nolint:errcheck // there is no seed
		Fetched{}, func(Fetched) error { return nil })
	select {
	case at := <-held:
		if at != h.last().Index {
			t.Errorf("the log was held from entry %d on when the snapshot was cut, want %d", at, h.last().Index)
		}
	case <-ctx.Done():
		t.Fatal("no snapshot was cut")
	}
}
