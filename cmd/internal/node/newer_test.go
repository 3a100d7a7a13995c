package node

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/source"
	"github.com/understudy-mq/understudy/link/wire"
	"github.com/understudy-mq/understudy/replication"
)

// newer is a group's log of a source: after the origin one entry, which a newer version wrote.
type newer struct{}

func (newer) ReadLink(index, _, _ uint64, _ int) (r replication.LinkRead, err error) {
	r = replication.LinkRead{Status: replication.ReadEntries, Applied: 2, First: 2}
	if index < 2 {
		data := append([]byte{entry.Version + 1}, "what nobody knows yet"...)
		r.Entries = []replication.LinkEntry{{Index: 2, Term: 1, Data: data, Hash: entry.Origin().Next(1, data).Hash}}
	}
	return r, nil
}

func (newer) Status() replication.Status { return replication.Status{Applied: 2} }

func (newer) Changed() <-chan struct{} { return nil }

func (newer) Committed(context.Context) (uint64, error) { return 2, nil }

type noNotes struct{}

func (noNotes) Note(string, string, uint64, []wire.Position) {}
func (noNotes) Hurried(uint64) bool                          { return false }
func (noNotes) Returned(string)                              {}
func (noNotes) Held(string) *wire.Hold                       { return nil }

// A group that is handed what it cannot read ends its node: the link must not hand it over.
func TestAStandbyOutlivesAnEntryOfANewerFormat(t *testing.T) {
	_, to := pair(t)
	logs := map[uint64]source.Log{}
	for g := range uint64(to.Groups) + 1 {
		logs[g] = newer{}
	}
	s := httptest.NewServer(source.New(source.Options{
		Node: 1, Logs: logs, Notes: noNotes{}, Open: true, Logger: slog.New(slog.DiscardHandler),
		Identity: func() source.Identity { return source.Identity{Cluster: "the-source", Role: "primary"} },
	}))
	t.Cleanup(s.Close)
	to.LinkSource = strings.TrimPrefix(s.URL, "http://")
	standby := start(t, to)
	eventually(t, "all groups wait and say why", func() bool {
		for _, g := range standby.Link().Groups {
			if g.State != "waiting" || g.Error == nil || !strings.Contains(*g.Error, "start a newer one") || g.Position.Index != 1 {
				return false
			}
		}
		return true
	})
}
