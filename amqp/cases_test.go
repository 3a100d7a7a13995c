package amqp_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/amqp/v091/wire/wiretest"
	"github.com/understudy-mq/understudy/core/message"
)

// step is what a client sends and the frames that must come of it, in order. A line of want is a prefix of the frame's.
type step struct {
	send []byte
	want []string
}

func on(channel uint16, methods ...wire.Method) (b []byte) {
	for _, m := range methods {
		b = wire.AppendMethod(b, channel, m)
	}
	return b
}

func published(channel uint16, exchange, key, body string, properties ...byte) []byte {
	if properties == nil {
		properties = []byte{0, 0}
	}
	b := on(channel, &wire.BasicPublish{Exchange: []byte(exchange), RoutingKey: []byte(key)})
	b = wire.AppendHeader(b, channel, 60, uint64(len(body)), properties)
	if body != "" {
		b = wire.AppendBody(b, channel, []byte(body))
	}
	return b
}

// run plays steps over one connection with channel 1 open.
func (c *rawClient) run(steps ...step) {
	c.t.Helper()
	_ = c.nc.SetReadDeadline(time.Now().Add(patience))
	for i, s := range steps {
		c.write(s.send)
		for _, want := range s.want {
			var f wire.Frame
			if !c.next(&f) {
				c.t.Fatalf("step %d: the connection ended, want %s", i, want)
			}
			if got := wiretest.Frame(&f); !strings.HasPrefix(got, want) {
				c.t.Fatalf("step %d:\n got %s\nwant %s", i, got, want)
			}
		}
	}
}

func do(want string, send ...[]byte) step {
	s := step{send: slices.Concat(send...)}
	if want != "" {
		s.want = strings.Split(want, "\n")
	}
	return s
}

const (
	q1       = `1 QueueDeclareOk Queue="q"`
	reopened = "1 ChannelOpenOk"
)

var (
	declareQ = on(1, &wire.QueueDeclare{Queue: "q"})
	reopen   = on(1, &wire.ChannelCloseOk{}, &wire.ChannelOpen{})
	getQ     = on(1, &wire.BasicGet{Queue: "q", NoAck: true})
)

