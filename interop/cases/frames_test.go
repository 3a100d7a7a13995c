package cases

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/rawclient"
)

func TestB1EmptyBodyHasNoBodyFrame(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	c.confirming()
	c.publish("", q, "")
	c.want("basic.ack 1 ")
	c.publish("", q, "")
	c.publish("", q, "next")
	c.confirmed(2, 3)
	if e := c.get(q, true); len(e.Body) != 0 {
		t.Fatalf("got %s", e)
	}
	other := connect(t)
	other.consume(q, "t")
	other.delivery("")
	other.delivery("next")
}

func TestB2EmptyBodyKeepsItsProperties(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	c.publishWith("", q, props{Headers: table{"k": "v"}, MessageID: "id"}, "")
	c.routed()
	if e := c.get(q, true); e.Properties.Headers["k"] != "v" || e.Properties.MessageID != "id" {
		t.Fatalf("properties %+v", e.Properties)
	}
}

func TestB3BodyOfManyFramesReachesAllQueuesWhole(t *testing.T) {
	c := connect(t)
	x := c.exchange("fanout", nil)
	queues := []string{c.queue(nil), c.queue(nil), c.queue(nil)}
	for _, q := range queues {
		c.bind(q, x, "", nil)
	}
	body := pattern(3 * c.FrameMax)
	c.publish(x, "", body)
	c.routed()
	for _, q := range queues {
		if e := c.get(q, true); string(e.Body) != body {
			t.Fatalf("queue %s: %d octets came of %d, or other ones", q, len(e.Body), len(body))
		}
	}
}

// pattern is a body of which no two parts are alike.
func pattern(octets int) string {
	var b strings.Builder
	for i := 0; b.Len() < octets; i++ {
		fmt.Fprintf(&b, "%d,", i)
	}
	return b.String()[:octets]
}

func TestB4BodiesAboutTheFrameSize(t *testing.T) {
	c := connectAs(t, rawclient.Handshake{FrameMax: 4096})
	q := c.queue(nil)
	for _, octets := range []int{1, 4087, 4088, 4089, 8175, 8176, 8177} {
		c.publish("", q, pattern(octets))
		c.routed()
		if e := c.get(q, true); string(e.Body) != pattern(octets) {
			t.Fatalf("%d octets came of %d, or other ones", len(e.Body), octets)
		}
	}
	c.FrameMax = 8192 // larger than agreed
	c.publish("", q, pattern(6000))
	c.want("connection.close 501 FRAME_ERROR")
}

func TestB5SmallFramesAndALongIntroduction(t *testing.T) {
	c := connectAs(t, rawclient.Handshake{FrameMax: 4096, Properties: table{"long": strings.Repeat("p", 3500)}})
	c.ready(c.queue(nil))
	c = bare(t)
	_, err := c.Login(node.url, nil)
	must(t, err)
	c.send(0, "connection.tune-ok", 10, 100, 0)
	c.send(0, "connection.open", "/")
	c.want(differs(t, "B5 frame_max of 100"))
}

func TestB5IntroductionOfSevenKilobytes(t *testing.T) {
	e, _ := bare(t).Login(node.url, table{"long": strings.Repeat("p", 7000)})
	if want := differs(t, "B5 introduction of 7 kB"); e.Name != want {
		t.Fatalf("got %s, want %s", e, want)
	}
}

func TestB6HeartbeatOnAChannel(t *testing.T) {
	c := connect(t)
	c.write(rawclient.AppendFrame(nil, 8, 1, nil))
	c.want("connection.close 505 UNEXPECTED_FRAME")
}

func TestB7WhatIsNotAMQPIsToldSo(t *testing.T) {
	must(t, bare(t).Close()) // a probe
	for _, hello := range []string{"GET / HTTP/1.1\r\n\r\n", "AMQP\x00\x00\x08\x00", "AMQP\x00\x01\x00\x00"} {
		c := bare(t)
		c.write([]byte(hello))
		got, err := c.ReadRaw(16)
		must(t, err)
		if string(got) != "AMQP\x00\x00\x09\x01" {
			t.Errorf("%q is answered with %q", hello, got)
		}
	}
	c := connect(t)
	c.write(rawclient.AppendFrame(nil, 1, 1, nil))
	c.want("connection.close 501 FRAME_ERROR")
}

