package core_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// The rules of the architecture ("Rules that keep it correct") that concern the machine and are not told in testdata.

var ref = entry.Ref{Session: 1, Epoch: 1, Channel: 1}

// started makes a Driver with node 1, vhost / and session 1 with channel 1, which has declared queue q.
func started(t coretest.TB) *coretest.Driver {
	d := coretest.New(t)
	d.Control(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "v1", Name: "/"})
	d.Batch(1, &entry.Attach{Vhost: "/"})
	d.Batch(1, &entry.ChannelOpen{Ref: ref}, &entry.QueueDeclare{Ref: ref, Name: "q"})
	return d
}

func publish(body string) *entry.Publish {
	return &entry.Publish{Ref: ref, Record: coretest.Record("", "q", nil, body)}
}

func only(effects []core.Effect, kind core.EffectKind) []core.Effect {
	return slices.DeleteFunc(slices.Clone(effects), func(e core.Effect) bool { return e.Kind != kind })
}

func TestEntryOfAnUnknownVersionStops(t *testing.T) {
	d := started(t)
	data := coretest.Entry(1, entry.Batch{Commands: entry.Append(nil, &entry.Tick{})})
	data[0] = entry.Version + 1
	if err := d.Machine.Apply(9, data, &core.Effects{}); !errors.Is(err, entry.ErrUnknown) {
		t.Errorf("an entry of another version: %v, want ErrUnknown", err)
	}
	data = coretest.Entry(1, entry.Batch{Commands: []byte{250}})
	if err := d.Machine.Apply(9, data, &core.Effects{}); !errors.Is(err, entry.ErrUnknown) {
		t.Errorf("a command of an unknown kind: %v, want ErrUnknown", err)
	}
}

func TestDamagedEntryStops(t *testing.T) {
	whole := coretest.Entry(1, entry.Batch{Commands: entry.Append(nil, &entry.VhostCreate{ID: "v", Name: "/"})})
	for cut := 1; cut < len(whole); cut++ {
		err := core.New(1).Apply(1, whole[:cut], &core.Effects{})
		if cut != 9 && !errors.Is(err, entry.ErrMalformed) { // nine octets are an entry without batches
			t.Errorf("an entry cut to %d octets: %v, want ErrMalformed", cut, err)
		}
	}
}

func TestEmptyEntryChangesNothing(t *testing.T) {
	d := started(t)
	before := d.Machine.Fingerprint()
	if fx := d.Apply(nil); len(fx) > 0 || d.Machine.Fingerprint() != before {
		t.Errorf("raft's own entry had effects %v", fx)
	}
}

func TestTimeNeverGoesBack(t *testing.T) {
	d := started(t)
	d.Stamp = 5000
	d.Control(&entry.Tick{})
	d.Stamp = 4000
	d.Control(&entry.Tick{})
	if got := d.Machine.Stamp(); got != 5000 {
		t.Errorf("stamp is %d after 5000 and 4000", got)
	}
}

func TestNothingDerivesFromARaftIndex(t *testing.T) {
	d := started(t) // the driver's replica lives 1000 entries further on, and must agree
	d.Batch(1, publish("one"))
	d.Index += 12345
	d.Batch(1, publish("two"))
}

func TestControlBatchSpeaksForNoSession(t *testing.T) {
	d := started(t)
	var b []byte
	for _, cmd := range []entry.Command{&entry.Attach{Vhost: "/"}, publish("x")} {
		b = entry.Append(b, cmd)
	}
	if fx := d.Apply(coretest.Entry(1, entry.Batch{Node: 1, Commands: b})); len(fx) > 0 {
		t.Errorf("a control batch had effects %v", fx)
	}
	if q := d.Machine.Queues("/")[0]; q.Ready != 0 {
		t.Error("a control batch published")
	}
}

