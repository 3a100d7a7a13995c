package store

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FuzzSnapshot reads any bytes as a snapshot, as they are and with a checksum that fits: they are refused, or they are
// rows that load.
func FuzzSnapshot(f *testing.F) {
	source := newRig(f, vfs.NewMem(), 1)
	source.random(20, 30)
	stream := source.stream()
	f.Add(stream)
	f.Add(stream[:len(stream)/2])
	f.Add([]byte(streamMagic))
	r := newRig(f, vfs.NewMem(), 2)
	f.Fuzz(func(t *testing.T, b []byte) {
		r.t = t
		fits := r.decodes(b)
		if len(b) >= 8 {
			b = reseal(bytes.Clone(b))
			fits = r.decodes(b)
		}
		if !fits {
			return
		}
		r.must(r.stage(b))
		_, err := r.g.load(r.g.where.Load().generation + 1)
		r.must(err)
	})
}

// decodes reads a snapshot without keeping it.
func (r *rig) decodes(b []byte) bool {
	r.t.Helper()
	s := &stager{g: r.g, out: bulk{db: r.db, b: r.db.p.NewBatch()}}
	defer s.out.close()
	_, err := s.read(context.Background(), bytes.NewReader(b))
	if err != nil && !errors.Is(err, ErrSnapshot) {
		r.t.Fatal(err)
	}
	return err == nil
}
