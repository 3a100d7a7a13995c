package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/wire"
	"github.com/understudy-mq/understudy/replication"
)

// endless is a log that has n entries of ten bytes each, and gets more by grow.
type endless struct {
	n     uint64
	fails uint64 // reading after this entry fails; 0 for never
	lone  bool   // no majority can be asked
	other bool   // what a reader has is another history
	asked int    // for what is committed
	moved chan struct{}
}

func newEndless(n uint64) *endless { return &endless{n: n, moved: make(chan struct{})} }

func (l *endless) ReadLink(index, _, _ uint64, bytesMax int) (r replication.LinkRead, err error) {
	if l.fails != 0 && index >= l.fails {
		return r, errors.New("the disk is broken")
	}
	if l.other {
		return replication.LinkRead{Status: replication.ReadMismatch}, nil
	}
	r = replication.LinkRead{Status: replication.ReadEntries, Applied: l.n, First: 1}
	for i := index + 1; i <= l.n && (len(r.Entries) == 0 || 10*(len(r.Entries)+1) <= bytesMax); i++ {
		r.Entries = append(r.Entries, replication.LinkEntry{Index: i, Term: 1, Data: fmt.Appendf(nil, "%010d", i)})
	}
	return r, nil
}

func (l *endless) Status() replication.Status { return replication.Status{Applied: l.n, Leader: 1} }

func (l *endless) Changed() <-chan struct{} { return l.moved }

// Committed is further than what is applied.
func (l *endless) Committed(ctx context.Context) (uint64, error) {
	l.asked++
	if l.lone {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return l.n + 2, nil
}

func (l *endless) grow() {
	l.n++
	close(l.moved)
	l.moved = make(chan struct{})
}

type note struct {
	reader string
	level  uint64
	at     []wire.Position
}

// noted is Notes.
type noted struct {
	list    []note
	hurried bool
}

func (n *noted) Note(reader, _ string, level uint64, at []wire.Position) {
	n.list = append(n.list, note{reader, level, at})
}

func (n *noted) Hurried(uint64) bool { return n.hurried }
func (n *noted) Returned(string)     {}

func (n *noted) Held(reader string) *wire.Hold {
	if reader != "reader" {
		return nil
	}
	return &wire.Hold{State: "extended", Holding: true, Held: 7, Left: 8}
}

// rig is a Server whose log is a group 1 of this test's.
type rig struct {
	*Server
	t     *testing.T
	log   *endless
	notes *noted
	id    Identity
}

func newRig(t *testing.T, entries uint64, change func(*Options)) *rig {
	r := &rig{t: t, log: newEndless(entries), notes: &noted{}, id: Identity{Cluster: "source", Role: "primary"}}
	o := Options{
		Node: 1, Logs: map[uint64]Log{1: r.log}, Notes: r.notes, Identity: func() Identity { return r.id },
		Open: true, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	r.Server = New(o)
	return r
}

// post asks, with a token if that is not "".
func (r *rig) post(path, token string, body any) *httptest.ResponseRecorder {
	r.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	q := httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, path, bytes.NewReader(b))
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q)
	return w
}

func ask(after uint64) wire.ReadRequest {
	return wire.ReadRequest{Reader: "reader", Standby: "standby", BytesMax: 1 << 20, WaitMillis: 10_000, Level: 3,
		After: wire.Position{Group: 1, Position: entry.Position{Index: after}}}
}

