package store

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

var walks = coretest.NewWalks("walk", "./core/store -run TestTheStoreKeepsWhateverTheMachineRefersTo", 2_000, 250)

// TestTheStoreKeepsWhateverTheMachineRefersTo drives a group of the real machine with random commands about all that gives a content another
// reference or takes one (dead letters, delays, transactions, resumes, limits, pieces of big messages, deletions in pieces), and in between
// with all that moves contents and states: checkpoints, restarts, evacuations, and snapshots that another store goes on from. A plain machine
// beside it, which only applies, has the same fingerprint after every entry; every content can be read; in the end nothing is left.
func TestTheStoreKeepsWhateverTheMachineRefersTo(t *testing.T) {
	walks.Run(func(seed uint64, operations int) { newWalk(t, seed).run(operations) })
}

// walk is one random run.
type walk struct {
	*broker
	t        *testing.T
	seed     uint64
	r        *rand.Rand
	plain    *core.Machine
	sessions []entry.Ref // that were ever attached
	tags     map[entry.Ref][]uint64
	vhosts   int
	bodies   int
}

func newWalk(t *testing.T, seed uint64) *walk {
	return &walk{t: t, broker: newBroker(t, vfs.NewMem()), seed: seed, r: newRNG(seed), plain: core.New(brokerGroup), tags: map[entry.Ref][]uint64{}}
}

func one[T any](w *walk, list ...T) T { return list[w.r.IntN(len(list))] }

func (w *walk) coin(n int) bool { return w.r.IntN(n) == 0 }

func (w *walk) run(operations int) {
	defer func() {
		if w.t.Failed() {
			w.t.Log(walks.Again(w.seed))
		}
	}()
	w.control(&entry.NodeUp{Node: 1, Nonce: 1})
	w.newVhost()
	for range operations {
		w.command()
		w.keep()
	}
	w.end()
}

// newVhost makes a vhost anew, of the same name as the last.
func (w *walk) newVhost() {
	w.control(&entry.VhostDelete{ID: fmt.Sprint("v", w.vhosts)})
	w.vhosts++
	w.control(&entry.VhostCreate{ID: fmt.Sprint("v", w.vhosts), Name: "/"})
	w.attach("")
	w.attach("k")
	ref := w.sessions[len(w.sessions)-2]
	w.send(ref, &entry.ExchangeDeclare{Ref: ref, Name: "later", Type: "x-delayed-message", Arguments: fields("x-delayed-type", "direct")})
	for _, q := range brokerQueues {
		w.declare(ref, q)
	}
}

func (w *walk) control(cmds ...entry.Command) { w.feed(0, 0, cmds) }

// send applies a client's commands as its node's next batch.
func (w *walk) send(ref entry.Ref, cmds ...entry.Command) {
	_, _, seq := w.g.Incarnation(1)
	w.feed(1, seq+1, cmds)
}

// feed applies an entry to both machines, and ticks while something is due.
func (w *walk) feed(node, seq uint64, cmds []entry.Command) {
	w.t.Helper()
	effects := w.apply(node, seq, encode(cmds...))
	if err := w.plain.Apply(w.log.last, w.log.entries[w.log.last], &core.Effects{}); err != nil {
		w.t.Fatal(err)
	}
	if got, want := w.g.Fingerprint(), w.plain.Fingerprint(); got != want {
		w.t.Fatalf("after entry %d the fingerprint is %x, and %x without a store", w.log.last, got, want)
	}
	for i := range effects {
		switch e := &effects[i]; e.Kind {
		case core.EffectAttached:
			w.sessions = append(w.sessions, entry.Ref{Session: e.Session, Epoch: e.Epoch, Channel: 1})
		case core.EffectDelivered, core.EffectGot:
			ref := entry.Ref{Session: e.Session, Epoch: e.Epoch, Channel: e.Channel}
			w.tags[ref] = append(w.tags[ref], e.Tag)
			w.intact(e.Loc, e.Size)
			for _, p := range e.Parts {
				w.intact(p.Loc, p.Size)
			}
		}
	}
	if due := w.plain.NextDeadline(); due != 0 && due <= w.stamp {
		w.control(&entry.Tick{})
	}
}

func (w *walk) attach(key string) {
	w.send(entry.Ref{}, &entry.Attach{Vhost: "/", Key: key, Expiry: 60, KeepInFlight: w.coin(2)})
	ref := w.sessions[len(w.sessions)-1]
	other := ref
	other.Channel = 2
	w.send(ref, &entry.ChannelOpen{Ref: ref}, &entry.ChannelOpen{Ref: other}, &entry.TxSelect{Ref: other})
}

func (w *walk) declare(ref entry.Ref, name string) {
	list := []any{"x-dead-letter-exchange", "", "x-dead-letter-routing-key", one(w, brokerQueues...)}
	for _, x := range []struct {
		key   string
		value any
	}{{"x-message-ttl", int32(40)}, {"x-max-length", int32(3)}, {"x-overflow", "reject-publish-dlx"}, {"x-max-priority", int32(3)}, {"x-delivery-limit", int32(1)},
		{"x-delayed-retry-type", "all"}, {"x-delayed-retry-min", int32(30)}, {"x-expires", int32(5000)}} {
		if w.coin(4) {
			list = append(list, x.key, x.value)
		}
	}
	w.send(ref, &entry.QueueDeclare{Ref: ref, Name: name, Arguments: fields(list...)},
		&entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: "amq.fanout", Destination: name}},
		&entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: "later", Destination: name, Key: name}})
}

func fields(list ...any) []byte {
	var t message.Table
	for i := 0; i < len(list); i += 2 {
		t = append(t, message.Field{Key: list[i].(string), Value: list[i+1]})
	}
	return message.AppendTable(nil, t)
}

