package core_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// What the storm does. Names and numbers are few, so that things meet.

// random is a source of random numbers.
type random interface{ source() *rand.Rand }

func pick[T any](x random, list ...T) T { return list[x.source().IntN(len(list))] }

func (x *storm) queue() string {
	if !x.coin(20) {
		if names := x.d.Machine.QueueNames(pick(x, "/", "/", "/", "/", "w")); len(names) > 0 {
			return pick(x, names...)
		}
	}
	return pick(x, "q0", "q1", "q2", "q3", "q4", "q5")
}

func (x *storm) exchange() string {
	return pick(x, "", "amq.fanout", "amq.topic", "amq.headers", "e0", "e1", "e2", "e3", "later", "later")
}

func (x *storm) key() string { return pick(x, x.queue(), x.queue(), "a.b", "a.*", "#", "1", "3", "") }

func (x *storm) attach() {
	if len(x.sessions(false)) > 7 && !x.coin(3) {
		x.leave()
		return
	}
	a := &entry.Attach{Vhost: pick(x, "/", "/", "/", "/", "w"), User: pick(x, "u", "u", "u", "v"), Key: pick(x, "", "k", "k", "l", "l"), Process: pick(x, "", "A", "A", "B"),
		Expiry: pick(x, uint32(60), 60, 5, 0), Expect: pick(x, entry.ExpectAny, entry.ExpectAny, entry.ExpectAny, entry.ExpectResume, entry.ExpectNew),
		KeepInFlight: x.coin(3), KeepOnClose: x.coin(3), Address: x.fresh("address"), SessionsMax: pick(x, uint32(0), 0, 1, 5)}
	x.entry(uint64(1+x.one(2)), a)
}

// leave is any end of an attachment or a session.
func (x *storm) leave() {
	all := x.sessions(false)
	if len(all) == 0 {
		return
	}
	s := pick(x, all...)
	ref := entry.Ref{Session: s.ID, Epoch: s.Epoch}
	switch n := x.one(8); {
	case n == 0:
		x.control(&entry.SessionClose{Session: s.ID, Text: "closed"})
	case n == 1 && s.Epoch > 1:
		ref.Epoch -= 1 + uint64(x.one(int(min(s.Epoch-1, 2))))
		x.entry(1, &entry.Answered{Ref: ref}, &entry.Answered{Ref: ref})
	case s.Node == 0:
	case n < 4:
		x.entry(s.Node, &entry.End{Ref: ref})
	case n == 4:
		x.entry(s.Node, &entry.SessionStatus{Ref: ref})
	default:
		x.entry(s.Node, &entry.Detach{Ref: ref})
	}
}

// resume has a named session lose its connection and come back, and its client go on where it was, some in a transaction.
func (x *storm) resume() {
	for _, s := range x.sessions(true) {
		if s.Key == "" || s.InFlight == 0 && !x.coin(6) {
			continue
		}
		ref := entry.Ref{Session: s.ID, Epoch: s.Epoch, Channel: uint16(1 + x.one(2))}
		look, _ := core.LookAt(x.d.Machine, s.ID, ref.Channel)
		x.entry(s.Node, &entry.Detach{Ref: ref})
		node := uint64(1 + x.one(2))
		x.entry(node, &entry.Attach{Vhost: s.Vhost, User: s.User, Key: s.Key, Process: s.Process, Expiry: 60, KeepInFlight: x.coin(3)})
		ref.Epoch++
		cmds := []entry.Command{&entry.ChannelOpen{Ref: ref}}
		if x.coin(3) {
			cmds = append(cmds, &entry.TxSelect{Ref: ref})
		}
		for x.coin(2) {
			cmds = append(cmds, x.settle(ref, &look))
		}
		for x.coin(2) {
			cmds = append(cmds, &entry.Consume{Ref: ref, Queue: x.queue(), Tag: x.tag(), NoAck: x.coin(4)})
		}
		x.entry(node, cmds...)
		return
	}
}