func TestB8ContentOutOfTurn(t *testing.T) {
	publish := slices.Clip(rawclient.AppendCall(nil, 1, "basic.publish", "", "k"))
	for what, r := range map[string]struct {
		frames []byte
		want   string
	}{
		"method instead of a header": {rawclient.AppendCall(publish, 1, "basic.qos", 0, 1), "505 UNEXPECTED_FRAME"},
		"body instead of a header":   {rawclient.AppendFrame(publish, 3, 1, []byte("b")), "505 UNEXPECTED_FRAME"},
		"method instead of a body":   {rawclient.AppendCall(rawclient.AppendFrame(publish, 2, 1, []byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0}), 1, "basic.qos", 0, 1), "505 UNEXPECTED_FRAME"},
		"header of another class":    {rawclient.AppendFrame(publish, 2, 1, []byte{0, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), "505 UNEXPECTED_FRAME"},
		"header without a publish":   {rawclient.AppendFrame(nil, 2, 1, []byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), "505 UNEXPECTED_FRAME"},
		"unknown type of frame":      {rawclient.AppendFrame(nil, 0, 1, []byte{1, 2, 3, 4}), "501 FRAME_ERROR"},
		"B17 publish in a publish":   {append(publish, publish...), "505 UNEXPECTED_FRAME"},
		"channel never opened":       {rawclient.AppendCall(nil, 7, "basic.qos", 0, 1), "504 CHANNEL_ERROR"},
	} {
		t.Run(what, func(t *testing.T) {
			c := connect(t)
			c.write(r.frames)
			c.want("connection.close " + r.want)
		})
	}
}

// fieldOfEachType is a field of each type that RabbitMQ knows, many at their limits, as it stands in a table.
var fieldOfEachType = []string{
	"\x01tt\x01", "\x01bb\x80", "\x01BB\xff", "\x01ss\x80\x00", "\x01uu\xff\xff", "\x01II\x80\x00\x00\x00", "\x01ii\xff\xff\xff\xff",
	"\x01ll\x80\x00\x00\x00\x00\x00\x00\x00", "\x01ff\x3f\xc0\x00\x00", "\x01dd\x3f\xf8\x00\x00\x00\x00\x00\x00", "\x01DD\x02\x00\x00\x00\x07",
	"\x01SS\x00\x00\x00\x02\xff\x00", "\x01TT\x00\x00\x00\x00\x00\x00\x00\x09", "\x01VV", "\x01xx\x00\x00\x00\x01\x00",
	"\x01FF\x00\x00\x00\x13\x01eF\x00\x00\x00\x00\x01aA\x00\x00\x00\x05F\x00\x00\x00\x00",
}

// everyType is a headers table with all of them and more fields behind.
func everyType(more string) []byte {
	table := strings.Join(fieldOfEachType, "") + more
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(table))), table...)
}

func TestB9HeadersOfEveryTypeComeBackOctetForOctet(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	raw := append([]byte{0x20, 0}, everyType("")...)
	c.publishWith("", q, props{Raw: raw}, "m")
	if e := c.get(q, true); !bytes.Equal(e.Properties.Raw, raw) {
		t.Fatalf("got %q, want %q", e.Properties.Raw, raw)
	}
	// Two more types are the specification's, which some clients send.
	raw = append([]byte{0x20, 0}, everyType("\x01LL\x80\x00\x00\x00\x00\x00\x00\x01\x01UU\x80\x01")...)
	c.publishWith("", q, props{Raw: raw}, "m")
	c.send(1, "basic.get", q, true)
	if e := c.want(differs(t, "B9 types L and U")); e.Name == "basic.get-ok" && !bytes.Equal(e.Properties.Raw, raw) {
		t.Fatalf("got %q, want %q", e.Properties.Raw, raw)
	}
}

func TestB10TimestampsOfAnySize(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	for _, at := range []uint64{0, 1, math.MaxInt64, math.MaxUint64} {
		c.publishWith("", q, props{Timestamp: &at}, "m")
		if e := c.get(q, true); e.Properties.Timestamp == nil || *e.Properties.Timestamp != at {
			t.Fatalf("%d: got %s %+v", at, e, e.Properties)
		}
	}
}

