package replication

import "fmt"

func (g *Group) Debug() string {
	out := fmt.Sprintf("inc %d target %+v flight %d", g.me.incarnation, g.target, len(g.flight))
	if len(g.flight) > 0 {
		out += fmt.Sprintf(" first %d last %d", g.flight[0].seq, g.flight[len(g.flight)-1].seq)
	}
	out += fmt.Sprintf(" sub{open %d sealed %d flying %d bytes %d seq %d}", g.submits.openN, len(g.submits.sealed), g.submits.flying, g.submits.bytes, g.submits.seq)
	if g.lead != nil {
		out += fmt.Sprintf(" lead ready %v pending %d entries %d", g.lead.ready, len(g.lead.pending), g.lead.entries)
		for id, n := range g.lead.nodes {
			out += fmt.Sprintf(" node %d: %+v", id, *n)
		}
	}
	return out
}
