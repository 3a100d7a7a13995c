package admin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// queues are q0 to q<n-1>, the later ones with fewer messages.
func queues(n int) []api.Queue {
	var list []api.Queue
	for i := range n {
		list = append(list, queueRow(fmt.Sprintf("q%d", i), uint64(n-i)))
	}
	return list
}

// queueRow is a queue of vhost /.
func queueRow(name string, messages uint64) api.Queue {
	return api.Queue{
		QueueBasics: api.QueueBasics{Name: name, Vhost: "/", Type: "classic", State: "running"}, QueueTotals: api.QueueTotals{Messages: messages},
	}
}

// page asks for a page of 250 queues.
func page(t *testing.T, query string) (p api.Page, names []string) {
	t.Helper()
	w := (&fake{queues: queues(250)}).call("GET", "/api/queues?"+query, "")
	if w.Code != 200 {
		t.Fatalf("%s: %d %s", query, w.Code, w.Body)
	}
	var rows []api.Queue
	p.Items = &rows
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		names = append(names, r.Name)
	}
	return p, names
}

func TestPages(t *testing.T) {
	for _, c := range []struct {
		query                        string
		filtered, items, pages, size int
		first, last                  string
	}{
		{"page=1", 250, 100, 3, 100, "q0", "q99"},
		{"page=3", 250, 50, 3, 100, "q200", "q249"},
		{"page=2&page_size=200", 250, 50, 2, 200, "q200", "q249"},
		{"page=1&name=Q24", 11, 11, 1, 100, "q24", "q249"},
		{"page=1&use_regex=true&pagination=false&name=%5Eq.$", 10, 10, 1, 100, "q0", "q9"},
		{"page=1&page_size=1&sort=messages", 250, 1, 250, 1, "q249", "q249"},
		{"page=1&page_size=1&sort=messages&sort_reverse=true", 250, 1, 250, 1, "q0", "q0"},
		{"page=2&page_size=3&sort=name", 250, 3, 84, 3, "q100", "q102"},
		{"page=1&page_size=2&sort=name&sort_reverse=true", 250, 2, 125, 2, "q99", "q98"},
		{"page=1&name=nothing", 0, 0, 1, 100, "", ""},
	} {
		p, names := page(t, c.query)
		if p.FilteredCount != c.filtered || p.ItemCount != c.items || p.PageCount != c.pages || p.PageSize != c.size || p.TotalCount != 250 || len(names) != c.items {
			t.Errorf("%s: %+v with %d rows", c.query, p, len(names))
			continue
		}
		if c.items > 0 && (names[0] != c.first || names[len(names)-1] != c.last) {
			t.Errorf("%s: from %s to %s, want %s to %s", c.query, names[0], names[len(names)-1], c.first, c.last)
		}
	}
}

func TestOnlyTheRowsOfAPageAreMade(t *testing.T) {
	for query, want := range map[string]int{
		"page=2":                              100,
		"page=1&page_size=7&sort=name":        7,
		"page=1&name=q24&disable_stats=true":  11,
		"page=1&page_size=9&columns=messages": 9,
		"page=1&sort=messages":                350, // all, to sort them, and those of the page
	} {
		f := &fake{queues: queues(250)}
		if w := f.call("GET", "/api/queues?"+query, ""); w.Code != 200 || f.made != want {
			t.Errorf("%s: %d, %d rows are made, want %d", query, w.Code, f.made, want)
		}
	}
}

