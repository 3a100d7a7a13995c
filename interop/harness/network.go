package harness

import "time"

// CutOneWay holds everything that node from says to node to; the other direction stays open.
func (c *Cluster) CutOneWay(from, to int) {
	c.gates[pair{from, to}].set(func(g *gate) { g.cut = true })
}

// CutBoth cuts two nodes from one another.
func (c *Cluster) CutBoth(a, b int) {
	c.CutOneWay(a, b)
	c.CutOneWay(b, a)
}

// Isolate cuts a node from all others. Clients still reach it.
func (c *Cluster) Isolate(id int) {
	for _, n := range c.nodes {
		if n.ID != id {
			c.CutBoth(id, n.ID)
		}
	}
}

// Delay makes everything that from says to to late by d, in order and without a loss of bandwidth.
func (c *Cluster) Delay(from, to int, d time.Duration) {
	c.gates[pair{from, to}].set(func(g *gate) { g.delay = d })
}

// Heal ends all cuts and delays.
func (c *Cluster) Heal() {
	for _, g := range c.gates {
		g.set(func(g *gate) { g.cut, g.delay = false, 0 })
	}
}
