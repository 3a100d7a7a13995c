package entry

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func sampleReplay() *Replay {
	return &Replay{Source: "source", Generation: Generation{3, "other"}, Group: 4, Position: Position{5, 6, 7}, Fingerprint: 8, Inner: sample()}
}

func TestAReplayCarriesItsEntryUnchanged(t *testing.T) {
	want := sampleReplay()
	data := AppendReplay(nil, want)
	got, err := ReadReplay(data)
	if err != nil || !reflect.DeepEqual(&got, want) {
		t.Fatalf("%+v came back as %+v, %v", want, got, err)
	}
	from := len(data) - len(got.Inner)
	r, err := ReadAt(data, from)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := Read(want.Inner)
	if err != nil || r.Stamp != inner.Stamp || Stamp(data) != inner.Stamp || Stamp(want.Inner) != inner.Stamp {
		t.Fatalf("stamps %d, %d and %d, want %d (%v)", r.Stamp, Stamp(data), Stamp(want.Inner), inner.Stamp, err)
	}
	for {
		b, ok := r.Next()
		plain, want := inner.Next()
		if ok != want {
			t.Fatal("another number of batches")
		}
		if !ok {
			return
		}
		if !bytes.Equal(data[b.Offset:b.Offset+len(b.Commands)], plain.Commands) || b.Offset != plain.Offset+from {
			t.Errorf("a batch's commands lie at %d, in the plain entry at %d", b.Offset, plain.Offset)
		}
	}
}

func TestAReplayCutInItsHeadIsMalformed(t *testing.T) {
	x := sampleReplay()
	data := AppendReplay(nil, x)
	for n := range len(data) - len(x.Inner) {
		if _, err := ReadReplay(data[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	if _, err := ReadReplay(x.Inner); !errors.Is(err, ErrMalformed) || IsReplay(x.Inner) {
		t.Errorf("a plain entry is taken for a replay: %v", err)
	}
	if Stamp(nil) != 0 || Stamp([]byte{Version}) != 0 {
		t.Error("what is no entry has a stamp")
	}
}

func TestTheRollingHashSeesOrderTermAndEveryByte(t *testing.T) {
	seen := map[Position]string{}
	note := func(p Position, what string) {
		if was, ok := seen[p]; ok {
			t.Errorf("%s leads to the same place as %s", what, was)
		}
		seen[p] = what
	}
	a, b := []byte("one"), []byte("two")
	note(Origin(), "nothing")
	note(Origin().Next(1, a).Next(1, b), "one and two")
	note(Origin().Next(1, b).Next(1, a), "two and one")
	note(Origin().Next(1, a).Next(2, b), "another term")
	note(Origin().Next(1, a).Next(1, nil), "raft's own")
	note(Origin().Next(1, a).Next(1, []byte("tw")), "a byte less")
	note(Origin().Next(1, a).Next(1, []byte("two\x00")), "a byte more")
	for i := range b {
		c := bytes.Clone(b)
		c[i] ^= 1
		note(Origin().Next(1, a).Next(1, c), "another byte")
	}
}

func TestGenerationsNeverTie(t *testing.T) {
	order := []Generation{{}, {0, "a"}, {1, "a"}, {1, "b"}, {2, "a"}}
	for i, a := range order {
		for j, b := range order {
			if a.Over(b) != (i > j) {
				t.Errorf("%+v over %+v: %v", a, b, a.Over(b))
			}
		}
	}
}

func FuzzReadReplay(f *testing.F) {
	f.Add(AppendReplay(nil, sampleReplay()))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := ReadReplay(data)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		again, err := ReadReplay(AppendReplay(nil, &x))
		if err != nil || !reflect.DeepEqual(x, again) {
			t.Fatalf("%+v came back as %+v, %v", x, again, err)
		}
	})
}
