package core

import (
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
)

// addressBytesMax bounds the address of a node.
const addressBytesMax = 255

// NodeAddress is where a node serves clients, host:port, and the feature level that it reads.
type NodeAddress struct {
	Node    uint64
	Address string
	Level   uint64
}

func (m *Machine) applyNodeAddress(x *entry.NodeAddress) {
	if x.Cluster != m.local.ClusterID || len(x.Address) > addressBytesMax {
		return
	}
	list := m.local.Addresses
	at, known := slices.BinarySearchFunc(list, x.Node, func(a NodeAddress, id uint64) int { return compare(a.Node, id) })
	if known {
		list = slices.Delete(list, at, at+1)
	}
	if x.Address != "" || x.Level > 0 {
		list = slices.Insert(list, at, NodeAddress{x.Node, x.Address, x.Level})
	}
	m.local.Addresses = list
	m.touch(&m.local)
}

// Addresses lists where the cluster's nodes serve clients, and what they read, by node. The system group knows.
func (m *Machine) Addresses() []NodeAddress { return slices.Clone(m.local.Addresses) }

func (c *rowCoder) addresses(v *[]NodeAddress) {
	n := uint64(len(*v))
	if c.count(&n); !c.encoding {
		*v = make([]NodeAddress, n)
	}
	for i := range *v {
		c.u64(&(*v)[i].Node)
		c.str(&(*v)[i].Address)
		c.u64(&(*v)[i].Level)
	}
	if n == 0 {
		*v = nil
	}
}