// stale sends a command of an attachment that is over, or of a node that has not the session.
func (x *storm) stale() {
	if all := x.sessions(false); len(all) > 0 {
		s := pick(x, all...)
		node := 3 - max(s.Node, 1)
		x.entry(node, x.publishTo(entry.Ref{Session: s.ID, Epoch: s.Epoch, Channel: 1}))
		if s.Node != 0 && s.Epoch > 1 {
			x.entry(s.Node, x.publishTo(entry.Ref{Session: s.ID, Epoch: s.Epoch - 1, Channel: 1}))
		}
	}
}

func (x *storm) node() {
	node := uint64(1 + x.one(2))
	if incarnation, _, _ := x.d.Machine.Incarnation(node); x.coin(2) {
		x.control(&entry.NodeDown{Node: node, Incarnation: incarnation})
		if x.coin(2) {
			x.wait()
		}
	}
	x.control(&entry.NodeUp{Node: node, Nonce: x.r.Uint64() | 1})
}

func (x *storm) leader() { x.control(&entry.LeaderUp{Node: 1, Term: x.r.Uint64()}) }

func (x *storm) vhost() {
	switch x.one(4) {
	case 0:
		x.control(&entry.VhostLimit{Vhost: pick(x, "/", "w"), MaxQueues: pick(x, int64(-1), -1, 4), Connections: pick(x, int64(-1), -1, 4)})
	case 1:
		for _, v := range x.d.Machine.Vhosts() {
			if v.Name == "w" {
				x.control(&entry.VhostDelete{ID: v.ID})
			}
		}
	default:
		x.control(&entry.VhostCreate{ID: x.fresh("w"), Name: "w", QueueType: pick(x, "", "quorum")})
	}
}

// gate drains or fences the group for a while.
func (x *storm) gate() {
	id := x.fresh("switch")
	x.control(&entry.LinkDrain{Cluster: coretest.SourceCluster, Switch: id, Millis: pick(x, int64(1), 50, 100_000)})
	for !x.coin(3) {
		x.step()
	}
	if x.coin(2) {
		x.control(&entry.LinkFence{Cluster: coretest.SourceCluster, Switch: id, Hosts: "h"})
		if x.coin(2) {
			x.restart()
		}
		if incarnation, _, _ := x.d.Machine.Incarnation(1); x.coin(2) {
			x.control(&entry.NodeDown{Node: 1, Incarnation: incarnation})
			x.control(&entry.NodeUp{Node: 1, Nonce: x.r.Uint64() | 1})
		}
		x.client()
	}
	x.control(&entry.LinkFenceCancel{Cluster: coretest.SourceCluster, Switch: id})
}

// fields draws some of many arguments.
func (x *storm) fields(n int, all ...func() (string, any)) []byte {
	var list []any
	for _, f := range all {
		if x.coin(n) {
			key, value := f()
			list = append(list, key, value)
		}
	}
	if list == nil {
		return nil
	}
	return table(list...)
}

func (x *storm) field(key string, values ...any) func() (string, any) {
	return func() (string, any) { return key, values[x.one(len(values))] }
}

func i32(list ...int32) (all []any) {
	for _, n := range list {
		all = append(all, n)
	}
	return all
}

func (x *storm) policy() {
	name, operator, vhost := pick(x, "p0", "p1", "p2"), x.coin(3), pick(x, "/", "/", "/", "w")
	if x.coin(3) {
		x.control(&entry.PolicyDelete{Vhost: vhost, Name: name, Operator: operator})
		return
	}
	definition := x.fields(6, x.field("message-ttl", i32(0, 20, 300)...), x.field("expires", i32(5000, 100_000)...), x.field("max-length", i32(0, 2, 5)...),
		x.field("max-length-bytes", i32(0, 40, 80)...), x.field("overflow", "drop-head", "reject-publish", "reject-publish-dlx"),
		x.field("dead-letter-exchange", "", "amq.fanout", "e1", "later"), x.field("dead-letter-routing-key", "q0", "q1", "a.b"),
		x.field("delivery-limit", i32(0, 1, 2, -1)...), x.field("consumer-timeout", i32(500, 3000)...), x.field("alternate-exchange", "amq.fanout", "e0"))
	x.control(&entry.PolicySet{Vhost: vhost, Name: name, Operator: operator, Priority: int64(x.one(3)), Definition: definition,
		Pattern: pick(x, "^q[0-2]$", "^q", ".*", "^e", "^q3$", "gen"), ApplyTo: pick(x, "all", "queues", "queues", "classic_queues", "quorum_queues", "exchanges")})
}

