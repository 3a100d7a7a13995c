package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

func TestABareListIsByteForByteWhatItWouldBeEncodedAsAWhole(t *testing.T) {
	some := []api.Queue{queueRow("b<&>\u2028", 3), queueRow("a\"", 1), queueRow("c", 2)}
	byMessages := slices.SortedStableFunc(slices.Values(some), func(a, b api.Queue) int { return cmp.Compare(a.Messages, b.Messages) })
	byName := []api.Queue{some[1], some[0], some[2]}
	basics := []api.QueueBasics{some[0].QueueBasics, some[1].QueueBasics, some[2].QueueBasics}
	for _, c := range []struct {
		query string
		rows  []api.Queue
		whole any
	}{
		{"", some, some},
		{"", []api.Queue{}, []any{}},
		{"", some[:1], some[:1]},
		{"?sort=messages", some, byMessages},
		{"?sort=name", some, byName},
		{"?columns=name,messages", some[1:], []any{map[string]any{"name": "a\"", "messages": 1}, map[string]any{"name": "c", "messages": 2}}},
		{"?sort=messages&sort_reverse=true&columns=name", some[1:], []any{map[string]any{"name": "c"}, map[string]any{"name": "a\""}}},
		{"?disable_stats=true", some, basics},
	} {
		var want bytes.Buffer
		if err := json.NewEncoder(&want).Encode(c.whole); err != nil {
			t.Fatal(err)
		}
		w := (&fake{queues: slices.Clone(c.rows)}).call("GET", "/api/queues"+c.query, "")
		if w.Code != 200 || w.Body.String() != want.String() {
			t.Errorf("%q of %d queues: %d\n got %s\nwant %s", c.query, len(c.rows), w.Code, w.Body, &want)
		}
	}
}

// lossy is a caller that takes so many octets and is gone then. It notes how many rows were made when the first came.
type lossy struct {
	*httptest.ResponseRecorder
	rows    *fake
	takes   int
	madeYet int
}

func (l *lossy) Write(b []byte) (int, error) {
	if l.madeYet == 0 {
		l.madeYet = l.rows.made
	}
	if l.takes -= len(b); l.takes < 0 {
		return 0, errors.New("the caller is gone")
	}
	return l.ResponseRecorder.Write(b)
}

// get has the rows of all queues listed for a caller.
func (l *lossy) get() {
	name := func(q api.QueueRef) string { return q.Name }
	listMade(l, url.Values{}, l.rows.QueueRefs(""), name, l.rows.QueuesAt)
}

func TestRowsOfALongListAreMadeAsTheirCallerTakesThem(t *testing.T) {
	const many = 2000
	f := &fake{}
	for i := range many {
		f.queues = append(f.queues, queueRow(fmt.Sprint(i), 1))
	}
	patient := &lossy{ResponseRecorder: httptest.NewRecorder(), rows: f, takes: 1 << 30}
	patient.get()
	if f.made != many || patient.madeYet > many/4 {
		t.Errorf("%d rows were made, %d of them before the caller had any", f.made, patient.madeYet)
	}
	f.made = 0
	gone := &lossy{ResponseRecorder: httptest.NewRecorder(), rows: f, takes: 3 * answerBytes}
	gone.get()
	if f.made == 0 || f.made > many-1 {
		t.Errorf("%d rows were made for a caller that is gone", f.made)
	}
}
