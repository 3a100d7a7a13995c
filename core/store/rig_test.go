package store

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// rig is one toy group in a store, with its log.
type rig struct {
	t   testing.TB
	fs  vfs.FS
	db  *DB
	g   *Group
	log *toyLog
	rng *rand.Rand
}

const rigGroup = 3

func newRNG(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func newRig(t testing.TB, fs vfs.FS, seed uint64) *rig { return newRigWith(t, fs, seed, Options{}) }

func newRigWith(t testing.TB, fs vfs.FS, seed uint64, o Options) *rig {
	r := &rig{t: t, fs: fs, log: newToyLog(), rng: newRNG(seed)}
	r.open(o)
	t.Cleanup(r.close)
	return r
}

func (r *rig) open(o Options) {
	r.t.Helper()
	if o.Fatal == nil {
		o.Fatal = func(err error) { r.t.Errorf("fatal: %v", err) }
	}
	var err error
	if r.db, err = open(r.fs, "store", o, toyKind); err != nil {
		r.t.Fatal(err)
	}
	r.group()
}

func (r *rig) group() {
	r.t.Helper()
	var err error
	if r.g, err = r.db.Group(rigGroup, GroupOptions{ReadEntry: func(index uint64, offset, size int) ([]byte, error) {
		return r.log.read(index, offset, size)
	}}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) close() {
	if r.db == nil {
		return
	}
	if err := r.db.Close(); err != nil {
		r.t.Errorf("close: %v", err)
	}
	r.db = nil
}

func (r *rig) reopen() {
	r.close()
	r.open(Options{})
}

// apply appends data to the log and applies it.
func (r *rig) apply(data ...[]byte) uint64 {
	r.t.Helper()
	var b []byte
	for _, d := range data {
		b = append(b, d...)
	}
	i := r.log.append(b)
	r.must(r.g.Apply(i, 1, b))
	r.log.note(i, r.g.Fingerprint())
	return i
}

// replay applies what the log holds beyond the group's applied index.
func (r *rig) replay() {
	r.t.Helper()
	i, _ := r.g.Applied()
	for i++; i <= r.log.last; i++ {
		r.must(r.g.Apply(i, 1, r.log.entries[i]))
		r.g.Round()
		if got, want := r.g.Fingerprint(), r.log.sums[i]; got != want {
			r.t.Fatalf("fingerprint after entry %d is %x, was %x", i, got, want)
		}
	}
}

// random applies n random entries over keys below span.
func (r *rig) random(n, span int) {
	r.t.Helper()
	for range n {
		var ops [][]byte
		for range 1 + r.rng.IntN(6) {
			if r.rng.IntN(3) == 0 {
				ops = append(ops, del(uint16(r.rng.IntN(span))))
				continue
			}
			keys := make([]uint16, 1+r.rng.IntN(3))
			for i := range keys {
				keys[i] = uint16(r.rng.IntN(span))
			}
			ops = append(ops, put(r.content(r.rng.IntN(400)), keys...))
		}
		r.apply(ops...)
	}
	r.g.Round()
}

func (r *rig) content(n int) []byte {
	b := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		binary.BigEndian.PutUint64(b[i:], r.rng.Uint64())
	}
	return b
}

// checkpoint makes one and waits for it.
func (r *rig) checkpoint() {
	r.t.Helper()
	done := make(chan error, 1)
	if !r.g.Checkpoint(func(err error) { done <- err }) {
		r.t.Fatal("a checkpoint is under way")
	}
	r.must(wait(r.t, done))
}

// evacuate moves contents below to and drops that part of the log.
func (r *rig) evacuate(to uint64) {
	r.t.Helper()
	done := make(chan error, 1)
	r.g.Evacuate(0, to, func(err error) { done <- err })
	r.must(wait(r.t, done))
	r.log.truncate(to)
}

// readable checks that every content that the state refers to can be read and is what was put.
func (r *rig) readable() {
	r.t.Helper()
	for k, i := range r.toy().items {
		b, err := r.g.Content(i.loc, i.size)
		r.must(err)
		if xxhash.Sum64(b) != i.hash {
			r.t.Fatalf("content of key %d at entry %d is not what was put", k, i.loc.Index())
		}
	}
}

func (r *rig) toy() *toy { return r.g.m.(*toy) }

// moved counts the contents in Pebble.
func (r *rig) moved() int {
	r.t.Helper()
	g := r.g.where.Load().generation
	return r.count(contentKey(rigGroup, g, 0), contentEnd(rigGroup, g))
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// until polls for something that Pebble does in its own time.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// wait is a channel's next value, within reason.
func wait[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came within 30 s")
		panic("not reached")
	}
}
