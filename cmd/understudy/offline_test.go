package main

import (
	"bytes"
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
		var out bytes.Buffer
		if err := dump(&out, &log.Record{Kind: log.KindEntry, Index: 9, Data: data}, false); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "ERROR") {
				t.Errorf("the dump is %q, want %q in it", out.String(), want)
			}
		}
	}
}