// read asks for entries and answers what comes of it, whole.
func (r *rig) read(q wire.ReadRequest) (wire.Head, []wire.Item) {
	r.t.Helper()
	w := r.post(wire.PathRead, "", q)
	if w.Code != http.StatusOK {
		r.t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	x, err := wire.NewReader(w.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var items []wire.Item
	for {
		i, err := x.Next()
		if errors.Is(err, io.EOF) {
			return x.Head, items
		}
		if err != nil {
			r.t.Fatal(err)
		}
		items = append(items, i)
	}
}

func TestABusySourceAnswersAReaderFiftyTimesASecondAtMost(t *testing.T) {
	for _, c := range []struct {
		hurried bool
		most    int
	}{{false, 51}, {true, 2000}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 1<<40, nil)
			r.notes.hurried = c.hurried
			q := ask(0)
			q.BytesMax = 1
			answers := 0
			for begin := time.Now(); time.Since(begin) < time.Second && answers < 2000; answers++ {
				if _, items := r.read(q); len(items) != 1 {
					t.Fatalf("%d entries", len(items))
				}
			}
			if answers > c.most || c.hurried && answers < c.most {
				t.Errorf("hurried %v: %d answers in a second, want %d", c.hurried, answers, c.most)
			}
		})
	}
}

func TestAReaderThatHasWaitedIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 5, nil)
		r.read(ask(0))
		for _, comes := range []time.Duration{time.Second, 5 * time.Millisecond} { // late, and sooner than the pace
			begin := time.Now()
			time.AfterFunc(comes, r.log.grow)
			_, items := r.read(ask(r.log.n))
			if took, want := time.Since(begin), max(comes, pace); took != want || len(items) != 1 {
				t.Errorf("%d entries came after %v, want 1 after %v", len(items), took, want)
			}
		}
	})
}

func TestAReaderForWhomNothingComesIsAnsweredInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 5, nil)
		for millis, want := range map[int]time.Duration{
			-5: 0, 1500: 1500 * time.Millisecond, 1 << 40: wire.WaitMillisMax * time.Millisecond,
		} {
			time.Sleep(pace)
			begin, q := time.Now(), ask(5)
			q.WaitMillis = millis
			head, items := r.read(q)
			if took := time.Since(begin); took != want || len(items) != 0 || head.Status != wire.Entries || head.Applied != 5 {
				t.Errorf("asked to wait %d ms: %d entries after %v, %+v", millis, len(items), took, head)
			}
		}
	})
}

func TestAnAnswerHoldsWhatWasAskedForAndNoMore(t *testing.T) {
	r := newRig(t, 1000, nil)
	r.notes.hurried = true
	for most, want := range map[int]int{0: 1, -1: 1, 10: 1, 95: 10, 1 << 20: 1000, 1 << 40: 1000} {
		q := ask(0)
		q.BytesMax = most
		head, items := r.read(q)
		if len(items) != want || head.Applied != 1000 || head.Cluster != "source" {
			t.Errorf("%d bytes at most: %d entries, want %d; %+v", most, len(items), want, head)
		}
		for i, x := range items {
			if x.Index != uint64(i+1) || string(x.Data) != fmt.Sprintf("%010d", i+1) {
				t.Fatalf("entry %d is %+v", i, x)
			}
		}
	}
}

// What was read before the log broke is whole; a log that cannot be read at all is said so.
func TestALogThatCannotBeReadEndsTheAnswer(t *testing.T) {
	r := newRig(t, 1<<20, nil)
	r.log.fails = 1
	q := ask(0)
	q.BytesMax = 64 << 20
	if _, items := r.read(q); len(items) == 0 || len(items) == 1<<20 {
		t.Errorf("%d entries", len(items))
	}
	if w := r.post(wire.PathRead, "", ask(1)); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "the disk is broken") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestAReaderOfAnotherClusterGetsNothing(t *testing.T) {
	r := newRig(t, 5, nil)
	q := ask(0)
	q.Cluster = "another"
	if head, items := r.read(q); head.Status != wire.Mismatch || len(items) != 0 || head.Cluster != "source" {
		t.Errorf("%d entries, %+v", len(items), head)
	}
	r.post(wire.PathBeat, "", wire.Beat{Reader: "beats", Cluster: "another", Positions: []wire.Position{{Group: 1}}})
	for _, n := range r.notes.list {
		if n.reader == "beats" {
			t.Errorf("the log is held for a reader of another cluster: %+v", n)
		}
	}
}

