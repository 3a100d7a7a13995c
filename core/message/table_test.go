package message_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/understudy-mq/understudy/core/message"
)

// everyType is a table with each type of value, as bytes and decoded. L and U are apart: they are not written back.
var everyType = []struct {
	wire  string
	value any
}{
	{"t\x01", true},
	{"t\x00", false},
	{"b\x80", int8(-128)},
	{"B\xff", uint8(255)},
	{"s\x80\x00", int16(math.MinInt16)},
	{"u\xff\xff", uint16(math.MaxUint16)},
	{"I\x80\x00\x00\x00", int32(math.MinInt32)},
	{"i\xff\xff\xff\xff", uint32(math.MaxUint32)},
	{"l\x80\x00\x00\x00\x00\x00\x00\x00", int64(math.MinInt64)},
	{"f\x3f\x80\x00\x00", float32(1)},
	{"d\x7f\xf0\x00\x00\x00\x00\x00\x00", math.Inf(1)},
	{"D\xff\xff\xff\xff\xff", message.Decimal{Scale: 255, Value: -1}},
	{"T\xff\xff\xff\xff\xff\xff\xff\xff", message.Timestamp(math.MaxUint64)},
	{"S\x00\x00\x00\x02\x00\xff", "\x00\xff"},
	{"S\x00\x00\x00\x00", ""},
	{"x\x00\x00\x00\x01\x07", []byte{7}},
	{"x\x00\x00\x00\x00", []byte{}},
	{"V", nil},
	{"A\x00\x00\x00\x00", []any{}},
	{"F\x00\x00\x00\x00", message.Table{}},
	{"A\x00\x00\x00\x09F\x00\x00\x00\x04\x01kt\x01", []any{message.Table{{Key: "k", Value: true}}}},
	{"A\x00\x00\x00\x03VVV", []any{nil, nil, nil}},
}

func TestEveryTypeDecodesAndComesBackByteForByte(t *testing.T) {
	var all []byte
	for _, c := range everyType {
		wire := append([]byte("\x03key"), c.wire...)
		all = append(all, wire...)
		got, err := message.ParseTable(wire)
		if want := (message.Table{{Key: "key", Value: c.value}}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v, %v, want %#v", c.wire, got, err, want)
		}
		if again := message.AppendTable(nil, got); !bytes.Equal(again, wire) {
			t.Errorf("%q: written back as %q", wire, again)
		}
	}
	table, err := message.ParseTable(all)
	if err != nil || len(table) != len(everyType) {
		t.Fatalf("all together: %d fields, %v", len(table), err)
	}
	if again := message.AppendTable([]byte("before"), table); !bytes.Equal(again, append([]byte("before"), all...)) {
		t.Errorf("all together: written back as %q", again)
	}
}

func TestOldTypesAreTakenAsSignedNumbers(t *testing.T) {
	got, err := message.ParseTable([]byte("\x01aL\xff\xff\xff\xff\xff\xff\xff\xfe\x01bU\xff\xfd"))
	want := message.Table{{Key: "a", Value: int64(-2)}, {Key: "b", Value: int16(-3)}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v, want %#v", got, err, want)
	}
}

func TestNotANumberKeepsItsBits(t *testing.T) {
	for _, wire := range []string{"\x00f\x7f\xa0\x00\x01", "\x00d\xff\xf4\x00\x00\x00\x00\x00\x01"} {
		table, err := message.ParseTable([]byte(wire))
		if err != nil {
			t.Fatal(err)
		}
		if again := message.AppendTable(nil, table); string(again) != wire {
			t.Errorf("%q came back as %q", wire, again)
		}
	}
}

func TestGetAnswersTheFirstField(t *testing.T) {
	table := message.Table{{Key: "a", Value: nil}, {Key: "b", Value: int32(1)}, {Key: "b", Value: int32(2)}}
	if v, ok := table.Get("b"); v != int32(1) || !ok {
		t.Errorf("b: %v, %v", v, ok)
	}
	if v, ok := table.Get("a"); v != nil || !ok {
		t.Errorf("a: %v, %v", v, ok)
	}
	if _, ok := table.Get("c"); ok {
		t.Error("c is there")
	}
}

