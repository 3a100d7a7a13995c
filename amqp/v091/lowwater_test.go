package v091

import (
	"testing"
	"time"
)

// stream has a lowWater see writes of size octets, one every gap, for a while.
func stream(l *lowWater, now time.Time, size int, gap, length time.Duration) time.Time {
	for end := now.Add(length); now.Before(end); now = now.Add(gap) {
		l.came(size, now)
	}
	return now
}

func TestTheMarkIsWhatComesInAQuarterOfAMillisecond(t *testing.T) {
	for _, c := range []struct {
		name        string
		size        int
		gap         time.Duration
		least, most int
	}{
		{"few messages", 150, 2 * time.Millisecond, 1, 1},
		{"who waits for each answer: less than a message", 150, 500 * time.Microsecond, 1, 149},
		{"who waits for each answer, with big messages", 4200, 500 * time.Microsecond, 64, 4199},
		{"acknowledgements one by one", 21, 28 * time.Microsecond, 150, 220},
		{"small publishes one by one", 330, 10 * time.Microsecond, 6000, 10000},
		{"big publishes one by one", 4200, 20 * time.Microsecond, lowWaterMost, lowWaterMost},
	} {
		got := 1 // as the socket has it
		l := lowWater{set: func(octets int) { got = octets }}
		stream(&l, time.Unix(1, 0), c.size, c.gap, 50*time.Millisecond)
		if got < c.least || got > c.most || l.raised() != (got > 1) {
			t.Errorf("%s: the mark is %d, want %d to %d", c.name, got, c.least, c.most)
		}
	}
}

func TestTheMarkFallsAtOnceWithTheStreamAndDoesNotFlutter(t *testing.T) {
	got, moves := 1, 0
	l := lowWater{set: func(octets int) { got, moves = octets, moves+1 }}
	now := stream(&l, time.Unix(1, 0), 330, 10*time.Microsecond, time.Second)
	if moves > 3 {
		t.Errorf("it moved %d times in an even stream", moves)
	}
	now = stream(&l, now, 330, 100*time.Microsecond, 5*time.Millisecond)
	if got > 1000 {
		t.Errorf("it is %d at a tenth of the rate", got)
	}
	stream(&l, now, 330, 100*time.Millisecond, time.Second)
	if l.raised() || got != 1 {
		t.Errorf("it is %d for a stream that has all but ended", got)
	}
}

func TestOnlyABareTCPConnectionHasAMark(t *testing.T) {
	l := lowWaterOf(nil)
	stream(&l, time.Unix(1, 0), 4200, 20*time.Microsecond, 50*time.Millisecond)
	if l.raised() {
		t.Errorf("the mark is %d, and nobody heeds it", l.mark)
	}
	l.lower()
}