func TestRowsAreSortedByWhatAPathNamesInThem(t *testing.T) {
	name := "p"
	rows := []api.Queue{
		{QueueBasics: api.QueueBasics{Name: "a", Arguments: map[string]any{"x-max-length": 9}}, Consumers: 2, MessageStats: map[string]any{"publish": uint64(10), "ack_details": api.Rate{Rate: 0.5}}},
		{QueueBasics: api.QueueBasics{Name: "b", Arguments: map[string]any{"x-max-length": 80}}, Consumers: 10, Policy: &name, MessageStats: map[string]any{"publish": uint64(9), "ack_details": api.Rate{Rate: 2}}},
		{QueueBasics: api.QueueBasics{Name: "c", Arguments: map[string]any{}}, Consumers: 1, MessageStats: map[string]any{}},
	}
	for query, want := range map[string]string{
		"sort=consumers": "cab", "sort=consumers&sort_reverse=true": "bac", "sort=name&sort_reverse=true": "cba",
		"sort=message_stats.publish&page=1": "cba", "sort=message_stats.ack_details.rate&sort_reverse=true": "bac", "sort=arguments.x-max-length": "cab",
		"sort=policy&sort_reverse=true": "bac", "sort=no.such": "abc", "sort=Name": "abc", "sort=name.length": "abc",
	} {
		w := (&fake{queues: slices.Clone(rows)}).call("GET", "/api/queues?columns=name&"+query, "")
		var got string
		for _, part := range strings.Split(w.Body.String(), `"name":"`)[1:] {
			got += part[:1]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

func TestAPageShowsOnlyTheVhostsThatItsCallerMaySee(t *testing.T) {
	for may, want := range map[string]string{"/": `"filtered_count":3`, "": `"filtered_count":0`} {
		f := &fake{queues: queues(3), vhost: may}
		if w := f.call("GET", "/api/queues?page=1", "", as("management")); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("who may see %q gets %d %s, want %s", may, w.Code, w.Body, want)
		}
	}
}

func TestWithoutAPageTheAnswerIsTheBareList(t *testing.T) {
	w := (&fake{queues: queues(3)}).call("GET", "/api/queues", "")
	var rows []api.Queue
	if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil || len(rows) != 3 {
		t.Errorf("%v, %d rows: %s", err, len(rows), w.Body)
	}
	if w := (&fake{}).call("GET", "/api/queues", ""); strings.TrimSpace(w.Body.String()) != "[]" {
		t.Errorf("no queues: %s, want []", w.Body)
	}
}

func TestColumns(t *testing.T) {
	w := (&fake{}).call("GET", "/api/consumers?columns=x", "")
	if strings.TrimSpace(w.Body.String()) != "[]" {
		t.Errorf("got %s", w.Body)
	}
	w = (&fake{queues: queues(1)}).call("GET", "/api/queues?columns=name,messages,no.such", "")
	if got := strings.TrimSpace(w.Body.String()); got != `[{"messages":1,"name":"q0"}]` {
		t.Errorf("got %s", got)
	}
}

func TestPagesThatAreNotThereAreRefused(t *testing.T) {
	for _, query := range []string{"page=4", "page=0", "page=x", "page=1&page_size=501", "page=1&page_size=0", "page=1&use_regex=true&name=(",
		"page=1&use_regex=true&name=" + strings.Repeat("a", 1001), "page=99999999999999999999"} {
		w := (&fake{queues: queues(250)}).call("GET", "/api/queues?"+query, "")
		if w.Code != 400 {
			t.Errorf("%s: %d, want 400", query, w.Code)
		}
	}
}

func TestQueuesWithoutStatistics(t *testing.T) {
	f := &fake{queues: queues(1)}
	const basics = `{"name":"q0","vhost":"/","type":"classic","durable":false,"auto_delete":false,"exclusive":false,"arguments":null,"state":"running","node":""`
	for query, want := range map[string]string{
		"disable_stats=true":                          "[" + basics + "}]",
		"disable_stats=true&enable_queue_totals=true": "[" + basics + `,"messages":1,"messages_ready":0,"messages_unacknowledged":0}]`,
	} {
		if got := strings.TrimSpace(f.call("GET", "/api/queues?"+query, "").Body.String()); got != want {
			t.Errorf("%s:\n got %s\nwant %s", query, got, want)
		}
	}
}
