package main

import (
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/replication/log"
)

func TestADumpShowsWhatAStandbysEntryReplays(t *testing.T) {
	inner := entry.AppendBatch(entry.AppendHeader(nil, 1000), 0, 0, 0, entry.Append(nil, &entry.VhostCreate{ID: "v", Name: "orders"}))
	for _, c := range []struct {
		inner []byte
		want  []string
	}{
		{inner, []string{"replays source index 7 term 3", "VhostCreate"}},
		{nil, []string{"replays source index 7 term 3"}},
	} {
		data := entry.AppendReplay(nil, &entry.Replay{Source: "source", Position: entry.Position{Index: 7, Term: 3}, Inner: c.inner})
		line := describe(&log.Record{Kind: log.KindEntry, Index: 9, Data: data}, true).line()
		for _, want := range c.want {
			if !strings.Contains(line, want) || strings.Contains(line, "ERROR") {
				t.Errorf("the dump is %q, want %q in it", line, want)
			}
		}
	}
}

// The sums tell whether a standby's entry is its source's, byte for byte.
func TestADumpedEntryAndItsReplayHaveTheSameSum(t *testing.T) {
	sum := func(data []byte) string {
		d := describe(&log.Record{Kind: log.KindEntry, Index: 9, Data: data}, false)
		if len(d.Batches) > 0 || d.Error != "" {
			t.Errorf("with the sum comes %+v", d)
		}
		return d.Sum
	}
	replay := func(inner []byte) []byte {
		return entry.AppendReplay(nil, &entry.Replay{Source: "source", Position: entry.Position{Index: 7, Term: 3}, Inner: inner})
	}
	own := entry.AppendBatch(entry.AppendHeader(nil, 1000), 0, 0, 0, entry.Append(nil, &entry.VhostCreate{ID: "v", Name: "orders"}))
	other := entry.AppendHeader(nil, 1001)
	if a, b := sum(own), sum(replay(own)); a != b || a == "" {
		t.Errorf("the entry's sum is %q, its replay's %q", a, b)
	}
	if sum(own) == sum(other) {
		t.Error("two entries have the same sum")
	}
	if a, b := sum(nil), sum(replay(nil)); a != "" || b != "" {
		t.Errorf("entries of raft's own have the sums %q and %q", a, b)
	}
}
