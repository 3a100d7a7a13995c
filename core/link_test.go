package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

// That a standby has the same fingerprint as its source after every entry is checked by coretest.Driver, in every test of
// the machine. Here is what a standby and a fenced source must not do.

// control frames control commands as an entry of the source's.
func control(stamp int64, cmds ...entry.Command) []byte {
	var b []byte
	for _, c := range cmds {
		b = entry.Append(b, c)
	}
	return coretest.Entry(stamp, entry.Batch{Commands: b})
}

func TestAReplayCountsOnceAndOnlyAfterItsPredecessor(t *testing.T) {
	s := coretest.NewStandby(t)
	one := entry.AppendReplay(nil, s.Envelope(control(1000, &entry.VhostCreate{ID: "v", Name: "/"}), 0))
	s.Apply(one)
	at, print := s.Machine.Link().Position, s.Machine.Fingerprint()
	if at.Index != entry.Origin().Index+1 || len(s.Machine.Vhosts()) != 1 {
		t.Fatalf("the first replay left the position at %+v and vhosts %v", at, s.Machine.Vhosts())
	}
	next := s.Envelope(control(1001, &entry.NodeUp{Node: 1, Nonce: 1}), 0)
	wrong := map[string]func(*entry.Replay){
		"the entry after the next": func(x *entry.Replay) { x.Position = x.Position.Next(1, x.Inner) },
		"another term":             func(x *entry.Replay) { x.Position.Term++ },
		"another hash":             func(x *entry.Replay) { x.Position.Hash++ },
		"another entry":            func(x *entry.Replay) { x.Inner = control(1002, &entry.NodeUp{Node: 1, Nonce: 1}) },
		"another source":           func(x *entry.Replay) { x.Source = "other" },
		"another generation":       func(x *entry.Replay) { x.Generation.Number++ },
		"another group":            func(x *entry.Replay) { x.Group++ },
	}
	for what, change := range wrong {
		x := *next
		change(&x)
		if s.Apply(entry.AppendReplay(nil, &x)); s.Machine.Link().Position != at || s.Machine.Fingerprint() != print {
			t.Errorf("%s was replayed", what)
		}
	}
	if s.Apply(one); s.Machine.Link().Position != at || s.Machine.Fingerprint() != print {
		t.Error("a repeated replay counted")
	}
	if s.Apply(entry.AppendReplay(nil, next)); s.Machine.Link().Position != next.Position || s.Machine.Fingerprint() == print {
		t.Error("the right one did not count")
	}
}

func TestADamagedReplayStopsTheGroup(t *testing.T) {
	s := coretest.NewStandby(t)
	whole := entry.AppendReplay(nil, s.Envelope(nil, 0))
	for cut := 1; cut < len(whole); cut++ {
		if err := s.Machine.Apply(9, whole[:cut], &core.Effects{}); err == nil {
			t.Errorf("a replay cut to %d of %d octets was taken", cut, len(whole))
		}
	}
}

func TestThePositionAdvancesOverRaftsOwnEntries(t *testing.T) {
	s := coretest.NewStandby(t)
	before := s.Machine.Fingerprint()
	x := s.Envelope(nil, 0)
	if s.Apply(entry.AppendReplay(nil, x)); s.Machine.Link().Position != x.Position || s.Machine.Fingerprint() != before {
		t.Errorf("position %+v, want %+v", s.Machine.Link().Position, x.Position)
	}
}

// TestAStandbyOriginatesNothing: what was queued during an election, or comes from a member that does not know yet, has
// no effect whoever put it into the log.
func TestAStandbyOriginatesNothing(t *testing.T) {
	d := started(t)
	s := d.Standby()
	s.Stamp = d.Stamp + 1_000_000
	before, rows := s.Machine.Fingerprint(), s.Machine.Stamp()
	incarnation, _, seq := s.Machine.Incarnation(1)
	s.Own(&entry.NodeUp{Node: 9, Nonce: 9}, &entry.NodeDown{Node: 1, Incarnation: incarnation}, &entry.LeaderUp{Node: 1, Term: 9},
		&entry.Tick{}, &entry.VhostCreate{ID: "x", Name: "x"}, &entry.UserPut{Name: "u"})
	s.Apply(coretest.Entry(s.Stamp, entry.Batch{Node: 1, Incarnation: incarnation, Seq: seq + 1, Commands: entry.Append(nil, publish("own"))}))
	if s.Machine.Fingerprint() != before || s.Machine.Stamp() != rows {
		t.Error("a standby's own entry changed what it has from its source, or its time")
	}
	d.Batch(1, publish("the source's next")) // and it follows as before
}

