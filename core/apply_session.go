package core

import (
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
)

func compare[T uint16 | uint32 | uint64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// applyAttach opens an anonymous session, which ends with its attachment. A session's key is kept with it; resuming by
// key comes to here.
func (m *Machine) applyAttach(x *entry.Attach) {
	if m.batch.Incarnation == 0 {
		return // only a registered node can hold a session
	}
	v := m.vhost[x.Vhost]
	if v == nil || x.VhostID != "" && v.ID != x.VhostID {
		m.refuseAttach(x, "vhost "+x.Vhost+" not found")
		return
	}
	if text := m.checkConnectionLimit(v, x.User); text != "" {
		m.refuseAttach(x, text)
		return
	}
	m.header.Sessions++
	m.touch(&m.header)
	s := &session{vhost: v, sessionRow: sessionRow{ID: m.header.Sessions, Epoch: 1, Vhost: v.Vhost,
		Node: m.batch.Node, Incarnation: m.batch.Incarnation, User: x.User, Key: x.Key, Connection: x.Connection}}
	m.addSession(s)
	s.counters().SessionsOpened++
	m.touch(s)
	if e := m.emit(s, EffectAttached, 0); e != nil {
		e.Request = x.Request
	}
}

func (m *Machine) refuseAttach(x *entry.Attach, text string) {
	m.refuseAttachWith(CodeNotAllowed, x, text)
}

func (m *Machine) refuseAttachWith(code Code, x *entry.Attach, text string) {
	if m.fx.Node == 0 || m.fx.Node == m.batch.Node {
		m.fx.List = append(m.fx.List, Effect{Kind: EffectRefused, Command: entry.KindAttach, Code: code,
			Text: text, Request: x.Request, Node: m.batch.Node})
	}
}

func (m *Machine) addSession(s *session) {
	m.sessions = append(m.sessions, s)
	m.session[s.ID] = s
}

// sessionOf answers the session that a command speaks for; nil if it is unknown, or the command was sent under an
// attachment that is over.
func (m *Machine) sessionOf(r *entry.Ref) *session {
	s := m.lastUsed
	if s == nil || s.ID != r.Session {
		if s = m.session[r.Session]; s == nil {
			return nil
		}
		m.lastUsed = s
	}
	if s.Epoch != r.Epoch || s.Node != m.batch.Node || s.Incarnation != m.batch.Incarnation {
		return nil
	}
	return s
}

func (m *Machine) applyDetach(x *entry.Detach) {
	if s := m.sessionOf(&x.Ref); s != nil {
		m.detach(s)
	}
}

// detach is the one place where what outlives a connection will part from what does not: an anonymous session ends.
func (m *Machine) detach(s *session) { m.end(s, entry.Modified) }

func (m *Machine) applyEnd(x *entry.End) {
	s := m.sessionOf(&x.Ref)
	if s == nil {
		return
	}
	m.end(s, entry.Released)
	if e := m.emit(s, EffectReply, 0); e != nil {
		e.Command = entry.KindEnd
	}
}

func (m *Machine) applyAnswered(*entry.Answered) {}

func (m *Machine) applySessionClose(x *entry.SessionClose) {
	s := m.session[x.Session]
	if s == nil {
		return
	}
	if e := m.emit(s, EffectDetached, 0); e != nil {
		e.Text = x.Text
	}
	m.end(s, entry.Released)
}

// end ends a session: its channels close, and its exclusive queues go.
func (m *Machine) end(s *session, how entry.Outcome) {
	m.closeChannels(s, how)
	s.counters().SessionsClosed++
	for len(s.exclusive) > 0 {
		m.deleteQueue(s.exclusive[len(s.exclusive)-1])
	}
	at, _ := slices.BinarySearchFunc(m.sessions, s.ID, func(s *session, id uint64) int { return compare(s.ID, id) })
	m.sessions = slices.Delete(m.sessions, at, at+1)
	delete(m.session, s.ID)
	if m.lastUsed == s {
		m.lastUsed = nil
	}
	s.gone = true
	m.touch(s)
}

func (m *Machine) closeChannels(s *session, how entry.Outcome) {
	s.counters().ChannelsClosed += uint64(len(s.channels))
	for _, h := range s.channels {
		m.release(h, how)
		h.gone = true
		m.touch(h)
	}
	s.channels, s.lastUsed = nil, nil
}

// emit appends an effect for the node that holds the session; nil if nobody asked for that node's effects.
func (m *Machine) emit(s *session, kind EffectKind, channel uint16) *Effect {
	if m.fx.Node != 0 && m.fx.Node != s.Node {
		return nil
	}
	s.lastEffect = len(m.fx.List)
	m.fx.List = append(m.fx.List, Effect{Kind: kind, Channel: channel, Session: s.ID, Epoch: s.Epoch, Node: s.Node})
	return &m.fx.List[s.lastEffect]
}
