package simtest

import (
	"fmt"
	"slices"
)

// check holds what was applied against what was submitted.
func (s *Sim) check() error {
	first := s.nodes[s.ids[0]]
	values := first.machine.Values()
	for _, id := range s.ids {
		n := s.nodes[id]
		if n.machine.Fingerprint() != first.machine.Fingerprint() || !slices.Equal(n.machine.Values(), values) {
			return fmt.Errorf("nodes %d and %d have applied different values", first.id, id)
		}
		if g := n.machine.OutOfTurn(); g > 0 {
			return fmt.Errorf("node %d applied %d batches out of turn", id, g)
		}
	}
	place := make(map[uint64]int, len(values))
	for i, v := range values {
		if j, twice := place[v]; twice {
			return fmt.Errorf("value %d was applied twice, at places %d and %d", v, j, i)
		}
		place[v] = i
	}
	all := slices.Clone(s.gone)
	for _, id := range s.ids {
		all = append(all, s.nodes[id])
	}
	for _, n := range all {
		for _, r := range n.all {
			if err := checkRegistration(r, r == n.open, place); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRegistration: of a registration that was lost a first part may be applied, of one in force everything must be;
// both in order.
func checkRegistration(r *registration, whole bool, place map[uint64]int) error {
	last, ended := -1, false
	for i, v := range r.values {
		at, applied := place[v]
		switch {
		case !applied && whole:
			return fmt.Errorf("value %d, the %d. of node %d, which stayed registered, was lost", v, i+1, r.node)
		case !applied:
			ended = true
		case ended:
			return fmt.Errorf("value %d of node %d was applied though one before it was not", v, r.node)
		case at < last:
			return fmt.Errorf("value %d of node %d was applied before one submitted earlier", v, r.node)
		default:
			last = at
		}
	}
	return nil
}