// change is a command about exchanges, queues or bindings.
func (x *storm) change(ref entry.Ref) entry.Command {
	binding := entry.Binding{Ref: ref, Source: pick(x, "amq.fanout", "amq.topic", "amq.headers", x.exchange(), x.exchange()), Destination: x.queue(), Key: x.key()}
	if x.coin(4) {
		binding.Arguments = table("x-match", pick(x, "any", "all"), "h", pick(x, "1", "2"))
	}
	switch x.one(16) {
	case 0, 1, 2:
		return x.declareExchange(ref)
	case 3:
		return &entry.ExchangeDelete{Ref: ref, Name: pick(x, "e0", "e1", "e2", "e3", "later"), IfUnused: x.coin(3)}
	case 4:
		binding.Destination = x.exchange()
		return &entry.ExchangeBind{Binding: binding}
	case 5:
		binding.Destination = x.exchange()
		return &entry.ExchangeUnbind{Binding: binding}
	case 6:
		return &entry.QueueUnbind{Binding: binding}
	case 7, 8, 9:
		return &entry.QueueBind{Binding: binding}
	case 10:
		if x.coin(2) {
			return &entry.QueuePurge{Ref: ref, Name: x.queue()}
		}
		return &entry.QueueDelete{Ref: ref, Name: x.queue(), IfUnused: x.coin(3), IfEmpty: x.coin(3)}
	case 11:
		return &entry.QueuePurge{Ref: ref, Name: x.queue()}
	}
	return pick(x, x.declareQueue(ref), x.deadLettering(ref, x.queue()))
}

func (x *storm) declareExchange(ref entry.Ref) entry.Command {
	d := &entry.ExchangeDeclare{Ref: ref, Name: pick(x, "e0", "e1", "e2", "e3", "later"), Durable: x.coin(2), AutoDelete: x.coin(4), Internal: x.coin(8), Passive: x.coin(8),
		Type: pick(x, "direct", "fanout", "topic", "headers", "x-consistent-hash", "x-random", "x-modulus-hash")}
	if d.Name != "later" {
		d.Arguments = x.fields(5, x.field("alternate-exchange", "amq.fanout", "e0", "later"))
		return d
	}
	d.Arguments, d.Type, d.Internal = table("x-delayed-type", pick(x, "direct", "direct", "topic", "fanout")), "x-delayed-message", false
	return d
}

// declareQueue declares a queue with a few of the things that a queue can do, and leaves out mostly what would be its end soon.
func (x *storm) declareQueue(ref entry.Ref) entry.Command {
	d := &entry.QueueDeclare{Ref: ref, Name: x.queue(), Durable: true, Exclusive: x.coin(8), AutoDelete: x.coin(12), Passive: x.coin(12)}
	if x.coin(6) {
		d.Name, d.Generated, d.Arguments = x.fresh("amq.gen-"), true, x.fields(2, x.field("x-session-name", "n", "m"))
		return d
	}
	kinds := [][]func() (string, any){
		{x.field("x-message-ttl", i32(0, 20, 300, 5000)...)},
		{x.field("x-max-length", i32(1, 3, 3, 10)...), x.field("x-overflow", "drop-head", "reject-publish", "reject-publish-dlx")},
		{x.field("x-max-length-bytes", i32(0, 20, 60, 60)...), x.field("x-overflow", "drop-head", "reject-publish", "reject-publish-dlx")},
		{x.field("x-max-priority", i32(1, 3, 3, 200)...)},
		{x.field("x-delivery-limit", i32(0, 1, 3, 20, -1)...)}, {x.field("x-delivery-limit", i32(1, 3, 20)...)},
		{x.field("x-single-active-consumer", true)}, {x.field("x-single-active-consumer", true)},
		{x.field("x-delayed-retry-type", "all", "failed", "returned"), x.field("x-delayed-retry-min", i32(20, 100, 3000)...), x.field("x-delayed-retry-max", i32(30, 1000)...)},
		{x.field("x-dead-letter-exchange", "", "amq.fanout", "amq.topic", "amq.headers", "e1", "later")},
		{x.field("x-dead-letter-exchange", "", "e1"), x.field("x-dead-letter-routing-key", x.queue())},
		{x.field("x-queue-type", "classic", "quorum"), x.field("x-dead-letter-strategy", "at-least-once", "at-most-once")},
		{x.field("x-consumer-timeout", i32(500, 3000)...)},
		{x.field("x-expires", i32(5000, 100_000)...)},
	}
	var fields []func() (string, any)
	for range 1 + x.one(4) {
		fields = append(fields, pick(x, kinds...)...)
	}
	d.Arguments = x.fields(1, fields...)
	return d
}

