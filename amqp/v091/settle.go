package v091

import "github.com/understudy-mq/understudy/core/entry"

// settlement holds back a run of acknowledgements of consecutive tags (5, 6, 7), to encode them as one.
type settlement struct {
	held        bool
	channel     uint16
	outcome     entry.Outcome
	first, last uint64
}

// add takes one acknowledgement.
func (x *settlement) add(s Session, channel uint16, o entry.Outcome, multiple bool, tag uint64) {
	if multiple {
		x.flush(s)
		s.Settle(channel, o, true, 0, tag)
		return
	}
	if x.held && x.channel == channel && x.outcome == o && x.last != 0 && tag == x.last+1 {
		x.last = tag
		return
	}
	x.flush(s)
	*x = settlement{held: true, channel: channel, outcome: o, first: tag, last: tag}
}

// flush encodes what is held back. Whatever else is encoded comes after it.
func (x *settlement) flush(s Session) {
	if x.held {
		x.held = false
		s.Settle(x.channel, x.outcome, false, x.first, x.last)
	}
}