func TestLocalFactsOfTheSourceAreNotCarried(t *testing.T) {
	for _, own := range []string{coretest.StandbyCluster, ""} { // a data group does not know its cluster's UUID
		s := coretest.NewStandby(t)
		if own != "" {
			s.Own(&entry.ClusterInit{ID: own})
		}
		s.Follow(control(0, &entry.ClusterInit{ID: coretest.SourceCluster},
			&entry.LinkAttach{Cluster: coretest.SourceCluster, Source: "third", Fingerprint: s.Machine.Fingerprint()},
			&entry.LinkAccept{Cluster: coretest.SourceCluster, Switch: "s"},
			&entry.LinkCancel{Cluster: coretest.SourceCluster, Switch: "s"},
			&entry.LinkGate{Cluster: coretest.SourceCluster, State: entry.GateUp},
			&entry.LinkPromote{Cluster: coretest.SourceCluster, Generation: entry.Generation{Number: 1}}), s.Machine.Fingerprint())
		if s.Machine.ClusterID() != own { // of the link the standby sees to it itself
			t.Errorf("cluster %q, want %q", s.Machine.ClusterID(), own)
		}
	}
}

func TestAFencedClusterSaysWhy(t *testing.T) {
	for _, c := range []struct {
		gate core.Gate
		want string
	}{
		{core.Gate{Fenced: true}, "this cluster has handed over to another one"},
		{core.Gate{Fenced: true, Hosts: "a:5672"}, "this cluster has handed over to another one: connect to a:5672"},
		{core.Gate{Fenced: true, By: entry.Generation{Number: 1, Cluster: "c"}}, "another cluster was promoted in this one's place"},
	} {
		if got := c.gate.Reason(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.gate, got, c.want)
		}
	}
}

func TestAnotherClustersCommandDoesNothing(t *testing.T) {
	s := coretest.NewStandby(t)
	s.Own(&entry.ClusterInit{ID: coretest.StandbyCluster})
	before := s.Machine.Link()
	s.Own(&entry.LinkAccept{Cluster: "other", Switch: "s"}, &entry.LinkPromote{Cluster: "other"}, &entry.LinkGate{Cluster: "other"})
	if after := s.Machine.Link(); after != before {
		t.Errorf("link %+v, want %+v", after, before)
	}
}

func TestACommandOfTheLinkCountsForTheClusterThatItNames(t *testing.T) {
	over := entry.Generation{Number: 1, Cluster: "c"}
	for _, c := range []struct {
		name    string
		command func(cluster string) entry.Command
		want    core.Gate // what it makes of the gate
	}{
		{"drain", func(id string) entry.Command { return &entry.LinkDrain{Cluster: id, Switch: "s", Millis: 50} }, core.Gate{Switch: "s", Drain: 1050}},
		{"fence", func(id string) entry.Command { return &entry.LinkFence{Cluster: id, Switch: "s", Hosts: "h"} },
			core.Gate{Switch: "s", Fenced: true, Hosts: "h"}},
		{"cancel", func(id string) entry.Command { return &entry.LinkFenceCancel{Cluster: id, Switch: "s"} }, core.Gate{Cancelled: "s"}},
		{"fenced", func(id string) entry.Command { return &entry.LinkFenced{Cluster: id, Generation: over, Hosts: "h"} },
			core.Gate{Fenced: true, Hosts: "h", By: over}},
	} {
		d := started(t)
		d.Control(&entry.ClusterInit{ID: coretest.SourceCluster})
		before := d.Machine.Link()
		if d.Control(c.command("other")); d.Machine.Link() != before {
			t.Errorf("%s of another cluster: %+v", c.name, d.Machine.Link())
		}
		d.Control(c.command(coretest.SourceCluster))
		if c.want.Fenced {
			c.want.FencedAt = d.Index
		}
		if got := d.Machine.Link().Gate; got != c.want {
			t.Errorf("%s: gate %+v, want %+v", c.name, got, c.want)
		}
	}
	d := started(t)
	d.Control(&entry.ClusterInit{ID: coretest.SourceCluster})
	if d.Control(&entry.LinkGate{Cluster: "other", Standby: "x", State: entry.GateUp}); d.Machine.Link().ConfirmsFor != "" {
		t.Error("another cluster's confirms wait here")
	}
	if d.Control(&entry.LinkGate{Cluster: coretest.SourceCluster, Standby: "x", State: entry.GateUp}); d.Machine.Link().ConfirmsFor != "x" {
		t.Error("confirms do not wait for the standby that was named")
	}
}

