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

// canned is a group's log of a source, up to the entry applied; entries are those after the origin.
type canned struct {
	applied uint64
	entries []replication.LinkEntry
}

func (l canned) ReadLink(index, _, _ uint64, _ int) (replication.LinkRead, error) {
	r := replication.LinkRead{Status: replication.ReadEntries, Applied: l.applied, First: 2}
	if index < l.applied {
		r.Entries = l.entries
	}
	return r, nil
}

func (l canned) Status() replication.Status { return replication.Status{Applied: l.applied} }

func (canned) Changed() <-chan struct{} { return nil }

func (l canned) Committed(context.Context) (uint64, error) { return l.applied, nil }

// serveLogs serves logs as a source's node does and answers where.
func serveLogs(t *testing.T, logs map[uint64]source.Log, identity func() source.Identity) string {
	t.Helper()
	s := httptest.NewServer(source.New(source.Options{
		Node: 1, Logs: logs, Notes: noNotes{}, Open: true, Identity: identity, Logger: slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

type noNotes struct{}

func (noNotes) Note(string, string, uint64, []wire.Position) {}
func (noNotes) Hurried(uint64) bool                          { return false }
func (noNotes) Returned(string)                              {}
func (noNotes) Held(string) *wire.Hold                       { return nil }

// A group that is handed what it cannot read ends its node: the link must not hand it over.
func TestAStandbyOutlivesAnEntryOfANewerFormat(t *testing.T) {
	_, to := pair(t)
	data := append([]byte{entry.Version + 1}, "what nobody knows yet"...)
	newer := canned{applied: 2, entries: []replication.LinkEntry{{Index: 2, Term: 1, Data: data, Hash: entry.Origin().Next(1, data).Hash}}}
	logs := map[uint64]source.Log{}
	for g := range uint64(to.Groups) + 1 {
		logs[g] = newer
	}
	to.LinkSource = serveLogs(t, logs, func() source.Identity { return source.Identity{Cluster: "the-source", Role: "primary"} })
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
