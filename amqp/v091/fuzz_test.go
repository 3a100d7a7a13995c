package v091

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core/entry"
)

// seeds are streams of a client from its start-ok on.
func seeds() [][]byte {
	opening := bytes.Join([][]byte{startOk("guest", "guest"), tuneOk(0, 8192, 0), connectionOpen("/"), frame(1, &wire.ChannelOpen{})}, nil)
	var all [][]byte
	for _, tail := range [][]byte{
		publish(1, "amq.topic", "a.b", "hello"),
		frame(1, &wire.QueueDeclare{Queue: "q", Arguments: []byte{1, 'k', 'F', 0, 0, 0, 3, 1, 'a', 'V'}}),
		frame(1, &wire.BasicConsume{Queue: "q", NoAck: true}),
		frame(1, &wire.BasicAck{DeliveryTag: 1, Multiple: true}),
		frame(1, &wire.ChannelClose{ReplyCode: 200}),
		frame(0, &wire.ConnectionClose{ReplyCode: 200}),
	} {
		all = append(all, append(bytes.Clone(opening), tail...))
	}
	return all
}

// FuzzConnection feeds the receiver any octets, in two read bursts, and lets the machine confirm whatever it likes.
func FuzzConnection(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s, uint16(len(s)/2), uint8(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint16, channel uint8) {
		g := newRig(t)
		g.session.quiet = true
		g.recv.start()
		at := min(int(cut), len(b))
		n := g.recv.input(b[:at])
		g.recv.input(b[n:])
		if g.recv.session != nil {
			g.recv.flush() //nolint:errcheck // the fake never fails
		}
		g.tell(reply(uint16(channel), entry.KindChannelOpen), confirmed(uint16(channel), 1), refused404(uint16(channel)), confirmed(uint16(channel), 1))
	})
}

// FuzzOpenConnection feeds frames with any payloads to an open connection: most octets are no frame at all.
func FuzzOpenConnection(f *testing.F) {
	f.Add(uint8(1), uint8(1), (&wire.BasicPublish{}).Append(nil), uint8(2), header(1, 5)[7:21], uint8(3), []byte("hello"))
	f.Add(uint8(1), uint8(1), (&wire.QueueBind{}).Append(nil), uint8(1), (&wire.BasicGet{}).Append(nil), uint8(8), []byte{})
	f.Fuzz(func(t *testing.T, channel, typ1 uint8, p1 []byte, typ2 uint8, p2 []byte, typ3 uint8, p3 []byte) {
		g := opened(t, 1)
		g.session.quiet = true
		c := uint16(channel % 3)
		g.in(raw(typ1, c, p1), raw(typ2, c, p2), raw(typ3, c, p3))
	})
}

func TestHostileStreamsTakeLittleMemory(t *testing.T) {
	huge := []byte{3, 0, 1, 0xff, 0xff, 0xff, 0xff}
	announced := bytes.Join([][]byte{frame(1, &wire.BasicPublish{}), header(1, 16<<20), bodyOf(1, "x")}, nil)
	for name, in := range map[string][]byte{"a frame of 4 GiB": huge, "a body of 16 MiB announced": announced} {
		g := opened(t, 1)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		g.recv.input(in)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
	}
}
