package core_test

import (
	"strconv"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// narrow makes a Driver of a machine with very low bounds, with an open channel and a queue.
func narrow(t *testing.T, arguments ...any) *coretest.Driver {
	d := coretest.NewOf(t, core.NewNarrow)
	d.Audit = core.Audit
	d.Control(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "v1", Name: "/"})
	d.Batch(1, &entry.Attach{Vhost: "/"}, &entry.ChannelOpen{Ref: ref}, &entry.QueueDeclare{Ref: ref, Name: "q", Arguments: table(arguments...)})
	return d
}

func mortalPublish(millis int) *entry.Publish {
	p := message.Properties{Set: message.PropExpiration, Expiration: strconv.Itoa(millis)}
	return &entry.Publish{Ref: ref, Record: coretest.RecordWith(&p, "", "q", "x")}
}

// An entry drops so many expired messages and no more, here 3. Who has to wait for that is served as soon as the others are gone, whoever sees
// to it.
func TestAConsumerIsServedWhatStandsBehindManyExpiredMessages(t *testing.T) {
	for name, c := range map[string]struct {
		expired int
		control bool
		cmd     entry.Command
	}{
		"a tick":            {5, true, &entry.Tick{}},
		"a get":             {5, false, &entry.Get{Ref: ref, Queue: "q"}},
		"a declare":         {5, false, &entry.QueueDeclare{Ref: ref, Name: "q"}},
		"a passive declare": {5, false, &entry.QueueDeclare{Ref: ref, Name: "q", Passive: true}},
		"a limit":           {8, true, &entry.PolicySet{Vhost: "/", Name: "p", Pattern: "q", ApplyTo: "queues", Definition: table("max-length", int32(2))}},
	} {
		t.Run(name, func(t *testing.T) {
			d := narrow(t)
			for range c.expired {
				d.Batch(1, mortalPublish(10))
			}
			d.Batch(1, publish("lives"), publish("lives too"))
			d.Stamp += 10
			fx := d.Batch(1, &entry.Consume{Ref: ref, Queue: "q", Tag: "ct"})
			if c.control {
				fx = append(fx, d.Control(c.cmd)...)
			} else {
				fx = append(fx, d.Batch(1, c.cmd)...)
			}
			for d.Machine.NextDeadline() != 0 && d.Machine.NextDeadline() <= d.Stamp {
				fx = append(fx, d.Control(&entry.Tick{})...)
			}
			if n := delivered(fx) + len(only(fx, core.EffectGot)); n != 2 {
				t.Errorf("%d messages are given out, want the 2 that live", n)
			}
		})
	}
}

// What passes a fence is a command as any other: what it may do does not depend on the commands before, which a machine that was loaded meanwhile
// has not seen.
func TestWhatPassesAFenceDoesTheSameOnAMachineThatWasLoaded(t *testing.T) {
	d := narrow(t)
	for range 9 {
		d.Batch(1, publish("x"))
	}
	// 8 messages are too many, and an entry drops 2 of those that were there before it.
	d.Control(&entry.PolicySet{Vhost: "/", Name: "p", Pattern: "q", ApplyTo: "queues", Definition: table("max-length", int32(1))},
		&entry.LinkFence{Cluster: coretest.SourceCluster, Switch: "s"})
	d.Restart()
	d.Control(&entry.LinkFenceCancel{Cluster: coretest.SourceCluster, Switch: "s"})
	if n := ready(d, "q"); n != 5 {
		t.Errorf("%d messages are left, want 5", n)
	}
}
