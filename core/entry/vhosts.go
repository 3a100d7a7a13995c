package entry

// The kinds of command about which vhosts there are. All are for the system group.
const (
	KindVhostPut Kind = iota + 112
	KindVhostBury
	KindVhostFound
	kindVhostsEnd
)

// Each command carries Request, the sending node's own number for it, which comes back in the effect.
type (
	// VhostPut registers a vhost, or where one of that name is registered changes what is said of it and leaves ID and
	// group as they are. Group is the data group that is to hold it; 0 leaves that to the machine, which takes the one
	// of the groups 1 to Groups that has the fewest. Owner gets all permissions in a vhost that is new. With First it does
	// nothing once any vhost was ever registered. Tags are separated by commas.
	VhostPut struct {
		Request                             uint64
		ID, Name                            string
		Group, Groups                       uint64
		Description, Tags, QueueType, Owner string
		First                               bool
	}
	// VhostBury ends the vhost of that ID: its permissions go and a tombstone stays.
	VhostBury struct {
		Request uint64
		ID      string
	}
	// VhostFound registers a vhost that data group Group holds, unless its ID is registered or buried. Where another vhost
	// has its name by now it gets a longer one.
	VhostFound struct {
		Request   uint64
		ID, Name  string
		QueueType string
		Group     uint64
	}
)

func (*VhostPut) Kind() Kind   { return KindVhostPut }
func (*VhostBury) Kind() Kind  { return KindVhostBury }
func (*VhostFound) Kind() Kind { return KindVhostFound }

func (x *VhostPut) code(c *coder) {
	c.u64(&x.Request)
	c.str(&x.ID)
	c.str(&x.Name)
	c.u64(&x.Group)
	c.u64(&x.Groups)
	c.str(&x.Description)
	c.str(&x.Tags)
	c.str(&x.QueueType)
	c.str(&x.Owner)
	c.boolean(&x.First)
}

func (x *VhostBury) code(c *coder) { c.u64(&x.Request); c.str(&x.ID) }

func (x *VhostFound) code(c *coder) {
	c.u64(&x.Request)
	c.str(&x.ID)
	c.str(&x.Name)
	c.str(&x.QueueType)
	c.u64(&x.Group)
}

// vhostMakers are in the order of the kinds.
var vhostMakers = [kindVhostsEnd - KindVhostPut]func() Command{
	func() Command { return new(VhostPut) },
	func() Command { return new(VhostBury) },
	func() Command { return new(VhostFound) },
}
