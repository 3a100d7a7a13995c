package link

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/source"
	"github.com/understudy-mq/understudy/link/wire"
)

// same says whether the replica has the whole history, entry by entry.
func same(r *replica, h *history) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(r.applied) != len(h.entries) {
		return false
	}
	for i, e := range h.entries {
		if got := r.applied[i]; got.Position != h.at(i) || !bytes.Equal(got.Inner, e.Data) {
			return false
		}
	}
	return true
}

func TestAStandbyReplaysWhatTheSourceHasAndWhatComes(t *testing.T) {
	h, r := newHistory(), newReplica()
	h.many(2, 700)
	n := serve(t, h, nil)
	l := follow(t, r, "", n.address())
	eventually(t, "all is replayed", func() bool { return same(r, h) })
	h.add(3, "", "more")
	eventually(t, "what came later is replayed", func() bool { return same(r, h) })
	eventually(t, "it follows", func() bool { return l.only().State == Following })
	eventually(t, "the source knows the position", func() bool { return n.notes.of("reader").Position == h.last() })
	if lag := l.only().Lag; lag.Entries != 0 || lag.ContactAge < 0 {
		t.Errorf("lag %+v", lag)
	}
}

func TestWhatIsLostOnTheWayToTheLeaderIsReadAgain(t *testing.T) {
	h, r := newHistory(), newReplica()
	h.many(2, 300)
	r.lose = 5
	follow(t, r, "", serve(t, h, nil).address())
	eventually(t, "all is replayed", func() bool { return same(r, h) })
}

func TestNoMoreThanAWindowIsHandedOverUnapplied(t *testing.T) {
	h, r := newHistory(), newReplica()
	h.many(2, 4*windowItems)
	r.hold(1 << 30)
	follow(t, r, "", serve(t, h, nil).address())
	eventually(t, "a window is full", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.kept) >= windowItems/2
	})
	r.hold(0)
	eventually(t, "all is replayed", func() bool { return same(r, h) })
	if r.most > windowItems {
		t.Errorf("%d entries were handed over and not applied, %d are the most", r.most, windowItems)
	}
}

// What each kind of trouble shows, and that nothing is replayed meanwhile.
func TestEachTroubleHasItsStateAndReason(t *testing.T) {
	refusing := func(change func(*source.Options)) func(*testing.T, *history) string {
		return func(t *testing.T, h *history) string { return serve(t, h, change).address() }
	}
	for name, c := range map[string]struct {
		source func(*testing.T, *history) string
		at     func(*Standing)
		state  State
		reason string
	}{
		"wrong token": {refusing(func(o *source.Options) { o.Open, o.Read = false, tokensOf(t, "other") }), nil, Waiting, "token"},
		"no token":    {refusing(func(o *source.Options) { o.Open = false }), nil, Waiting, "serves no link"},
		"nobody there": {func(t *testing.T, _ *history) string {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			return l.Addr().String()
		}, nil, Waiting, "no answer from"},
		"still forming":  {refusing(func(o *source.Options) { o.Identity = func() source.Identity { return source.Identity{} } }), nil, Waiting, "forming"},
		"other cluster":  {refusing(nil), func(s *Standing) { s.Source = "a-third" }, Halted, "another history"},
		"purged":         {func(t *testing.T, h *history) string { h.purge(9); return serve(t, h, nil).address() }, nil, Halted, "new seed"},
		"rewound":        {refusing(nil), func(s *Standing) { s.Position = entry.Position{Index: 90, Term: 3} }, Waiting, "as far as"},
		"other term":     {refusing(nil), func(s *Standing) { s.Position = entry.Position{Index: 5, Term: 9} }, Halted, "restored from a backup"},
		"other content":  {refusing(nil), func(s *Standing) { s.Position = entry.Position{Index: 5, Term: 2, Hash: 1} }, Halted, "restored from a backup"},
		"damaged":        {func(t *testing.T, _ *history) string { return garbage(t, "understudy link 1\nh\xff\xff\xff\x7f") }, nil, Waiting, "damaged"},
		"truncated":      {func(t *testing.T, _ *history) string { return garbage(t, "understudy link 1\nh") }, nil, Waiting, "damaged"},
		"something else": {func(t *testing.T, _ *history) string { return garbage(t, "<html>") }, nil, Waiting, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			h, r := newHistory(), newReplica()
			h.many(2, 20)
			if c.at != nil {
				r.set(c.at)
			}
			l := follow(t, r, tokenFile(t, "mine"), c.source(t, h))
			eventually(t, string(c.state)+" because of "+c.reason, func() bool {
				f := l.only()
				return f.State == c.state && strings.Contains(f.Error, c.reason)
			})
			if len(r.applied) != 0 {
				t.Errorf("%d entries were replayed", len(r.applied))
			}
		})
	}
}

