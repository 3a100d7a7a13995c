package core_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// seeds are commands of each kind, for a session that exists.
func seeds() []entry.Command {
	binding := entry.Binding{Ref: ref, Source: "amq.topic", Destination: "q", Key: "a.#"}
	return []entry.Command{
		publish("x"), publish("y"), &entry.Fragment{Ref: ref, Piece: []byte("piece")},
		&entry.Publish{Ref: ref, Fragmented: true, Mandatory: true, Record: coretest.Record("amq.topic", "a.b", nil, "z")},
		&entry.QueueBind{Binding: binding}, &entry.QueueUnbind{Binding: binding},
		&entry.Consume{Ref: ref, Queue: "q", Tag: "ct"}, &entry.Get{Ref: ref, Queue: "q"}, &entry.Cancel{Ref: ref, Tag: "ct"},
		&entry.Settle{Ref: ref, First: 1, Last: 2, Outcome: entry.Modified}, &entry.Settle{Ref: ref, Multiple: true},
		&entry.Written{Ref: ref, Tag: 3}, &entry.Recover{Ref: ref, Requeue: true}, &entry.Qos{Ref: ref, Prefetch: 3, Global: true},
		&entry.ConfirmSelect{Ref: ref}, &entry.ExchangeDeclare{Ref: ref, Name: "x", Type: "fanout", AutoDelete: true},
		&entry.ExchangeDelete{Ref: ref, Name: "x"}, &entry.QueueDeclare{Ref: ref, Name: "q2", Exclusive: true},
		&entry.QueueDelete{Ref: ref, Name: "q"}, &entry.QueuePurge{Ref: ref, Name: "q"}, &entry.ChannelClose{Ref: ref},
		&entry.Attach{Vhost: "/"}, &entry.Detach{Ref: ref}, &entry.NodeDown{Node: 1, Incarnation: 1}, &entry.NodeAlarm{Node: 1, Incarnation: 1, Alarms: 1},
		&entry.QueueDeclare{Ref: ref, Name: "l", Arguments: table("x-message-ttl", int32(1), "x-max-length", int32(1), "x-max-priority", int32(3),
			"x-dead-letter-exchange", "amq.topic", "x-delivery-limit", int32(1), "x-single-active-consumer", true, "x-expires", int32(9))},
		&entry.Publish{Ref: ref, Record: coretest.Record("amq.topic", "a.b", table("CC", []any{"l"}), "z")},
		&entry.ExchangeDeclare{Ref: ref, Name: "d", Type: "x-delayed-message", Arguments: table("x-delayed-type", "x-consistent-hash", "alternate-exchange", "x")},
		&entry.Publish{Ref: ref, Record: coretest.Record("d", "k", table("x-delay", int32(1)), "z")},
		&entry.TxSelect{Ref: ref}, &entry.TxCommit{Ref: ref}, &entry.TxRollback{Ref: ref}, &entry.Tick{},
		&entry.PolicySet{Vhost: "/", Name: "p", Pattern: "q", ApplyTo: "all", Definition: table("max-length", int64(0))},
		&entry.PolicyDelete{Vhost: "/", Name: "p"}, &entry.VhostLimit{Vhost: "/", MaxQueues: 1}, &entry.VhostDelete{ID: "v"},
	}
}

// lifeOfASession is the commands of a named session, which is session 2, on two attachments.
func lifeOfASession() []entry.Command {
	attach := &entry.Attach{Vhost: "/", Key: "k", Process: "p", Expiry: 1, KeepInFlight: true, KeepOnClose: true, Address: "a"}
	var all []entry.Command
	for epoch := range uint64(2) {
		ref := entry.Ref{Session: 2, Epoch: epoch + 1, Channel: 1}
		all = append(all, attach, &entry.ChannelOpen{Ref: ref}, &entry.Qos{Ref: ref, Prefetch: 2},
			&entry.QueueDeclare{Ref: ref, Name: "amq.gen-1", Exclusive: true, Generated: true},
			&entry.Publish{Ref: ref, DedupID: []byte("id"), Record: coretest.Record("", "q", nil, "z")},
			&entry.Publish{Ref: ref, Publisher: []byte("p"), Sequence: 9, Record: coretest.Record("", "q", nil, "z")},
			&entry.Consume{Ref: ref, Queue: "q", Tag: "ct"}, &entry.Get{Ref: ref, Queue: "q"}, &entry.Recover{Ref: ref},
			&entry.Settle{Ref: ref, Multiple: true, Last: 1}, &entry.SessionStatus{Ref: ref}, &entry.Answered{Ref: ref})
	}
	return append(all, &entry.Attach{Vhost: "/", Key: "k", Process: "q", Expiry: 1}, &entry.SessionClose{Session: 9})
}