// deadLettering declares a queue whose messages die of many things, and go on.
func (x *storm) deadLettering(ref entry.Ref, name string) entry.Command {
	d := &entry.QueueDeclare{Ref: ref, Name: name, Durable: true}
	d.Arguments = x.fields(1, pick(x, x.field("x-message-ttl", i32(20, 300)...), x.field("x-max-length", i32(1, 3)...), x.field("x-delivery-limit", i32(0, 1)...)),
		x.field("x-dead-letter-exchange", "", "amq.fanout", "amq.fanout", "amq.topic"))
	if x.coin(2) {
		d.Arguments = x.fields(1, x.field("x-message-ttl", i32(20, 300)...), x.field("x-dead-letter-exchange", ""), x.field("x-dead-letter-routing-key", x.queue(), name))
	}
	return d
}

// reject has a client reject a message of a queue that dead-letters, some over and over.
func (x *storm) reject() {
	all := x.sessions(true)
	if len(all) == 0 {
		return
	}
	s := pick(x, all...)
	names := core.DeadLettering(x.d.Machine, s.Vhost)
	if len(names) == 0 {
		return
	}
	ref, queue := entry.Ref{Session: s.ID, Epoch: s.Epoch, Channel: 3}, pick(x, names...)
	x.entry(s.Node, &entry.ChannelClose{Ref: ref}, &entry.ChannelOpen{Ref: ref})
	for range 1 + x.one(4) {
		x.entry(s.Node, &entry.Get{Ref: ref, Queue: queue})
		look, _ := core.LookAt(x.d.Machine, s.ID, ref.Channel)
		for _, tag := range look.Tags {
			x.entry(s.Node, &entry.Settle{Ref: ref, Outcome: entry.Rejected, First: tag, Last: tag})
		}
	}
}

// sink binds a queue where dead letters go.
func (x *storm) sink(ref entry.Ref) entry.Command {
	return &entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: pick(x, "amq.fanout", "amq.topic"), Destination: x.queue(), Key: "#"}}
}