func TestATableCutAnywhereIsRefused(t *testing.T) {
	for _, c := range everyType {
		wire := "\x03key" + c.wire
		for n := 1; n < len(wire); n++ {
			if err := message.Check([]byte(wire[:n])); !errors.Is(err, message.ErrTable) {
				t.Errorf("%q: %v", wire[:n], err)
			}
			if _, err := message.ParseTable([]byte(wire[:n])); !errors.Is(err, message.ErrTable) {
				t.Errorf("%q: %v", wire[:n], err)
			}
		}
	}
}

func TestTheErrorSaysWhatAndWhere(t *testing.T) {
	for wire, want := range map[string]string{
		"\x01a?":                          "unknown type at byte 2",
		"\x01aV\x09b":                     "truncated key at byte 3",
		"\x01a":                           "missing value at byte 2",
		"\x01aI\x00":                      "truncated value at byte 2",
		"\x01aS\x00":                      "truncated length at byte 2",
		"\x01aS\xff\xff\xff\xff":          "length beyond the end at byte 2",
		"\x01aS\x80\x00\x00\x00":          "length beyond the end at byte 2",
		"\x01aA\x00\x00\x00\x02S\x00\x00": "truncated length at byte 7",
		"\x01aF\x00\x00\x00\x01\x05hello": "truncated key at byte 7",
		"\x01aA\x00\x00\x00\x03I\x00\x00\x00\x00": "truncated value at byte 7",
	} {
		if err := message.Check([]byte(wire)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: %v, want ... %s", wire, err, want)
		}
	}
}

// nest wraps a table's content depth times into a table or array.
func nest(kind byte, depth int) []byte {
	var b []byte
	for range depth {
		inner := b
		b = nil
		if kind == 'F' {
			b = append(b, 0)
		}
		b = append(b, kind)
		b = binary.BigEndian.AppendUint32(b, uint32(len(inner)))
		b = append(b, inner...)
	}
	if kind == 'A' {
		b = append([]byte{0}, b...)
	}
	return b
}

func TestAValueThatReachesOutOfItsTableIsRefused(t *testing.T) {
	for _, wire := range []string{
		"\x01aF\x00\x00\x00\x08\x00S\x00\x00\x00\x05xx\x01bV",     // a string
		"\x01aF\x00\x00\x00\x04\x00S\x00\x00\x00\x00\x01bV",       // a length
		"\x01aF\x00\x00\x00\x02\x01kV\x00V",                       // a type
		"\x01aF\x00\x00\x00\x02\x02kkV",                           // a key
		"\x01aF\x00\x00\x00\x03\x00I\x00\x00\x00\x00",             // a number
		"\x01aA\x00\x00\x00\x06F\x00\x00\x00\x03\x00V\x00V\x01bV", // a table
	} {
		if err := message.Check([]byte(wire)); !errors.Is(err, message.ErrTable) {
			t.Errorf("%q: %v", wire, err)
		}
	}
}

func TestADecodedTableSharesNoMemoryWithItsBytes(t *testing.T) {
	for _, c := range everyType {
		wire := []byte("\x03key" + c.wire)
		table, err := message.ParseTable(wire)
		if err != nil {
			t.Fatal(err)
		}
		clear(wire)
		if again := message.AppendTable(nil, table); string(again) != "\x03key"+c.wire {
			t.Errorf("%q: became %q", c.wire, again)
		}
	}
}

func TestNestingBeyondTheLimitIsRefused(t *testing.T) {
	for _, kind := range []byte("FA") {
		if err := message.Check(nest(kind, message.TableDepthMax-1)); err != nil {
			t.Errorf("%c at the limit: %v", kind, err)
		}
		for _, depth := range []int{message.TableDepthMax, 10000} {
			if _, err := message.ParseTable(nest(kind, depth)); !errors.Is(err, message.ErrTable) {
				t.Errorf("%c %d deep: %v", kind, depth, err)
			}
		}
	}
}

