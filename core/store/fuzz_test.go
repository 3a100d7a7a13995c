package store

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FuzzStage has any bytes staged, as they are and with a checksum that fits: they are refused, or whole.
func FuzzStage(f *testing.F) {
	source := newRig(f, vfs.NewMem(), 1)
	source.random(20, 30)
	stream := source.stream()
	f.Add(stream)
	f.Add(stream[:len(stream)/2])
	f.Add([]byte(streamMagic))
	r := newRig(f, vfs.NewMem(), 2)
	f.Fuzz(func(t *testing.T, b []byte) {
		r.t = t
		for range 2 {
			err := r.stage(b)
			if err != nil && !errors.Is(err, ErrSnapshot) {
				t.Fatal(err)
			}
			if err == nil {
				staged, ok, err := readState(r.db.p, rigGroup, metaStaged)
				if err != nil || !ok {
					t.Fatalf("nothing is staged: %v", err)
				}
				if _, err := r.g.load(staged.generation); err != nil {
					t.Fatalf("what was staged does not load: %v", err)
				}
			}
			if len(b) < 8 {
				return
			}
			b = reseal(bytes.Clone(b))
		}
	})
}
