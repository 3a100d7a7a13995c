package core_test

import (
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

// Drains, fences and the cancel of a switch are proposed by several nodes: the order in which they come is the log's.
func TestWhatComesLateOfASwitchThatWasTakenBackDoesNothing(t *testing.T) {
	drain := &entry.LinkDrain{Cluster: coretest.SourceCluster, Switch: "a", Millis: 60_000}
	fence, cancel := &entry.LinkFence{Cluster: coretest.SourceCluster, Switch: "a"}, &entry.LinkFenceCancel{Cluster: coretest.SourceCluster, Switch: "a"}
	for what, order := range map[string][]entry.Command{
		"the cancel comes first":         {cancel, drain, fence},
		"the fence comes behind it":      {drain, cancel, fence},
		"the fence comes again":          {drain, fence, cancel, fence},
		"the drain comes again, and all": {drain, fence, cancel, drain, fence, cancel},
	} {
		d := started(t)
		d.Control(order...)
		if g := d.Machine.Link().Gate; g.Holds() {
			t.Errorf("%s: the gate is %+v", what, g)
		}
		d.Control(&entry.LinkFence{Cluster: coretest.SourceCluster, Switch: "b"})
		if g := d.Machine.Link().Gate; !g.Fenced || g.Switch != "b" {
			t.Errorf("%s, and then another switch: the gate is %+v", what, g)
		}
		d.Control(&entry.LinkFenceCancel{Cluster: coretest.SourceCluster, Switch: "b"})
		if g := d.Machine.Link().Gate; g.Holds() || g != (core.Gate{Cancelled: "b"}) {
			t.Errorf("%s, and then another switch that is taken back: the gate is %+v", what, g)
		}
	}
}
