package node

import (
	"testing"
	"time"
)

func TestAReportsBoundIsNoLaterThanItWasByEitherClock(t *testing.T) {
	read := time.Unix(1_000_000, 0)
	for what, c := range map[string]struct {
		passed, wall time.Duration // by the monotonic clock, by the wall clock
		want         time.Time
	}{
		"both go on":                {time.Minute, time.Minute, read},
		"the machine slept":         {time.Second, time.Hour, read},
		"the clock was set back":    {time.Minute, -time.Hour, read.Add(-time.Hour - time.Minute)},
		"the clock was put forward": {time.Minute, 2 * time.Minute, read},
	} {
		if got := moment(read, c.passed, read.Add(c.wall)); got != c.want.UnixMilli() {
			t.Errorf("%s: %v, want %v", what, time.UnixMilli(got), c.want)
		}
	}
}
