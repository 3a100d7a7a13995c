package entry

// The kinds of command about who may do what. All but the last are for the system group.
const (
	KindUserPut Kind = iota + 64
	KindUserDelete
	KindUserLimits
	KindPermissionSet
	KindPermissionClear
	KindTopicPermissionSet
	KindTopicPermissionClear
	// KindRefuse is for a data group's channels.
	KindRefuse
	kindAccessEnd
)

// Each command of the system group carries Request, the sending node's own number for it, which comes back in the effect.
type (
	// UserPut makes a user, or changes one: its limits stay. With KeepHash its password stays too. Tags are separated by
	// commas. With FirstIn it is the cluster's first user: it does nothing where there is one already, and gives all
	// permissions in the vhost that FirstIn names.
	UserPut struct {
		Request               uint64
		Name, Hash, Algorithm string
		Tags                  string
		KeepHash              bool
		FirstIn               string
	}
	// UserDelete deletes a user and all that it was permitted.
	UserDelete struct {
		Request uint64
		Name    string
	}
	// UserLimits bounds what a user's clients hold. Each limit is one more than what is allowed, and 0 is none.
	UserLimits struct {
		Request                     uint64
		Name                        string
		MaxConnections, MaxChannels uint32
	}
	// PermissionSet says what a user may do in a vhost, by patterns over the names of queues and exchanges.
	PermissionSet struct {
		Request                uint64
		User, Vhost            string
		Configure, Write, Read string
	}
	// PermissionClear takes a user out of a vhost.
	PermissionClear struct {
		Request     uint64
		User, Vhost string
	}
	// TopicPermissionSet narrows what routing keys a user may use with an exchange, by patterns.
	TopicPermissionSet struct {
		Request               uint64
		User, Vhost, Exchange string
		Write, Read           string
	}
	// TopicPermissionClear undoes TopicPermissionSet: for one exchange, or with none named for all.
	TopicPermissionClear struct {
		Request               uint64
		User, Vhost, Exchange string
	}
	// Refuse stands in the place of a command of kind Command that the node did not let through: the channel fails here,
	// as if the machine itself had refused it. Code is one of package core's.
	Refuse struct {
		Ref
		Command Kind
		Code    uint8
		Text    string
	}
)

func (*UserPut) Kind() Kind              { return KindUserPut }
func (*UserDelete) Kind() Kind           { return KindUserDelete }
func (*UserLimits) Kind() Kind           { return KindUserLimits }
func (*PermissionSet) Kind() Kind        { return KindPermissionSet }
func (*PermissionClear) Kind() Kind      { return KindPermissionClear }
func (*TopicPermissionSet) Kind() Kind   { return KindTopicPermissionSet }
func (*TopicPermissionClear) Kind() Kind { return KindTopicPermissionClear }
func (*Refuse) Kind() Kind               { return KindRefuse }

func (x *UserPut) code(c *coder) {
	c.u64(&x.Request)
	c.str(&x.Name)
	c.str(&x.Hash)
	c.str(&x.Algorithm)
	c.str(&x.Tags)
	c.boolean(&x.KeepHash)
	c.str(&x.FirstIn)
}

func (x *UserDelete) code(c *coder) { c.u64(&x.Request); c.str(&x.Name) }

func (x *UserLimits) code(c *coder) {
	c.u64(&x.Request)
	c.str(&x.Name)
	c.u32(&x.MaxConnections)
	c.u32(&x.MaxChannels)
}

func (x *PermissionSet) code(c *coder) {
	c.u64(&x.Request)
	c.str(&x.User)
	c.str(&x.Vhost)
	c.str(&x.Configure)
	c.str(&x.Write)
	c.str(&x.Read)
}

func (x *PermissionClear) code(c *coder) { c.u64(&x.Request); c.str(&x.User); c.str(&x.Vhost) }

func (x *TopicPermissionSet) code(c *coder) {
	c.u64(&x.Request)
	c.str(&x.User)
	c.str(&x.Vhost)
	c.str(&x.Exchange)
	c.str(&x.Write)
	c.str(&x.Read)
}

func (x *TopicPermissionClear) code(c *coder) {
	c.u64(&x.Request)
	c.str(&x.User)
	c.str(&x.Vhost)
	c.str(&x.Exchange)
}

func (x *Refuse) code(c *coder) {
	x.Ref.code(c)
	c.u8((*uint8)(&x.Command))
	c.u8(&x.Code)
	c.str(&x.Text)
}

// accessMakers are in the order of the kinds.
var accessMakers = [kindAccessEnd - KindUserPut]func() Command{
	func() Command { return new(UserPut) },
	func() Command { return new(UserDelete) },
	func() Command { return new(UserLimits) },
	func() Command { return new(PermissionSet) },
	func() Command { return new(PermissionClear) },
	func() Command { return new(TopicPermissionSet) },
	func() Command { return new(TopicPermissionClear) },
	func() Command { return new(Refuse) },
}

// ChannelNumber is the channel that a command is for.
func (r *Ref) ChannelNumber() uint16 { return r.Channel }
