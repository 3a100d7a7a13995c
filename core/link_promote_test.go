package core_test

import (
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

var promotion = &entry.LinkPromote{Generation: entry.Generation{Number: 1, Cluster: coretest.StandbyCluster}}

// promoted is a standby of a source with a message in flight, one ready and an exclusive queue, after its promotion.
func promoted(t coretest.TB) (*coretest.Driver, *coretest.Standby) {
	d := started(t)
	d.Batch(1, publish("in flight"), publish("ready"), &entry.Get{Ref: ref, Queue: "q"},
		&entry.QueueDeclare{Ref: ref, Name: "x", Exclusive: true})
	s := d.Standby()
	s.Stamp = d.Stamp + 99
	fx := s.Own(promotion)
	if len(fx) != 1 || fx[0].Kind != core.EffectLink || fx[0].Command != entry.KindLinkPromote {
		t.Fatalf("a promotion's effects are %+v", fx)
	}
	return d, s
}

func TestAPromotionCutsAtThePosition(t *testing.T) {
	d, s := promoted(t)
	l := s.Machine.Link()
	if l.Role != core.RolePromoted || l.Generation != promotion.Generation || l.Stamp != d.Stamp || l.Since != s.Index || l.Print != d.Machine.Fingerprint() {
		t.Errorf("link %+v", l)
	}
	if standby, _, since := s.Machine.Standing(); standby || since != s.Index {
		t.Errorf("standing %v, %d", standby, since)
	}
	late := s.Envelope(control(d.Stamp, &entry.VhostCreate{ID: "v2", Name: "late"}), 0)
	s.Apply(entry.AppendReplay(nil, late))
	if got := len(s.Machine.Vhosts()); got != 1 {
		t.Errorf("an entry of the source counted after the promotion: %d vhosts", got)
	}
}

func TestAPromotionEndsAnonymousSessionsAndReturnsTheirDeliveries(t *testing.T) {
	_, s := promoted(t)
	queues := s.Machine.Queues("/")
	if len(queues) != 1 || queues[0].Ready != 2 || queues[0].Unacknowledged != 0 || len(s.Machine.Sessions("/")) > 0 {
		t.Errorf("queues %+v, sessions %+v", queues, s.Machine.Sessions("/"))
	}
	if got, want := s.Machine.Recompute(), s.Machine.Fingerprint(); got != want {
		t.Errorf("the fingerprint is kept up wrongly: %x, not %x", want, got)
	}
}

func TestAPromotionForgetsTheSourcesNodes(t *testing.T) {
	_, s := promoted(t)
	if nodes := s.Machine.Nodes(); len(nodes) > 0 {
		t.Errorf("nodes %+v", nodes)
	}
	s.Own(&entry.NodeUp{Node: 1, Nonce: 99})
	if incarnation, nonce, seq := s.Machine.Incarnation(1); incarnation != 1 || nonce != 99 || seq != 0 {
		t.Errorf("incarnation %d, nonce %d, seq %d", incarnation, nonce, seq)
	}
}

// TestCountersJumpAtAPromotion: what the lost tail of the source's log minted is not minted again.
func TestCountersJumpAtAPromotion(t *testing.T) {
	d, s := promoted(t)
	d.Batch(1, publish("lost"))
	attach := func(apply func(...entry.Command) []core.Effect) core.Effect {
		return only(apply(&entry.Attach{Vhost: "/"}), core.EffectAttached)[0]
	}
	of := func(m *core.Machine, apply func([]byte) []core.Effect, stamp int64) func(...entry.Command) []core.Effect {
		return func(cmds ...entry.Command) []core.Effect {
			incarnation, _, seq := m.Incarnation(1)
			var b []byte
			for _, c := range cmds {
				b = entry.Append(b, c)
			}
			return apply(coretest.Entry(stamp, entry.Batch{Node: 1, Incarnation: incarnation, Seq: seq + 1, Commands: b}))
		}
	}
	s.Own(&entry.NodeUp{Node: 1, Nonce: 99})
	here := of(s.Machine, s.Apply, s.Stamp)
	a, b := attach(func(c ...entry.Command) []core.Effect { return d.Batch(1, c...) }), attach(here)
	if b.Session <= a.Session+1<<30 {
		t.Errorf("session %d is minted after the source's %d", b.Session, a.Session)
	}
	ref := entry.Ref{Session: b.Session, Epoch: b.Epoch, Channel: 1}
	fx := only(here(&entry.ChannelOpen{Ref: ref}, &entry.QueuePurge{Ref: ref, Name: "q"},
		&entry.Publish{Ref: ref, Record: coretest.Record("", "q", nil, "new")}, &entry.Get{Ref: ref, Queue: "q"}), core.EffectGot)
	if len(fx) != 1 || fx[0].Number <= 1<<30 {
		t.Errorf("message numbers go on from the source's: %+v", fx)
	}
}

func TestAPromotionIsIdempotentAndOnlyForStandbys(t *testing.T) {
	_, s := promoted(t)
	s.Stamp = s.Machine.Stamp()
	before, print := s.Machine.Link(), s.Machine.Fingerprint()
	fx := s.Own(&entry.LinkPromote{Generation: entry.Generation{Number: 2, Cluster: "again"}})
	if len(fx) > 0 || s.Machine.Link() != before || s.Machine.Fingerprint() != print {
		t.Errorf("a second promotion did something: %+v", fx)
	}
	d := started(t)
	if fx := d.Control(promotion); len(fx) > 0 || d.Machine.Link().Role != core.RolePrimary {
		t.Errorf("a cluster that never was a standby was promoted: %+v", fx)
	}
}

func TestACancelledSwitchDoesNotPromoteButAForcedPromotionDoes(t *testing.T) {
	s := coretest.NewStandby(t)
	planned := &entry.LinkPromote{Switch: "s", Generation: promotion.Generation}
	s.Own(&entry.LinkAccept{Switch: "s"})
	s.Own(&entry.LinkCancel{Switch: "s"})
	s.Own(&entry.LinkAccept{Switch: "s"})
	if s.Own(planned); s.Machine.Link().Role != core.RoleStandby || s.Machine.Link().SwitchState != core.SwitchCancelled {
		t.Fatalf("a cancelled switch went on: %+v", s.Machine.Link())
	}
	if s.Own(promotion); s.Machine.Link().Role != core.RolePromoted {
		t.Error("a forced promotion was refused")
	}
}

func TestAPromotedClusterDeliversWhatItsSourceHadDrained(t *testing.T) {
	d := started(t)
	d.Control(&entry.LinkDrain{Cluster: coretest.SourceCluster, Switch: "s", Millis: 60_000},
		&entry.LinkFence{Cluster: coretest.SourceCluster, Switch: "s"})
	s := d.Standby()
	if g := s.Machine.Link().SourceGate; !g.Fenced || g.FencedAt != s.Machine.Link().Position.Index {
		t.Fatalf("the standby knows of its source's gate: %+v", g)
	}
	s.Own(promotion, &entry.NodeUp{Node: 1, Nonce: 5})
	if g := s.Machine.Link(); g.Gate.Fenced || g.SourceGate.Fenced || s.Machine.NextDeadline() != 0 {
		t.Errorf("the promoted cluster is held back: %+v", g)
	}
	if incarnation, _, _ := s.Machine.Incarnation(1); incarnation != 1 {
		t.Error("the promoted cluster's nodes cannot register")
	}
}

func TestAPromotedClusterHasItsSourcesUsersSettingsAndWhatIsScheduled(t *testing.T) {
	d := started(t)
	d.Control(&entry.VhostPut{ID: "v1", Name: "/", Groups: 1}, &entry.UserPut{Name: "u", Hash: "h", Tags: "administrator"},
		&entry.PermissionSet{User: "u", Vhost: "/", Read: ".*"},
		&entry.PolicySet{Vhost: "/", Name: "p", Pattern: ".*", ApplyTo: "queues", Definition: table("max-length", int32(5))},
		&entry.VhostLimit{Vhost: "/", MaxQueues: 7, Connections: 7})
	delayed := coretest.Record("later", "q", table("x-delay", int32(1000)), "scheduled")
	d.Batch(1, &entry.ExchangeDeclare{Ref: ref, Name: "later", Type: "x-delayed-message", Arguments: table("x-delayed-type", "direct")},
		&entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: "later", Destination: "q", Key: "q"}},
		&entry.Publish{Ref: ref, Record: delayed})
	s := d.Standby()
	s.Own(promotion)
	m := s.Machine
	if len(m.Users()) != 1 || m.Users()[0].Hash != "h" || len(m.Permissions()) != 1 || len(m.Policies("/")) != 1 || m.Vhosts()[0].MaxQueues != 7 {
		t.Errorf("users %+v, permissions %+v, policies %+v, vhosts %+v", m.Users(), m.Permissions(), m.Policies("/"), m.Vhosts())
	}
	if q := m.Queues("/")[0]; q.Ready != 0 || m.NextDeadline() == 0 {
		t.Fatalf("%d messages are ready, due is %d", q.Ready, m.NextDeadline())
	}
	s.Stamp = d.Stamp + 1000
	s.Own(&entry.Tick{})
	if q := m.Queues("/")[0]; q.Ready != 1 {
		t.Errorf("%d messages are ready after the delay", q.Ready)
	}
}
