package message_test

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/understudy-mq/understudy/core/message"
)

const allProperties = message.Property(0xfffc)

func full() *message.Properties {
	return &message.Properties{
		Set: allProperties, ContentType: "text/plain", ContentEncoding: "gzip", Headers: []byte("\x01aI\x00\x00\x00\x05"),
		DeliveryMode: 2, Priority: 9, CorrelationID: "c", ReplyTo: "r", Expiration: "1000", MessageID: "m",
		Timestamp: 1<<63 - 1, Type: "t", UserID: "guest", AppID: "a", ClusterID: strings.Repeat("x", 255),
	}
}

func TestPropertiesAreInTheOrderOfTheSpecification(t *testing.T) {
	x := full()
	x.ClusterID = "z"
	const want = "\xff\xfc\x0atext/plain\x04gzip\x00\x00\x00\x07\x01aI\x00\x00\x00\x05\x02\x09\x01c\x01r\x041000\x01m" +
		"\x7f\xff\xff\xff\xff\xff\xff\xff\x01t\x05guest\x01a\x01z"
	if got := message.AppendProperties(nil, x); string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestEverySetOfPropertiesComesBack(t *testing.T) {
	for set := 0; set <= 0xffff; set += 4 {
		x := full()
		x.Set = message.Property(set)
		wire := message.AppendProperties(nil, x)
		if err := message.CheckProperties(wire); err != nil {
			t.Fatalf("%04x: %v", set, err)
		}
		got, err := message.ParseProperties(wire)
		if err != nil || got.Set != x.Set {
			t.Fatalf("%04x: set %04x, %v", set, got.Set, err)
		}
		if again := message.AppendProperties(nil, &got); !bytes.Equal(again, wire) {
			t.Fatalf("%04x: %q came back as %q", set, wire, again)
		}
		headers, err := message.PropertiesHeaders(wire)
		if _, there := headers.Get("a"); err != nil || there != x.Has(message.PropHeaders) {
			t.Fatalf("%04x: headers %v, %v", set, headers, err)
		}
	}
}

func TestPropertyValuesComeBack(t *testing.T) {
	want := full()
	got, err := message.ParseProperties(message.AppendProperties(nil, want))
	if err != nil || !reflect.DeepEqual(&got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestTimestampsOfAnySizeAreOpaque(t *testing.T) {
	for _, at := range []message.Timestamp{0, math.MaxInt64, math.MaxUint64} {
		wire := message.AppendProperties(nil, &message.Properties{Set: message.PropTimestamp, Timestamp: at})
		if got, err := message.ParseProperties(wire); err != nil || got.Timestamp != at || message.CheckProperties(wire) != nil {
			t.Errorf("%d: %d, %v", at, got.Timestamp, err)
		}
	}
}

func TestBadPropertiesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		wire string
		err  error
	}{
		"empty":                  {"", message.ErrProperties},
		"half the flags":         {"\x80", message.ErrProperties},
		"continuation flag":      {"\x80\x01\x01a\x00\x00", message.ErrProperties},
		"unknown flag":           {"\x00\x02", message.ErrProperties},
		"value of unknown flag":  {"\x00\x02\x01a", message.ErrProperties},
		"bytes behind":           {"\x80\x00\x01ab", message.ErrProperties},
		"bytes and no flags":     {"\x00\x00a", message.ErrProperties},
		"short string too long":  {"\x80\x00\x05abcd", message.ErrProperties},
		"headers beyond the end": {"\x20\x00\xff\xff\xff\xff\x01aV", message.ErrProperties},
		"headers malformed":      {"\x20\x00\x00\x00\x00\x03\x01a?", message.ErrTable},
	} {
		if err := message.CheckProperties([]byte(c.wire)); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := message.AppendProperties(nil, full())
	for n := range whole {
		if err := message.CheckProperties(whole[:n]); err == nil {
			t.Errorf("cut at %d of %d: accepted", n, len(whole))
		}
		if _, err := message.ParseProperties(whole[:n]); !errors.Is(err, message.ErrProperties) {
			t.Errorf("cut at %d of %d: %v", n, len(whole), err)
		}
	}
}

func TestCheckPropertiesAllocatesNothing(t *testing.T) {
	wire := message.AppendProperties(nil, full())
	if n := testing.AllocsPerRun(100, func() {
		if err := message.CheckProperties(wire); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAppendPropertiesPanicsOnALongString(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	message.AppendProperties(nil, &message.Properties{Set: message.PropType, Type: strings.Repeat("t", 256)})
}

func TestHeadersComeBackThroughProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyTable(2).Draw(t, "headers")
		wire := message.AppendProperties(nil, &message.Properties{Set: message.PropHeaders, Headers: message.AppendTable(nil, want)})
		if got, err := message.PropertiesHeaders(wire); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %#v, %v, want %#v", got, err, want)
		}
	})
}

func FuzzProperties(f *testing.F) {
	f.Add(message.AppendProperties(nil, full()))
	f.Add([]byte("\x20\x00\x00\x00\x00\x03\x01aV"))
	f.Add([]byte("\x80\x01\x01a\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		checked := message.CheckProperties(b)
		x, err := message.ParseProperties(b)
		if err != nil {
			if checked == nil {
				t.Fatalf("checked, but: %v", err)
			}
			return
		}
		if again := message.AppendProperties(nil, &x); !bytes.Equal(again, b) {
			t.Fatalf("%q came back as %q", b, again)
		}
		if _, err := message.PropertiesHeaders(b); (err == nil) != (checked == nil) {
			t.Fatalf("PropertiesHeaders says %v, CheckProperties %v", err, checked)
		}
	})
}

func BenchmarkCheckProperties(b *testing.B) {
	wire := message.AppendProperties(nil, &message.Properties{
		Set: message.PropContentType | message.PropHeaders | message.PropDeliveryMode, ContentType: "text/plain",
		Headers: []byte("\x01aI\x00\x00\x00\x05"), DeliveryMode: 2,
	})
	for b.Loop() {
		if message.CheckProperties(wire) != nil {
			b.Fatal("refused")
		}
	}
}
