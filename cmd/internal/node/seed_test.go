package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAStandbyBeginsWithASnapshotOfASourceThatHasAHistory(t *testing.T) {
	from, to := pair(t)
	to.Standby, to.LinkSeed, to.Groups = false, 1, 7 // the number of groups is the source's
	source := start(t, from)
	ready(t, source)
	send(t, dial(t, source), "work", "from the snapshot")
	standby := start(t, to)
	ready(t, standby)
	send(t, dial(t, source), "work", "from the log")
	follows(t, source, standby)
	if r := standby.Link(); r.Role != "standby" || len(standby.groups) != len(source.groups) {
		t.Errorf("%+v", r)
	}
	if readers := source.raft.Holds(); len(readers) != 1 || readers[0].Name != readerName(standby.ClusterID()) {
		t.Errorf("holds %+v", readers)
	}
	stop(t, standby)
	left := filepath.Join(to.Data, seedDir)
	if err := os.Mkdir(left, 0o700); err != nil { // as after a cut between the record and the removal
		t.Fatal(err)
	}
	standby = start(t, to) // the seed is taken once
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the seed's files are left: %v", err)
	}
	follows(t, source, standby)
	if _, err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := dial(t, standby)
	for _, want := range []string{"from the snapshot", "from the log"} {
		if body := take(t, c, "work"); body != want {
			t.Errorf("got %q, want %q", body, want)
		}
	}
}

// A node that is to begin with a seed must not begin empty where it gets none.
func TestANodeThatGetsNoSeedDoesNotStart(t *testing.T) {
	from, to := pair(t)
	to.Standby, to.LinkSeed = false, 1
	_ = from // the source is not there
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if n, err := Start(ctx, options(t, to)); err == nil {
		stop(t, n)
		t.Fatal("it started")
	}
	if _, err := os.Stat(filepath.Join(to.Data, LogDir)); err == nil {
		t.Error("it has made a log")
	}
}

func TestASeedDoesNothingToAFolderWithData(t *testing.T) {
	from, to := pair(t)
	to.Standby = false
	source, n := start(t, from), start(t, to)
	ready(t, source, n)
	send(t, dial(t, n), "mine", "kept")
	stop(t, n)
	to.LinkSeed = 1
	n = start(t, to)
	ready(t, n)
	if body := take(t, dial(t, n), "mine"); body != "kept" {
		t.Errorf("got %q", body)
	}
}
