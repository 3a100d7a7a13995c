package gate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session/gate"
)

// machine is a group of a node without a disk.
type machine struct{ *coretest.Driver }

func (m machine) Applied() (index, term uint64) { return m.Index, 1 }
func (m machine) View(f func(*core.Machine))    { f(m.Machine) }

const (
	dataGroup = 1
	standby   = "standby-1"
)

var ref = entry.Ref{Session: 1, Epoch: 1, Channel: 1}

// rig is a node with one data group, which it leads, and a client with a session in it.
type rig struct {
	t      *testing.T
	data   machine
	system machine
	gate   *gate.Gate
	told   []core.Effect // what clients heard
	now    time.Time
	leads  bool
	states []entry.GateState // that the gate was told to have
}

func newRig(t *testing.T, policy ...any) *rig {
	r := &rig{t: t, data: machine{coretest.New(t)}, system: machine{coretest.New(t)}, now: time.Unix(1_700_000_000, 0), leads: true}
	r.gate = gate.New(gate.Options{
		Groups: map[uint64]gate.Group{dataGroup: r.data}, System: r.system,
		Dispatch: func(_ uint64, fx *core.Effects) { r.told = append(r.told, fx.List...) },
		Leads:    func(uint64) bool { return r.leads },
		Propose: func(_ uint64, cmd entry.Command) error {
			r.apply(r.data.Control(cmd))
			return nil
		},
		Cluster: func() string { return "" },
		Now:     func() time.Time { return r.now },
		Changed: func(_ uint64, s entry.GateState, _, _ string) { r.states = append(r.states, s) },
	})
	r.apply(r.data.Control(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "v1", Name: "/"}))
	r.do(&entry.Attach{Vhost: "/"})
	r.do(&entry.ChannelOpen{Ref: ref}, &entry.QueueDeclare{Ref: ref, Name: "q"}, &entry.ConfirmSelect{Ref: ref})
	if len(policy) > 0 {
		r.policy(policy...)
	}
	return r
}

func (r *rig) apply(fx []core.Effect) {
	r.gate.Dispatch(dataGroup, &core.Effects{List: fx, Linked: len(only(fx, core.EffectLink)) > 0})
}

func only(fx []core.Effect, kind core.EffectKind) []core.Effect {
	return slices.DeleteFunc(slices.Clone(fx), func(e core.Effect) bool { return e.Kind != kind })
}

func (r *rig) do(cmds ...entry.Command) { r.apply(r.data.Batch(1, cmds...)) }

func (r *rig) publish() {
	r.do(&entry.Publish{Ref: ref, Record: coretest.Record("", "q", nil, "body")})
}

func (r *rig) policy(fields ...any) {
	var t message.Table
	for i := 0; i < len(fields); i += 2 {
		t = append(t, message.Field{Key: fields[i].(string), Value: fields[i+1]})
	}
	r.apply(r.data.Control(&entry.PolicySet{Vhost: "/", Name: "p", Pattern: ".*", ApplyTo: "vhost", Definition: message.AppendTable(nil, t)}))
}

// pass lets time pass, with looks at it.
func (r *rig) pass(d time.Duration) {
	for ; d > 0; d -= 100 * time.Millisecond {
		r.now = r.now.Add(100 * time.Millisecond)
		r.gate.Decide()
	}
}

// cover lets a standby have everything.
func (r *rig) cover(name string) {
	r.gate.Covered(name, 0, r.system.Index)
	r.gate.Covered(name, dataGroup, r.data.Index)
}

// hear is what clients have heard since the last call, kinds only.
func (r *rig) hear() []core.EffectKind {
	var kinds []core.EffectKind
	for _, e := range r.told {
		if e.Session != 0 {
			kinds = append(kinds, e.Kind)
		}
	}
	r.told = nil
	return kinds
}

func (r *rig) wantHeard(what string, want ...core.EffectKind) {
	r.t.Helper()
	if got := r.hear(); !slices.Equal(got, want) {
		r.t.Errorf("%s: clients heard %v, want %v", what, got, want)
	}
}

func (r *rig) state() entry.GateState { return r.data.Machine.Link().Confirms }

