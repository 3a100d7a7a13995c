package node

import (
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/source"
)

// A standby whose system group had nothing yet of its source was promoted and never served: it had neither the first vhost nor a user.
func TestAPromotionBeforeTheFirstUserHasComeServesWhatThereIs(t *testing.T) {
	from, to := pair(t)
	original := start(t, from)
	ready(t, original)
	send(t, dial(t, original), "work", "kept")
	logs := map[uint64]source.Log{}
	for _, g := range original.groups {
		logs[g] = original.raft.Group(g)
	}
	logs[systemGroup] = canned{applied: 1} // nothing of it has come yet
	to.LinkSource = serveLogs(t, logs, original.linkIdentity)
	standby := start(t, to)
	eventually(t, "the standby has the data groups", func() bool {
		for _, g := range original.groups[1:] {
			if applied, _ := original.states[g].Applied(); standby.linkState(g).Position.Index != applied {
				return false
			}
		}
		return standby.linkState(systemGroup).Position == entry.Origin()
	})
	if _, err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := dial(t, standby)
	if body := take(t, c, "work"); body != "kept" {
		t.Errorf("got %q", body)
	}
	send(t, c, "work", "after")
}
