package log

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
)

// benchLog is a log with real files in a folder of the test's.
func benchLog(b *testing.B) *Log {
	b.Helper()
	l := mustOpen(b, Options{Dir: b.TempDir(), FS: vfs.Default, Fatal: func(err error) { b.Error(err) }})
	b.Cleanup(func() { mustClose(b, l) })
	return l
}

func reportLog(b *testing.B, l *Log, before Stats) {
	b.Helper()
	s := l.Stats()
	b.ReportMetric(float64(s.Syncs-before.Syncs)/float64(b.N), "syncs/op")
	b.ReportMetric(float64(s.Writes-before.Writes)/float64(b.N), "writes/op")
}

// BenchmarkAppend appends entries of one group, so many of them in flight, each with Sync; segments are dropped as they are sealed (so files are recycled) or
// kept (so each is new).
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 256 << 10} {
		for _, inFlight := range []int{1, 4, 64} {
			for _, recycle := range []bool{true, false} {
				b.Run(fmt.Sprintf("size=%d/inflight=%d/recycle=%v", size, inFlight, recycle), func(b *testing.B) {
					benchAppend(b, size, inFlight, recycle)
				})
			}
		}
	}
}

func benchAppend(b *testing.B, size, inFlight int, recycle bool) {
	l := benchLog(b)
	g := l.Group(1)
	data := testData(1, 1, 1, size)
	entry := func(i uint64) []*raftpb.Entry {
		return []*raftpb.Entry{{Index: new(i), Term: new(uint64(1)), Data: data}}
	}
	slots := make(chan struct{}, inFlight)
	var done atomic.Uint64
	next := uint64(0)
	put := func() {
		slots <- struct{}{}
		next++
		g.Append(Write{Entries: entry(next), Sync: true}, func() { done.Add(1); <-slots })
	}
	drop := func() {
		g.TruncateTo(done.Load(), 1)
		for _, s := range l.Segments() {
			if s.Sealed {
				l.Drop(s.ID) //nolint:errcheck // it is needed if its last entry is not done
			}
		}
	}
	put()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	before := l.Stats()
	b.ResetTimer()
	for n := range b.N {
		put()
		if n%(16<<20/size) == 0 && recycle {
			drop()
		}
	}
	for range inFlight {
		slots <- struct{}{}
	}
	b.StopTimer()
	reportLog(b, l, before)
}

// BenchmarkRead reads 300-byte pieces of 256 KiB entries in order, from disk.
func BenchmarkRead(b *testing.B) {
	l := mustOpen(b, Options{Dir: b.TempDir(), FS: vfs.Default, TailBytes: 1, Fatal: func(err error) { b.Error(err) }})
	defer mustClose(b, l)
	g := l.Group(1)
	const entries, size, piece = 100, 256 << 10, 300
	appendSync(b, g, Write{Entries: testEntries(1, 1, entries, 1, size)})
	mustFlush(b, l)
	for name, step := range map[string]int{"inOrder": 1, "scattered": 7919 * 1000} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(piece)
			b.ReportAllocs()
			for n := range b.N {
				at := n * step % (entries * size / piece)
				i, offset := at/(size/piece), at%(size/piece)
				if _, err := g.Bytes(uint64(i%entries+1), offset*piece, piece); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen recovers 256 MiB of log.
func BenchmarkOpen(b *testing.B) {
	o := Options{Dir: b.TempDir(), FS: vfs.Default, Fatal: func(err error) { b.Error(err) }}
	l := mustOpen(b, o)
	data := testData(1, 1, 1, 64<<10)
	for i := range uint64(4096) {
		l.Group(1).Append(Write{Entries: []*raftpb.Entry{{Index: new(i + 1), Term: new(uint64(1)), Data: data}}}, nil)
	}
	mustFlush(b, l)
	mustClose(b, l)
	b.SetBytes(256 << 20)
	for b.Loop() {
		mustClose(b, mustOpen(b, o))
	}
}