func TestRegistrationIsTold(t *testing.T) {
	d := started(t)
	incarnation, nonce, seq := d.Machine.Incarnation(1)
	if incarnation != 1 || nonce != 7 || seq != 2 {
		t.Errorf("node 1 is at incarnation %d, nonce %d, seq %d; want 1, 7, 2", incarnation, nonce, seq)
	}
	if i, n, s := d.Machine.Incarnation(9); i+n+s != 0 {
		t.Error("an unknown node has a registration")
	}
}

func TestClusterIDIsALocalFact(t *testing.T) {
	d := started(t)
	before := d.Machine.Fingerprint()
	d.Control(&entry.ClusterInit{ID: "first"})
	d.Control(&entry.ClusterInit{ID: "second"})
	if d.Machine.ClusterID() != "first" || d.Machine.Fingerprint() != before {
		t.Errorf("cluster id %q changed the fingerprint, or is not the first", d.Machine.ClusterID())
	}
	d.Restart()
	if d.Machine.ClusterID() != "first" {
		t.Error("the cluster id did not survive a restart")
	}
}

func TestEffectsAreGatheredForOneNode(t *testing.T) {
	d := started(t)
	d.Control(&entry.NodeUp{Node: 2, Nonce: 8})
	var fx core.Effects
	apply := func(node, want uint64, b entry.Batch) {
		fx = core.Effects{Node: node}
		if err := d.Machine.Apply(d.Index+1, coretest.Entry(1, b), &fx); err != nil {
			t.Fatal(err)
		}
		if uint64(len(fx.List)) != want {
			t.Errorf("node %d gathered %v, want %d effects", node, fx.List, want)
		}
	}
	_, _, seq := d.Machine.Incarnation(1)
	apply(1, 1, entry.Batch{Node: 1, Incarnation: 1, Seq: seq + 1, Commands: entry.Append(nil, &entry.ConfirmSelect{Ref: ref})})
	apply(2, 0, entry.Batch{Node: 1, Incarnation: 1, Seq: seq + 2,
		Commands: entry.Append(entry.Append(nil, publish("x")), &entry.Consume{Ref: ref, Queue: "q", Tag: "ct"})})
	apply(1, 2, entry.Batch{Node: 1, Incarnation: 1, Seq: seq + 3, Commands: entry.Append(nil, publish("x"))})
	apply(2, 0, entry.Batch{Node: 1, Incarnation: 1, Seq: seq + 4, Commands: entry.Append(nil, &entry.Attach{Vhost: "none"})})
}

func TestConfirmsOfSeveralEntriesBecomeOne(t *testing.T) {
	d := started(t)
	d.Batch(1, &entry.ConfirmSelect{Ref: ref})
	fx := core.Effects{}
	for range 3 {
		_, _, seq := d.Machine.Incarnation(1)
		commands := entry.Append(entry.Append(nil, publish("x")), publish("y"))
		data := coretest.Entry(1, entry.Batch{Node: 1, Incarnation: 1, Seq: seq + 1, Commands: commands})
		d.Index++
		if err := d.Machine.Apply(d.Index, data, &fx); err != nil {
			t.Fatal(err)
		}
	}
	if len(fx.List) != 1 || fx.List[0].Count != 6 {
		t.Errorf("effects %v, want one confirm of 6", fx.List)
	}
}

func TestPoliciesAreChecked(t *testing.T) {
	for _, x := range []entry.PolicySet{
		{Name: "", Pattern: "x", ApplyTo: "all"},
		{Name: "p", Pattern: "(", ApplyTo: "all"},
		{Name: "p", Pattern: strings.Repeat("x", 2000), ApplyTo: "all"},
		{Name: "p", Pattern: "x", ApplyTo: "some"},
		{Name: "p", Pattern: "x", ApplyTo: "all", Definition: []byte{9}},
		{Name: "p", Pattern: "x", ApplyTo: "all", Definition: table("max-length", int64(-1))},
		{Name: "p", Pattern: "x", ApplyTo: "all", Definition: table("dead-letter-exchange", int64(1))},
	} {
		if core.CheckPolicy(&x) == nil {
			t.Errorf("%+v passes", x)
		}
	}
	if err := core.CheckPolicy(&entry.PolicySet{Name: "p", Pattern: "^x", ApplyTo: "queues", Definition: table("max-length", int64(1), "ha-mode", "all")}); err != nil {
		t.Error(err)
	}
}

