package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/cmd/loopback"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/link/wire"
)

// both are the settings of a pair of which each can be the other's source.
func both(t *testing.T) (a, b config.Config) {
	a, b = pair(t)
	b.Link = loopback.Addresses(t, 1)[0]
	b.LinkServeTokenFile, b.LinkFenceTokenFile = a.LinkServeTokenFile, a.LinkServeTokenFile
	return a, b
}

// back are the settings with which a's node becomes a standby of b.
func back(a, b config.Config) config.Config {
	a.LinkSource, a.LinkTokenFile, a.LinkSeed, a.Groups = b.Link, a.LinkServeTokenFile, a.NodeID, 9
	return a
}

func rewindOptions(folder *Folder, a, b config.Config) RewindOptions {
	return RewindOptions{
		Folder: folder, Sources: []string{b.Link}, Token: a.LinkServeTokenFile, To: a.Data + ".next", Logger: slog.New(slog.DiscardHandler),
	}
}

// windBack makes a stopped node's folder one of a standby of b.
func windBack(t *testing.T, a, b config.Config) (*Rewound, error) {
	t.Helper()
	folder, err := OpenFolder(nil, a.Data)
	if err != nil {
		t.Fatal(err)
	}
	o := rewindOptions(folder, a, b)
	r, err := Rewind(t.Context(), o)
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Rename(a.Data, a.Data+".former"), os.Rename(o.To, a.Data)); err != nil {
		t.Fatal(err)
	}
	return r, nil
}

// imaged waits until a source has an image of a state that its standby has reached.
func imaged(t *testing.T, n *Node) {
	t.Helper()
	eventually(t, "the source has an image of its state", func() bool {
		list, err := filepath.Glob(filepath.Join(n.cfg.Data, imagesDir, "*.json"))
		return err == nil && len(list) > 0
	})
}

// crashed is a source that was lost with a tail that its standby, which is promoted, does not have. A message of before was settled in the tail.
func crashed(t *testing.T) (a, b config.Config, former string, promoted *Node) {
	t.Helper()
	a, b = both(t)
	source, standby := start(t, a), start(t, b)
	ready(t, source, standby)
	former = source.ClusterID()
	c := dial(t, source)
	for _, body := range []string{"1", "2", "3"} {
		send(t, c, "work", body)
	}
	imaged(t, source)
	send(t, c, "work", "4")
	follows(t, source, standby)
	stop(t, standby)
	if got := take(t, c, "work"); got != "1" {
		t.Fatalf("took %q", got)
	}
	send(t, c, "work", "lost")
	stop(t, source) // the newest checkpoint is beyond the cut
	standby = start(t, b)
	eventually(t, "it is a standby with a leader", func() bool { return standby.Ready() == nil })
	if _, err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	send(t, dial(t, standby), "work", "5")
	return a, b, former, standby
}

func TestASourceThatWasLostIsWoundBackToTheCutAndFollows(t *testing.T) {
	a, b, former, promoted := crashed(t)
	eventually(t, "the log is kept for the former source", func() bool {
		h := promoted.Link().Holds
		return len(h) == 1 && h[0].Name == formerName(former) && h[0].Holding
	})
	r, err := windBack(t, a, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Groups) != 3 || r.LinkBytes == 0 || r.LinkBytes > 2000 || r.Bytes == 0 {
		t.Errorf("%+v", r)
	}
	if h := promoted.Link().Holds; len(h) != 1 || !strings.HasPrefix(h[0].Name, "standby-") {
		t.Errorf("holds %+v", h)
	}
	standby := start(t, back(a, b))
	ready(t, standby)
	follows(t, promoted, standby)
	if _, err := os.Stat(filepath.Join(promoted.cfg.Data, seedsDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a seed was made: %v", err)
	}
	if l := standby.Link(); l.Role != "standby" || l.Source != promoted.ClusterID() {
		t.Errorf("%+v", l)
	}
	send(t, dial(t, promoted), "work", "6")
	follows(t, promoted, standby)
	stop(t, standby)
	standby = start(t, back(a, b))
	follows(t, promoted, standby)
	imaged(t, promoted)
	if p, err := standby.Switchover(t.Context(), switchoverNow); err != nil || p.Kind != "planned" || p.Generation != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	c := dial(t, standby)
	for _, want := range []string{"1", "2", "3", "4", "5", "6"} {
		if got := take(t, c, "work"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}

	// And the one that had been promoted comes back in the same way: its log has its own promotion in it.
	stop(t, promoted)
	send(t, c, "work", "7")
	if _, err := windBack(t, b, a); err != nil {
		t.Fatal(err)
	}
	again := start(t, back(b, a))
	ready(t, again)
	follows(t, standby, again)
}

func TestASourceThatHandedOverIsWoundBackToItsFence(t *testing.T) {
	a, b := both(t)
	source, standby := start(t, a), start(t, b)
	ready(t, source, standby)
	c := dial(t, source)
	send(t, c, "work", "1")
	imaged(t, source)
	send(t, c, "work", "2")
	follows(t, source, standby)
	if _, err := standby.Switchover(t.Context(), switchoverNow); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fence for good is there", func() bool { return source.linkState(systemGroup).Gate.By.Number > 0 })
	stop(t, source)
	source = start(t, a) // an hour later it would have no standby any more
	eventually(t, "it has its fence", source.fenced)
	stop(t, source)
	send(t, dial(t, standby), "work", "3")
	if _, err := windBack(t, a, b); err != nil {
		t.Fatal(err)
	}
	again := start(t, back(a, b))
	ready(t, again)
	follows(t, standby, again)
}

// TestWhatDoesNotFitIsNotWoundBack: each leaves the former node's folder as it was, and nothing of a new one.
func TestWhatDoesNotFitIsNotWoundBack(t *testing.T) {
	a, b, former, promoted := crashed(t)
	cuts, err := promoted.cuts(former)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := OpenFolder(nil, a.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	images := filepath.Join(a.Data, imagesDir)
	for name, c := range map[string]struct {
		change func(t *testing.T, cuts []wire.Cut)
		reason string
	}{
		"another history":     {func(_ *testing.T, c []wire.Cut) { c[1].Former.Hash++ }, "its log differs"},
		"another term":        {func(_ *testing.T, c []wire.Cut) { c[1].Former.Term++ }, "its log differs"},
		"another state":       {func(_ *testing.T, c []wire.Cut) { c[1].Fingerprint++ }, "its state at the cut differs"},
		"a cut before it":     {func(_ *testing.T, c []wire.Cut) { c[0].Former.Index = 1 }, "no state of group 0 at or before the cut"},
		"other groups":        {func(_ *testing.T, c []wire.Cut) { c[2].Former.Group = 7 }, "no state of group 7"},
		"an image that fails": {func(t *testing.T, _ []wire.Cut) { damage(t, images) }, "no state of group"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rewind{o: rewindOptions(folder, a, b), data: a.Data, part: filepath.Join(t.TempDir(), "part")}
			if err := os.MkdirAll(filepath.Join(r.part, seedDir), 0o700); err != nil {
				t.Fatal(err)
			}
			r.cuts = append(r.cuts, cuts...)
			c.change(t, r.cuts)
			if _, err := r.files(t.Context()); !errors.Is(err, ErrNoRewind) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%v, want %q", err, c.reason)
			}
		})
	}
	beyond := append([]wire.Cut{}, cuts...)
	beyond[1].Former.Index += 1000
	if _, err := (&rewind{o: rewindOptions(folder, a, b), data: a.Data, part: t.TempDir(), cuts: beyond}).files(t.Context()); !errors.Is(err, errLagged) {
		t.Errorf("a cut beyond the node's log: %v", err)
	}
	if _, err := (&rewind{o: rewindOptions(folder, a, b), data: a.Data, part: t.TempDir(), cuts: cuts[1:]}).files(t.Context()); !errors.Is(err, ErrNoRewind) {
		t.Errorf("a cluster with fewer groups: %v", err)
	}
}

// damage takes an image's tables away, until the test ends.
func damage(t *testing.T, images string) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(images, "*", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal("there is no image: ", err)
	}
	for _, f := range tables {
		if err := os.Rename(f, f+".away"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Rename(f+".away", f) })
	}
}