func TestTooManyElementsOfNoWidthAreRefused(t *testing.T) {
	fields := func(n int) []byte { return bytes.Repeat([]byte("\x00V"), n) }
	items := func(n int) []byte {
		b := binary.BigEndian.AppendUint32([]byte("\x00A"), uint32(n))
		return append(b, bytes.Repeat([]byte{'V'}, n)...)
	}
	if err := message.Check(fields(message.TableElementsMax)); err != nil {
		t.Errorf("fields at the limit: %v", err)
	}
	if err := message.Check(items(message.TableElementsMax - 1)); err != nil {
		t.Errorf("items at the limit: %v", err)
	}
	for name, b := range map[string][]byte{
		"one field too many": fields(message.TableElementsMax + 1),
		"one item too many":  items(message.TableElementsMax),
		"a million fields":   fields(1e6),
		"a million items":    items(1e6),
	} {
		var err error
		if used := allocated(func() { _, err = message.ParseTable(b) }); used > 64<<10 {
			t.Errorf("%s: %d bytes allocated", name, used)
		}
		if !errors.Is(err, message.ErrTable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// allocated is how many bytes f allocates. Other goroutines count too, so it is for bounds with room.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestCheckAllocatesNothing(t *testing.T) {
	wire := nest('F', 20)
	for _, c := range everyType {
		wire = append(append(wire, 1, 'k'), c.wire...)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := message.Check(wire); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAppendTablePanicsOnWhatNoTableHolds(t *testing.T) {
	for name, table := range map[string]message.Table{
		"foreign type": {{Key: "k", Value: struct{}{}}},
		"long key":     {{Key: strings.Repeat("k", 256), Value: nil}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			message.AppendTable(nil, table)
		}()
	}
}

// anyValue draws a value of any type, containers up to depth.
func anyValue(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int8().AsAny(), rapid.Uint8().AsAny(), rapid.Int16().AsAny(),
		rapid.Uint16().AsAny(), rapid.Int32().AsAny(), rapid.Uint32().AsAny(), rapid.Int64().AsAny(), rapid.Float32().AsAny(),
		rapid.Float64().AsAny(), rapid.String().AsAny(), rapid.SliceOfN(rapid.Byte(), 0, 9).AsAny(),
		rapid.Custom(func(t *rapid.T) any { return message.Timestamp(rapid.Uint64().Draw(t, "timestamp")) }),
		rapid.Custom(func(t *rapid.T) any {
			return message.Decimal{Scale: rapid.Uint8().Draw(t, "scale"), Value: rapid.Int32().Draw(t, "value")}
		}),
	}
	if depth > 0 {
		kinds = append(kinds, anyTable(depth-1).AsAny(), rapid.SliceOfN(anyValue(depth-1), 0, 4).AsAny())
	}
	return rapid.OneOf(kinds...)
}

func anyTable(depth int) *rapid.Generator[message.Table] {
	return rapid.Custom(func(t *rapid.T) message.Table {
		table := message.Table{}
		for range rapid.IntRange(0, 5).Draw(t, "fields") {
			key := rapid.StringN(0, 20, 255).Draw(t, "key")
			table = append(table, message.Field{Key: key, Value: anyValue(depth).Draw(t, "value")})
		}
		return table
	})
}

func TestAnyTableComesBackFromItsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyTable(3).Draw(t, "table")
		wire := message.AppendTable(nil, want)
		got, err := message.ParseTable(wire)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %#v, %v, want %#v", got, err, want)
		}
	})
}

func FuzzTable(f *testing.F) {
	for _, c := range everyType {
		f.Add([]byte("\x03key" + c.wire))
	}
	f.Add(nest('F', 40))
	f.Add(nest('A', 31))
	f.Add([]byte("\x01aL\xff\xff\xff\xff\xff\xff\xff\xfe\x01bU\xff\xfd"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var table message.Table
		var err error
		// 64 a byte, and room for what the test's own goroutines allocate meanwhile.
		if used := allocated(func() { table, err = message.ParseTable(b) }); used > 64*uint64(len(b))+64<<10 {
			t.Fatalf("%d bytes allocated for %d", used, len(b))
		}
		if (err == nil) != (message.Check(b) == nil) {
			t.Fatalf("ParseTable says %v, Check %v", err, message.Check(b))
		}
		if err != nil {
			if !errors.Is(err, message.ErrTable) {
				t.Fatal(err)
			}
			return
		}
		wire := message.AppendTable(nil, table)
		if len(wire) != len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(wire))
		}
		again, err := message.ParseTable(wire)
		if err != nil || !bytes.Equal(message.AppendTable(nil, again), wire) {
			t.Fatalf("written table does not come back: %v", err)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	wire := []byte("\x07x-countI\x00\x00\x00\x01\x04nameS\x00\x00\x00\x05hello\x01tT\x00\x00\x00\x00\x00\x00\x00\x01")
	for b.Loop() {
		if message.Check(wire) != nil {
			b.Fatal("refused")
		}
	}
}