func TestC18_FailedDeliveriesOfAQuorumQueueAreShownAndLimited(t *testing.T) {
	d := started(t)
	d.Batch(1, &entry.QueueDeclare{Ref: ref, Name: "dlq"}, &entry.QueueDeclare{Ref: ref, Name: "quorum", Arguments: table("x-queue-type", "quorum",
		"x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dlq")})
	for _, queue := range []string{"quorum", "q"} {
		d.Batch(1, &entry.Publish{Ref: ref, Record: coretest.Record("", queue, nil, "x")})
		for n := range 30 {
			if n == 5 {
				d.Restart()
			}
			got := d.Batch(1, &entry.Get{Ref: ref, Queue: queue})[0]
			if queue == "quorum" && n == 21 { // 20 failures are allowed
				if got.Kind != core.EffectGetEmpty {
					t.Errorf("there after %d failures", n)
				}
				break
			}
			shown := 0
			if got.Extra != nil {
				shown = int(got.Extra.Failed)
			}
			if want := n; queue == "quorum" && shown != want || queue == "q" && shown != 0 {
				t.Fatalf("%s: delivery %d shows %d failures", queue, n+1, shown)
			}
			d.Batch(1, &entry.Settle{Ref: ref, First: got.Tag, Last: got.Tag, Outcome: entry.Modified})
		}
	}
	if got := d.Batch(1, &entry.Get{Ref: ref, Queue: "dlq"})[0]; got.Kind != core.EffectGot || got.Extra.Deaths[0].Reason != "delivery_limit" {
		t.Errorf("the queue of dead letters has %+v", got)
	}
}

// TestDeadLettersOfOneVhostAreNotTakenForACascadeInAnother: a node's sessions in two vhosts end in one command. Messages
// have numbers of their vhost, so what is new in one says nothing about the other.
func TestDeadLettersOfOneVhostAreNotTakenForACascadeInAnother(t *testing.T) {
	many := core.CascadeMost + 100
	d := coretest.New(t)
	d.Control(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "few", Name: "few"}, &entry.VhostCreate{ID: "many", Name: "many"})
	limited := message.AppendTable(nil, message.Table{{Key: "x-delivery-limit", Value: int32(0)},
		{Key: "x-dead-letter-exchange", Value: ""}, {Key: "x-dead-letter-routing-key", Value: "dead"}})
	for i, v := range []struct {
		name     string
		messages int
	}{{"few", 1}, {"many", many}} {
		ref := entry.Ref{Session: uint64(i + 1), Epoch: 1, Channel: 1}
		cmds := []entry.Command{&entry.Attach{Vhost: v.name, User: "u"}, &entry.ChannelOpen{Ref: ref},
			&entry.QueueDeclare{Ref: ref, Name: "dead"}, &entry.QueueDeclare{Ref: ref, Name: "q", Arguments: limited}}
		for c := range 10 { // each takes 2,000 at most
			cmds = append(cmds, &entry.Consume{Ref: ref, Queue: "q", Tag: fmt.Sprint(c)})
		}
		for range v.messages {
			cmds = append(cmds, &entry.Publish{Ref: ref, Record: coretest.Record("", "q", nil, "")})
		}
		d.Batch(1, cmds...)
	}
	d.Control(&entry.NodeDown{Node: 1, Incarnation: 1})
	dead, ok := d.Machine.Queue("many", "dead")
	if !ok || dead.Ready != many {
		t.Errorf("%d dead letters, want %d", dead.Ready, many)
	}
}
