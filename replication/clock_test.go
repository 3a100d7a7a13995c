package replication

import (
	"testing"
	"time"
)

func TestStampClock(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name string
		run  func(c *stampClock) int64
		want int64
	}{
		{"follows its own time", func(c *stampClock) int64 {
			c.observe(1000, 0)
			c.live = true
			c.lead(10*s, 11_000)
			v, _ := c.now(20*s, 21_000)
			return v
		}, 21_000},
		{"approaches a wall clock ahead by one per cent", func(c *stampClock) int64 {
			c.observe(1000, 0)
			c.live = true
			v, _ := c.now(100*s, 500_000)
			return v
		}, 102_000},
		{"and one behind", func(c *stampClock) int64 {
			c.observe(1_000_000, 0)
			c.live = true
			v, _ := c.now(100*s, 0)
			return v
		}, 1_099_000},
		{"steps forward when the whole cluster was down", func(c *stampClock) int64 {
			c.observe(1000, 0)
			c.lead(1*s, 9_000_000)
			v, _ := c.now(1*s, 9_000_000)
			return v
		}, 8_999_000},
		{"slews when that was short", func(c *stampClock) int64 {
			c.observe(1000, 0)
			c.lead(1*s, 3000)
			v, _ := c.now(1*s, 3000)
			return v
		}, 2010},
		{"and again when that happens twice", func(c *stampClock) int64 {
			c.observe(1000, 0)
			c.lead(0, 1900)
			stamp, _ := c.now(0, 1900)
			c = &stampClock{} // the next process
			c.observe(stamp, 0)
			c.lead(0, 2800)
			v, _ := c.now(0, 2800)
			return v
		}, 1800},
		{"and never back", func(c *stampClock) int64 {
			c.observe(1_000_000, 0)
			c.lead(0, 5000)
			v, _ := c.now(0, 5000)
			return v
		}, 1_000_000},
		{"stands still when its monotonic clock does", func(c *stampClock) int64 {
			c.observe(1000, 5*s)
			c.live = true
			v, _ := c.now(4*s, 9000)
			return v
		}, 1000},
		{"is raised by what was applied", func(c *stampClock) int64 {
			c.observe(1000, 0)
			c.live = true
			c.raise(7000)
			v, _ := c.now(0, 1000)
			return v
		}, 7000},
	} {
		var clock stampClock
		if got := c.run(&clock); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestAStepFromNoStampIsNotToldOf(t *testing.T) {
	var fresh, old stampClock
	fresh.observe(0, 0)
	old.observe(1000, 0)
	if told := fresh.lead(0, 9000); told != 0 {
		t.Errorf("a new cluster's clock is said to step by %d ms", told)
	}
	if told := old.lead(0, 9000); told != 7000 {
		t.Errorf("after a rest the clock is said to step by %d ms, want 7000", told)
	}
	for c, want := range map[*stampClock]int64{&fresh: 9000, &old: 8000} {
		if stamp, _ := c.now(0, 9000); stamp != want {
			t.Errorf("stamp %d, want %d", stamp, want)
		}
	}
}

func TestClockThatJumpsRaisesOneAlarmAndExpiresNothing(t *testing.T) {
	var c stampClock
	c.observe(1_000_000, 0)
	c.lead(0, 1_000_000)
	alarms := 0
	var last int64
	for i := range 100 {
		at := time.Duration(i) * 100 * time.Millisecond
		stamp, jumped := c.now(at, 1_000_000+at.Milliseconds()+3_600_000)
		if jumped != 0 {
			alarms++
		}
		if stamp < last || stamp > 1_000_000+at.Milliseconds()+at.Milliseconds()/slewDivisor+1 {
			t.Fatalf("stamp %d after %v", stamp, at)
		}
		last = stamp
	}
	if alarms != 1 {
		t.Errorf("%d alarms", alarms)
	}
}
