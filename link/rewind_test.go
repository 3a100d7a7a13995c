package link

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/source"
	"github.com/understudy-mq/understudy/link/wire"
)

// promotedNode is a node of a cluster that was promoted in the place of another; refuses, if it is set, is why it tells nothing.
func promotedNode(t *testing.T, refuses error) *sourceNode {
	t.Helper()
	log := newHistory()
	log.many(1, 3)
	return serve(t, log, func(o *source.Options) {
		o.Cuts = func(former string) ([]wire.Cut, error) {
			return []wire.Cut{{Former: wire.Position{Group: 1}, Here: wire.Position{Group: 1, Position: entry.Position{Index: 2}}}}, refuses
		}
	})
}

func askCuts(t *testing.T, addresses ...string) (Cuts, error) {
	t.Helper()
	return AskCuts(t.Context(), SeedOptions{Addresses: addresses, Reader: "back", Standby: "it"}, "former")
}

// TestEveryNodeThatAnswersKeepsItsLogForAFormerSource: any of them may be read from later.
func TestEveryNodeThatAnswersKeepsItsLogForAFormerSource(t *testing.T) {
	a, b := promotedNode(t, nil), promotedNode(t, nil)
	purged := promotedNode(t, fmt.Errorf("%w: gone", source.ErrConflict))
	told, err := askCuts(t, a.address(), "127.0.0.1:1", purged.address(), b.address())
	if err != nil || told.Cluster != sourceID || len(told.Cuts) != 1 || told.Bytes == 0 {
		t.Fatalf("%+v, %v", told, err)
	}
	for _, n := range []*sourceNode{a, b} {
		if at := n.notes.of("back"); at.Index != 2 {
			t.Errorf("a node holds from %+v", at)
		}
	}
	if at := purged.notes.of("back"); at.Index != 0 {
		t.Errorf("one that has refused holds from %+v", at)
	}
}

func TestWhatDoesNotPassIsToldFromWhatMay(t *testing.T) {
	purged := promotedNode(t, fmt.Errorf("%w: the log does not reach back", source.ErrConflict))
	if _, err := askCuts(t, "127.0.0.1:1", purged.address()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "reach back") {
		t.Errorf("a cluster whose log is gone: %v", err)
	}
	if _, err := askCuts(t, promotedNode(t, errors.New("not yet")).address()); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("one that is not promoted as a whole: %v", err)
	}
	if _, err := askCuts(t, "127.0.0.1:1"); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("nobody: %v", err)
	}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		wire.WriteJSON(w, http.StatusOK, wire.Rewind{Cluster: "x"})
	}))
	defer h.Close()
	if _, err := askCuts(t, strings.TrimPrefix(h.URL, "http://")); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("an answer without cuts: %v", err)
	}
}