func TestCasesOverTheWire(t *testing.T) {
	for name, steps := range map[string][]step{
		"D2 publishes after a refused one are neither confirmed nor enqueued": {
			do(q1, declareQ), do("1 ConfirmSelectOk", on(1, &wire.ConfirmSelect{})),
			do("1 BasicAck DeliveryTag=1\n1 ChannelClose ReplyCode=404 ReplyText=\"NOT_FOUND - no exchange 'none' in vhost '/'\" ClassID=60 MethodID=40",
				published(1, "", "q", "good"), published(1, "none", "q", "bad"), published(1, "", "q", "late"), published(1, "", "q", "late")),
			do(reopened, reopen),
			do(`1 QueueDeclareOk Queue="q" MessageCount=1`, declareQ),
		},
		"B12 acks in flight to a refused channel are discarded": {
			do(q1, declareQ, published(1, "", "q", "x")),
			do("1 BasicGetOk DeliveryTag=1\n1 header 1\n1 body \"x\"", on(1, &wire.BasicGet{Queue: "q"})),
			do("1 ChannelClose ReplyCode=404", on(1, &wire.QueueDeclare{Queue: "none", Passive: true}, &wire.BasicAck{DeliveryTag: 1}, &wire.BasicAck{DeliveryTag: 99})),
			do(reopened, reopen),
			do("1 BasicGetOk DeliveryTag=1 Redelivered=true\n1 header 1\n1 body \"x\"", getQ),
		},
		"B13 channel is opened anew after close-ok": {
			do("1 ChannelClose ReplyCode=404", on(1, &wire.QueueDeclare{Queue: "none", Passive: true})),
			do(reopened, reopen), do(q1, declareQ),
		},
		"24 unknown tag": {
			do("1 ChannelClose ReplyCode=406 ReplyText=\"PRECONDITION_FAILED - unknown delivery tag 7\" ClassID=60 MethodID=80", on(1, &wire.BasicAck{DeliveryTag: 7})),
			do(reopened, reopen),
		},
		"24 unknown tag, rejected": {
			do(refusedBy(90), on(1, &wire.BasicReject{DeliveryTag: 7})), do(reopened, reopen),
			do(refusedBy(90), on(1, &wire.BasicReject{DeliveryTag: 7, Requeue: true})), do(reopened, reopen),
		},
		"24 unknown tag, by nack": {
			do(refusedBy(120), on(1, &wire.BasicNack{DeliveryTag: 7})), do(reopened, reopen),
			do(refusedBy(120), on(1, &wire.BasicNack{DeliveryTag: 7, Requeue: true})), do(reopened, reopen),
			do(refusedBy(120), on(1, &wire.BasicNack{DeliveryTag: 7, Multiple: true})), do(reopened, reopen),
		},
		"24 tag acknowledged twice": {
			do(q1, declareQ, published(1, "", "q", "x")),
			do("1 BasicGetOk\n1 header\n1 body", on(1, &wire.BasicGet{Queue: "q"})),
			do("1 ChannelClose ReplyCode=406 ReplyText=\"PRECONDITION_FAILED - unknown delivery tag 1\"", on(1, &wire.BasicAck{DeliveryTag: 1}, &wire.BasicAck{DeliveryTag: 1})),
		},
		"24 tag of 2^64-1, multiple": {
			do("1 ChannelClose ReplyCode=406 ReplyText=\"PRECONDITION_FAILED - unknown delivery tag 18446744073709551615\"", on(1, &wire.BasicAck{DeliveryTag: math.MaxUint64, Multiple: true})),
		},
		"24 C1 tag 0": {
			do("1 QueueDeclareOk", on(1, &wire.BasicAck{Multiple: true}), declareQ),
			do("1 ChannelClose ReplyCode=406 ReplyText=\"PRECONDITION_FAILED - unknown delivery tag 0\"", on(1, &wire.BasicAck{})),
		},
		"25 prefetch of 65535": {do("1 BasicQosOk", on(1, &wire.BasicQos{PrefetchCount: 65535}))},
		"22 names of 255 octets": {
			do(`1 QueueDeclareOk Queue="`+strings.Repeat("q", 255), on(1, &wire.QueueDeclare{Queue: strings.Repeat("q", 255)})),
			do(`1 BasicConsumeOk ConsumerTag="`+strings.Repeat("t", 255), on(1, &wire.BasicConsume{Queue: strings.Repeat("q", 255), ConsumerTag: strings.Repeat("t", 255)})),
			do(`1 BasicDeliver ConsumerTag="`+strings.Repeat("t", 255), published(1, "", strings.Repeat("q", 255), "")),
		},
		"23 headers of every type come back octet for octet": {
			do(q1, declareQ, published(1, "", "q", "x", everyType()...)),
			do(fmt.Sprintf("1 BasicGetOk\n1 header 1 %q\n1 body \"x\"", everyType()), getQ),
		},
		"A24 deleting what is not there": {
			do("1 QueueDeleteOk\n1 ExchangeDeleteOk", on(1, &wire.QueueDelete{Queue: "none"}, &wire.ExchangeDelete{Exchange: "none"})),
		},
		"C14 consumer tag used twice": {
			do(q1, declareQ), do(`1 BasicConsumeOk ConsumerTag="t"`, on(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "t"})),
			do("0 ConnectionClose ReplyCode=530 ReplyText=\"NOT_ALLOWED - attempt to reuse consumer tag 't'\" ClassID=60 MethodID=20", on(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "t"})),
		},
		"C14 empty consumer tags": {
			do(q1, declareQ), do(`1 BasicConsumeOk ConsumerTag="amq.ctag-`, on(1, &wire.BasicConsume{Queue: "q"})),
			do(`1 BasicCancelOk ConsumerTag="unknown"`, on(1, &wire.BasicConsume{Queue: "q", NoWait: true}, &wire.BasicCancel{ConsumerTag: "unknown"})),
		},
		"C8 client that did not ask is not told of a cancelled consumer": {
			do(q1, declareQ), do(`1 BasicConsumeOk ConsumerTag="t"`, on(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "t"})),
			do("1 QueueDeleteOk", on(1, &wire.QueueDelete{Queue: "q"})),
			do(`1 BasicCancelOk ConsumerTag="t"`, on(1, &wire.BasicCancel{ConsumerTag: "t"})),
		},
		"B19 confirms start at one on each opening": {
			do(q1, declareQ), do("1 ConfirmSelectOk\n1 BasicAck DeliveryTag=1", on(1, &wire.ConfirmSelect{}), published(1, "", "q", "")),
			do("1 ChannelCloseOk", on(1, &wire.ChannelClose{})), do(reopened, on(1, &wire.ChannelOpen{})),
			do("1 ConfirmSelectOk\n1 BasicAck DeliveryTag=1", on(1, &wire.ConfirmSelect{}), published(1, "", "q", "")),
		},
		"B3 body of three frames for three queues": {
			do("1 QueueDeclareOk\n1 QueueDeclareOk\n1 QueueDeclareOk\n1 QueueBindOk\n1 QueueBindOk\n1 QueueBindOk",
				on(1, &wire.QueueDeclare{Queue: "a"}, &wire.QueueDeclare{Queue: "b"}, &wire.QueueDeclare{Queue: "c"}),
				on(1, &wire.QueueBind{Queue: "a", Exchange: "amq.fanout"}, &wire.QueueBind{Queue: "b", Exchange: "amq.fanout"}, &wire.QueueBind{Queue: "c", Exchange: "amq.fanout"}),
				threeFrames()),
			do(strings.Repeat("1 BasicGetOk\n1 header 300000\n1 body\n1 body\n1 body\n", 3)[:3*len("1 BasicGetOk\n1 header 300000\n1 body\n1 body\n1 body\n")-1],
				on(1, &wire.BasicGet{Queue: "a"}, &wire.BasicGet{Queue: "b"}, &wire.BasicGet{Queue: "c"})),
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, address := serve(t, nil)
			dialRaw(t, address).run(steps...)
		})
	}
}

