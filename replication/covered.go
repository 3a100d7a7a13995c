package replication

import (
	"encoding/binary"
	"slices"

	"github.com/understudy-mq/understudy/replication/transport"
)

// standbyNameMost bounds a standby's name in a frame.
const standbyNameMost = 256

// Covered tells every node of the cluster, by Observer.Covered, that the standby called name has the group's entries up to
// index for good. A word may be lost, so that it is to be said again now and then. Safe from any goroutine.
func (n *Node) Covered(name string, group, index uint64) {
	n.covered(name, group, index)
	n.tellCovered(name, group, index)
}

func (n *Node) tellCovered(name string, group, index uint64) {
	var payload []byte
	for _, v := range [...]uint64{group, index, n.holds.level(name)} {
		payload = binary.AppendUvarint(payload, v)
	}
	payload = appendString(payload, name)
	for _, id := range n.peers() {
		n.net.Send(id, transport.Frame{Kind: transport.Covered, Urgent: true, Payload: slices.Clone(payload)})
	}
}

func (n *Node) covered(name string, group, index uint64) {
	if f := n.opts.Observer.Covered; f != nil {
		f(name, group, index)
	}
}

// takeCovered takes a peer's word of how far a standby is.
func (n *Node) takeCovered(payload []byte) error {
	r := reader{b: payload}
	group, index, level, name := r.uvarint(), r.uvarint(), r.uvarint(), r.bytes()
	if err := r.end(); err != nil || len(name) > standbyNameMost {
		return errFrame
	}
	n.holds.note(string(name), level, group, index)
	n.covered(string(name), group, index)
	return nil
}

// peers are the other members of any group.
func (n *Node) peers() []uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	var ids []uint64
	for _, m := range n.conf {
		for _, id := range m.ids() {
			if id != n.opts.NodeID && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
