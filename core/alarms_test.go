package core_test

import (
	"testing"

	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

func TestANodesAlarmsEndWithItsIncarnation(t *testing.T) {
	d := coretest.New(t)
	alarms := func() uint8 { return d.Machine.Nodes()[0].Alarms }
	set := func(incarnation uint64, alarms uint8) {
		d.Control(&entry.NodeAlarm{Node: 1, Incarnation: incarnation, Alarms: alarms})
	}
	d.Control(&entry.NodeAlarm{Node: 7, Incarnation: 1, Alarms: 1}) // nobody
	d.Control(&entry.NodeUp{Node: 1, Nonce: 11})
	set(1, 2)
	if alarms() != 2 {
		t.Fatalf("alarms %b, want 10", alarms())
	}
	d.Control(&entry.NodeUp{Node: 1, Nonce: 11}) // the same run
	if alarms() != 2 {
		t.Errorf("after a repeated registration: %b, want 10", alarms())
	}
	d.Control(&entry.NodeUp{Node: 1, Nonce: 12})
	if alarms() != 0 {
		t.Errorf("after a restart: %b, want none", alarms())
	}
	set(1, 1)
	if alarms() != 0 {
		t.Errorf("after a late word of the run before: %b, want none", alarms())
	}
	set(2, 1)
	d.Control(&entry.NodeDown{Node: 1, Incarnation: 2})
	set(2, 1)
	if alarms() != 0 {
		t.Errorf("of a node that is down: %b, want none", alarms())
	}
}