func TestADifferenceStopsTheLinkAtThatVeryEntry(t *testing.T) {
	s := coretest.NewStandby(t)
	x := s.Envelope(control(1000, &entry.VhostCreate{ID: "v", Name: "/"}), 12345)
	s.Apply(entry.AppendReplay(nil, x))
	if got := s.Machine.Link().Diverged; got != x.Position.Index {
		t.Fatalf("diverged at %d, want %d", got, x.Position.Index)
	}
	s.Apply(entry.AppendReplay(nil, s.Envelope(nil, 0)))
	if got := s.Machine.Link().Position; got != x.Position {
		t.Errorf("the position moved on to %+v", got)
	}
}

func TestAttachTakesEffectOnlyOnTheStateThatItNames(t *testing.T) {
	attach := &entry.LinkAttach{Source: coretest.SourceCluster, Position: entry.Origin(), Fingerprint: core.EmptyFingerprint()}
	d := started(t)
	if d.Control(attach); d.Machine.Link().Role != core.RolePrimary {
		t.Error("a cluster with entries of its own became a standby")
	}
	s := coretest.NewStandby(t)
	s.Own(&entry.LinkPromote{Generation: entry.Generation{Number: 1, Cluster: "x"}})
	attach.Fingerprint = s.Machine.Fingerprint()
	if s.Own(attach); s.Machine.Link().Role != core.RolePromoted {
		t.Error("a promoted cluster became a standby")
	}
}

