package v091

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/session"
)

// burst is n published messages as they lie in the socket's buffer.
func burst(n, size int) []byte {
	one := publish(1, "amq.direct", "routing.key", string(make([]byte, size)))
	return bytes.Repeat(one, n)
}

func TestPublishingAllocatesNothing(t *testing.T) {
	g := opened(t, 1)
	g.session.quiet = true
	b := burst(100, 256)
	cut := len(b) - 300 // the last message is split over two read bursts
	if n := testing.AllocsPerRun(20, func() {
		used := g.recv.input(b[:cut])
		g.recv.input(b[used:])
	}); n > 0 {
		t.Errorf("%v allocations for 100 messages", n)
	}
}

func TestAcknowledgingAllocatesNothing(t *testing.T) {
	g := opened(t, 1)
	g.session.quiet = true
	var b []byte
	for i := range uint64(100) {
		b = wire.AppendMethod(b, 1, &wire.BasicAck{DeliveryTag: 2 * i})
	}
	if n := testing.AllocsPerRun(20, func() { g.recv.input(b) }); n > 0 {
		t.Errorf("%v allocations for 100 acks", n)
	}
}

func TestDeliveringAllocatesNothing(t *testing.T) {
	g := opened(t, 1)
	g.session.quiet = true
	g.send.w = io.Discard
	var events []session.Event
	for i := range uint64(100) {
		events = append(events, delivery(1, i+1, "hello"), confirmed(1, 1))
	}
	if n := testing.AllocsPerRun(20, func() { _ = g.send.send(events, nil) }); n > 0 {
		t.Errorf("%v allocations for 100 deliveries and confirms", n)
	}
}

func BenchmarkPublish(b *testing.B) {
	for _, size := range []int{16, 256, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			g := opened(b, 1)
			g.session.quiet = true
			const n = 100
			in := burst(n, size)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				g.recv.input(in)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/msg")
		})
	}
}

func BenchmarkDeliver(b *testing.B) {
	for _, size := range []int{16, 256, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			g := opened(b, 1)
			g.session.quiet = true
			g.send.w = io.Discard
			const n = 100
			var events []session.Event
			for i := range uint64(n) {
				events = append(events, delivery(1, i+1, string(make([]byte, size))))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				_ = g.send.send(events, nil)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/msg")
		})
	}
}

func BenchmarkOutbox(b *testing.B) {
	out := newOutbox()
	events := make([]session.Event, 100)
	for i := range events {
		events[i] = delivery(1, uint64(i+1), "hello")
	}
	var held []session.Event
	b.ReportAllocs()
	for range b.N {
		out.push(events)
		held, _, _ = out.take(held, nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/msg")
}