// FuzzArguments: whatever arguments a queue, an exchange, a consumer or a policy has, it is refused or survives a restart.
func FuzzArguments(f *testing.F) {
	f.Add(table("x-message-ttl", int32(1), "x-max-priority", int8(3), "alternate-exchange", "x", "max-length", int64(2), "x-priority", int32(1)), "^q")
	f.Add([]byte{1, 'x', 'S'}, "(")
	f.Fuzz(func(t *testing.T, arguments []byte, pattern string) {
		d := started(t)
		d.Control(&entry.PolicySet{Vhost: "/", Name: "p", Pattern: pattern, ApplyTo: "all", Definition: arguments})
		for _, cmd := range []entry.Command{&entry.QueueDeclare{Ref: ref, Name: "f", Arguments: arguments}, &entry.QueueDeclare{Ref: ref, Name: "f", Arguments: arguments},
			&entry.ExchangeDeclare{Ref: ref, Name: "f", Type: "x-consistent-hash", Arguments: arguments}, &entry.Consume{Ref: ref, Queue: "f", Tag: "ct", Arguments: arguments}} {
			d.Batch(1, &entry.ChannelClose{Ref: ref}, &entry.ChannelOpen{Ref: ref}, cmd) // the one before may have failed it
		}
		d.Batch(1, &entry.Publish{Ref: ref, Record: coretest.Record("", "f", nil, "x")})
		d.Restart()
		d.Control(&entry.Tick{})
	})
}

// FuzzApply: whatever commands come, the machine does not panic, keeps its fingerprint up and survives a restart from rows.
func FuzzApply(f *testing.F) {
	var all []byte
	for _, cmd := range seeds() {
		all = entry.Append(all, cmd)
		f.Add(entry.Append(nil, cmd))
		f.Add(slices.Clone(all))
	}
	all = nil
	for _, cmd := range lifeOfASession() {
		all = entry.Append(all, cmd)
		f.Add(slices.Clone(all))
	}
	f.Fuzz(func(t *testing.T, commands []byte) {
		d := started(t)
		_, _, seq := d.Machine.Incarnation(1)
		data := coretest.Entry(5, entry.Batch{Node: 1, Incarnation: 1, Seq: seq + 1, Commands: commands})
		if err := d.Machine.Apply(9, data, &core.Effects{}); err != nil {
			return
		}
		if got, want := d.Machine.Fingerprint(), d.Machine.Recompute(); got != want {
			t.Fatalf("fingerprint %x, recomputed %x", got, want)
		}
		d.Restart()
	})
}

// FuzzLoad: damaged rows are refused without a panic.
func FuzzLoad(f *testing.F) {
	d := started(f)
	for _, cmd := range seeds()[:8] {
		d.Batch(1, cmd)
	}
	d.Batch(1, lifeOfASession()...)
	rows := map[string][]byte{}
	d.Machine.Checkpoint(func(k, v []byte) { rows[string(k)] = slices.Clone(v) }, func([]byte) {})
	keys := slices.Sorted(maps.Keys(rows))
	for at, k := range keys {
		f.Add(at, []byte(k), rows[k])
	}
	f.Fuzz(func(t *testing.T, at int, key, value []byte) {
		m := core.New(1)
		for i, k := range keys {
			k, v := []byte(k), rows[k]
			if i == at {
				k, v = key, value
			}
			if m.Load(k, v) != nil {
				return
			}
			if core.RowContents(k, v, func(message.Loc, uint32) {}) != nil {
				return
			}
		}
		if m.Loaded() == nil {
			m.Recompute()
		}
	})
}