// command is what a client does, of the newest attachments mostly.
func (w *walk) command() {
	ref := w.sessions[len(w.sessions)-1-min(w.r.IntN(3), len(w.sessions)-1)]
	ref.Channel = one(w, uint16(1), 1, 2)
	queue := one(w, brokerQueues...)
	switch w.r.IntN(24) {
	case 0, 1, 2, 3, 4, 5:
		w.send(ref, w.publish(ref, queue)...)
	case 6, 7:
		w.send(ref, &entry.Get{Ref: ref, Queue: queue, NoAck: w.coin(4)})
	case 8:
		w.send(ref, &entry.Qos{Ref: ref, Prefetch: uint32(1 + w.r.IntN(3))}, &entry.Consume{Ref: ref, Queue: queue, Tag: fmt.Sprint("c", w.stamp), NoAck: w.coin(3)})
	case 9, 10, 11, 12:
		if tags := w.tags[ref]; len(tags) > 0 {
			tag := one(w, tags[max(0, len(tags)-6):]...)
			w.send(ref, &entry.Settle{Ref: ref, Outcome: entry.Outcome(w.r.IntN(4)), First: tag, Last: tag, Multiple: w.coin(3)})
		}
	case 13:
		w.send(ref, one[entry.Command](w, &entry.TxCommit{Ref: entry.Ref{Session: ref.Session, Epoch: ref.Epoch, Channel: 2}}, &entry.TxRollback{Ref: entry.Ref{Session: ref.Session, Epoch: ref.Epoch, Channel: 2}}))
	case 14:
		w.send(ref, &entry.Written{Ref: ref, Tag: 1 << 20})
	case 15:
		w.send(ref, &entry.ChannelClose{Ref: ref, Reply: true}, &entry.ChannelOpen{Ref: ref})
	case 16:
		w.send(ref, &entry.QueuePurge{Ref: ref, Name: queue})
	case 17:
		if w.coin(2) {
			w.send(ref, &entry.QueueDelete{Ref: ref, Name: queue})
		}
		w.declare(ref, queue)
	case 18:
		w.send(ref, &entry.Detach{Ref: ref})
		w.attach(one(w, "k", "k", ""))
	case 19, 20, 21:
		w.stamp += one(w, int64(10), 40, 200, 6_000, 70_000)
		w.control(&entry.Tick{})
	case 22:
		w.control(&entry.PolicySet{Vhost: "/", Name: "p", Pattern: queue, ApplyTo: "queues", Definition: fields("max-length", int32(w.r.IntN(4)), "delivery-limit", int32(w.r.IntN(3)))})
	case 23:
		if w.coin(6) {
			w.newVhost()
		}
	}
}

// publish is a burst to a queue, to all or to one that is to get it later, some of it in pieces.
func (w *walk) publish(ref entry.Ref, queue string) (cmds []entry.Command) {
	for range one(w, 1, 1, 2, 8) {
		w.bodies++
		p := message.Properties{Set: message.PropPriority, Priority: uint8(w.r.IntN(4))}
		if w.coin(3) {
			p.Set, p.Expiration = p.Set|message.PropExpiration, strconv.Itoa(30*w.r.IntN(3))
		}
		exchange := one(w, "", "", "amq.fanout", "later")
		if exchange == "later" {
			p.Set, p.Headers = p.Set|message.PropHeaders, fields("x-delay", int32(50*w.r.IntN(3)), "CC", []any{one(w, brokerQueues...)})
		}
		x := &entry.Publish{Ref: ref, Record: coretest.RecordWith(&p, exchange, queue, fmt.Sprint("body ", w.bodies)), DedupID: fmt.Append(nil, w.r.IntN(30))}
		for w.coin(4) {
			cmds = append(cmds, &entry.Fragment{Ref: ref, Piece: fmt.Append(nil, "piece ", len(cmds), " of ", w.bodies)})
			x.Fragmented = true
		}
		cmds = append(cmds, x)
	}
	return cmds
}

// keep does something with what is stored.
func (w *walk) keep() {
	w.t.Helper()
	at, _ := w.g.Applied()
	switch w.r.IntN(30) {
	case 0, 1:
		w.checkpoint()
	case 2:
		w.restart()
		w.allIntact()
	case 3, 4:
		w.evacuate(at + 1 - min(at, uint64(w.r.IntN(30))))
		w.allIntact()
	case 5:
		w.travel()
		w.allIntact()
	}
}

// travel has another store go on from a snapshot.
func (w *walk) travel() {
	w.t.Helper()
	s, err := w.g.Snapshot()
	w.must(err)
	var stream bytes.Buffer
	_, err = s.WriteTo(&stream)
	w.must(err)
	w.must(s.Close())
	to := newBroker(w.t, vfs.NewMem())
	index, term, _, err := to.g.Stage(context.Background(), &stream)
	to.must(err)
	to.must(to.g.Install(index, term))
	to.log, to.stamp = w.log.from(index+1, index), w.stamp
	w.close()
	w.broker = to
}

// end deletes all there is and checks that nothing is left of it.
func (w *walk) end() {
	w.t.Helper()
	w.control(&entry.VhostDelete{ID: fmt.Sprint("v", w.vhosts)})
	at, _ := w.g.Applied()
	if live, _ := w.g.Live(0, at+1); live != 0 {
		w.t.Fatalf("%d references to contents are left", live)
	}
	w.evacuate(at + 1)
	w.checkpoint()
	r := rig{t: w.t, db: w.db, g: w.g}
	generation := w.g.where.Load().generation
	if n := r.count(contentKey(brokerGroup, generation, 0), contentEnd(brokerGroup, generation)); n != 0 {
		w.t.Fatalf("%d contents are left in Pebble", n)
	}
}