func TestB11SilentClientIsCutAndASlowOneIsNot(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	silent, slow := connectAs(t, rawclient.Handshake{Heartbeat: 2}), connectAs(t, rawclient.Handshake{Heartbeat: 2})
	cut := make(chan int, 1)
	go func() {
		heartbeats := 0
		for e, err := silent.Next(); err == nil && e.Name == "heartbeat"; e, err = silent.Next() {
			heartbeats++
		}
		cut <- heartbeats
	}()
	message := slow.message("", q, false, props{}, pattern(100))
	for waiting := true; waiting; {
		slow.write(message[:1])
		message = message[1:]
		select {
		case heartbeats := <-cut:
			if heartbeats == 0 {
				t.Error("no heartbeat came")
			}
			waiting = false
		case <-time.After(50 * time.Millisecond): // slow, and yet not silent
		}
	}
	slow.write(message)
	c.awaitReady(q, 1)
	if e := c.get(q, true); string(e.Body) != pattern(100) {
		t.Fatalf("got %s", e)
	}
}

func TestB12WhatIsInFlightToARefusedChannelIsDiscarded(t *testing.T) {
	c := connect(t)
	q := c.filled("m")
	c.get(q, false)
	b := rawclient.AppendCall(nil, 1, "queue.declare", "none.such", true)
	b = rawclient.AppendCall(b, 1, "basic.ack", 1)
	b = rawclient.AppendCall(b, 1, "basic.nack", 99)
	b = append(b, c.message("", q, false, props{}, "late")...)
	b = append(b, c.message("none.such", q, false, props{}, "late")...)
	c.write(b)
	c.want("channel.close 404")
	c.reopen(1)
	if e := c.get(q, true); string(e.Body) != "m" || !redelivered(e) {
		t.Fatalf("got %s", e)
	}
	c.wantBodies(q)
}

func TestB13ChannelIsNotOpenedAgainBeforeItsCloseIsAnswered(t *testing.T) {
	c := connect(t)
	c.call(1, "channel.close 404", "queue.declare", "none.such", true)
	c.call(1, "connection.close 504 CHANNEL_ERROR - second 'channel.open' seen 20 10", "channel.open")
}

func TestB14ChannelOpenedTwice(t *testing.T) {
	c := connect(t)
	c.call(1, "connection.close 504 CHANNEL_ERROR - second 'channel.open' seen 20 10", "channel.open")
}

func TestB15ChannelsUpToTheAgreedNumber(t *testing.T) {
	c := connectAs(t, rawclient.Handshake{ChannelMax: 3})
	c.open(2)
	c.open(3)
	c.call(4, "connection.close 530 NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3) 0 0", "channel.open")

	c = bare(t)
	tune, err := c.Login(node.url, nil)
	must(t, err)
	c.send(0, "connection.tune-ok", int(tune.Number(0))+1, int(tune.Number(1)), 0)
	c.send(0, "connection.open", "/")
	c.want(differs(t, "B15 more channels than proposed"))
}

func TestB15AndB16NoLimitOfTheClientIsTheServers(t *testing.T) {
	c := bare(t)
	_, err := c.Login(node.url, nil)
	must(t, err)
	c.send(0, "connection.tune-ok", 0, 0, 0)
	c.send(0, "connection.open", "/")
	if e := c.want(differs(t, "B15 B16 no limits")); e.Name != "connection.open-ok" {
		return
	}
	c.open(1)
	q := c.queue(nil)
	body := pattern(500_000)
	c.publishWith("", q, props{Headers: table{"long": strings.Repeat("h", 50_000)}}, body)
	if e := c.get(q, true); string(e.Body) != body || len(e.Properties.Headers["long"].(string)) != 50_000 {
		t.Fatalf("got %s", e)
	}
}

func TestB19RefusedChannelsLeaveNothing(t *testing.T) {
	c := connect(t)
	for n := uint16(2); n < 100; n++ {
		c.open(n)
		c.call(n, "confirm.select-ok", "confirm.select")
		b := rawclient.AppendCall(nil, n, "basic.publish", "none.such", "k")
		c.write(rawclient.AppendContent(b, n, c.FrameMax, &props{}, []byte("m")))
		c.want("channel.close 404 NOT_FOUND - no exchange 'none.such' in vhost '/'")
		c.send(n, "channel.close-ok")
	}
	q := c.queue(nil)
	c.open(50) // its confirms begin at one again
	c.call(50, "confirm.select-ok", "confirm.select")
	c.write(rawclient.AppendContent(rawclient.AppendCall(nil, 50, "basic.publish", "", q), 50, c.FrameMax, &props{}, nil))
	c.want("basic.ack 1 ")
}

func TestB20SecretIsUpdated(t *testing.T) {
	c := connect(t)
	c.call(0, "connection.update-secret-ok", "connection.update-secret", "secret", "because")
}