// A standby that does not know yet whose it is says in every group what it waits for.
func TestAStandbyThatIsNotAttachedSaysWhatItWaitsFor(t *testing.T) {
	n := serve(t, newHistory(), func(o *source.Options) { o.Open, o.Read = false, tokensOf(t, "good") })
	for _, c := range []struct {
		own, token   string
		asked, leads bool
		reason       string
	}{
		{standbyID, "good", false, true, "has answered"},
		{"", "good", false, true, "own cluster's id"},
		{standbyID, "bad", true, true, "refuses the token"},
		{standbyID, "good", true, true, "attaching it"},
		{standbyID, "good", true, false, "see what that node waits for"},
	} {
		r := newReplica()
		r.set(func(s *Standing) { s.Role, s.Leads = Primary, c.leads })
		l := New(Options{
			Addresses: []string{n.address()}, TokenFile: tokenFile(t, c.token), Name: func() string { return "reader" }, Cluster: func() string { return c.own },
			Groups: []uint64{1}, Replicas: map[uint64]Replica{1: r}, Active: func() bool { return true }, Logger: discard(),
		})
		if c.asked {
			if err := l.beat(t.Context(), 0, nil); (err == nil) != (c.token == "good") {
				t.Errorf("%+v: a beat: %v", c, err)
			}
		}
		if f := l.only(); f.State != Waiting || !strings.Contains(f.Error, c.reason) {
			t.Errorf("%+v: %s, %s", c, f.State, f.Error)
		}
	}
}

func tokensOf(t *testing.T, lines ...string) *source.Tokens {
	t.Helper()
	tokens, err := source.OpenTokens(tokenFile(t, lines...), discard())
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func garbage(t *testing.T, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// refused expects that a standby which is pointed at n replays nothing, and says why.
func refused(t *testing.T, n *sourceNode, state State, reason string) {
	t.Helper()
	r := newReplica()
	l := follow(t, r, "", n.address())
	eventually(t, string(state)+" because of "+reason, func() bool {
		f := l.only()
		return f.State == state && strings.Contains(f.Error, reason)
	})
	if len(r.applied) != 0 {
		t.Errorf("%d entries were replayed", len(r.applied))
	}
}

func TestAStandbyPointedAtItselfReplaysNothing(t *testing.T) {
	h := newHistory()
	h.many(2, 20)
	n := serve(t, h, nil)
	n.id.Cluster = standbyID
	refused(t, n, Halted, "this standby itself")
}

func TestAStandbyPointedAtAnotherStandbyWaits(t *testing.T) {
	h := newHistory()
	h.many(2, 20)
	n := serve(t, h, nil)
	n.id.Role = source.RoleStandby
	refused(t, n, Waiting, "standby itself")
}

// A source's log that was rewound is behind at first and other entries follow: neither is replayed.
func TestASourceRestoredFromAnOldBackupIsNotFollowed(t *testing.T) {
	h, restored, r := newHistory(), newHistory(), newReplica()
	h.many(2, 20)
	n := serve(t, h, nil)
	l := follow(t, r, "", n.address())
	eventually(t, "all is replayed", func() bool { return same(r, h) })
	n.Close()
	restored.many(2, 10)
	l = follow(t, r, "", serve(t, restored, nil).address())
	eventually(t, "the source is behind", func() bool { return l.only().State == Waiting && strings.Contains(l.only().Error, "as far as") })
	restored.many(3, 20)
	eventually(t, "the source has another history", func() bool {
		return l.only().State == Halted && strings.Contains(l.only().Error, "restored from a backup")
	})
	if !same(r, h) {
		t.Error("something of the restored source was replayed")
	}
}

func TestAnEntryOfANewerFormatIsWaitedForAndSaysSo(t *testing.T) {
	h, r := newHistory(), newReplica()
	fine := string(entry.AppendHeader(nil, 7))
	newer := string([]byte{entry.Version + 1}) + fine[1:]
	h.add(2, fine, "", fine, newer, fine)
	n := serve(t, h, nil)
	l := followReading(t, r, "", func(b []byte) error { return entry.Readable(b, entry.Level) }, n.address())
	eventually(t, "it waits", func() bool {
		return l.only().State == Waiting && strings.Contains(l.only().Error, "entry 5 of the source is not for this version")
	})
	eventually(t, "what came before is replayed", func() bool { return r.Standing().Position.Index == 4 })
	follow(t, r, "", n.address()) // a newer version, on the same data
	eventually(t, "all is replayed", func() bool { return same(r, h) })
}

func TestAnAnswerThatSkipsAnEntryIsNotReplayedPastIt(t *testing.T) {
	h, r := newHistory(), newReplica()
	h.many(2, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != wire.PathRead {
			return
		}
		out := wire.NewWriter(w, wire.Head{Status: wire.Entries, Cluster: sourceID, Applied: 11})
		for i, e := range h.entries {
			if i != 4 {
				_ = out.Item(wire.Item{Position: h.at(i), Data: e.Data})
			}
		}
		_ = out.End()
	}))
	t.Cleanup(s.Close)
	l := follow(t, r, "", strings.TrimPrefix(s.URL, "http://"))
	eventually(t, "it waits", func() bool { return l.only().State == Waiting && strings.Contains(l.only().Error, "came after") })
	eventually(t, "what came before the gap is replayed", func() bool { return r.Standing().Position == h.at(3) })
}

