package entry

// The kinds of command about nodes beyond their registration. They are control commands of the system group.
const (
	KindNodeAlarm Kind = iota + 120
	KindLevelRaise
	kindNodesEnd
)

// NodeAlarm says what a node is short of, a set of bits that package core does not look into; 0 is nothing. It names the
// node's incarnation, so that a late one does nothing to a newer, and a node's alarms end with its incarnation.
type NodeAlarm struct {
	Node, Incarnation uint64
	Alarms            uint8
}

// Kind implements Command.
func (*NodeAlarm) Kind() Kind { return KindNodeAlarm }

func (x *NodeAlarm) code(c *coder) { c.u64(&x.Node); c.u64(&x.Incarnation); c.u8(&x.Alarms) }

// nodeMakers are in the order of the kinds.
var nodeMakers = [kindNodesEnd - KindNodeAlarm]func() Command{
	func() Command { return new(NodeAlarm) },
	func() Command { return new(LevelRaise) },
}
