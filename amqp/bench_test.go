package amqp_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
)

// BenchmarkRoundTrip is what the endpoint and the machine cost a message without a log: published with confirms on one
// connection, delivered and acknowledged (each 100th, multiple) on another.
func BenchmarkRoundTrip(b *testing.B) {
	_, _, address := serve(b, nil)
	p, c := dialRaw(b, address), dialRaw(b, address)
	p.send(1, &wire.QueueDeclare{Queue: "q"})
	p.await(wire.IDQueueDeclareOk)
	p.send(1, &wire.ConfirmSelect{})
	p.await(wire.IDConfirmSelectOk)
	c.send(1, &wire.BasicQos{PrefetchCount: 1000})
	c.await(wire.IDBasicQosOk)
	c.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "t"})
	c.await(wire.IDBasicConsumeOk)

	one := wire.AppendMethod(nil, 1, &wire.BasicPublish{RoutingKey: []byte("q")})
	one = wire.AppendHeader(one, 1, 60, 256, []byte{0x10, 0, 2})
	one = wire.AppendBody(one, 1, make([]byte, 256))
	burst := bytes.Repeat(one, 100)
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for i := 0; i < b.N; i += 100 {
			p.write(burst)
		}
	}()
	go func() { _, _ = io.Copy(io.Discard, p.r) }()
	consume(c, b.N)
}

func consume(c *rawClient, n int) {
	var f wire.Frame
	var ack []byte
	for i := 0; i < n && c.next(&f); {
		if f.Type != wire.FrameBody {
			continue
		}
		if i++; i%100 == 0 {
			ack = wire.AppendMethod(ack[:0], 1, &wire.BasicAck{DeliveryTag: uint64(i), Multiple: true})
			c.write(ack)
		}
	}
}
