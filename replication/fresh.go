package replication

// freshness tells how old what a node has applied may be: when, to a tick, it had last applied all that it had heard of. A
// follower whose disk stalls goes on hearing its leader, and a leader whose own stalls goes on committing with the others.
type freshness struct {
	term, heard uint64 // the newest entry that the term's leader has told of
	mark, at    uint64 // an entry that had been heard of at a tick, and is not known to be applied
}

// hears takes note of an entry that a term's leader has. What a former one had may be gone.
func (f *freshness) hears(term, index uint64) {
	if term > f.term {
		*f = freshness{term: term, at: f.at}
	}
	if term == f.term {
		f.heard = max(f.heard, index)
	}
}

// tick looks whether what had been heard of is applied.
func (f *freshness) tick(now, applied uint64) {
	if applied >= f.mark {
		f.mark, f.at = f.heard, now
	}
}

// age is how many ticks ago all that had been heard of was applied.
func (f *freshness) age(now uint64) uint64 { return now - f.at }
