package standby

import "time"

// right judges where and when a message came, and what a dead letter says of its death.
func (t *trial) right(m *message, s *seen) {
	v := &t.verdict
	wants := map[route]death{aged: {"aged", "expired"}, picky: {"picky", "rejected"}}
	switch want, dies := wants[m.route]; {
	case m.route == picky && s.queue == "picky": // to be rejected
	case !m.route.endsIn(s.queue):
		v.fault("astray", "%s came from queue %s", m.id, s.queue)
	case dies && s.death == nil:
		v.fault("wrong death", "%s came without x-death", m.id)
	case dies && *s.death != want:
		v.fault("wrong death", "%s died in queue %s (%s)", m.id, s.death.queue, s.death.reason)
	case !dies && s.death != nil:
		v.fault("wrong death", "%s died in queue %s (%s) and should not have", m.id, s.death.queue, s.death.reason)
	case m.route == aged && s.at.Sub(m.sent) < early(ageLimit):
		v.fault("premature", "%s expired after %v, not %v", m.id, s.at.Sub(m.sent), ageLimit)
	case m.route == later && s.at.Sub(m.sent) < m.delay*stepped/100:
		v.fault("premature", "%s came after %v, not %v", m.id, s.at.Sub(m.sent), m.delay)
	}
	if m.route == picky && s.queue == "dead" && !t.rejected(m.id) {
		v.fault("wrong death", "%s says that it was rejected, and nobody has had it", m.id)
	}
}

// stepped is the share of a long delay that is left at least by a client's clock where the broker's has stepped forward to the wall clock, having been
// behind it: all nodes of a cluster were down for a while.
const stepped = 80

// early is the least that a time of the broker's may take by a client's clock: stamps are slewed by a hundredth.
func early(d time.Duration) time.Duration { return d * 95 / 100 }

// rejected says whether a message was in its consumer's hands by now: deliveries are looked at in their order.
func (t *trial) rejected(id string) bool { return t.lives[id] != nil && t.lives[id].picked }

// torn finds transactions of which the promoted cluster has a part, and the rest never was anywhere. Where nothing at all may be
// lost a part must not come without the rest from the source either.
func (t *trial) torn() {
	for _, batch := range t.batches {
		var came, missing *message
		over := false
		for _, m := range batch {
			if l := t.lives[m.id]; l == nil {
				missing = m
			} else {
				came, over = m, over || l.promoted
			}
		}
		switch {
		case came == nil || missing == nil:
		case over || t.kind.whole:
			t.verdict.fault("torn", "%s came without %s of the same transaction", came.id, missing.id)
		}
	}
}

// thin says what a round did not see, so that its rules were not put to the test; "" if nothing is lacking. What is under way for a moment
// only, like an answer, need not be at the very moment of the switch: something of the kind must.
func (v *verdict) thin() string {
	for _, r := range []route{aged, later} {
		if v.Over[string(r)] == 0 {
			return "nothing of " + string(r) + " came over the switch"
		}
	}
	moment := 0
	for _, r := range []route{work, picky, twins, calls, replies} {
		moment += v.Over[string(r)]
	}
	if moment == 0 {
		return "nothing that was under way came over the switch"
	}
	return ""
}
