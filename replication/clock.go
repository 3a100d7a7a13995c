package replication

import "time"

const (
	// slewDivisor is how gently a leader's stamps approach its wall clock: by at most 1 % of the time that passes.
	slewDivisor = 100
	// jumpMillis is the difference between stamps and the wall clock that raises an alarm.
	jumpMillis = 10_000
	// stepMillis is how far a leader's clock may be behind its wall clock and still only be slewed, where it could step. It steps no nearer either: what
	// was stamped when the clock was that far behind does not expire early, neither of a cluster that comes back at once nor, when that has
	// happened, the next time that it is down.
	stepMillis = 1000
)

// stampClock makes a leader's stamps: the last stamp plus the time that has passed on the node's own monotonic clock
// since, slewed towards its wall clock. A wall clock that jumps therefore expires nothing at once, and one that was
// ahead does not freeze the timers. A value, with both clocks handed in.
type stampClock struct {
	micros int64         // the stamp at mono, Unix µs
	mono   time.Duration // when micros was true
	known  bool          // some stamp was observed: a new cluster has none, nor a node whose log is not read yet
	live   bool          // the stamp was seen to be made while this process ran
	apart  bool          // the alarm was raised for the present difference
}

// observe takes over the stamp (Unix ms) of an entry that another leader made, or that was read from disk.
func (c *stampClock) observe(stampMillis int64, mono time.Duration) {
	if m := stampMillis * 1000; m >= c.micros || c.live {
		c.micros, c.mono = m, mono
	}
	c.known = c.known || stampMillis > 0
}

// raise makes sure that no stamp below stampMillis will be made.
func (c *stampClock) raise(stampMillis int64) { c.micros = max(c.micros, stampMillis*1000) }

// lead readies the clock for a new leader. Where the last stamp is known only from disk (the whole cluster was down) or from a
// source, it steps forward to stepMillis behind the wall clock, if that is farther; the answer is the step in milliseconds, 0 where there was no
// stamp to step from: then it begins with the wall clock.
func (c *stampClock) lead(mono time.Duration, wallMillis int64) (stepped int64) {
	c.advance(mono, wallMillis)
	switch d := wallMillis - c.micros/1000 - stepMillis; {
	case c.live || d <= 0:
	case c.known:
		stepped = d
		c.micros += d * 1000
	default:
		c.micros = wallMillis * 1000
	}
	c.live = true
	return stepped
}

// now is the stamp for an entry made now. jumped is non-zero, once, when stamps and wall clock have come apart by more
// than jumpMillis: wall minus stamp in milliseconds.
func (c *stampClock) now(mono time.Duration, wallMillis int64) (stampMillis, jumped int64) {
	c.advance(mono, wallMillis)
	stampMillis = c.micros / 1000
	apart := wallMillis - stampMillis
	far := apart > jumpMillis || apart < -jumpMillis
	if far && !c.apart {
		jumped = apart
	}
	c.apart = far
	return stampMillis, jumped
}

func (c *stampClock) advance(mono time.Duration, wallMillis int64) {
	passed := max(0, (mono - c.mono).Microseconds())
	most := passed / slewDivisor
	off := wallMillis*1000 - (c.micros + passed)
	c.micros += passed + min(max(off, -most), most)
	c.mono = max(c.mono, mono)
}
