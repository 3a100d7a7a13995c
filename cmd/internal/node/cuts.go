package node

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/source"
	"github.com/understudy-mq/understudy/link/wire"
)

// A promoted cluster keeps its log from its promotion on for its former source, which may come back without a seed (Rewind).

// formerName is the name of a former source's hold, until it comes back as a reader with one of its own.
func formerName(cluster string) string { return "former-source-" + cluster }

// keepForFormer begins the hold for the former source, at the promotion. It holds no feature level back: who reads less waits.
func (n *Node) keepForFormer() {
	places := map[uint64]uint64{}
	for _, g := range n.groups {
		if l := n.linkState(g); l.Since > 0 {
			places[g] = l.Since - 1
		}
	}
	n.raft.Reserve(formerName(n.linkState(systemGroup).Source), n.level(), places)
}

// Returned implements source.Notes.
func (x linkNotes) Returned(former string) { x.n.raft.Unhold(formerName(former)) }

// cuts are where the former source was cut.
func (n *Node) cuts(former string) ([]wire.Cut, error) {
	list := make([]wire.Cut, 0, len(n.groups))
	for _, g := range n.groups {
		l := n.linkState(g)
		switch {
		case g == systemGroup && l.Role == core.RolePrimary || l.Role == core.RolePromoted && l.Source != former:
			return nil, fmt.Errorf("%w: this cluster was not promoted in the place of cluster %s", source.ErrConflict, former)
		case l.Role != core.RolePromoted:
			return nil, fmt.Errorf("group %d is not promoted yet", g)
		}
		index, term, hash, err := n.raft.Group(g).BeforePromotion()
		if errors.Is(err, raft.ErrCompacted) {
			return nil, fmt.Errorf("%w: the log of group %d does not reach back to the promotion any more", source.ErrConflict, g)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, wire.Cut{
			Former: wire.Position{Group: g, Position: l.Position}, Fingerprint: l.Print,
			Here: wire.Position{Group: g, Position: entry.Position{Index: index, Term: term, Hash: hash}},
		})
	}
	return list, nil
}
