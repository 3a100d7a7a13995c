package entry

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/commands.golden anew (only together with a new Version)")

// known are the kinds that there are; the numbers between the ranges are for kinds to come.
func known() []Kind {
	var all []Kind
	for _, r := range [][2]Kind{{KindNone + 1, kindEnd}, {KindUserPut, kindAccessEnd}, {KindAnswered, kindSessionsEnd}, {KindNodeAddress, KindNodeAddress + 1}, {KindLinkAttach, kindLinkEnd}, {KindVhostPut, kindVhostsEnd}, {KindNodeAlarm, kindNodesEnd}} {
		for k := r[0]; k < r[1]; k++ {
			all = append(all, k)
		}
	}
	return all
}

// commands answers a new command of each kind.
func commands(t testing.TB) []Command {
	var all []Command
	for _, k := range known() {
		make := maker(k)
		if make == nil {
			t.Fatalf("kind %d has no maker", k)
		}
		cmd := make()
		if cmd.Kind() != k {
			t.Fatalf("the maker of kind %d makes kind %d", k, cmd.Kind())
		}
		all = append(all, cmd)
	}
	return all
}

// leaf is one field of a command, those of embedded structs included.
type leaf struct {
	name  string
	value reflect.Value
}

func leaves(cmd Command) []leaf {
	var all []leaf
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			f := v.Field(i)
			if f.Kind() == reflect.Struct {
				walk(f)
				continue
			}
			all = append(all, leaf{v.Type().Field(i).Name, f})
		}
	}
	walk(reflect.ValueOf(cmd).Elem())
	return all
}

// fill sets a field to a value that is not zero and takes more than one byte where it can; n makes it unlike others.
func fill(t testing.TB, l leaf, n int) {
	switch v := l.value; v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(n%3 + 1))
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1<<v.Type().Bits() - 1 - uint64(n))
	case reflect.Int64:
		v.SetInt(-1<<62 + int64(n))
	case reflect.String:
		v.SetString(fmt.Sprintf("text\x00%d", n))
	case reflect.Slice:
		v.SetBytes(fmt.Appendf(nil, "bytes\xff%d", n))
	default:
		t.Fatalf("field %s: fill does not know %s", l.name, v.Type())
	}
}

func name(cmd Command) string { return reflect.TypeOf(cmd).Elem().Name() }

func full(t testing.TB, cmd Command) Command {
	for n, l := range leaves(cmd) {
		fill(t, l, n)
	}
	return cmd
}

func wantRoundTrip(t *testing.T, cmd Command) {
	t.Helper()
	data := Append([]byte("before"), cmd)
	got, rest, err := Next(append(data[len("before"):], "behind"...))
	if err != nil || string(rest) != "behind" {
		t.Fatalf("%s: %v, %q is left", name(cmd), err, rest)
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", cmd) {
		t.Errorf("%s: %+v came back as %+v", name(cmd), cmd, got)
	}
}

func TestEveryFieldOfEveryCommandComesBack(t *testing.T) {
	for _, cmd := range commands(t) {
		wantRoundTrip(t, full(t, cmd))
	}
	for _, cmd := range commands(t) { // each field alone tells those apart that stand in one another's place
		for n, l := range leaves(cmd) {
			fill(t, l, n)
			wantRoundTrip(t, cmd)
			l.value.SetZero()
		}
		wantRoundTrip(t, cmd)
	}
}

func TestACommandCutAnywhereIsMalformed(t *testing.T) {
	for _, cmd := range commands(t) {
		data := Append(nil, full(t, cmd))
		for n := range data {
			if _, _, err := Next(data[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut at %d of %d: %v", name(cmd), n, len(data), err)
			}
		}
	}
}

func TestUnknownKindIsUnknown(t *testing.T) {
	for _, k := range []Kind{KindNone, kindEnd, kindAccessEnd, kindSessionsEnd, kindVhostsEnd, kindNodesEnd, 255} {
		if _, _, err := Next([]byte{byte(k), 0, 0, 0}); !errors.Is(err, ErrUnknown) {
			t.Errorf("kind %d: %v", k, err)
		}
	}
}

func TestDecodeRefusesAnotherKind(t *testing.T) {
	for _, b := range [][]byte{nil, Append(nil, &End{})} {
		if _, err := Decode(b, &Detach{}); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", b, err)
		}
	}
}