func TestAStateThatDivergesHaltsTheLinkAtThatEntry(t *testing.T) {
	h, r := newHistory(), newReplica()
	h.many(2, 10)
	r.diverging = 7
	l := follow(t, r, "", serve(t, h, nil).address())
	eventually(t, "it halts", func() bool { return l.only().State == Halted && strings.Contains(l.only().Error, "diverged") })
	if at := r.Standing().Position.Index; at != 6 || l.only().Mismatches == 0 {
		t.Errorf("at entry %d with %d differences", at, l.only().Mismatches)
	}
}

func TestAPurgedNodeIsPassedOverForOneThatStillHasTheLog(t *testing.T) {
	h, short, r := newHistory(), newHistory(), newReplica()
	h.many(2, 20)
	short.many(2, 20)
	short.purge(12)
	follow(t, r, "", serve(t, short, nil).address(), serve(t, h, nil).address())
	eventually(t, "all is replayed", func() bool { return same(r, h) })
}

func TestASourceNodeThatLagsIsLeftForOneThatIsAhead(t *testing.T) {
	h, stale, r := newHistory(), newHistory(), newReplica()
	h.many(2, 5)
	stale.many(2, 5)
	l := follow(t, r, "", serve(t, stale, nil).address(), serve(t, h, nil).address())
	eventually(t, "both have the same", func() bool { return same(r, h) })
	h.many(2, 5)
	eventually(t, "what only the other node has is replayed", func() bool { return same(r, h) })
	eventually(t, "it follows", func() bool { return l.only().State == Following })
}

func TestANodeThatDoesNotLeadReadsOnlyWhereTheGroupGetsNowhere(t *testing.T) {
	h, r := newHistory(), newReplica()
	h.many(2, 5)
	r.set(func(s *Standing) { s.Leads = false })
	l := follow(t, r, "", serve(t, h, nil).address())
	eventually(t, "it reads for the leader that gets nowhere", func() bool { return same(r, h) })
	eventually(t, "it is idle once nothing is missing", func() bool { return l.only().State == Idle })
}

func TestAClusterThatIsNoStandbyReadsNothingAndTellsNobody(t *testing.T) {
	h, r := newHistory(), newReplica()
	h.many(2, 5)
	r.set(func(s *Standing) { s.Role = Promoted })
	n := serve(t, h, nil)
	l := follow(t, r, "", n.address())
	r2 := newReplica()
	follow(t, r2, "", n.address())
	eventually(t, "another standby has all", func() bool { return same(r2, h) })
	if f := l.only(); f.State != Idle || len(r.applied) != 0 {
		t.Errorf("%+v, %d entries replayed", f, len(r.applied))
	}
}

func TestATokenThatIsReplacedOnBothSidesNeedsNoRestart(t *testing.T) {
	h, r := newHistory(), newReplica()
	h.many(2, 5)
	there, here := tokenFile(t, "old"), tokenFile(t, "old")
	tokens, err := source.OpenTokens(there, discard())
	if err != nil {
		t.Fatal(err)
	}
	l := follow(t, r, here, serve(t, h, func(o *source.Options) { o.Open, o.Read = false, tokens }).address())
	eventually(t, "the old token serves", func() bool { return same(r, h) })
	put := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(there, "old\nnew one\n")
	h.add(2, "a")
	eventually(t, "both serve", func() bool { return same(r, h) })
	put(there, "new one\n")
	eventually(t, "the old one does not serve", func() bool { return l.only().State == Waiting })
	put(here, "new one")
	h.add(2, "b")
	eventually(t, "the new one serves", func() bool { return same(r, h) && l.only().State == Following })
}