// TestARewindThatBreaksOffLeavesWhatWasAndIsTakenUpAnew: at any moment there is the former folder or a whole new one.
func TestARewindThatBreaksOffLeavesWhatWasAndIsTakenUpAnew(t *testing.T) {
	a, b, _, promoted := crashed(t)
	folder, err := OpenFolder(nil, a.Data)
	if err != nil {
		t.Fatal(err)
	}
	o := rewindOptions(folder, a, b)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Rewind(ctx, o); err == nil {
		t.Fatal("it goes on without end")
	}
	if _, err := os.Stat(o.To); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a new folder: %v", err)
	}
	for _, half := range []string{o.To, o.To + ".part"} { // as a process leaves it that is killed
		if err := errors.Join(os.MkdirAll(filepath.Join(half, rewindDir, "0"), 0o700),
			os.WriteFile(filepath.Join(half, rewindDir, "0", "MANIFEST-000001"), []byte("half"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := windBack(t, a, b); err != nil {
		t.Fatal(err)
	}
	// The node that begins with it may break off too: what it has taken it does not take again.
	c := back(a, b)
	c.LinkSource = loopback.Addresses(t, 1)[0] // nobody there: it does not need to be asked
	standby := start(t, c)
	eventually(t, "the groups stand on it", func() bool { at, _ := standby.states[1].Applied(); return at > 0 })
	stop(t, standby)
	standby = start(t, back(a, b))
	ready(t, standby)
	follows(t, promoted, standby)
}

func TestOnlyTheFormerSourceIsToldWhereItWasCut(t *testing.T) {
	a, b := both(t)
	source, standby := start(t, a), start(t, b)
	ready(t, source, standby)
	follows(t, source, standby)
	for what, n := range map[string]*Node{"a source": source, "a standby": standby} {
		if cuts, err := n.cuts(source.ClusterID()); err == nil {
			t.Errorf("%s tells cuts: %+v", what, cuts)
		}
	}
	if _, err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cuts, err := standby.cuts("another"); err == nil {
		t.Errorf("another cluster is told %+v", cuts)
	}
	cuts, err := standby.cuts(source.ClusterID())
	if err != nil || len(cuts) != 3 {
		t.Fatalf("%+v, %v", cuts, err)
	}
	for i, c := range cuts {
		var l core.Link
		standby.states[uint64(i)].View(func(m *core.Machine) { l = m.Link() })
		if c.Here.Index != l.Since-1 || c.Former.Position != l.Position || c.Fingerprint != l.Print {
			t.Errorf("%+v of %+v", c, l)
		}
	}
	stop(t, source)
	other := settings(t, 1)
	n := start(t, other)
	ready(t, n)
	stop(t, n)
	other.LinkServeTokenFile = a.LinkServeTokenFile
	if _, err := windBack(t, other, b); !errors.Is(err, ErrNoRewind) {
		t.Errorf("a node of another cluster: %v", err)
	}
	stop(t, standby)
	if _, err := windBack(t, a, b); err == nil || errors.Is(err, ErrNoRewind) {
		t.Errorf("nobody answers: %v", err)
	}
}

var switchoverNow = api.Switchover{DrainSeconds: 0.1}
