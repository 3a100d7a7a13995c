package node

import (
	"fmt"
	"slices"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

func TestQueuesAreListedByNameInEachVhostHoweverManyAreReadAtOnce(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	talk(t, n, []exchange{{"PUT", "/api/vhosts/other", "", 201, ""}, {"PUT", "/api/queues/other/q", "{}", 201, ""}})
	ch, err := dial(t, n).Channel()
	if err != nil {
		t.Fatal(err)
	}
	const many = 2*queuesAtOnce + 1
	var want []string
	for i := range many {
		want = append(want, fmt.Sprintf("/ q%03d", many-1-i))
		if _, err := ch.QueueDeclare(want[i][2:], true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	want = append(want, "other q")

	refs := n.QueueRefs("")
	refs = slices.Insert(refs, queuesAtOnce-1, api.QueueRef{Vhost: "/", Name: "gone"}, api.QueueRef{Vhost: "gone", Name: "q"})
	var got []string
	for i, row := range n.QueuesAt(refs) {
		got = append(got, row.Vhost+" "+row.Name)
		if refs[i] != (api.QueueRef{Vhost: row.Vhost, Name: row.Name}) {
			t.Fatalf("the row of %v is said to be %v's", row.Name, refs[i])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %q", got)
	}
	for range n.QueuesAt(refs) { // a reader may stop
		break
	}
	if bindings := n.Bindings("other"); len(bindings) != 1 || bindings[0].Destination != "q" || bindings[0].Vhost != "other" {
		t.Errorf("bindings of the other vhost: %+v", bindings)
	}
}
