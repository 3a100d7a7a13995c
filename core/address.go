package core

import (
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
)

// addressBytesMax bounds the address of a node.
const addressBytesMax = 255

// NodeAddress is where a node serves clients: host:port.
type NodeAddress struct {
	Node    uint64
	Address string
}

func (m *Machine) applyNodeAddress(x *entry.NodeAddress) {
	if x.Cluster != m.local.ClusterID || len(x.Address) > addressBytesMax {
		return
	}
	list := m.local.Addresses
	at, known := slices.BinarySearchFunc(list, x.Node, func(a NodeAddress, id uint64) int { return compare(a.Node, id) })
	switch {
	case known && x.Address == "":
		list = slices.Delete(list, at, at+1)
	case known:
		list[at].Address = x.Address
	case x.Address != "":
		list = slices.Insert(list, at, NodeAddress{x.Node, x.Address})
	}
	m.local.Addresses = list
	m.touch(&m.local)
}

// Addresses lists where the cluster's nodes serve clients, by node. The system group knows.
func (m *Machine) Addresses() []NodeAddress { return slices.Clone(m.local.Addresses) }

func (c *rowCoder) addresses(v *[]NodeAddress) {
	n := uint64(len(*v))
	if c.count(&n); !c.encoding {
		*v = make([]NodeAddress, n)
	}
	for i := range *v {
		c.u64(&(*v)[i].Node)
		c.str(&(*v)[i].Address)
	}
	if n == 0 {
		*v = nil
	}
}