// up brings the gate up for the standby.
func (r *rig) up() {
	r.t.Helper()
	r.cover(standby)
	r.pass(100 * time.Millisecond)
	r.cover(standby)
	if r.state() != entry.GateUp {
		r.t.Fatalf("the gate is %d", r.state())
	}
	r.hear()
}

func TestNothingWaitsWithoutAPolicyOrWithoutAStandby(t *testing.T) {
	r := newRig(t)
	r.hear()
	r.publish()
	r.wantHeard("without a policy", core.EffectConfirmed)
	r.policy("link-confirm", "sync")
	r.publish()
	r.pass(time.Minute)
	r.wantHeard("without a standby that ever caught up", core.EffectConfirmed)
	if r.state() != entry.GateOff {
		t.Errorf("the gate is %d", r.state())
	}
}

// Setting a policy again, be it by a command that was sent twice, has the gate named anew, and at the next look.
func TestAGateThatAPolicySetAgainHasClosedIsTakenUpAtTheNextLook(t *testing.T) {
	r := newRig(t, "link-confirm", "sync")
	r.up()
	r.policy("link-confirm", "sync")
	if r.state() != entry.GateOff {
		t.Fatalf("the gate is %d after the policy was set again", r.state())
	}
	r.cover(standby)
	r.pass(100 * time.Millisecond)
	if r.state() != entry.GateUp {
		t.Errorf("the gate is %d at the next look", r.state())
	}
}

func TestASyncConfirmWaitsForTheStandby(t *testing.T) {
	r := newRig(t, "link-confirm", "sync")
	r.up()
	r.publish()
	r.publish()
	r.wantHeard("before the standby has it")
	r.gate.Covered(standby, dataGroup, r.data.Index-1)
	r.wantHeard("it has the first", core.EffectConfirmed)
	r.gate.Covered("another", dataGroup, r.data.Index)
	r.wantHeard("another standby has the second")
	r.gate.Covered(standby, dataGroup, r.data.Index)
	r.wantHeard("it has the second", core.EffectConfirmed)
}

func TestASyncConfirmWaitsForWhatTheSystemGroupHadApplied(t *testing.T) {
	r := newRig(t, "link-confirm", "sync")
	r.up()
	r.system.Control(&entry.UserPut{Name: "new"})
	r.publish()
	r.gate.Covered(standby, dataGroup, r.data.Index)
	r.wantHeard("the standby does not know the user yet")
	r.gate.Covered(standby, 0, r.system.Index)
	r.wantHeard("it does", core.EffectConfirmed)
}

func TestEveryPromiseWaitsAndTheOrderOfAChannelStays(t *testing.T) {
	r := newRig(t, "link-confirm", "sync")
	r.up()
	other := ref
	other.Channel = 2
	r.do(&entry.QueueDeclare{Ref: ref, Name: "x"})
	r.do(&entry.Consume{Ref: ref, Queue: "q", Tag: "c"}) // a delivery must not come before its consume-ok
	r.publish()
	r.wantHeard("the standby has nothing")
	r.cover(standby)
	r.wantHeard("the standby has all", core.EffectReply, core.EffectReply, core.EffectConfirmed, core.EffectDelivered)
	r.do(&entry.ChannelOpen{Ref: other})
	r.do(&entry.Publish{Ref: other, Record: coretest.Record("", "q", nil, "body")})
	r.wantHeard("a channel that waits for nothing", core.EffectReply, core.EffectDelivered)
}

func TestAVhostThatDoesNotWaitIsNotHeldUp(t *testing.T) {
	r := newRig(t)
	r.apply(r.data.Control(&entry.VhostCreate{ID: "v2", Name: "plain"}, &entry.PolicySet{Vhost: "/", Name: "p", Pattern: "^/$", ApplyTo: "vhost",
		Definition: message.AppendTable(nil, message.Table{{Key: "link-confirm", Value: "sync"}})}))
	r.up()
	r.do(&entry.Attach{Vhost: "plain"})
	r.hear()
	plain := entry.Ref{Session: 2, Epoch: 1, Channel: 1}
	r.publish()
	r.do(&entry.ChannelOpen{Ref: plain})
	r.wantHeard("the other vhost", core.EffectReply)
}

