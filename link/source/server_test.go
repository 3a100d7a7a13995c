package source

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/link/wire"
	"github.com/understudy-mq/understudy/replication"
)

// still is a group's log with nothing to read.
type still struct{}

func (still) ReadLink(index, _, _ uint64, _ int) (replication.LinkRead, error) {
	return replication.LinkRead{Status: replication.ReadEntries, Applied: index}, nil
}
func (still) Status() replication.Status                { return replication.Status{Applied: 1 << 40} }
func (still) Changed() <-chan struct{}                  { return nil }
func (still) Committed(context.Context) (uint64, error) { return 1 << 40, nil }

// asked notes what the source was asked to do.
type asked struct {
	notes, switches int
	returned        string
}

func (a *asked) Note(string, string, uint64, []wire.Position) { a.notes++ }
func (a *asked) Hurried(uint64) bool                          { return true }
func (a *asked) Returned(former string)                       { a.returned = former }
func (a *asked) Held(string) *wire.Hold                       { return nil }
func (a *asked) Drain(context.Context, wire.Drain) (wire.DrainAnswer, error) {
	a.switches++
	return wire.DrainAnswer{}, nil
}
func (a *asked) Fence(context.Context, wire.Fence) (wire.FenceAnswer, error) {
	a.switches++
	return wire.FenceAnswer{Fenced: true}, nil
}

// gatekeeper is a server with those tokens, "" for no file of the kind.
func gatekeeper(t *testing.T, read, fence string) (*Server, *asked) {
	t.Helper()
	tokens := func(token string) *Tokens {
		if token == "" {
			return nil
		}
		name := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(name, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		x, err := OpenTokens(name, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	a := &asked{}
	return New(Options{
		Node: 1, Logs: map[uint64]Log{1: still{}}, Notes: a, Switch: a, Read: tokens(read), Fence: tokens(fence),
		Logger: slog.New(slog.DiscardHandler), Identity: func() Identity { return Identity{Cluster: "ours", Role: "primary"} },
		Cuts: cutsOf("former"),
	}), a
}

func call(s *Server, method, path, token, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// seedless is what one who may ask for a seed is told by a server that serves none.
const seedless = http.StatusNotFound

// What each token opens, on every route: nothing but what it is for.
func TestATokenOpensWhatItIsForOnEveryRoute(t *testing.T) {
	reading := map[string]string{
		"POST " + wire.PathRead: `{"reader":"r","after":{"Group":1}}`, "POST " + wire.PathBeat: `{"reader":"r"}`,
		"POST " + wire.PathRewind: `{"reader":"r","cluster":"former"}`, "POST " + wire.PathSeed: `{"reader":"r"}`, "GET " + wire.PathSeed + "/x/1": "",
	}
	fencing := map[string]string{"POST " + wire.PathDrain: "{}", "POST " + wire.PathFence: "{}"}
	for name, c := range map[string]struct {
		read, fence, token string
		reads, fences      int
	}{
		"none is configured":     {"", "", "any", 404, 404},
		"none is shown":          {"reads", "fences", "", 401, 401},
		"a wrong one":            {"reads", "fences", "other", 401, 401},
		"the beginning of one":   {"reads", "fences", "read", 401, 401},
		"one that may read":      {"reads", "fences", "reads", 200, 403},
		"one that may fence":     {"reads", "fences", "fences", 200, 200},
		"nobody may fence":       {"reads", "", "reads", 200, 403},
		"several, one of a line": {"old\nnew", "", "old\nnew", 401, 401},
	} {
		s, a := gatekeeper(t, c.read, c.fence)
		check := func(routes map[string]string, want int) {
			for route, body := range routes {
				method, path, _ := strings.Cut(route, " ")
				got := call(s, method, path, c.token, body).Code
				if got != want && (want != http.StatusOK || !strings.HasPrefix(path, wire.PathSeed) || got != seedless) {
					t.Errorf("%s: %s: %d, want %d", name, route, got, want)
				}
			}
		}
		check(reading, c.reads)
		check(fencing, c.fences)
		if c.reads != 200 && a.notes > 0 || c.fences != 200 && a.switches > 0 {
			t.Errorf("%s: something was done all the same: %+v", name, *a)
		}
	}
}

// Requests that make no sense are refused with a reason, and leave nothing behind.
func TestRequestsThatMakeNoSenseAreRefusedWithTheReason(t *testing.T) {
	long := strings.Repeat("r", wire.NameBytesMax+1)
	for name, c := range map[string]struct {
		path, body string
		code       int
		reason     string
	}{
		"no JSON":              {wire.PathRead, "{", 400, "not understood"},
		"another type":         {wire.PathBeat, `{"reader":7}`, 400, "not understood"},
		"deep":                 {wire.PathBeat, strings.Repeat("[", 100_000), 400, "not understood"},
		"oversized":            {wire.PathBeat, `{"reader":"` + strings.Repeat("r", wire.BodyBytesMax), 400, "large"},
		"no name":              {wire.PathRead, `{"after":{"Group":1}}`, 409, "name"},
		"a long name":          {wire.PathBeat, `{"reader":"` + long + `"}`, 409, "name"},
		"a group that is none": {wire.PathRead, `{"reader":"r","after":{"Group":9}}`, 409, "--groups"},
		"the source itself":    {wire.PathRead, `{"reader":"r","standby":"ours","after":{"Group":1}}`, 409, ReasonSelf},
		"a rewind of no JSON":  {wire.PathRewind, "{", 400, "not understood"},
		"another's rewind":     {wire.PathRewind, `{"reader":"r","cluster":"stranger"}`, 409, "stranger"},
		"a drain of no JSON":   {wire.PathDrain, "drain", 400, "not understood"},
		"a fence of no JSON":   {wire.PathFence, "[]", 400, "not understood"},
	} {
		s, a := gatekeeper(t, "", "fences")
		got := call(s, http.MethodPost, c.path, "fences", c.body)
		if got.Code != c.code || !strings.Contains(got.Body.String(), c.reason) {
			t.Errorf("%s: %d %s", name, got.Code, got.Body)
		}
		if a.notes+a.switches > 0 || len(s.Readers()) > 0 {
			t.Errorf("%s: something was done all the same: %+v, readers %+v", name, *a, s.Readers())
		}
	}
}

// Names and groups come from outside.
func TestReadersThatAreRememberedAreFew(t *testing.T) {
	s, _ := gatekeeper(t, "reads", "")
	for i := range 3 * readersMax {
		body := fmt.Sprintf(`{"reader":"r%d","positions":[{"Group":1,"Index":5},{"Group":%d,"Index":5}]}`, i, i+2)
		if got := call(s, http.MethodPost, wire.PathBeat, "reads", body); got.Code != http.StatusOK {
			t.Fatalf("reader %d: %d %s", i, got.Code, got.Body)
		}
	}
	list := s.Readers()
	if len(list) != readersMax {
		t.Errorf("%d readers are remembered", len(list))
	}
	for _, r := range list {
		if len(r.Positions) != 1 {
			t.Errorf("%s is remembered in groups that are none: %v", r.Name, r.Positions)
		}
	}
}
