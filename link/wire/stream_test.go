package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
)

func sampleHead() Head {
	return Head{
		Status: Entries, Cluster: "a-cluster", Generation: entry.Generation{Number: 3, Cluster: "another"}, Node: 2,
		Applied: 9, Stamp: 1700000000123, First: 4, Term: 7, Hash: 1 << 63,
	}
}

func sampleItems() []Item {
	return []Item{
		{Position: entry.Position{Index: 5, Term: 2, Hash: 11}, Data: []byte("an entry")},
		{Position: entry.Position{Index: 6, Term: 3, Hash: 12}, Data: []byte{}},
		{Position: entry.Position{Index: 7, Term: 3, Hash: 1 << 62}, Data: []byte("x"), Fingerprint: ^uint64(0)},
		{Position: entry.Position{Index: 8, Term: 3, Hash: 13}, Data: bytes.Repeat([]byte{7}, 300<<10)},
	}
}

func written(t testing.TB, h Head, items []Item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, h)
	for _, i := range items {
		if err := w.Item(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// read reads an answer to its end or its first fault.
func read(b []byte) (h Head, items []Item, err error) {
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		return h, nil, err
	}
	for {
		i, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Head, items, nil
		}
		if err != nil {
			return r.Head, items, err
		}
		items = append(items, i)
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	h, items, err := read(written(t, sampleHead(), sampleItems()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(h, sampleHead()) {
		t.Errorf("head %+v, want %+v", h, sampleHead())
	}
	if !reflect.DeepEqual(items, sampleItems()) {
		t.Errorf("items differ: %+v", items)
	}
}

func TestATruncatedAnswerIsDamagedAtEveryByte(t *testing.T) {
	whole := written(t, sampleHead(), sampleItems()[:3])
	for n := range whole {
		if _, _, err := read(whole[:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(whole), err)
		}
	}
}

func TestAChangedByteIsFoundWhereverItIs(t *testing.T) {
	whole := written(t, sampleHead(), sampleItems()[:3])
	for at := range whole {
		b := bytes.Clone(whole)
		b[at] ^= 0x40
		_, items, err := read(b)
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d changed: %v", at, err)
		}
		for i, got := range items {
			if !reflect.DeepEqual(got, sampleItems()[i]) {
				t.Fatalf("byte %d changed: item %d came as %+v", at, i, got)
			}
		}
	}
}

// frames splits an answer into its magic and frames.
func frames(b []byte) (parts [][]byte) {
	parts, b = append(parts, b[:len(magic)]), b[len(magic):]
	for len(b) > 0 {
		n := 5 + int(binary.LittleEndian.Uint32(b[1:])) + 4
		parts, b = append(parts, b[:n]), b[n:]
	}
	return parts
}

func TestFramesThatAreSwappedRepeatedOrLeftOutAreFound(t *testing.T) {
	whole := written(t, sampleHead(), sampleItems()[:3]) // magic, head, 3 items, end
	for name, order := range map[string][]int{
		"swapped":  {0, 1, 3, 2, 4, 5},
		"repeated": {0, 1, 2, 2, 3, 4, 5},
		"left out": {0, 1, 2, 4, 5},
		"no head":  {0, 2, 3, 4, 5},
	} {
		parts := frames(whole)
		var b []byte
		for _, i := range order {
			b = append(b, parts[i]...)
		}
		if _, _, err := read(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnOversizedFrameIsRefusedBeforeItIsRead(t *testing.T) {
	b := []byte(magic)
	b = append(b, frameHead)
	b = binary.LittleEndian.AppendUint32(b, FrameBytesMax+1)
	if _, err := NewReader(io.MultiReader(bytes.NewReader(b), neverEnding{})); !errors.Is(err, ErrDamaged) {
		t.Errorf("error %v", err)
	}
}

type neverEnding struct{}

func (neverEnding) Read(b []byte) (int, error) { return len(b), nil }

func TestALengthThatIsNotFollowedByBytesTakesLittleMemory(t *testing.T) {
	b := []byte(magic)
	b = append(b, frameHead)
	b = binary.LittleEndian.AppendUint32(b, FrameBytesMax)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, _, err := read(b); !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 2*growBytes {
		t.Errorf("an answer of %d bytes took %d bytes of memory", len(b), each)
	}
}

func TestABodyOverTheBoundIsRefused(t *testing.T) {
	var v ReadRequest
	if err := ReadJSON(strings.NewReader(`{"reader":"`+strings.Repeat("x", BodyBytesMax)+`"}`), &v); err == nil {
		t.Error("it was taken")
	}
	if err := ReadJSON(strings.NewReader(`{"reader":"a","after":{"index":7}}`), &v); err != nil || v.After.Index != 7 {
		t.Errorf("%+v, %v", v, err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(written(f, sampleHead(), sampleItems()[:3]))
	f.Add(written(f, Head{Status: Purged, First: 9}, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, items, err := read(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		h2, items2, err := read(written(t, h, items))
		if err != nil || !reflect.DeepEqual(h, h2) || !reflect.DeepEqual(items, items2) {
			t.Fatalf("does not come back: %v", err)
		}
	})
}