func TestAnAbsentStandbyBlocksOrDegradesAsThePolicySays(t *testing.T) {
	r := newRig(t, "link-confirm", "sync", "link-on-loss", "block")
	r.up()
	r.publish()
	if r.pass(10 * time.Minute); r.state() != entry.GateUp {
		t.Errorf("the gate is %d", r.state())
	}
	r.wantHeard("a policy that blocks")

	r = newRig(t, "link-confirm", "sync", "link-on-loss", "degrade(10s)")
	r.up()
	r.publish()
	r.pass(10 * time.Second)
	r.wantHeard("before the time is up")
	if r.pass(time.Second); r.state() != entry.GateDegraded {
		t.Fatalf("the gate is %d", r.state())
	}
	r.wantHeard("degraded", core.EffectConfirmed)
	r.publish()
	r.wantHeard("while degraded", core.EffectConfirmed)
	if why := r.data.Machine.Link().ConfirmsWhy; !strings.Contains(why, "10s") {
		t.Errorf("the reason is %q", why)
	}
	r.cover(standby)
	if r.pass(100 * time.Millisecond); r.state() != entry.GateUp {
		t.Errorf("the standby is back, and the gate is %d", r.state())
	}
	r.publish()
	r.wantHeard("with the standby back")
	if want := []entry.GateState{entry.GateUp, entry.GateDegraded, entry.GateUp}; !slices.Equal(r.states, want) {
		t.Errorf("changes told of: %v, want %v", r.states, want)
	}
}

func TestAStandbyThatIsIdleIsNotAbsent(t *testing.T) {
	r := newRig(t, "link-confirm", "sync", "link-on-loss", "degrade(10s)")
	r.up()
	if r.pass(time.Hour); r.state() != entry.GateUp {
		t.Errorf("nothing was to be replicated, and the gate is %d", r.state())
	}
}

func TestBoundedHoldsConfirmsOnlyWhileTheStandbyIsTooFarBehind(t *testing.T) {
	r := newRig(t, "link-confirm", "bounded", "link-max-lag", "2s")
	r.up()
	r.publish()
	r.wantHeard("bounded", core.EffectConfirmed)
	r.pass(2 * time.Second)
	if s := r.gate.Slow(); len(s) > 0 {
		t.Errorf("slowed early: %v", s)
	}
	r.pass(300 * time.Millisecond)
	if s := r.gate.Slow(); len(s) != 1 || !strings.Contains(s["/"], "2s") {
		t.Errorf("slowed: %v", s)
	}
	r.publish()
	r.wantHeard("too far behind")
	r.gate.Covered(standby, dataGroup, r.data.Index-1)
	r.pass(100 * time.Millisecond)
	r.wantHeard("near enough again", core.EffectConfirmed)
	r.cover(standby)
	if s := r.gate.Slow(); len(s) > 0 {
		t.Errorf("slowed with a standby that has caught up: %v", s)
	}
}

// A link that takes about as long as the bound: whoever is let go at once is stopped again at once.
func TestPublishersAreNotStoppedAndLetGoAtEveryLookAboutTheBound(t *testing.T) {
	const bound, look = time.Second, 100 * time.Millisecond
	for _, takes := range []time.Duration{bound - look, bound, bound + look, bound + 3*look, 2 * bound} {
		r := newRig(t, "link-confirm", "bounded", "link-max-lag", "1s")
		r.up()
		var applied []uint64 // at each look
		slow, changes, published := false, 0, 0
		for range int(time.Minute / look) {
			if !slow {
				r.publish()
				published++
			}
			applied = append(applied, r.data.Index)
			if back := len(applied) - 1 - int(takes/look); back >= 0 {
				r.gate.Covered(standby, dataGroup, applied[back])
			}
			r.pass(look)
			if was := slow; was != (len(r.gate.Slow()) > 0) {
				slow = !was
				changes++
			}
		}
		t.Logf("a link that takes %v: publishers were stopped or let go %d times in a minute, %d messages", takes, changes, published)
		if most := 2*int(time.Minute/bound) + 1; changes > most {
			t.Errorf("a link that takes %v: publishers were stopped or let go %d times in a minute, want no more than %d", takes, changes, most)
		}
	}
}

