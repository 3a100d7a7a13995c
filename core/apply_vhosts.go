package core

import (
	"strings"

	"github.com/understudy-mq/understudy/core/entry"
)

// applyVhosts carries out a command about which vhosts there are; false if it is another one.
func (m *Machine) applyVhosts(cmd entry.Command) bool {
	switch x := cmd.(type) {
	case *entry.VhostPut:
		m.applyVhostPut(x)
	case *entry.VhostBury:
		m.applyVhostBury(x)
	case *entry.VhostFound:
		m.applyVhostFound(x)
	default:
		return false
	}
	return true
}

// changedVhosts counts a change and answers the new generation.
func (m *Machine) changedVhosts() uint64 {
	m.registry.Generation++
	m.touch(&m.registry)
	return m.registry.Generation
}

func (m *Machine) register(row registeredRow) {
	m.changedVhosts()
	m.touch(m.registry.add(row))
}

func (m *Machine) applyVhostPut(x *entry.VhostPut) {
	s := &m.registry
	r, made := s.byName[x.Name], false
	switch {
	case x.First && s.Generation > 0 || r == nil && s.byID[x.ID] != nil:
	case r != nil:
		m.changedVhosts()
		r.Description, r.Tags, r.QueueType = x.Description, x.Tags, x.QueueType
		m.touch(r)
	default:
		group := x.Group
		if group == 0 {
			group = s.leastLoaded(x.Groups)
		}
		m.register(registeredRow{ID: x.ID, Name: x.Name, Group: group, Description: x.Description, Tags: x.Tags, QueueType: x.QueueType})
		made = true
		if _, ok := search(m.access.users, x.Owner, "", ""); ok {
			m.permit(permissionRow{x.Owner, x.Name, ".*", ".*", ".*"})
			m.changedAccess()
		}
	}
	m.answerAccess(entry.KindVhostPut, x.Request, CodeOK, "")
	if made {
		m.fx.List[len(m.fx.List)-1].Count = 1
	}
}

func (m *Machine) applyVhostBury(x *entry.VhostBury) {
	s := &m.registry
	r := s.byID[x.ID]
	if r == nil || r.Buried != 0 {
		m.answerAccess(entry.KindVhostBury, x.Request, CodeNotFound, "no vhost of id '"+x.ID+"'")
		return
	}
	r.Buried = m.changedVhosts()
	r.Description, r.Tags, r.QueueType = "", "", ""
	m.touch(r)
	delete(s.byName, r.Name)
	s.inGroup[r.Group]--
	if s.tombstones++; s.tombstones > m.bounds.tombstones {
		m.forgetTombstone(s.oldestTombstone())
	}
	a := &m.access
	a.permissions = withdraw(m, a.permissions, func(p *permission) bool { return p.Vhost == r.Name })
	a.topicPermissions = withdraw(m, a.topicPermissions, func(p *topicPermission) bool { return p.Vhost == r.Name })
	m.changedAccess()
	m.answerAccess(entry.KindVhostBury, x.Request, CodeOK, "")
}

func (m *Machine) forgetTombstone(r *registered) {
	s := &m.registry
	s.tombstones--
	if moved := take(&s.list, r.at); moved != nil {
		moved.at = r.at
	}
	delete(s.byID, r.ID)
	r.gone = true
	m.touch(r)
}

// applyVhostFound registers what a data group holds. The name may be another vhost's by now: both were made while their
// groups did not know of each other, as can be after a promotion.
func (m *Machine) applyVhostFound(x *entry.VhostFound) {
	s := &m.registry
	if s.byID[x.ID] == nil {
		name := x.Name
		if s.byName[name] != nil {
			name = foundName(x.Name, x.ID)
		}
		m.register(registeredRow{ID: x.ID, Name: name, Group: x.Group, QueueType: x.QueueType})
	}
	m.answerAccess(entry.KindVhostFound, x.Request, CodeOK, "")
}

// foundName tells a vhost from another of its name, in at most 255 octets.
func foundName(name, id string) string {
	suffix := " (" + id + ")"
	return strings.ToValidUTF8(name[:min(len(name), 255-len(suffix))], "") + suffix
}

// needVhost refuses a command that names a vhost which is not registered; true if it has.
func (m *Machine) needVhost(kind entry.Kind, request uint64, name string) bool {
	if m.registry.byName[name] != nil {
		return false
	}
	m.answerAccess(kind, request, CodeNotFound, "no vhost '"+name+"'")
	return true
}
