package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/understudy-mq/understudy/cmd/internal/node"
	"github.com/understudy-mq/understudy/replication/log"
)

// What a leader wrote that was then deposed is in the log's files, but was never committed: it is no part of the tail.
func TestTheTailHasOfEachIndexOnlyTheEntryThatStands(t *testing.T) {
	data := t.TempDir()
	l, err := log.Open(log.Options{Dir: filepath.Join(data, node.LogDir), Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	write := func(group, term, from, to uint64) {
		w := log.Write{Sync: true}
		for i := from; i <= to; i++ {
			w.Entries = append(w.Entries, &raftpb.Entry{Term: new(term), Index: new(i), Data: []byte{1}})
		}
		done := make(chan struct{})
		l.Group(group).Append(w, func() { close(done) })
		<-done
	}
	write(1, 1, 1, 6)
	write(2, 1, 1, 3)
	write(1, 2, 4, 5)
	write(3, 1, 1, 9) // a group that nobody has asked for
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	tail := tail{data: data}
	var got []string
	err = tail.each(map[uint64]uint64{1: 2, 2: 2}, func(r *log.Record) error {
		got = append(got, fmt.Sprintf("%d/%d term %d", r.Group, r.Index, r.Term))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"1/3 term 1", "2/3 term 1", "1/4 term 2", "1/5 term 2"}; !slices.Equal(got, want) {
		t.Errorf("the tail has %q, want %q", got, want)
	}
}
