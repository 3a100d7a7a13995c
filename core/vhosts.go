package core

import (
	"cmp"
	"slices"
)

// Which vhosts there are and which data group holds each, in the system group. The tables' numbers begin at 34.
const (
	tableVhosts table = iota + 34
	tableRegistered
)

// tombstonesMost bounds the tombstones that are kept; the oldest goes first. A data group that has not heard of a deletion
// while so many others came after it brings its vhost back.
const tombstonesMost = 1 << 14

// vhostsRow counts changes: whoever made something of the list sees by it whether that is still good.
type vhostsRow struct{ Generation uint64 }

// vhosts is the registry.
type vhosts struct {
	meta
	vhostsRow
	list       []*registered // in no order
	byID       map[string]*registered
	byName     map[string]*registered // without tombstones
	inGroup    map[uint64]int         // how many each data group has, without tombstones
	tombstones int
}

func (*vhosts) key(dst []byte) []byte     { return keyOf(dst, tableVhosts) }
func (r *vhostsRow) code(c *rowCoder)     { c.u64(&r.Generation) }
func (r *registered) key(d []byte) []byte { return append(keyOf(d, tableRegistered), r.ID...) }

type registeredRow struct {
	ID, Name                     string
	Group                        uint64
	Description, Tags, QueueType string
	Buried                       uint64 // generation of the deletion; 0 for a vhost that is there
}

// registered is a vhost, or the tombstone of one.
type registered struct {
	meta
	registeredRow
	at int // in vhosts.list
}

func (r *registeredRow) code(c *rowCoder) {
	c.str(&r.ID)
	c.str(&r.Name)
	c.u64(&r.Group)
	c.str(&r.Description)
	c.str(&r.Tags)
	c.str(&r.QueueType)
	c.u64(&r.Buried)
}

// add takes a row into the list and the indexes.
func (s *vhosts) add(row registeredRow) *registered {
	if s.byID == nil {
		s.byID, s.byName, s.inGroup = map[string]*registered{}, map[string]*registered{}, map[uint64]int{}
	}
	r := &registered{registeredRow: row, at: len(s.list)}
	s.list = append(s.list, r)
	s.byID[row.ID] = r
	if row.Buried != 0 {
		s.tombstones++
		return r
	}
	s.byName[row.Name] = r
	s.inGroup[row.Group]++
	return r
}

// leastLoaded is the one of groups 1 to n that has the fewest vhosts.
func (s *vhosts) leastLoaded(n uint64) uint64 {
	best := uint64(1)
	for g := uint64(2); g <= n; g++ {
		if s.inGroup[g] < s.inGroup[best] {
			best = g
		}
	}
	return best
}

// oldestTombstone is the one that goes first.
func (s *vhosts) oldestTombstone() *registered {
	var oldest *registered
	for _, r := range s.list {
		if r.Buried != 0 && (oldest == nil || r.Buried < oldest.Buried) {
			oldest = r
		}
	}
	return oldest
}

func (s *vhosts) each(visit func(object)) {
	if s.Generation > 0 {
		visit(s)
	}
	visitAll(s.list, visit)
}

// load takes a row of this part; false if it is none.
func (s *vhosts) load(t table, c *rowCoder) bool {
	switch t {
	case tableVhosts:
		s.vhostsRow.code(c)
		s.stored = true
	case tableRegistered:
		var row registeredRow
		row.code(c)
		if s.byID[row.ID] != nil {
			c.fail("two rows of one vhost")
			return true
		}
		s.add(row).stored = true
	default:
		return false
	}
	return true
}

// RegisteredVhost is a vhost as the system group knows it.
type RegisteredVhost struct {
	ID, Name               string
	Group                  uint64 // the data group that holds it, or is to
	Description, QueueType string
	Tags                   []string
	Buried                 bool // a tombstone: it was deleted
}

// VhostsGeneration changes whenever RegisteredVhosts does. It is 0 before the first vhost.
func (m *Machine) VhostsGeneration() uint64 { return m.registry.Generation }

// RegisteredVhosts lists the vhosts of the whole cluster and the tombstones of deleted ones, by name and ID.
func (m *Machine) RegisteredVhosts() []RegisteredVhost {
	list := make([]RegisteredVhost, 0, len(m.registry.list))
	for _, r := range m.registry.list {
		list = append(list, r.info())
	}
	slices.SortFunc(list, func(a, b RegisteredVhost) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return list
}

// RegisteredVhost answers the vhost of a name; a tombstone is none.
func (m *Machine) RegisteredVhost(name string) (RegisteredVhost, bool) {
	r := m.registry.byName[name]
	if r == nil {
		return RegisteredVhost{}, false
	}
	return r.info(), true
}

func (r *registered) info() RegisteredVhost {
	return RegisteredVhost{ID: r.ID, Name: r.Name, Group: r.Group, Description: r.Description,
		QueueType: r.QueueType, Tags: splitTags(r.Tags), Buried: r.Buried != 0}
}

// HeldVhost is a vhost as its data group has it.
type HeldVhost struct{ ID, Name, QueueType string }

// HeldVhosts lists the vhosts that this group holds, but for those that are being deleted, in no order.
func (m *Machine) HeldVhosts() []HeldVhost {
	list := make([]HeldVhost, 0, len(m.vhosts))
	for _, v := range m.vhosts {
		if !v.Deleted {
			list = append(list, HeldVhost{ID: v.ID, Name: v.Name, QueueType: v.QueueType})
		}
	}
	return list
}

// HeldVhost answers the vhost of an id; one that is being deleted is none.
func (m *Machine) HeldVhost(id string) (HeldVhost, bool) {
	v := m.vhostByID(id)
	if v == nil || v.Deleted {
		return HeldVhost{}, false
	}
	return HeldVhost{ID: v.ID, Name: v.Name, QueueType: v.QueueType}, true
}