func TestClientThatIsStillWritingCanReadWhyItIsClosed(t *testing.T) {
	_, _, address := serve(t, nil)
	c := dialRaw(t, address)
	c.write([]byte{3, 0, 1, 0, 0x40, 0, 0}) // a body frame of 4 MiB, and its payload comes behind it
	c.write(make([]byte, 4<<20))
	c.run(do(`0 ConnectionClose ReplyCode=501 ReplyText="FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4194304,131072}"`))
}

func Test26_ChannelsOpenedAndClosedForEverAreAnsweredInOrder(t *testing.T) {
	_, m, address := serve(t, nil)
	c := dialRaw(t, address)
	const rounds = 5000
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range rounds {
			c.write(on(2, &wire.ChannelOpen{}, &wire.ChannelClose{ReplyCode: 200}))
		}
	}()
	for range rounds {
		c.await(wire.IDChannelOpenOk)
		c.await(wire.IDChannelCloseOk)
	}
	<-sent
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.machine.Sessions("/"); len(x) != 1 || x[0].Channels != 1 {
		t.Errorf("sessions: %+v", x)
	}
}

func threeFrames() []byte {
	b := on(1, &wire.BasicPublish{Exchange: []byte("amq.fanout")})
	b = wire.AppendHeader(b, 1, 60, 300000, []byte{0, 0})
	for range 3 {
		b = wire.AppendBody(b, 1, make([]byte, 100000))
	}
	return b
}

// everyType is a property list with a headers table that has each type of the wire, extreme values among them.
func everyType() []byte {
	nested := message.AppendTable(nil, message.Table{{Key: "empty", Value: message.Table{}}, {Key: "array", Value: []any{"s", []any{}, message.Table{}}}})
	table := []byte{
		1, 't', 't', 1, 1, 'b', 'b', 0x80, 1, 'B', 'B', 0xff, 1, 's', 's', 0x80, 0, 1, 'u', 'u', 0xff, 0xff, 1, 'U', 'U', 0x80, 1,
		1, 'I', 'I', 0x80, 0, 0, 0, 1, 'i', 'i', 0xff, 0xff, 0xff, 0xff, 1, 'l', 'l', 0x80, 0, 0, 0, 0, 0, 0, 0,
		1, 'L', 'L', 0x80, 0, 0, 0, 0, 0, 0, 1, 1, 'f', 'f', 0x7f, 0xc0, 0, 1, 1, 'd', 'd', 0x7f, 0xf8, 0, 0, 0, 0, 0, 9,
		1, 'D', 'D', 255, 0xff, 0xff, 0xff, 0xff, 1, 'S', 'S', 0, 0, 0, 2, 0xff, 0, 1, 'T', 'T', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		1, 'V', 'V', 1, 'x', 'x', 0, 0, 0, 1, 0, 1, 'F', 'F', 0, 0, 0, byte(len(nested)),
	}
	table = append(table, nested...)
	p := message.Properties{Set: message.PropHeaders | message.PropTimestamp, Headers: table, Timestamp: math.MaxUint64}
	return message.AppendProperties(nil, &p)
}

// refusedBy is the channel.close for an unknown tag 7 in a method of class basic.
func refusedBy(method int) string {
	return fmt.Sprintf("1 ChannelClose ReplyCode=406 ReplyText=\"PRECONDITION_FAILED - unknown delivery tag 7\" ClassID=60 MethodID=%d", method)
}
