package v091

import "github.com/understudy-mq/understudy/core/entry"

// patience judges whether what a read burst brought may wait some milliseconds for company. Acknowledgements have no
// answer; all that a client can miss while they wait is the credit that they return, so they wait only while that is less than
// a quarter of it: with the rest it has deliveries in hand, or there are none for it. It errs on the side of haste, but for clients that mix
// acknowledgements of one and of many in a queer order, and then by those milliseconds.
type patience struct {
	urgent   bool   // the burst has something that somebody waits for
	prefetch uint64 // the smallest that the client asked for, 0 for none
	settled  uint64 // deliveries settled, about
	handed   uint64 // settled as of the last urgent burst: the machine knows of these
}

// judge takes note of an acknowledgement of tag, on a channel whose highest before was acked; delivered is how many
// deliveries were ever sent to the client to settle. It answers the channel's highest now.
func (p *patience) judge(o entry.Outcome, multiple bool, tag, acked, delivered uint64) uint64 {
	switch {
	case multiple && tag == 0:
		p.settled = delivered
	case multiple && tag > acked:
		p.settled += tag - acked
	case !multiple:
		p.settled++
	}
	p.settled = min(p.settled, delivered)
	if o != entry.Accepted || p.prefetch > 0 && 4*(p.settled-p.handed) >= p.prefetch {
		p.urgent = true
	}
	return max(acked, tag)
}

func (p *patience) asked(prefetch uint16) {
	if n := uint64(prefetch); n > 0 && (p.prefetch == 0 || n < p.prefetch) {
		p.prefetch = n
	}
}

// take answers whether the burst is urgent, and begins the next.
func (p *patience) take() bool {
	u := p.urgent
	if p.urgent = false; u {
		p.handed = p.settled
	}
	return u
}