func TestTheLinkIsRememberedInRows(t *testing.T) {
	d := started(t)
	d.Control(&entry.LinkDrain{Switch: "s", Millis: 50}, &entry.LinkFence{Switch: "s", Hosts: "a:5672"})
	s := d.Standby()
	want := s.Machine.Link()
	type row struct{ key, value []byte }
	var rows []row
	s.Machine.Checkpoint(func(k, v []byte) { rows = append(rows, row{slices.Clone(k), slices.Clone(v)}) }, func([]byte) {})
	slices.SortFunc(rows, func(a, b row) int { return slices.Compare(a.key, b.key) })
	m, local := core.New(1), 0
	for _, r := range rows {
		if core.LocalRow(r.key) {
			local++
		}
		if err := m.Load(r.key, r.value); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Loaded(); err != nil || m.Link() != want || local != 1 {
		t.Errorf("link %+v, want %+v (%v); %d local rows", m.Link(), want, err, local)
	}
}

// fenced makes a source that is fenced, with a message and a consumer's delivery in it.
func fenced(t coretest.TB) *coretest.Driver {
	d := started(t)
	d.Batch(1, publish("in flight"), publish("ready"), &entry.Qos{Ref: ref, Prefetch: 1}, &entry.Consume{Ref: ref, Queue: "q", Tag: "c"})
	fx := d.Control(&entry.LinkFence{Cluster: coretest.SourceCluster, Switch: "s", Hosts: "new:5672"})
	if len(fx) != 1 || fx[0].Kind != core.EffectLink || !strings.Contains(fx[0].Text, "new:5672") {
		t.Fatalf("a fence's effects are %+v", fx)
	}
	return d
}

func TestNothingCountsBehindAFence(t *testing.T) {
	d := fenced(t)
	before := fmt.Sprintf("%+v", d.Machine.Queues("/"))
	fx := d.Batch(1, publish("late"), &entry.Settle{Ref: ref, First: 1, Last: 1}, &entry.Get{Ref: ref, Queue: "q"},
		&entry.QueueDeclare{Ref: ref, Name: "late"}, &entry.Attach{Vhost: "/", Request: 5}, &entry.Detach{Ref: ref})
	if got := fmt.Sprintf("%+v", d.Machine.Queues("/")); got != before {
		t.Errorf("behind the fence the state became %s, it was %s", got, before)
	}
	if len(fx) != 1 || fx[0].Kind != core.EffectRefused || fx[0].Code != core.CodeConnectionForced || fx[0].Request != 5 ||
		!strings.Contains(fx[0].Text, "new:5672") {
		t.Errorf("effects behind the fence: %+v", fx)
	}
	d.Stamp += 10
	d.Control(&entry.NodeUp{Node: 2, Nonce: 1}, &entry.LeaderUp{Node: 2, Term: 2})
	if incarnation, _, _ := d.Machine.Incarnation(2); incarnation != 1 {
		t.Error("a node cannot register behind the fence")
	}
}

func TestACancelledFenceLetsTheSourceGoOn(t *testing.T) {
	d := fenced(t)
	d.Batch(1, publish("lost with its client"))
	d.Control(&entry.LinkFenceCancel{Cluster: coretest.SourceCluster, Switch: "another"})
	if !d.Machine.Link().Gate.Fenced {
		t.Fatal("the fence fell with another switch")
	}
	d.Control(&entry.LinkFenceCancel{Cluster: coretest.SourceCluster, Switch: "s"})
	if q := d.Machine.Queues("/")[0]; q.Ready != 2 || q.Unacknowledged != 0 {
		t.Errorf("the sessions of clients that were closed still hold messages: %+v", q)
	}
	d.Batch(1, &entry.Attach{Vhost: "/"})
	ref := entry.Ref{Session: 2, Epoch: 1, Channel: 1}
	if fx := only(d.Batch(1, &entry.ChannelOpen{Ref: ref}, &entry.Consume{Ref: ref, Queue: "q", Tag: "c"}), core.EffectDelivered); len(fx) != 2 {
		t.Errorf("a new client gets %+v", fx)
	}
}

func TestAFencedClusterStaysFencedOnceAnotherIsPromoted(t *testing.T) {
	d := fenced(t)
	one, two := entry.Generation{Number: 1, Cluster: "a"}, entry.Generation{Number: 1, Cluster: "b"}
	for _, step := range []struct {
		by   entry.Generation
		want entry.Generation
	}{{entry.Generation{}, entry.Generation{}}, {one, one}, {two, two}, {one, two}} {
		d.Control(&entry.LinkFenced{Cluster: coretest.SourceCluster, Generation: step.by, Hosts: "c:5672"})
		if got := d.Machine.Link().Gate; !got.Fenced || got.By != step.want {
			t.Errorf("after the word of %+v the gate is %+v, want it by %+v", step.by, got, step.want)
		}
	}
	d.Control(&entry.LinkFenceCancel{Cluster: coretest.SourceCluster, Switch: ""})
	if !d.Machine.Link().Gate.Fenced {
		t.Error("a cancel opened a gate that is fenced for good")
	}
}

func TestADrainHoldsDeliveriesButNotAcknowledgements(t *testing.T) {
	d := started(t)
	d.Batch(1, &entry.Consume{Ref: ref, Queue: "q", Tag: "c"}, publish("before"))
	d.Control(&entry.LinkDrain{Cluster: coretest.SourceCluster, Switch: "s", Millis: 500})
	d.Control(&entry.LinkDrain{Cluster: coretest.SourceCluster, Switch: "s", Millis: 100}) // the shorter one wins,
	d.Control(&entry.LinkDrain{Cluster: coretest.SourceCluster, Switch: "s", Millis: 900}) // whenever it comes
	fx := d.Batch(1, publish("while"), &entry.Get{Ref: ref, Queue: "q"}, &entry.Settle{Ref: ref, First: 1, Last: 1})
	if len(only(fx, core.EffectDelivered)) > 0 || len(only(fx, core.EffectGot)) > 0 {
		t.Errorf("delivered during a drain: %+v", fx)
	}
	if got := d.Machine.Queues("/")[0].Unacknowledged; got != 0 {
		t.Errorf("%d deliveries are unsettled, the acknowledgement did not count", got)
	}
	if got, want := d.Machine.NextDeadline(), d.Stamp+100; got != want {
		t.Fatalf("the drain ends at %d, want %d", got, want)
	}
	d.Stamp += 99
	if fx := d.Control(&entry.Tick{}); len(fx) > 0 || d.Machine.Link().Gate.Drain == 0 {
		t.Errorf("before the drain's end: %+v", fx)
	}
	d.Stamp++
	if fx := only(d.Control(&entry.Tick{}), core.EffectDelivered); len(fx) != 1 || d.Machine.Link().Gate.Drain != 0 {
		t.Errorf("after the drain's time: %+v", fx)
	}
}
