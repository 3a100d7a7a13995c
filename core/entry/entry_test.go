package entry

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"runtime"
	"testing"
)

func sample() []byte {
	data := AppendHeader(nil, -5)
	data = AppendBatch(data, 1, 0, 0, nil)
	return AppendBatch(data, math.MaxUint64, 7, 300, Append(Append(nil, &Tick{}), &End{Ref{1, 2, 3}}))
}

func TestBatchesOfAnEntryComeBack(t *testing.T) {
	data := sample()
	r, err := Read(data)
	if err != nil || r.Stamp != -5 {
		t.Fatalf("stamp %d, %v", r.Stamp, err)
	}
	first, ok := r.Next()
	if !ok || first.Node != 1 || first.Incarnation != 0 || first.Seq != 0 || len(first.Commands) != 0 {
		t.Errorf("first batch: %+v, %v", first, ok)
	}
	second, ok := r.Next()
	if !ok || second.Node != math.MaxUint64 || second.Incarnation != 7 || second.Seq != 300 {
		t.Errorf("second batch: %+v, %v", second, ok)
	}
	if at := data[second.Offset : second.Offset+len(second.Commands)]; len(at) == 0 || &at[0] != &second.Commands[0] {
		t.Errorf("Offset %d is not where the commands are", second.Offset)
	}
	if _, ok := r.Next(); ok || r.Err() != nil {
		t.Errorf("at the end: %v, %v", ok, r.Err())
	}
}

func TestAnEntryWithoutBatchesIsEmpty(t *testing.T) {
	r, err := Read(AppendHeader(nil, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Next(); ok || r.Err() != nil {
		t.Errorf("%v, %v", ok, r.Err())
	}
}

func TestUnknownVersionIsUnknown(t *testing.T) {
	for _, version := range []byte{0, Version + 1, 255} {
		data := sample()
		data[0] = version
		if _, err := Read(data); !errors.Is(err, ErrUnknown) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

func TestAnEntryCutInsideABatchIsMalformed(t *testing.T) {
	data := sample()
	whole := map[int]bool{headerBytes: true}
	for r, _ := Read(data); ; {
		b, ok := r.Next()
		if !ok {
			break
		}
		whole[b.Offset+len(b.Commands)] = true
	}
	for n := range data {
		r, err := Read(data[:n])
		for ok := err == nil; ok; _, ok = r.Next() {
		}
		if err == nil {
			err = r.Err()
		}
		if whole[n] != (err == nil) || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("cut at %d of %d: %v", n, len(data), err)
		}
	}
}

func TestDamageStopsTheReaderForGood(t *testing.T) {
	for _, batch := range []string{
		"\xff",
		"\x01\x00\x00\x09" + "\x01\x00\x00\x00", // 9 bytes of commands, and in their place a batch
	} {
		r, err := Read(append(AppendHeader(nil, 1), batch...))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, ok := r.Next(); ok || !errors.Is(r.Err(), ErrMalformed) {
				t.Errorf("%q: %v, %v", batch, ok, r.Err())
			}
		}
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	data := sample()
	if n := testing.AllocsPerRun(50, func() {
		r, err := Read(data)
		for ok := err == nil; ok; _, ok = r.Next() {
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(sample())
	f.Add([]byte{Version + 1, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read(data)
		if err != nil {
			if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		again := AppendHeader(nil, r.Stamp)
		var want []Batch
		for b, ok := r.Next(); ok; b, ok = r.Next() {
			if !bytes.Equal(data[b.Offset:b.Offset+len(b.Commands)], b.Commands) {
				t.Fatal("Offset is not where the commands are")
			}
			again = AppendBatch(again, b.Node, b.Incarnation, b.Seq, b.Commands)
			want = append(want, b)
		}
		second, err := Read(again)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			g, ok := second.Next()
			w.Offset = g.Offset // numbers may have been written longer than need be
			if !ok || !reflect.DeepEqual(g, w) {
				t.Fatalf("%+v came back as %+v, %v", w, g, ok)
			}
		}
	})
}

func FuzzNext(f *testing.F) {
	for _, cmd := range commands(f) {
		f.Add(Append(nil, full(f, cmd)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// Structs of commands and copies of their strings, and room for what the test's own goroutines allocate meanwhile.
		if used := allocated(func() { walkCommands(data) }); used > 32*uint64(len(data))+64<<10 {
			t.Fatalf("%d bytes allocated for %d", used, len(data))
		}
		cmd, rest, err := Next(data)
		if err != nil {
			if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if len(rest) >= len(data) {
			t.Fatalf("%d bytes left of %d", len(rest), len(data))
		}
		again, rest, err := Next(Append(nil, cmd))
		if err != nil || len(rest) != 0 || !bytes.Equal(Append(nil, again), Append(nil, cmd)) {
			t.Fatalf("%+v came back as %+v, %v, %q is left", cmd, again, err, rest)
		}
	})
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func walkCommands(b []byte) {
	var err error
	for len(b) > 0 && err == nil {
		_, b, err = Next(b)
	}
}

func TestDecodingAllocatesInProportionToItsInput(t *testing.T) {
	var small []byte // the smallest bytes for the largest structs
	for range 10000 {
		for _, cmd := range commands(t) {
			small = Append(small, cmd)
		}
	}
	if used := allocated(func() { walkCommands(small) }); used > 32*uint64(len(small)) {
		t.Errorf("%d bytes allocated for %d", used, len(small))
	}
	huge := append([]byte{byte(KindFragment), 1, 1, 1}, 0xff, 0xff, 0xff, 0xff, 0x0f) // a piece of 4 GiB that is not there
	if used := allocated(func() { walkCommands(huge) }); used > 64<<10 {
		t.Errorf("%d bytes allocated for %d", used, len(huge))
	}
}