// command is what a client does on a channel.
func (x *storm) command(ref entry.Ref, look *core.ChannelLook) []entry.Command {
	switch n := x.one(60); {
	case n < 20:
		return x.publish(ref)
	case n < 32:
		return []entry.Command{x.settle(ref, look)}
	case n < 37:
		consume := &entry.Consume{Ref: ref, Queue: x.queue(), Tag: x.tag(), NoAck: x.coin(4), Exclusive: x.coin(20),
			Arguments: x.fields(3, x.field("x-priority", i32(-1, 1, 2)...), x.field("x-consumer-timeout", i32(300, 20_000)...))}
		return []entry.Command{&entry.Qos{Ref: ref, Prefetch: pick(x, uint32(0), 1, 2, 5), Global: x.coin(4)}, consume}
	case n < 39 && len(look.Consumers) > 0:
		return []entry.Command{&entry.Cancel{Ref: ref, Tag: pick(x, look.Consumers...)}}
	case n < 44:
		return []entry.Command{&entry.Get{Ref: ref, Queue: x.queue(), NoAck: x.coin(4)}}
	case n < 47:
		return []entry.Command{&entry.Written{Ref: ref, Tag: x.anyTag(look)}}
	case n < 49:
		return []entry.Command{&entry.Qos{Ref: ref, Prefetch: pick(x, uint32(0), 1, 2, 5), Global: x.coin(3)}}
	case n < 50:
		return []entry.Command{&entry.Recover{Ref: ref, Requeue: !x.coin(3)}}
	case n < 51 && x.coin(2):
		return []entry.Command{&entry.ChannelClose{Ref: ref, Reply: true}}
	case n < 52 && look.Tx:
		return []entry.Command{&entry.TxRollback{Ref: ref}}
	case n < 56 && look.Tx:
		return []entry.Command{&entry.TxCommit{Ref: ref}}
	case n < 54 && !look.Confirm && !look.Tx:
		return []entry.Command{&entry.TxSelect{Ref: ref}}
	case n < 55 && !look.Tx && x.coin(3):
		return []entry.Command{&entry.ConfirmSelect{Ref: ref}}
	case n < 56 && x.coin(3):
		return []entry.Command{&entry.Refuse{Ref: ref, Command: entry.KindPublish, Code: uint8(pick(x, core.CodeAccessRefused, core.CodeNotAllowed)), Text: "refused"}}
	}
	return []entry.Command{x.change(ref)}
}

func (x *storm) tag() string { return pick(x, "t", "u", "v", x.fresh("c")) }

func (x *storm) anyTag(look *core.ChannelLook) uint64 {
	if len(look.Tags) > 0 && !x.coin(30) {
		return pick(x, look.Tags...)
	}
	return uint64(x.one(int(min(look.Last, 1<<30)) + 2))
}

func (x *storm) settle(ref entry.Ref, look *core.ChannelLook) entry.Command {
	s := &entry.Settle{Ref: ref, Outcome: entry.Outcome(x.one(4)), Multiple: x.coin(2)}
	s.First = x.anyTag(look)
	s.Last = s.First
	if !s.Multiple && x.coin(20) {
		s.Last += uint64(x.one(2))
	}
	return s
}

// publish is one publish, or a burst, or a big one in pieces.
func (x *storm) publish(ref entry.Ref) []entry.Command {
	var cmds []entry.Command
	for range pick(x, 1, 1, 1, 2, 6) {
		p := x.publishTo(ref)
		for x.coin(8) {
			cmds = append(cmds, &entry.Fragment{Ref: ref, Piece: []byte(x.fresh("piece"))})
			p.Fragmented = true
		}
		cmds = append(cmds, p)
	}
	return cmds
}

func (x *storm) publishTo(ref entry.Ref) *entry.Publish {
	exchange := pick(x, "", "", "", x.exchange())
	p, key := message.Properties{}, x.key()
	if exchange == "" {
		key = x.queue()
	}
	if x.coin(3) {
		p.Set, p.Priority = p.Set|message.PropPriority, uint8(pick(x, 0, 1, 2, 5, 201))
	}
	if x.coin(4) {
		p.Set, p.Expiration = p.Set|message.PropExpiration, strconv.Itoa(pick(x, 0, 10, 40, 2000))
	}
	rarely := 5
	if exchange == "later" {
		rarely = 2
	}
	if h := x.fields(rarely, x.field("h", "1", "2"), x.field("x-delay", i32(0, 15, 60, 5000)...), x.field("CC", []any{x.queue()}, []any{"a.b", x.queue()}), x.field("BCC", []any{x.queue()})); h != nil {
		p.Set, p.Headers = p.Set|message.PropHeaders, h
	}
	cmd := &entry.Publish{Ref: ref, Mandatory: x.coin(4), Record: coretest.RecordWith(&p, exchange, key, x.fresh("body "))}
	switch x.one(6) {
	case 0, 2:
		cmd.DedupID = []byte(fmt.Sprint("id", x.one(6)))
	case 1:
		cmd.Publisher, cmd.Sequence = []byte(pick(x, "p", "r")), uint64(pick(x, x.one(20), x.one(10_000)))
	}
	return cmd
}
