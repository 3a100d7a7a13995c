package core_test

import (
	"slices"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

func confirmPolicy(name, pattern string, fields ...any) *entry.PolicySet {
	return &entry.PolicySet{Vhost: "/", Name: name, Pattern: pattern, ApplyTo: "vhost", Definition: table(fields...)}
}

func TestAVhostsConfirmsAreAPolicysWord(t *testing.T) {
	for _, c := range []struct {
		fields []any
		want   core.Confirm // zero for a policy that is refused
	}{
		{[]any{"link-confirm", "sync"}, core.Confirm{Vhost: "/", Mode: core.ConfirmSync, MaxLag: 5000, Degrade: -1}},
		{[]any{"link-confirm", "sync", "link-on-loss", "block"}, core.Confirm{Vhost: "/", Mode: core.ConfirmSync, MaxLag: 5000, Degrade: -1}},
		{[]any{"link-confirm", "bounded", "link-max-lag", "500ms", "link-on-loss", "degrade(10s)"},
			core.Confirm{Vhost: "/", Mode: core.ConfirmBounded, MaxLag: 500, Degrade: 10_000}},
		{[]any{"link-confirm", "bounded", "link-max-lag", int32(70), "link-on-loss", "degrade(2m)"},
			core.Confirm{Vhost: "/", Mode: core.ConfirmBounded, MaxLag: 70, Degrade: 120_000}},
		{[]any{"link-confirm", "always"}, core.Confirm{}},
		{[]any{"link-confirm", true}, core.Confirm{}},
		{[]any{"link-max-lag", "5"}, core.Confirm{}},
		{[]any{"link-max-lag", "-5s"}, core.Confirm{}},
		{[]any{"link-max-lag", ""}, core.Confirm{}},
		{[]any{"link-max-lag", "5h"}, core.Confirm{}},
		{[]any{"link-max-lag", int32(0)}, core.Confirm{}},
		{[]any{"link-on-loss", "degrade"}, core.Confirm{}},
		{[]any{"link-on-loss", "degrade(5s"}, core.Confirm{}},
		{[]any{"link-on-loss", "degrade()"}, core.Confirm{}},
		{[]any{"link-on-loss", "drop"}, core.Confirm{}},
	} {
		d := started(t)
		x := confirmPolicy("p", ".*", c.fields...)
		d.Control(x)
		got := d.Machine.Confirms()
		switch refused := c.want == (core.Confirm{}); {
		case refused && (core.CheckPolicy(x) == nil || len(got) > 0):
			t.Errorf("%v was taken: %+v", c.fields, got)
		case !refused && (len(got) != 1 || got[0] != c.want):
			t.Errorf("%v means %+v, want %+v", c.fields, got, c.want)
		}
	}
}

func TestAPolicyForConfirmsIsForVhostsThatItMatches(t *testing.T) {
	d := started(t)
	d.Control(confirmPolicy("other", "^x$", "link-confirm", "sync"))
	queues := confirmPolicy("queues", ".*", "link-confirm", "sync")
	queues.ApplyTo = "queues"
	if d.Control(queues); len(d.Machine.Confirms()) > 0 {
		t.Errorf("confirms %+v", d.Machine.Confirms())
	}
	d.Control(confirmPolicy("own", ".*", "link-confirm", "bounded", "link-max-lag", "1s"))
	operator := confirmPolicy("operator", ".*", "link-confirm", "sync")
	operator.Operator = true
	d.Control(operator)
	want := []core.Confirm{{Vhost: "/", Mode: core.ConfirmSync, MaxLag: 1000, Degrade: -1}}
	if got := d.Machine.Confirms(); !slices.Equal(got, want) {
		t.Errorf("confirms %+v, want %+v", got, want)
	}
	d.Control(&entry.PolicyDelete{Vhost: "/", Name: "operator", Operator: true}, &entry.PolicyDelete{Vhost: "/", Name: "own"})
	if got := d.Machine.Confirms(); len(got) > 0 {
		t.Errorf("confirms without policies %+v", got)
	}
}

// TestSettingThePolicyAgainNamesTheNextStandby: the gate belongs to the first that catches up after it was set.
func TestSettingThePolicyAgainNamesTheNextStandby(t *testing.T) {
	d := started(t)
	set := confirmPolicy("p", ".*", "link-confirm", "sync")
	d.Control(set)
	up := &entry.LinkGate{Cluster: coretest.SourceCluster, Standby: "first", State: entry.GateUp, Text: "it has caught up"}
	if fx := only(d.Control(up), core.EffectLink); len(fx) != 1 || fx[0].Text != up.Text {
		t.Errorf("effects of a gate's change: %+v", fx)
	}
	if l := d.Machine.Link(); l.Confirms != entry.GateUp || l.ConfirmsFor != "first" {
		t.Errorf("gate %+v", l)
	}
	other := confirmPolicy("unrelated", ".*", "message-ttl", int32(5))
	if d.Control(other); d.Machine.Link().Confirms != entry.GateUp {
		t.Error("another policy opened the gate")
	}
	if fx := only(d.Control(set), core.EffectLink); len(fx) == 0 || d.Machine.Link().Confirms != entry.GateOff {
		t.Errorf("after the policy was set again: %+v", d.Machine.Link())
	}
}

func TestAPromotedClusterDoesNotWaitForAStandbyThatItHasNot(t *testing.T) {
	d := started(t)
	s := d.Standby()
	d.Control(confirmPolicy("p", ".*", "link-confirm", "sync"))
	d.Control(&entry.LinkGate{Cluster: coretest.SourceCluster, Standby: "s", State: entry.GateUp})
	s.Own(&entry.LinkGate{Cluster: coretest.StandbyCluster, Standby: "s", State: entry.GateUp})
	if l := s.Machine.Link(); l.Confirms != entry.GateOff {
		t.Errorf("the standby carries its source's gate, or has one of its own: %+v", l)
	}
	s.Own(promotion)
	if l := s.Machine.Link(); l.Confirms != entry.GateOff || len(s.Machine.Confirms()) != 1 {
		t.Errorf("after the promotion: %+v, confirms %+v", l, s.Machine.Confirms())
	}
}
