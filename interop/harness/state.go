package harness

import (
	"context"
	"fmt"
	"time"
)

// Leader is the node that leads the group, by the word of the running node with the newest term; 0 if none does.
func (c *Cluster) Leader(ctx context.Context, group uint64) (leader int, term uint64) {
	for _, n := range c.Running() {
		if n.Paused() {
			continue
		}
		groups, err := n.Groups(ctx)
		if err != nil {
			continue
		}
		g, known := groups[group]
		if known && (g.Term > term || g.Term == term && leader == 0) {
			leader, term = int(g.Leader), g.Term
		}
	}
	return leader, term
}

// WaitLeader waits until the group has a leader that leads by its own word too.
func (c *Cluster) WaitLeader(group uint64, atMost time.Duration) (leader int, term uint64, err error) {
	err = Await(atMost, func(ctx context.Context) error {
		leader, term = c.Leader(ctx, group)
		if leader == 0 {
			return fmt.Errorf("group %d has no leader", group)
		}
		groups, err := c.Node(leader).Groups(ctx)
		if err != nil {
			return err
		}
		if g := groups[group]; g.Role != "leader" || g.Term != term {
			return fmt.Errorf("node %d does not know that it leads group %d in term %d: %+v", leader, group, term, g)
		}
		return nil
	})
	return leader, term, err
}

// BusiestGroup is the data group that has applied most: the one of the vhost under load.
func (c *Cluster) BusiestGroup(ctx context.Context) (uint64, error) {
	var busiest, most uint64
	var last error
	for _, n := range c.Running() {
		if n.Paused() {
			continue
		}
		groups, err := n.Groups(ctx)
		if err != nil {
			last = err
			continue
		}
		for id, g := range groups {
			if id != 0 && g.Applied > most {
				busiest, most = id, g.Applied
			}
		}
	}
	if busiest == 0 {
		return 0, fmt.Errorf("no node told of a data group: %w", last)
	}
	return busiest, nil
}

// Applied is what a node has applied of a group, 0 if it does not answer.
func (c *Cluster) Applied(ctx context.Context, id int, group uint64) uint64 {
	groups, err := c.Node(id).Groups(ctx)
	if err != nil {
		return 0
	}
	return groups[group].Applied
}

// Fingerprints waits until all running nodes have applied the same entries of every group and fails if their states
// differ there.
func (c *Cluster) Fingerprints(atMost time.Duration) error {
	return Await(atMost, func(ctx context.Context) error {
		nodes := c.Running()
		first, err := nodes[0].Groups(ctx)
		if err != nil {
			return err
		}
		for _, n := range nodes[1:] {
			other, err := n.Groups(ctx)
			if err != nil {
				return err
			}
			if err := sameGroups(nodes[0].ID, first, n.ID, other); err != nil {
				return err
			}
		}
		return nil
	})
}

func sameGroups(a int, mine map[uint64]Group, b int, other map[uint64]Group) error {
	if len(mine) == 0 || len(mine) != len(other) {
		return fmt.Errorf("node %d has %d groups, node %d has %d", a, len(mine), b, len(other))
	}
	for id, g := range mine {
		o, ok := other[id]
		if !ok {
			return fmt.Errorf("node %d does not know group %d", b, id)
		}
		if g.Applied != o.Applied {
			return fmt.Errorf("group %d: node %d applied %d, node %d applied %d", id, a, g.Applied, b, o.Applied)
		}
		if string(g.Fingerprint) != string(o.Fingerprint) {
			return fmt.Errorf("group %d at %d: node %d has fingerprint %s, node %d has %s", id, g.Applied, a, g.Fingerprint, b, o.Fingerprint)
		}
	}
	return nil
}
