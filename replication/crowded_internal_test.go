package replication

import (
	"slices"
	"testing"
)

func TestWhatIsLiveInTheLogIsMovedOutOnlyWhereThatIsWorthIt(t *testing.T) {
	const mib, most = 1 << 20, 128 << 20
	segment := func(live int64) usage { return usage{bytes: 64 * mib, references: 1, live: live * mib, entries: 1000} }
	fill := func(n int, live int64) []usage { return slices.Repeat([]usage{segment(live)}, n) }
	for _, x := range []struct {
		name     string
		segments []usage
		want     bool
	}{
		{"within what is allowed, nearly all dead", fill(2, 1), false},
		{"a message here and there", fill(3, 1), true},
		{"a long queue", fill(100, 60), false},
		{"a long queue of messages that are small beside what surrounds them", fill(100, 32), false},
		{"a queue that is being consumed: the oldest will be empty in a moment", append(fill(1, 1), fill(10, 60)...), false},
		{"what its consumers have left behind, and passed", append(fill(2, 1), fill(10, 60)...), true},
		{"much of it in use, but not most", fill(10, 20), true},
		{"a queue that stands before as much again that is dead", slices.Concat(fill(4, 60), fill(4, 0)), false},
		{"a queue that stands before much more that is dead", slices.Concat(fill(4, 60), fill(8, 0)), true},
		{"referred to from many queues: no more is live than there is", slices.Concat(fill(2, 600), fill(8, 0)), true},
		{"more entries than memory is to hold", append(fill(1, 60), usage{bytes: 900 * mib, live: 800 * mib, entries: entriesMost}), true},
	} {
		var extent int64
		for _, s := range x.segments {
			extent += s.bytes
		}
		if got := crowded(x.segments, extent, most); got != x.want {
			t.Errorf("%s: moved out: %v, want %v", x.name, got, x.want)
		}
	}
}
