package wire

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestFrameIsParsedInPlace(t *testing.T) {
	b := AppendBody(nil, 7, []byte("hello"))
	var f Frame
	n, err := Parse(append(b, 1, 2), 100, &f)
	if err != nil || n != len(b) || f.Type != FrameBody || f.Channel != 7 || string(f.Payload) != "hello" {
		t.Fatalf("Parse = %d, %v, %+v", n, err, f)
	}
}

func TestIncompleteFrameWaitsAndTellsWhatItWants(t *testing.T) {
	b := AppendBody(nil, 7, []byte("hello"))
	var f Frame
	for i := range b {
		if n, err := Parse(b[:i], 100, &f); n != 0 || err != nil {
			t.Fatalf("after %d octets: %d, %v", i, n, err)
		}
		want := len(b)
		if i < 7 {
			want = 0
		}
		if got := Want(b[:i]); got != want {
			t.Fatalf("Want after %d octets = %d, want %d", i, got, want)
		}
	}
}

func TestFrameFaultsAreRefused(t *testing.T) {
	bad := AppendBody(nil, 1, []byte("x"))
	bad[len(bad)-1] = 0
	for _, c := range []struct {
		name string
		in   []byte
		err  error
		text string
	}{
		{"size beyond the limit, before the payload is there", []byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff}, ErrFrameSize, "type 1, all octets = <<>>: {frame_too_large,4294967295,100}"},
		{"one octet beyond the limit", []byte{3, 0, 1, 0, 0, 0, 101}, ErrFrameSize, "{frame_too_large,101,100}"},
		{"wrong end", bad, ErrFrameEnd, "{invalid_frame_end_marker,0}"},
		{"type 0", []byte{0}, ErrFrameType, "{unknown_frame_type,0}"},
		{"type 4", []byte{4, 0, 0}, ErrFrameType, "{unknown_frame_type,4}"},
	} {
		var f Frame
		_, err := Parse(c.in, 100, &f)
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v with %q", c.name, err, c.err, c.text)
		}
	}
}

// every is one value of each method, each field filled with something of its own.
func every(t testing.TB) []Method {
	var all []Method
	for class := uint32(0); class < 100; class++ {
		for method := uint32(0); method < 130; method++ {
			m := New(ID(class<<16 | method))
			if m == nil {
				continue
			}
			fill(reflect.ValueOf(m).Elem())
			all = append(all, m)
		}
	}
	return all
}

func fill(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		switch f.Kind() {
		case reflect.Bool:
			f.SetBool(i%2 == 0)
		case reflect.String:
			f.SetString(strings.Repeat("x", 255-i))
		case reflect.Slice:
			f.SetBytes([]byte{byte(i), 1, 2})
		default:
			f.SetUint(uint64(i) + 3)
		}
	}
}

func TestEveryMethodComesBackAsItWasWritten(t *testing.T) {
	for _, m := range every(t) {
		b := m.Append(nil)
		id, args, ok := SplitMethod(b)
		if !ok || id != m.ID() || id.String() == "" {
			t.Fatalf("%T: ids %v, %q", m, id, id.String())
		}
		back := New(id)
		if err := back.Decode(args); err != nil || !reflect.DeepEqual(m, back) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", id, err, back, m)
		}
	}
}

func TestCutAndOverlongArgumentsAreRefused(t *testing.T) {
	for _, m := range every(t) {
		_, args, _ := SplitMethod(m.Append(nil))
		for n := range args {
			if err := New(m.ID()).Decode(args[:n]); !errors.Is(err, ErrTruncated) {
				t.Fatalf("%s cut to %d of %d octets: %v", m.ID(), n, len(args), err)
			}
		}
		if err := New(m.ID()).Decode(append(args, 0)); !errors.Is(err, ErrTrailing) {
			t.Fatalf("%s with an octet more: %v", m.ID(), err)
		}
	}
}

func TestLongStringLengthBeyondTheFrameTakesNoMemory(t *testing.T) {
	args := []byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff} // queue.declare with a table of 4 GiB
	var m QueueDeclare
	if n := testing.AllocsPerRun(10, func() { _ = m.Decode(args) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if err := m.Decode(args); !errors.Is(err, ErrTruncated) {
		t.Error(err)
	}
}

func TestShortStringsAreCutTo255Octets(t *testing.T) {
	m := ConnectionClose{ReplyText: strings.Repeat("a", 300)}
	var back ConnectionClose
	if err := back.Decode(m.Append(nil)[4:]); err != nil || len(back.ReplyText) != 255 {
		t.Error(err, len(back.ReplyText))
	}
}

func TestContentHeaderRoundTrip(t *testing.T) {
	b := AppendHeader(nil, 3, 60, 1<<40, []byte{0x80, 0, 1, 'a'})
	var f Frame
	if _, err := Parse(b, 100, &f); err != nil {
		t.Fatal(err)
	}
	var h ContentHeader
	if err := h.Decode(f.Payload); err != nil || h.Class != 60 || h.Weight != 0 || h.BodySize != 1<<40 || !bytes.Equal(h.Properties, []byte{0x80, 0, 1, 'a'}) {
		t.Errorf("%v %+v", err, h)
	}
	if err := h.Decode(f.Payload[:13]); !errors.Is(err, ErrTruncated) {
		t.Error(err)
	}
}

func TestHotMethodsAllocateNothing(t *testing.T) {
	publish := (&BasicPublish{Exchange: []byte("amq.topic"), RoutingKey: []byte("a.b.c")}).Append(nil)[4:]
	ack := (&BasicAck{DeliveryTag: 9, Multiple: true}).Append(nil)[4:]
	var p BasicPublish
	var a BasicAck
	out := make([]byte, 0, 1024)
	deliver := &BasicDeliver{ConsumerTag: "c", Exchange: []byte("e"), RoutingKey: []byte("k")}
	n := testing.AllocsPerRun(100, func() {
		_ = p.Decode(publish)
		_ = a.Decode(ack)
		out = AppendMethod(out[:0], 1, deliver)
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(AppendBody(nil, 1, []byte("abc")))
	f.Add([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var fr Frame
		n, err := Parse(b, 4096, &fr)
		if n < 0 || n > len(b) || (err == nil && n > 0 && len(fr.Payload) > 4096) {
			t.Fatalf("Parse = %d of %d, %v", n, len(b), err)
		}
	})
}

func FuzzMethod(f *testing.F) {
	for _, m := range every(f) {
		f.Add(m.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		id, args, ok := SplitMethod(b)
		if !ok {
			return
		}
		m := New(id)
		if m == nil || m.Decode(args) != nil {
			return
		}
		again := New(id)
		if err := again.Decode(m.Append(nil)[4:]); err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%s does not come back: %v", id, err)
		}
	})
}