func TestAClusterThatIsNoSourceSaysSo(t *testing.T) {
	for what, c := range map[string]struct {
		is   Identity
		want string
	}{
		"of a standby":  {Identity{Cluster: "source", Role: RoleStandby}, ReasonStandby},
		"while forming": {Identity{Role: "primary"}, "still forming"},
	} {
		r := newRig(t, 5, nil)
		r.id = c.is
		if w := r.post(wire.PathRead, "", ask(0)); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: status %d, %s", what, w.Code, w.Body)
		}
		if len(r.notes.list) > 0 {
			t.Errorf("%s: the log is held: %+v", what, r.notes.list)
		}
	}
}

func TestEveryReadAndBeatIsNoted(t *testing.T) {
	r := newRig(t, 5, nil)
	r.read(ask(2))
	w := r.post(wire.PathBeat, "", wire.Beat{Reader: "reader", Standby: "standby", Level: 4, Positions: []wire.Position{{Group: 1}, {Group: 77}}})
	var a wire.BeatAnswer
	if err := wire.ReadJSON(w.Body, &a); err != nil || len(a.Groups) != 1 || a.Groups[0] != (wire.GroupBeat{Group: 1, Applied: 5, Leads: true}) {
		t.Errorf("answered %+v, %v", a, err)
	}
	if a.Hold == nil || *a.Hold != *r.notes.Held("reader") {
		t.Errorf("what is held is told as %+v", a.Hold)
	}
	if l := r.notes.list; len(l) != 2 || l[0].at[0].Index != 2 || l[0].level != 3 || l[1].level != 4 {
		t.Errorf("noted %+v", l)
	}
	readers := r.Readers()
	if len(readers) != 1 || readers[0].Name != "reader" || readers[0].Level != 4 || len(readers[0].Positions) != 1 {
		t.Errorf("readers %+v", readers)
	}
}

func TestABeatProvesWhatIsCommittedOnlyWhereThatIsAskedForAndIsTheStandbysHistory(t *testing.T) {
	here := []wire.Position{{Group: 1, Position: entry.Position{Index: 2}}, {Group: 1}, {Group: 77}}
	for what, c := range map[string]struct {
		beat         wire.Beat
		lone, other  bool
		asked        int
		wantProven   uint64
		wantAnswered time.Duration
	}{
		"asked for":                 {beat: wire.Beat{Positions: here, Prove: []uint64{1, 1, 77}}, asked: 1, wantProven: 7},
		"not asked for":             {beat: wire.Beat{Positions: here}},
		"of no position":            {beat: wire.Beat{Prove: []uint64{1}}},
		"of another cluster":        {beat: wire.Beat{Cluster: "another", Positions: here, Prove: []uint64{1}}},
		"of another history":        {beat: wire.Beat{Positions: here, Prove: []uint64{1}}, other: true, asked: 1},
		"of a node without company": {beat: wire.Beat{Positions: here, Prove: []uint64{1}}, lone: true, asked: 1, wantAnswered: proveTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 5, nil)
			r.log.lone, r.log.other = c.lone, c.other
			c.beat.Reader, c.beat.Standby = "reader", "standby"
			began := time.Now()
			var a wire.BeatAnswer
			if err := wire.ReadJSON(r.post(wire.PathBeat, "", c.beat).Body, &a); err != nil || len(a.Groups) != 1 {
				t.Fatalf("%s: answered %+v, %v", what, a, err)
			}
			if want := (wire.GroupBeat{Group: 1, Applied: 5, Leads: true, Committed: c.wantProven}); a.Groups[0] != want {
				t.Errorf("%s: answered %+v, want %+v", what, a.Groups[0], want)
			}
			if took := time.Since(began); took != c.wantAnswered || r.log.asked != c.asked {
				t.Errorf("%s: answered after %v, the log was asked %d times", what, took, r.log.asked)
			}
		})
	}
}
