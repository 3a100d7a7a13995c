package core_test

import (
	"fmt"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

const letters = 5_000

// withLetters makes a vhost with a queue of dead letters, each with a time to live and so a note, and one beside it.
func withLetters(t *testing.T) *coretest.Driver {
	t.Helper()
	d := coretest.New(t)
	d.Control(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "v1", Name: "/"}, &entry.VhostCreate{ID: "v2", Name: "other"})
	d.Batch(1, &entry.Attach{Vhost: "/"}, &entry.ChannelOpen{Ref: ref},
		&entry.QueueDeclare{Ref: ref, Name: "dead", Arguments: table("x-message-ttl", int64(1<<30))},
		&entry.QueueDeclare{Ref: ref, Name: "full", Arguments: table("x-max-length", int32(0), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")})
	publishMany(d, "full", letters)
	return d
}

func publishMany(d *coretest.Driver, queue string, n int) {
	var cmds []entry.Command
	for range n {
		cmds = append(cmds, &entry.Publish{Ref: ref, Record: coretest.Record("", queue, nil, "x")})
	}
	d.Batch(1, cmds...)
}

// drained ticks until nothing is left to do. Each entry lets go of a bounded part, restarts in between change nothing, and
// the driver compares with a replica that had none.
func drained(t *testing.T, d *coretest.Driver, from int) {
	t.Helper()
	for ticks, left := 0, from; d.Machine.NextDeadline() == 1; ticks++ {
		d.Restart()
		d.Control(&entry.Tick{})
		now := d.Live()
		if left-now > 2000 || ticks > from/1000+3 {
			t.Fatalf("tick %d let go of %d messages", ticks, left-now)
		}
		left = now
	}
}

func ready(d *coretest.Driver, name string) int {
	for _, q := range d.Machine.Queues("/") {
		if q.Name == name {
			return q.Ready
		}
	}
	return -1
}

func TestAPurgedQueueIsEmptyAtOnceAndLetsGoInPieces(t *testing.T) {
	d := withLetters(t)
	d.Restart() // the chunks are stored
	fx := d.Batch(1, &entry.QueuePurge{Ref: ref, Name: "dead"})
	if len(fx) != 1 || fx[0].Messages != letters || ready(d, "dead") != 0 {
		t.Errorf("answered %+v, %d are left", fx, ready(d, "dead"))
	}
	if live := d.Live(); live != letters {
		t.Errorf("the entry itself let go of %d messages", letters-live)
	}
	publishMany(d, "full", 3)
	d.Batch(1, &entry.Get{Ref: ref, Queue: "dead"})
	d.Batch(1, &entry.Settle{Ref: ref, Outcome: entry.Released, First: 1, Last: 1})
	drained(t, d, letters)
	if live := d.Live(); live != 3 || ready(d, "dead") != 3 {
		t.Errorf("%d messages live, %d ready, want the 3 that came after the purge", live, ready(d, "dead"))
	}
	d.Batch(1, &entry.QueuePurge{Ref: ref, Name: "dead"})
	if live := d.Live(); live != 0 {
		t.Errorf("%d messages live", live)
	}
}

func TestADeletedQueueIsGoneAtOnceAndLetsGoInPieces(t *testing.T) {
	d := withLetters(t)
	d.Checkpoint()
	before := d.Rows()
	d.Batch(1, &entry.QueuePurge{Ref: ref, Name: "dead"})
	publishMany(d, "full", letters)
	fx := d.Batch(1, &entry.QueueDelete{Ref: ref, Name: "dead"}, &entry.QueueDelete{Ref: ref, Name: "full"})
	if len(fx) != 2 || fx[0].Messages != letters || ready(d, "dead") != -1 {
		t.Errorf("answered %+v", fx)
	}
	d.Batch(1, &entry.QueueDeclare{Ref: ref, Name: "dead"}) // another one of that name
	drained(t, d, 2*letters)
	d.Checkpoint()
	if live := d.Live(); live != 0 || ready(d, "dead") != 0 || d.Rows() > before-letters {
		t.Errorf("%d messages live, %d rows of %d are left", live, d.Rows(), before)
	}
}

func TestADeletedVhostGoesInPiecesAndLeavesNothing(t *testing.T) {
	d := withLetters(t)
	for i := range 40 {
		name := fmt.Sprint("many", i)
		d.Batch(1, &entry.QueueDeclare{Ref: ref, Name: name, NoWait: true})
		publishMany(d, name, 500)
	}
	d.Control(&entry.VhostDelete{ID: "v1"})
	if _, ok := d.Machine.HeldVhost("v1"); ok || d.Machine.Queues("/") != nil {
		t.Error("it can still be found")
	}
	drained(t, d, letters+40*500)
	d.Control(&entry.VhostDelete{ID: "v2"})
	drained(t, d, 0)
	if d.Checkpoint(); d.Live() != 0 || d.Rows() > 4 { // header, local facts and the node
		t.Errorf("%d references and %d rows are left", d.Live(), d.Rows())
	}
}

// A batch may delete many queues: together they let go of no more than one entry may.
func TestManyDeletionsInOneEntryShareItsBudget(t *testing.T) {
	d := started(t)
	var cmds []entry.Command
	for i := range 10 {
		name := fmt.Sprint("many", i)
		d.Batch(1, &entry.QueueDeclare{Ref: ref, Name: name})
		publishMany(d, name, 900)
		cmds = append(cmds, &entry.QueueDelete{Ref: ref, Name: name, NoWait: true})
	}
	before := d.Live()
	d.Batch(1, cmds...)
	left := d.Live()
	if gone := before - left; gone == 0 || gone > 2000 {
		t.Errorf("the entry let go of %d messages", gone)
	}
	drained(t, d, left)
}

// The driver compares with a replica that was never loaded from rows, and so has had other lists.
func TestReplicasAgreeOnWhatOfADeletedVhostAnEntryLetsGoOf(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(d *coretest.Driver, name string) entry.Command
	}{
		{"exchanges", func(_ *coretest.Driver, name string) entry.Command {
			return &entry.ExchangeDeclare{Ref: ref, Name: name, Type: "direct"}
		}},
		{"exchanges that go with others", func(d *coretest.Driver, name string) entry.Command {
			for _, n := range []string{"zzzz", name} {
				d.Batch(1, &entry.ExchangeDeclare{Ref: ref, Name: n, Type: "direct", AutoDelete: true})
			}
			return &entry.ExchangeBind{Binding: entry.Binding{Ref: ref, Source: name, Destination: "zzzz"}}
		}},
		{"messages that wait", func(d *coretest.Driver, name string) entry.Command {
			return &entry.Publish{Ref: ref, Record: coretest.Record("later", name, table("x-delay", int32(10*len(name))), "x")}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := coretest.NewOf(t, core.NewFrugal)
			d.Audit = core.Audit
			d.Control(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "v1", Name: "/"})
			d.Batch(1, &entry.Attach{Vhost: "/"}, &entry.ChannelOpen{Ref: ref},
				&entry.ExchangeDeclare{Ref: ref, Name: "later", Type: "x-delayed-message", Arguments: table("x-delayed-type", "direct")})
			for _, name := range []string{"first", "zzzz", "yyyy", "xxxxxxxx", "a", "bb", "ccccccccc"} {
				d.Batch(1, c.make(d, name))
			}
			d.Batch(1, &entry.ExchangeDelete{Ref: ref, Name: "first"}) // the last one gets its place
			d.Stamp += 15                                              // as one that is due leaves it
			d.Control(&entry.Tick{})
			d.Control(&entry.VhostDelete{ID: "v1"})
			ticks := 0
			for ; d.Machine.NextDeadline() == 1; ticks++ {
				d.Restart()
				d.Stamp += 10
				d.Control(&entry.Tick{})
			}
			if ticks < 3 {
				t.Errorf("it took %d entries to take the vhost apart", ticks)
			}
		})
	}
}
