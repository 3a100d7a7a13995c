package core

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Who may do what, in the system group. The tables' numbers begin at 64.
const (
	tableAccess table = iota + 64
	tableUser
	tablePermission
	tableTopicPermission
)

// access is all that the system group knows of users. Its lists are sorted by key.
type access struct {
	registry         registry
	users            []*user
	permissions      []*permission
	topicPermissions []*topicPermission
}

// registryRow counts changes: whoever made something of the lists sees by it whether that is still good.
type registryRow struct{ Generation uint64 }

type registry struct {
	meta
	registryRow
}

func (*registry) key(dst []byte) []byte { return keyOf(dst, tableAccess) }
func (r *registryRow) code(c *rowCoder) { c.u64(&r.Generation) }

type userRow struct {
	Name, Hash, Algorithm, Tags string
	MaxConnections, MaxChannels uint32 // one more than what is allowed; 0 for no limit
	Created                     uint64 // generation: a user deleted and made anew is another one
}

type user struct {
	meta
	userRow
}

func (u *user) key(dst []byte) []byte { return append(keyOf(dst, tableUser), u.Name...) }
func (u *userRow) code(c *rowCoder) {
	c.str(&u.Name)
	c.str(&u.Hash)
	c.str(&u.Algorithm)
	c.str(&u.Tags)
	c.u32(&u.MaxConnections)
	c.u32(&u.MaxChannels)
	c.u64(&u.Created)
}

type permissionRow struct{ User, Vhost, Configure, Write, Read string }

type permission struct {
	meta
	permissionRow
}

func (p *permission) key(dst []byte) []byte { return keyOfNames(dst, tablePermission, p.User, p.Vhost) }
func (p *permissionRow) code(c *rowCoder) {
	c.str(&p.User)
	c.str(&p.Vhost)
	c.str(&p.Configure)
	c.str(&p.Write)
	c.str(&p.Read)
}

type topicPermissionRow struct{ User, Vhost, Exchange, Write, Read string }

type topicPermission struct {
	meta
	topicPermissionRow
}

func (p *topicPermission) key(dst []byte) []byte {
	return keyOfNames(dst, tableTopicPermission, p.User, p.Vhost, p.Exchange)
}

func (p *topicPermissionRow) code(c *rowCoder) {
	c.str(&p.User)
	c.str(&p.Vhost)
	c.str(&p.Exchange)
	c.str(&p.Write)
	c.str(&p.Read)
}

// keyOfNames makes a key that tells names apart whatever octets they hold.
func keyOfNames(dst []byte, t table, names ...string) []byte {
	dst = append(dst, byte(t))
	for _, name := range names {
		dst = binary.AppendUvarint(dst, uint64(len(name)))
		dst = append(dst, name...)
	}
	return dst
}

func (u *user) names() [3]string            { return [3]string{u.Name} }
func (p *permission) names() [3]string      { return [3]string{p.User, p.Vhost} }
func (p *topicPermission) names() [3]string { return [3]string{p.User, p.Vhost, p.Exchange} }

type named interface{ names() [3]string }

// search finds the place of an item in a list that is sorted by names.
func search[T named](list []T, user, vhost, exchange string) (int, bool) {
	return slices.BinarySearchFunc(list, [3]string{user, vhost, exchange}, func(item T, names [3]string) int {
		have := item.names()
		return slices.CompareFunc(have[:], names[:], strings.Compare)
	})
}

func (a *access) each(visit func(object)) {
	if a.registry.Generation > 0 {
		visit(&a.registry)
	}
	visitAll(a.users, visit)
	visitAll(a.permissions, visit)
	visitAll(a.topicPermissions, visit)
}

// load takes a row of this part; false if it is none.
func (a *access) load(t table, c *rowCoder) bool {
	switch t {
	case tableAccess:
		a.registry.registryRow.code(c)
		a.registry.stored = true
	case tableUser:
		u := &user{meta: meta{stored: true}}
		u.code(c)
		a.users = insert(a.users, u)
	case tablePermission:
		p := &permission{meta: meta{stored: true}}
		p.code(c)
		a.permissions = insert(a.permissions, p)
	case tableTopicPermission:
		p := &topicPermission{meta: meta{stored: true}}
		p.code(c)
		a.topicPermissions = insert(a.topicPermissions, p)
	default:
		return false
	}
	return true
}

// insert puts an item into its place; keys of the store are in another order than names.
func insert[T named](list []T, item T) []T {
	n := item.names()
	at, _ := search(list, n[0], n[1], n[2])
	return slices.Insert(list, at, item)
}

// UserInfo is a user, for listings and for those who judge logins.
type UserInfo struct {
	Name, Hash, Algorithm       string
	Tags                        []string
	MaxConnections, MaxChannels int    // -1 for no limit
	Created                     uint64 // tells this user from an earlier one of the same name
}

// PermissionInfo says what a user may do in a vhost: patterns over names.
type PermissionInfo struct{ User, Vhost, Configure, Write, Read string }

// TopicPermissionInfo says which routing keys a user may use with an exchange: patterns over keys.
type TopicPermissionInfo struct{ User, Vhost, Exchange, Write, Read string }

// AccessGeneration changes whenever Users, Permissions or TopicPermissions do. It is 0 before the first change.
func (m *Machine) AccessGeneration() uint64 { return m.access.registry.Generation }

// Users lists the users by name.
func (m *Machine) Users() []UserInfo {
	list := make([]UserInfo, 0, len(m.access.users))
	for _, u := range m.access.users {
		list = append(list, UserInfo{Name: u.Name, Hash: u.Hash, Algorithm: u.Algorithm, Tags: splitTags(u.Tags),
			MaxConnections: int(u.MaxConnections) - 1, MaxChannels: int(u.MaxChannels) - 1, Created: u.Created})
	}
	return list
}

func splitTags(tags string) []string {
	if tags == "" {
		return []string{}
	}
	return strings.Split(tags, ",")
}

// Permissions lists what users may do, by user and vhost.
func (m *Machine) Permissions() []PermissionInfo {
	list := make([]PermissionInfo, 0, len(m.access.permissions))
	for _, p := range m.access.permissions {
		list = append(list, PermissionInfo(p.permissionRow))
	}
	return list
}

// TopicPermissions lists topic permissions, by user, vhost and exchange.
func (m *Machine) TopicPermissions() []TopicPermissionInfo {
	list := make([]TopicPermissionInfo, 0, len(m.access.topicPermissions))
	for _, p := range m.access.topicPermissions {
		list = append(list, TopicPermissionInfo(p.topicPermissionRow))
	}
	return list
}

// HeldBy counts a user's attached sessions and their open channels in this group, those of one node left out. Detached ones
// have no connection that could be one too many: a client must not be kept from its own session by it.
func (m *Machine) HeldBy(user string, exceptNode uint64) (sessions, channels int) {
	m.sessions.each(func(s *session) {
		if s.User != user || !s.attached() || s.Node == exceptNode {
			return
		}
		sessions++
		for _, h := range s.channels {
			if !h.Parked {
				channels++
			}
		}
	})
	return sessions, channels
}