func TestReadingWaitsForNoStandby(t *testing.T) {
	for _, mode := range []string{"sync", "bounded"} {
		r := newRig(t, "link-confirm", mode)
		r.up()
		r.publish()
		r.pass(time.Minute)
		r.hear()
		other := entry.Ref{Session: 1, Epoch: 1, Channel: 2}
		r.do(&entry.ChannelOpen{Ref: other}, &entry.Consume{Ref: other, Queue: "q", Tag: "t"})
		r.wantHeard(mode, core.EffectReply, core.EffectReply, core.EffectDelivered)
		r.do(&entry.QueueDeclare{Ref: other, Name: "another"}, &entry.Qos{Ref: other})
		r.wantHeard(mode + ": a declaration, and what follows it")
	}
}

func TestThePolicysEndLetsGoOfWhatWaits(t *testing.T) {
	r := newRig(t, "link-confirm", "sync")
	r.up()
	r.publish()
	r.apply(r.data.Control(&entry.PolicyDelete{Vhost: "/", Name: "p"}))
	r.wantHeard("without the policy", core.EffectConfirmed)
	r.publish()
	r.wantHeard("later", core.EffectConfirmed)
	if r.gate.Wants(dataGroup) || r.gate.Wants(0) {
		t.Error("positions are still wanted at once")
	}
}

func TestOnlyTheLeaderDecides(t *testing.T) {
	r := newRig(t, "link-confirm", "sync")
	r.leads = false
	r.cover(standby)
	if r.pass(time.Second); r.state() != entry.GateOff {
		t.Errorf("the gate is %d", r.state())
	}
}

func TestWhatWaitsForLongIsMerged(t *testing.T) {
	r := newRig(t, "link-confirm", "sync")
	r.up()
	r.data.Index++ // an entry that the standby has not
	const n = 10_000
	for range n {
		r.gate.Dispatch(dataGroup, &core.Effects{List: []core.Effect{{Kind: core.EffectConfirmed, Session: 1, Epoch: 1, Channel: 1, Count: 1}}})
	}
	if got := r.gate.Held(dataGroup); got > 5000 {
		t.Errorf("%d effects wait", got)
	}
	r.cover(standby)
	sum := uint32(0)
	for _, e := range r.told {
		sum += e.Count
	}
	if sum != n {
		t.Errorf("%d of %d publishes are confirmed", sum, n)
	}
}

func TestTheEndOfAnAttachmentDoesNotWait(t *testing.T) {
	r := newRig(t, "link-confirm", "sync")
	r.up()
	r.publish()
	r.apply(r.data.Control(&entry.NodeUp{Node: 1, Nonce: 8}))
	if kinds := fmt.Sprint(r.hear()); kinds != fmt.Sprint([]core.EffectKind{core.EffectDetached}) {
		t.Errorf("heard %v", kinds)
	}
}

func TestANodeThatIsBehindTheStandbyHoldsNothingBack(t *testing.T) {
	r := newRig(t, "link-confirm", "sync")
	r.up()
	r.gate.Covered(standby, dataGroup, r.data.Index+1)
	r.publish()
	r.wantHeard("an entry that the standby has already", core.EffectConfirmed)
}

func TestASnapshotThatIsInstalledChangesTheGateToo(t *testing.T) {
	r := newRig(t)
	r.data.Control(&entry.PolicySet{Vhost: "/", Name: "p", Pattern: ".*", ApplyTo: "vhost",
		Definition: message.AppendTable(nil, message.Table{{Key: "link-confirm", Value: "sync"}})},
		&entry.LinkGate{Standby: standby, State: entry.GateUp}) // its effects were never dispatched here
	r.hear()
	r.publish()
	r.wantHeard("before the look", core.EffectConfirmed)
	r.gate.Refresh(dataGroup)
	r.publish()
	r.wantHeard("after it")
}
