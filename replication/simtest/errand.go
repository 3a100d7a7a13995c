package simtest

import (
	"iter"
	"slices"

	"github.com/understudy-mq/understudy/replication"
)

// errand is what a node does beside its groups: on a goroutine of its own, of which only one moves at a time, a step each.
type errand struct {
	node  *simNode
	at    *replication.Manual // the process whose errand it is
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool // ends the errand's step; false if its process is no more
	freed bool                // whoever waits for it waits no more: it moves even if its process is stopped
}

// errand takes up something that n does from the next step on.
func (n *simNode) errand(do func()) {
	e := &errand{node: n, at: n.node}
	e.next, e.stop = iter.Pull(func(yield func(struct{}) bool) {
		e.yield = yield
		do()
	})
	n.sim.net.errands = append(n.sim.net.errands, e)
}

// runErrands lets every errand take a step.
func (n *network) runErrands() {
	for _, e := range slices.Clone(n.errands) {
		more := e.node.node == e.at
		if !more {
			e.stop()
		} else if e.node.speed > 0 || e.freed {
			n.running = e
			_, more = e.next()
		}
		if !more {
			n.errands = slices.DeleteFunc(n.errands, func(x *errand) bool { return x == e })
		}
	}
}
