package core_test

import (
	"bytes"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

// BenchmarkPublishDeliverAck is the life of a message in the machine: 500 publishes with confirms to one queue with a
// consumer, then their 500 acks, an entry each.
func BenchmarkPublishDeliverAck(b *testing.B) {
	for _, multiple := range []bool{false, true} {
		for _, exchange := range []string{"", "amq.topic"} {
			b.Run(fmt.Sprintf("exchange=%q/multiple=%v", exchange, multiple), func(b *testing.B) { benchLife(b, exchange, multiple, nil, 0) })
		}
	}
	b.Run("idle sessions", func(b *testing.B) { benchLife(b, "", false, nil, 100_000) })
}

// BenchmarkLimitedQueue is the same on a queue with everything that costs: TTL, dead letters, limits, priorities.
func BenchmarkLimitedQueue(b *testing.B) {
	for _, exchange := range []string{"", "amq.topic"} {
		b.Run(fmt.Sprintf("exchange=%q", exchange), func(b *testing.B) {
			benchLife(b, exchange, false, table("x-message-ttl", int32(60000), "x-dead-letter-exchange", "amq.fanout", "x-max-length", int32(100000)), 0)
		})
	}
	b.Run("priorities", func(b *testing.B) {
		benchLife(b, "", false, table("x-max-priority", int32(10), "x-max-length-bytes", int64(1<<40)), 0)
	})
}

const benchBatch = 500

func benchLife(b *testing.B, exchange string, multiple bool, arguments []byte, idle int) {
	m := core.New(1)
	fx := &core.Effects{}
	index, seq := uint64(0), uint64(0)
	apply := func(data []byte) {
		index++
		fx.List = fx.List[:0]
		if err := m.Apply(index, data, fx); err != nil {
			b.Fatal(err)
		}
	}
	var commands, data []byte
	batch := func(commands []byte) {
		seq++
		data = entry.AppendBatch(entry.AppendHeader(data[:0], int64(index)), 1, 1, seq, commands)
		apply(data)
	}
	one := func(cmd entry.Command) { batch(entry.Append(nil, cmd)) }
	apply(coretest.Entry(1, entry.Batch{Commands: entry.Append(entry.Append(nil, &entry.NodeUp{Node: 1, Nonce: 1}), &entry.VhostCreate{ID: "v", Name: "/"})}))
	one(&entry.Attach{Vhost: "/", Connection: "producer"})
	one(&entry.Attach{Vhost: "/", Connection: "consumer"})
	producer, consumer := entry.Ref{Session: 1, Epoch: 1, Channel: 1}, entry.Ref{Session: 2, Epoch: 1, Channel: 1}
	one(&entry.ChannelOpen{Ref: producer})
	one(&entry.ChannelOpen{Ref: consumer})
	one(&entry.ConfirmSelect{Ref: producer})
	one(&entry.QueueDeclare{Ref: producer, Name: "q", Arguments: arguments})
	one(&entry.QueueBind{Binding: entry.Binding{Ref: producer, Source: "amq.topic", Destination: "q", Key: "#"}})
	one(&entry.Qos{Ref: consumer, Prefetch: 2 * benchBatch})
	one(&entry.Consume{Ref: consumer, Queue: "q", Tag: "ct"})
	for i := range idle {
		one(&entry.Attach{Vhost: "/", Key: fmt.Sprint(i), Expiry: 86400})
		one(&entry.Detach{Ref: entry.Ref{Session: uint64(3 + i), Epoch: 1}})
	}
	publish := entry.Publish{Ref: producer, Record: coretest.Record(exchange, "q", nil, string(make([]byte, 256)))}
	settle := entry.Settle{Ref: consumer, Multiple: multiple}
	round := func() {
		commands = commands[:0]
		for range benchBatch {
			commands = entry.AppendPublish(commands, &publish)
		}
		batch(commands)
		commands = commands[:0]
		for i := range fx.List {
			if e := &fx.List[i]; e.Kind == core.EffectDelivered && (!multiple || i == len(fx.List)-1) {
				settle.First, settle.Last = e.Tag, e.Tag
				commands = entry.AppendSettle(commands, &settle)
			}
		}
		batch(commands)
	}
	for range 20 {
		round()
	}
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		round()
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N*benchBatch), "cpu-ns/message")
}

// BenchmarkLoad loads 500,000 ready messages from rows.
func BenchmarkLoad(b *testing.B) {
	d := started(b)
	m := d.Machine
	record := coretest.Record("", "q", nil, "x")
	fx := core.Effects{}
	for i := range uint64(1000) {
		var commands []byte
		for range 500 {
			commands = entry.AppendPublish(commands, &entry.Publish{Ref: ref, Record: record})
		}
		_, _, seq := m.Incarnation(1)
		if err := m.Apply(100+i, coretest.Entry(1, entry.Batch{Node: 1, Incarnation: 1, Seq: seq + 1, Commands: commands}), &fx); err != nil {
			b.Fatal(err)
		}
	}
	var keys, values [][]byte
	size := 0
	m.Checkpoint(func(k, v []byte) {
		keys, values = append(keys, slices.Clone(k)), append(values, slices.Clone(v))
		size += len(v)
	}, func([]byte) {})
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return bytes.Compare(keys[x], keys[y]) })
	for b.Loop() {
		n := core.New(1)
		for _, i := range order {
			if err := n.Load(keys[i], values[i]); err != nil {
				b.Fatal(err)
			}
		}
		if err := n.Loaded(); err != nil {
			b.Fatal(err)
		}
		if n.Fingerprint() != m.Fingerprint() {
			b.Fatal("another fingerprint")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*500_000), "ns/message")
	b.ReportMetric(float64(size)/500_000, "bytes/message")
}

// processorTime is what the process has used so far: on a busy machine the wall clock tells little.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDeletedVhost takes apart a vhost in which messages wait for their time, in the pieces that Ticks take.
func BenchmarkDeletedVhost(b *testing.B) {
	const waiting = 300_000
	for b.Loop() {
		b.StopTimer()
		d := started(b)
		m, index := d.Machine, d.Index
		apply := func(batch entry.Batch) {
			index++
			if err := m.Apply(index, coretest.Entry(1, batch), &core.Effects{}); err != nil {
				b.Fatal(err)
			}
		}
		commands := entry.Append(nil, &entry.ExchangeDeclare{Ref: ref, Name: "later", Type: "x-delayed-message", Arguments: table("x-delayed-type", "direct")})
		for i := range waiting {
			record := coretest.Record("later", "q", table("x-delay", int32(10_000_000+i)), "x")
			if commands = entry.AppendPublish(commands, &entry.Publish{Ref: ref, Record: record}); i%1000 == 999 {
				_, _, seq := m.Incarnation(1)
				apply(entry.Batch{Node: 1, Incarnation: 1, Seq: seq + 1, Commands: commands})
				commands = nil
			}
		}
		b.StartTimer()
		before := processorTime(b)
		apply(entry.Batch{Commands: entry.Append(nil, &entry.VhostDelete{ID: m.Vhosts()[0].ID})})
		for m.NextDeadline() == 1 {
			apply(entry.Batch{Commands: entry.Append(nil, &entry.Tick{})})
		}
		b.ReportMetric(float64(processorTime(b)-before)/waiting, "cpu-ns/message")
		if left, _ := m.Live(0, 1<<40); left != 0 {
			b.Fatal(left)
		}
	}
}
