package core

import (
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
)

// applyAccess carries out a command about who may do what; false if it is another one.
func (m *Machine) applyAccess(cmd entry.Command) bool {
	switch x := cmd.(type) {
	case *entry.UserPut:
		m.applyUserPut(x)
	case *entry.UserDelete:
		m.applyUserDelete(x)
	case *entry.UserLimits:
		m.applyUserLimits(x)
	case *entry.PermissionSet:
		m.applyPermissionSet(x)
	case *entry.PermissionClear:
		m.applyPermissionClear(x)
	case *entry.TopicPermissionSet:
		m.applyTopicPermissionSet(x)
	case *entry.TopicPermissionClear:
		m.applyTopicPermissionClear(x)
	case *entry.Refuse:
		m.applyRefuse(x)
	default:
		return false
	}
	return true
}

// answerAccess tells the node that sent a command what became of it. Every node hears of it: each has made something of
// the lists that may no longer be good.
func (m *Machine) answerAccess(kind entry.Kind, request uint64, code Code, text string) {
	e := Effect{Kind: EffectReply, Command: kind, Request: request, Node: m.batch.Node, Code: code, Text: text}
	if code != CodeOK {
		e.Kind = EffectRefused
	}
	m.fx.List = append(m.fx.List, e)
}

// changedAccess counts a change and answers the new generation.
func (m *Machine) changedAccess() uint64 {
	m.access.registry.Generation++
	m.touch(&m.access.registry)
	return m.access.registry.Generation
}

// user answers the user of a name; where there is none the command is refused and the answer is nil.
func (m *Machine) user(kind entry.Kind, request uint64, name string) *user {
	at, ok := search(m.access.users, name, "", "")
	if !ok {
		m.answerAccess(kind, request, CodeNotFound, "no user '"+name+"'")
		return nil
	}
	return m.access.users[at]
}

func (m *Machine) applyUserPut(x *entry.UserPut) {
	if x.FirstIn != "" && len(m.access.users) > 0 {
		m.answerAccess(entry.KindUserPut, x.Request, CodeOK, "")
		return
	}
	generation := m.changedAccess()
	at, ok := search(m.access.users, x.Name, "", "")
	if !ok {
		u := &user{userRow: userRow{Name: x.Name, Created: generation}}
		m.access.users = slices.Insert(m.access.users, at, u)
	}
	u := m.access.users[at]
	u.Tags = x.Tags
	if !x.KeepHash {
		u.Hash, u.Algorithm = x.Hash, x.Algorithm
	}
	m.touch(u)
	if x.FirstIn != "" {
		m.permit(permissionRow{x.Name, x.FirstIn, ".*", ".*", ".*"})
	}
	m.answerAccess(entry.KindUserPut, x.Request, CodeOK, "")
}

func (m *Machine) applyUserDelete(x *entry.UserDelete) {
	u := m.user(entry.KindUserDelete, x.Request, x.Name)
	if u == nil {
		return
	}
	a := &m.access
	a.users = withdraw(m, a.users, func(u *user) bool { return u.Name == x.Name })
	a.permissions = withdraw(m, a.permissions, func(p *permission) bool { return p.User == x.Name })
	a.topicPermissions = withdraw(m, a.topicPermissions, func(p *topicPermission) bool { return p.User == x.Name })
	m.changedAccess()
	m.answerAccess(entry.KindUserDelete, x.Request, CodeOK, "")
}

// withdraw deletes the items of a list that are meant.
func withdraw[T object](m *Machine, list []T, is func(T) bool) []T {
	return slices.DeleteFunc(list, func(item T) bool {
		if !is(item) {
			return false
		}
		item.state().gone = true
		m.touch(item)
		return true
	})
}

func (m *Machine) applyUserLimits(x *entry.UserLimits) {
	u := m.user(entry.KindUserLimits, x.Request, x.Name)
	if u == nil {
		return
	}
	u.MaxConnections, u.MaxChannels = x.MaxConnections, x.MaxChannels
	m.touch(u)
	m.changedAccess()
	m.answerAccess(entry.KindUserLimits, x.Request, CodeOK, "")
}

func (m *Machine) applyPermissionSet(x *entry.PermissionSet) {
	if m.user(entry.KindPermissionSet, x.Request, x.User) == nil || m.needVhost(entry.KindPermissionSet, x.Request, x.Vhost) {
		return
	}
	m.permit(permissionRow{x.User, x.Vhost, x.Configure, x.Write, x.Read})
	m.changedAccess()
	m.answerAccess(entry.KindPermissionSet, x.Request, CodeOK, "")
}

func (m *Machine) permit(row permissionRow) {
	at, ok := search(m.access.permissions, row.User, row.Vhost, "")
	if !ok {
		m.access.permissions = slices.Insert(m.access.permissions, at, &permission{})
	}
	p := m.access.permissions[at]
	p.permissionRow = row
	m.touch(p)
}

// applyPermissionClear leaves topic permissions as they are, as RabbitMQ does: without the permission they give nothing.
func (m *Machine) applyPermissionClear(x *entry.PermissionClear) {
	if m.user(entry.KindPermissionClear, x.Request, x.User) == nil {
		return
	}
	m.access.permissions = withdraw(m, m.access.permissions, func(p *permission) bool {
		return p.User == x.User && p.Vhost == x.Vhost
	})
	m.changedAccess()
	m.answerAccess(entry.KindPermissionClear, x.Request, CodeOK, "")
}

func (m *Machine) applyTopicPermissionSet(x *entry.TopicPermissionSet) {
	if m.user(entry.KindTopicPermissionSet, x.Request, x.User) == nil || m.needVhost(entry.KindTopicPermissionSet, x.Request, x.Vhost) {
		return
	}
	at, ok := search(m.access.topicPermissions, x.User, x.Vhost, x.Exchange)
	if !ok {
		m.access.topicPermissions = slices.Insert(m.access.topicPermissions, at, &topicPermission{})
	}
	p := m.access.topicPermissions[at]
	p.topicPermissionRow = topicPermissionRow{x.User, x.Vhost, x.Exchange, x.Write, x.Read}
	m.touch(p)
	m.changedAccess()
	m.answerAccess(entry.KindTopicPermissionSet, x.Request, CodeOK, "")
}

func (m *Machine) applyTopicPermissionClear(x *entry.TopicPermissionClear) {
	if m.user(entry.KindTopicPermissionClear, x.Request, x.User) == nil {
		return
	}
	m.access.topicPermissions = withdraw(m, m.access.topicPermissions, func(p *topicPermission) bool {
		return p.User == x.User && p.Vhost == x.Vhost && (x.Exchange == "" || p.Exchange == x.Exchange)
	})
	m.changedAccess()
	m.answerAccess(entry.KindTopicPermissionClear, x.Request, CodeOK, "")
}

// applyRefuse fails a channel, or with a hard code its session, in the place of a command that the node did not let
// through. The session's channel need not be open for that: the command may have been the one to open it.
func (m *Machine) applyRefuse(x *entry.Refuse) {
	code := Code(x.Code)
	if code == CodeOK || code > CodeInternalError {
		code = CodeInternalError
	}
	if h := m.channelOf(&x.Ref); h != nil {
		m.refuse(h, x.Command, code, x.Text)
		return
	}
	s := m.sessionOf(&x.Ref)
	if s == nil || s.Failed || !code.Hard() {
		return
	}
	if h := s.channel(x.Channel); h != nil && !h.Parked {
		return
	}
	if e := m.emit(s, EffectRefused, x.Channel); e != nil {
		e.Command, e.Code, e.Text = x.Command, code, x.Text
	}
	m.fail(s)
}
