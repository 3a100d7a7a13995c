package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/core/entry"
)

// startOlder starts a node that stands for one of an older version.
func startOlder(t *testing.T, c config.Config) *Node {
	t.Helper()
	o := options(t, c)
	o.Older = 1
	return startWith(t, o)
}

// raised waits until every group of the nodes is at the newest feature level.
func raised(t *testing.T, nodes ...*Node) {
	t.Helper()
	eventually(t, "the feature level is raised", func() bool {
		for _, n := range nodes {
			for _, g := range n.groups {
				if n.levelOf(g) != entry.Level {
					return false
				}
			}
		}
		return true
	})
}

// A new source keeps to what its standby reads, also where it knows that only from before its restart.
func TestTheFeatureLevelStaysWhileAStandbyReadsLess(t *testing.T) {
	from, to := pair(t)
	source, standby := startOlder(t, from), startOlder(t, to)
	ready(t, source, standby)
	follows(t, source, standby)
	reader := readerName(standby.ClusterID())
	stop(t, source)
	stop(t, standby)

	source = start(t, from)
	ready(t, source)
	eventually(t, "the source's member has told what it reads", func() bool { return source.membersLevel() == entry.Level })
	if level, by := source.raisable(); level != entry.Level-1 || by != reader {
		t.Errorf("it may be raised to %d; held by %q, want %q", level, by, reader)
	}
	if l := source.Link().Level; l.Now != entry.Level-1 || l.Reads != entry.Level || l.HeldBy != reader {
		t.Errorf("shown as %+v", l)
	}
	standby = start(t, to) // of the newer version now
	raised(t, source, standby)
	if l := source.Link(); l.Level.HeldBy != "" || len(l.Holds) != 1 || l.Holds[0].Level != entry.Level {
		t.Errorf("shown as %+v, with holds %+v", l.Level, l.Holds)
	}
}

func TestTheFeatureLevelStaysUntilEveryMemberReadsIt(t *testing.T) {
	t.Parallel() // it waits for the most part
	all := []config.Config{settings(t, 1), settings(t, 2)}
	for i := range all {
		all[i].Cluster = fmt.Sprintf("1=%s,2=%s", all[0].Peer, all[1].Peer)
	}
	newer, older := start(t, all[0]), startOlder(t, all[1])
	ready(t, newer, older)
	eventually(t, "both have told what they read", func() bool { return len(newer.told()) == 2 })
	if level, by := newer.raisable(); level != entry.Level-1 || by != "node 2" {
		t.Errorf("it may be raised to %d; held by %q", level, by)
	}
	if l := newer.Link().Level; l.Now != entry.Level-1 || l.Members != entry.Level-1 || l.HeldBy != "node 2" {
		t.Errorf("shown as %+v", l)
	}
	stop(t, older)
	older = start(t, all[1])
	raised(t, newer, older)
}

// What only some members of a standby read is waited for, whoever reads: the others may lead tomorrow.
func TestAStandbyReadsWhatAllItsMembersRead(t *testing.T) {
	t.Parallel() // it waits for the most part
	from, to := pair(t)
	source := startOlder(t, from)
	ready(t, source)
	other := settings(t, 2)
	other.LinkSource, other.LinkTokenFile, other.Standby = to.LinkSource, to.LinkTokenFile, true
	to.Cluster = fmt.Sprintf("1=%s,2=%s", to.Peer, other.Peer)
	other.Cluster = to.Cluster
	newer, older := start(t, to), startOlder(t, other)
	follows(t, source, newer)
	eventually(t, "both have told what they read", func() bool { return len(newer.told()) == 2 })
	source.raise(entry.Level) // as if it had not waited
	eventually(t, "every group waits and says why", func() bool {
		for g := range newer.groups { // one of them reads
			waits := func(n *Node) bool {
				x := n.Link().Groups[g]
				return x.State == "waiting" && x.Error != nil && strings.Contains(*x.Error, "feature level")
			}
			if !waits(newer) && !waits(older) {
				return false
			}
		}
		return true
	})
	stop(t, older)
	older = start(t, other)
	follows(t, source, newer)
	raised(t, newer, older)
}
