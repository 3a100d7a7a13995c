package node

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/source"
	"github.com/understudy-mq/understudy/replication"
)

// slow is the log of a source's group of which nothing has come yet.
type slow struct{}

func (slow) ReadLink(uint64, uint64, uint64, int) (replication.LinkRead, error) {
	return replication.LinkRead{Status: replication.ReadEntries, Applied: 1, First: 2}, nil
}

func (slow) Status() replication.Status { return replication.Status{Applied: 1} }

func (slow) Changed() <-chan struct{} { return nil }

func (slow) Committed(context.Context) (uint64, error) { return 1, nil }

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
	logs[systemGroup] = slow{}
	s := httptest.NewServer(source.New(source.Options{
		Node: 1, Logs: logs, Notes: noNotes{}, Open: true, Identity: original.linkIdentity, Logger: slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(s.Close)
	to.LinkSource = strings.TrimPrefix(s.URL, "http://")
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
