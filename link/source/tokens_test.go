package source

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/link/wire"
)

// write makes a file of tokens. Its time is set, so that two versions never look alike.
func write(t *testing.T, path string, version int, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000+int64(version), 0)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func tokens(t *testing.T, lines ...string) (*Tokens, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, 0, lines...)
	x, err := OpenTokens(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return x, path
}

func TestTwoTokensAreGoodAtATimeAndTheFileMayChange(t *testing.T) {
	x, path := tokens(t, "old", "", "  new  ")
	for token, want := range map[string]bool{"old": true, "new": true, "": false, "other": false, "old\n": false} {
		if x.has(token) != want {
			t.Errorf("%q: want %v", token, want)
		}
	}
	write(t, path, 1, "new")
	if x.has("old") || !x.has("new") {
		t.Error("a token that was taken out is good, or the one that stays is not")
	}
	write(t, path, 2, "a", "b", "c") // too many: no longer what anybody meant
	if x.has("a") || !x.has("new") {
		t.Error("a file that makes no sense is believed, or ends the former tokens")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if !x.has("new") {
		t.Error("a file that is away ends the former tokens")
	}
	write(t, path, 3, "newest")
	if x.has("new") || !x.has("newest") {
		t.Error("a file that is back is not read")
	}
}

func TestAFileOfTokensThatMakesNoSenseIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if _, err := OpenTokens(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	write(t, path, 0, "a", "b", "c")
	if _, err := OpenTokens(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "2 are the most") {
		t.Errorf("three: %v", err)
	}
}

// fencer is a Switch that does as it is told.
type fencer struct{}

func (fencer) Drain(context.Context, wire.Drain) (wire.DrainAnswer, error) {
	return wire.DrainAnswer{State: "fenced"}, nil
}

func (fencer) Fence(_ context.Context, f wire.Fence) (wire.FenceAnswer, error) {
	switch f.Cluster {
	case "another":
		return wire.FenceAnswer{}, fmt.Errorf("%w: not this one", ErrConflict)
	case "busy":
		return wire.FenceAnswer{}, context.DeadlineExceeded
	}
	return wire.FenceAnswer{Fenced: true}, nil
}

func TestACertificateOpensReadingAndNoMore(t *testing.T) {
	fence, _ := tokens(t, "fences")
	for token, want := range map[string]int{"": http.StatusForbidden, "other": http.StatusForbidden, "fences": http.StatusOK} {
		r := newRig(t, 5, func(o *Options) { o.Switch, o.Open, o.Fence = fencer{}, true, fence })
		if w := r.post(wire.PathRead, token, ask(0)); w.Code != http.StatusOK {
			t.Errorf("token %q: a read has status %d", token, w.Code)
		}
		for _, path := range []string{wire.PathFence, wire.PathDrain} {
			if w := r.post(path, token, wire.Fence{}); w.Code != want {
				t.Errorf("token %q: %s has status %d, want %d", token, path, w.Code, want)
			}
		}
	}
}

func TestWhatASwitchSaysIsPassedOn(t *testing.T) {
	fence, _ := tokens(t, "fences")
	r := newRig(t, 5, func(o *Options) { o.Switch, o.Fence = fencer{}, fence })
	for cluster, want := range map[string]int{"source": http.StatusOK, "another": http.StatusConflict, "busy": http.StatusServiceUnavailable} {
		if w := r.post(wire.PathFence, "fences", wire.Fence{Cluster: cluster}); w.Code != want {
			t.Errorf("%s: status %d, want %d: %s", cluster, w.Code, want, w.Body)
		}
	}
}
