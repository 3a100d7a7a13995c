package core_test

import (
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

// own applies control commands as an entry of a cluster that was or is promoted, and has the one that has come back as its
// standby replay that.
func own(s, back *coretest.Standby, cmds ...entry.Command) {
	data := control(s.Stamp, cmds...)
	s.Apply(data)
	back.Follow(data, s.Machine.Fingerprint())
}

// changePlaces promotes a driver's standby, wound back at that very place its former source follows it, and both go on alike.
func changePlaces(d *coretest.Driver) (s, back *coretest.Standby) {
	s, back = d.Standby(), d.Rewound(promotion.Generation)
	s.Stamp = d.Stamp + 1_000_000 // of a clock that is ahead: a standby takes its time from its source
	own(s, back, promotion)
	s.Stamp = d.Stamp
	own(s, back, promotion)
	own(s, back, &entry.LeaderUp{Node: 1, Term: 9}, &entry.NodeUp{Node: 1, Nonce: 99}, &entry.Tick{})
	s.Stamp += 3_600_000
	own(s, back, &entry.Tick{})
	return s, back
}

func TestASourceThatIsWoundBackReplaysThePromotion(t *testing.T) {
	d := started(t)
	d.Batch(1, publish("in flight"), publish("ready"), &entry.Get{Ref: ref, Queue: "q"}, &entry.QueueDeclare{Ref: ref, Name: "x", Exclusive: true})
	s, back := changePlaces(d)
	l := back.Machine.Link()
	if l.Role != core.RoleStandby || l.Rewound || l.Generation != (entry.Generation{}) || l.SourceGeneration != promotion.Generation {
		t.Errorf("link %+v", l)
	}
	if queues := back.Machine.Queues("/"); len(queues) != 1 || queues[0].Ready != 2 || len(back.Machine.Sessions("/")) > 0 {
		t.Errorf("queues %+v, sessions %+v", queues, back.Machine.Sessions("/"))
	}
	if s.Machine.Stamp() != back.Machine.Stamp() {
		t.Errorf("stamps %d and %d", s.Machine.Stamp(), back.Machine.Stamp())
	}
}

func TestASourceThatHadDrainedAndWasFencedIsWoundBackToTheFence(t *testing.T) {
	d := started(t)
	d.Batch(1, publish("waits"))
	d.Control(&entry.LinkDrain{Cluster: coretest.SourceCluster, Switch: "s", Millis: 60_000},
		&entry.LinkFence{Cluster: coretest.SourceCluster, Switch: "s"})
	d.Control(&entry.LeaderUp{Node: 1, Term: 3})
	s, back := changePlaces(d)
	if g := back.Machine.Link().SourceGate; g != s.Machine.Link().Gate || g.Fenced {
		t.Errorf("the gate of the cluster that serves now is %+v, not %+v", g, s.Machine.Link().Gate)
	}
}

// What a standby put into its log before and with its promotion did nothing there, nor does it where that is replayed.
func TestOnlyThePromotionCountsOfItsEntry(t *testing.T) {
	d := started(t)
	s, back := d.Standby(), d.Rewound(promotion.Generation)
	s.Stamp = d.Stamp + 5000
	own(s, back, &entry.NodeDown{Node: 1, Incarnation: 1}, &entry.VhostCreate{ID: "x", Name: "x"}, &entry.LinkDrain{Cluster: coretest.StandbyCluster, Millis: 9},
		&entry.LinkFence{Cluster: coretest.StandbyCluster, Switch: "s"}, &entry.LinkFenceCancel{Cluster: coretest.StandbyCluster},
		&entry.VhostCreate{ID: "z", Name: "z"}, promotion, &entry.VhostCreate{ID: "y", Name: "y"})
	if v := back.Machine.Vhosts(); len(v) != 2 || v[1].Name != "y" {
		t.Errorf("vhosts %+v", v)
	}
	if g := back.Machine.Link().SourceGate; g.Fenced || g.Drain != 0 {
		t.Errorf("gate %+v", g)
	}
}

// Another generation's promotion, or one that is replayed by a standby that was not wound back, is a local fact.
func TestAPromotionIsReplayedOnlyByWhoWasWoundBackToIt(t *testing.T) {
	d := started(t)
	back := d.Rewound(promotion.Generation)
	before := back.Machine.Fingerprint()
	back.Follow(control(d.Stamp, &entry.LinkPromote{Generation: entry.Generation{Number: 7, Cluster: "other"}}), before)
	if l := back.Machine.Link(); !l.Rewound {
		t.Errorf("link %+v", l)
	}
}

// A wound-back state outlives a restart between its attach and the promotion's entry.
func TestThatThePromotionComesNextOutlivesARestart(t *testing.T) {
	d := started(t)
	s, back := d.Standby(), d.Rewound(promotion.Generation)
	m := core.New(1)
	back.Machine.Checkpoint(func(key, value []byte) {
		if core.LocalRow(key) {
			if err := m.Load(key, value); err != nil {
				t.Fatal(err)
			}
		}
	}, func([]byte) {})
	if err := m.Loaded(); err != nil {
		t.Fatal(err)
	}
	if l := m.Link(); !l.Rewound || l != back.Machine.Link() {
		t.Errorf("link %+v", l)
	}
	own(s, back, promotion)
}
