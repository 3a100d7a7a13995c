package entry

// KindNodeAddress is the last of those for sessions.
const KindNodeAddress Kind = 95

// NodeAddress says at which address, host:port, a node serves clients, "" for nowhere, and which feature level it reads. With
// neither the node is forgotten. It is a fact of cluster Cluster alone: replayed in another one it does nothing.
type NodeAddress struct {
	Cluster string
	Node    uint64
	Address string
	Level   uint64
}

// Kind is KindNodeAddress.
func (*NodeAddress) Kind() Kind { return KindNodeAddress }

func (x *NodeAddress) code(c *coder) {
	c.str(&x.Cluster)
	c.u64(&x.Node)
	c.str(&x.Address)
	c.u64(&x.Level)
}