func TestNumbersTooLargeForTheirFieldAreMalformed(t *testing.T) {
	ref := Ref{Session: 1, Epoch: 1}
	prefetch := Append(nil, &Qos{Ref: ref, Prefetch: 5})
	for what, b := range map[string][]byte{
		"channel of 17 bits":  {byte(KindDetach), 1, 1, 0x80, 0x80, 0x04},
		"prefetch of 33 bits": append(prefetch[:len(prefetch)-2], 0x80, 0x80, 0x80, 0x80, 0x10, 0),
		"length of 64 bits":   {byte(KindFragment), 1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"varint of 11 bytes":  {byte(KindDetach), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1, 1},
	} {
		if _, _, err := Next(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// hot are the decoders and encoders of their own.
var hot = []struct {
	make   func() Command
	decode func([]byte, Command) ([]byte, error)
	append func([]byte, Command) []byte // nil where there is none
}{
	{func() Command { return new(Publish) },
		func(b []byte, c Command) ([]byte, error) { return DecodePublish(b, c.(*Publish)) },
		func(b []byte, c Command) []byte { return AppendPublish(b, c.(*Publish)) }},
	{func() Command { return new(Settle) },
		func(b []byte, c Command) ([]byte, error) { return DecodeSettle(b, c.(*Settle)) },
		func(b []byte, c Command) []byte { return AppendSettle(b, c.(*Settle)) }},
	{func() Command { return new(Written) },
		func(b []byte, c Command) ([]byte, error) { return DecodeWritten(b, c.(*Written)) }, nil},
}

func TestHotCodersAgreeAndAllocateNothing(t *testing.T) {
	for _, h := range hot {
		want, got := full(t, h.make()), h.make()
		data := Append(nil, want)
		buf := make([]byte, 0, 2*len(data))
		n := testing.AllocsPerRun(50, func() {
			if rest, err := h.decode(data, got); err != nil || len(rest) != 0 {
				t.Fatalf("%s: %v, %q is left", name(want), err, rest)
			}
			if h.append != nil {
				buf = h.append(buf[:0], want)
			}
		})
		if n != 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v came back as %+v, with %v allocations", name(want), want, got, n)
		}
		if h.append != nil && !bytes.Equal(buf, data) {
			t.Errorf("%s: %x, Append says %x", name(want), buf, data)
		}
		for n := 1; n < len(data); n++ {
			if _, err := h.decode(data[:n], got); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut at %d of %d: %v", name(want), n, len(data), err)
			}
		}
	}
}

func TestByteFieldsAreViewsThatCannotGrowIntoTheEntry(t *testing.T) {
	data := append(Append(nil, &Publish{Record: []byte("record")}), "behind"...)
	cmd, _, err := Next(data)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(cmd.(*Publish).Record, "overwrites"...)
	if !bytes.HasSuffix(data, []byte("behind")) {
		t.Errorf("%q", data)
	}
}

// TestEncodedBytesNeverChange pins the format. A difference means that this code cannot read the logs that are out there:
// put new fields and kinds behind the old ones, under a new Version.
func TestEncodedBytesNeverChange(t *testing.T) {
	var got strings.Builder
	for _, cmd := range commands(t) {
		fmt.Fprintf(&got, "%d %s\n  zero %x\n", cmd.Kind(), name(cmd), Append(nil, cmd))
		for n, l := range leaves(cmd) {
			fill(t, l, n)
			fmt.Fprintf(&got, "  %s %x\n", l.name, Append(nil, cmd))
			l.value.SetZero()
		}
	}
	entry := AppendBatch(AppendHeader(nil, 1<<40), 3, 300, 70000, Append(nil, &Tick{}))
	fmt.Fprintf(&got, "entry %x\n", AppendBatch(entry, 1, 0, 0, nil))
	const file = "testdata/commands.golden"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines, old := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(lines), len(old)) {
		if i >= len(lines) || i >= len(old) || lines[i] != old[i] {
			t.Fatalf("%s, line %d: the encoding differs from here on\ngot  %q\nwant %q", file, i+1, lines[min(i, len(lines)-1)], old[min(i, len(old)-1)])
		}
	}
}
