package core_test

import (
	"slices"
	"testing"

	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

func TestDestinationsAreWhereAPublishWouldGoAndPublishNothing(t *testing.T) {
	d := started(t)
	d.Batch(1, &entry.QueueDeclare{Ref: ref, Name: "other"},
		&entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: "amq.topic", Destination: "q", Key: "a.#"}},
		&entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: "amq.topic", Destination: "other", Key: "#.b"}})
	m, before := d.Machine, d.Machine.Fingerprint()
	for _, c := range []struct {
		exchange, key string
		headers       []byte
		want          []string
	}{
		{"", "q", nil, []string{"q"}},
		{"", "nobody", nil, nil},
		{"amq.topic", "a.b", nil, []string{"other", "q"}},
		{"", "q", table("CC", []any{"other"}), []string{"other", "q"}},
	} {
		got, err := m.Destinations("/", coretest.Record(c.exchange, c.key, c.headers, "body"))
		slices.Sort(got)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q %q: %q, %v; want %q", c.exchange, c.key, got, err, c.want)
		}
	}
	for vhost, record := range map[string][]byte{"no such": coretest.Record("", "q", nil, ""), "/": coretest.Record("no such", "q", nil, "")} {
		if got, err := m.Destinations(vhost, record); err == nil {
			t.Errorf("vhost %q: %q, want an error", vhost, got)
		}
	}
	if m.Fingerprint() != before || m.Recompute() != before {
		t.Error("asking has changed the state")
	}
}
