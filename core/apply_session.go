package core

import (
	"fmt"
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

// applyAttach opens an anonymous session, which ends with its attachment, or finds or makes the one of a key.
func (m *Machine) applyAttach(x *entry.Attach) {
	if m.batch.Incarnation == 0 {
		return // only a registered node can hold a session
	}
	v := m.vhost[x.Vhost]
	if v == nil || x.VhostID != "" && v.ID != x.VhostID {
		m.refuseAttach(x, CodeNotAllowed, "vhost "+x.Vhost+" not found")
		return
	}
	var s *session
	if x.Key != "" {
		s = v.byKey[sessionKey{x.User, x.Key}]
	}
	if code, text := m.judgeAttach(v, s, x); code != CodeOK {
		m.refuseAttach(x, code, text)
		return
	}
	if s != nil && x.Expect != entry.ExpectNew {
		m.resume(s, x)
	} else {
		s = m.newSession(v, s, x)
	}
	m.counts.Attached++
	s.counters().SessionsOpened++
	m.touch(s)
	if e := m.emit(s, EffectAttached, 0); e != nil {
		e.Request, e.State, e.Count, e.Messages, e.Name = x.Request, s.State, s.Released, uint32(s.inFlight()), s.Address
	}
}

// judgeAttach answers the refusal of an attach; s is the session that has its key, nil for none.
func (m *Machine) judgeAttach(v *vhost, s *session, x *entry.Attach) (Code, string) {
	switch {
	case len(x.Key) > keyBytesMax || len(x.Process) > keyBytesMax || len(x.Address) > keyBytesMax:
		return CodeNotAllowed, fmt.Sprintf("session id or incarnation is longer than %d bytes", keyBytesMax)
	case s != nil && m.header.Stamp < s.Contended:
		return CodeResourceLocked, contendedText
	case s != nil && x.Process != "" && slices.Contains(s.Former, processDigest(x.Process)):
		return CodeConnectionForced, "session taken over by a newer incarnation of the client"
	case s != nil:
		return CodeOK, ""
	case x.Key != "" && x.Expect == entry.ExpectResume:
		return CodeNotFound, "session not found: it has expired, or never was"
	case x.Key != "" && x.SessionsMax > 0 && v.namedOf[x.User] >= x.SessionsMax:
		return CodeNotAllowed, fmt.Sprintf("access to vhost '%s' refused for user '%s': session limit (%d) is reached", v.Name, x.User, x.SessionsMax)
	}
	if text := v.checkConnectionLimit(x.User); text != "" {
		return CodeNotAllowed, text
	}
	return CodeOK, ""
}

func (m *Machine) refuseAttach(x *entry.Attach, code Code, text string) {
	if m.fx.Node == 0 || m.fx.Node == m.batch.Node {
		m.fx.List = append(m.fx.List, Effect{Kind: EffectRefused, Command: entry.KindAttach, Code: code,
			Text: text, Request: x.Request, Node: m.batch.Node})
	}
}

// newSession makes a session, in the place of old, which may be nil. Processes that old refused are refused on.
func (m *Machine) newSession(v *vhost, old *session, x *entry.Attach) *session {
	m.header.Sessions++
	m.touch(&m.header)
	s := &session{vhost: v, sessionRow: sessionRow{ID: m.header.Sessions, Epoch: m.header.Generation<<epochCounterBits + 1,
		Vhost: v.Vhost, Node: m.batch.Node, Incarnation: m.batch.Incarnation, User: x.User, Key: x.Key, Connection: x.Connection}}
	if s.named() {
		s.Process = x.Process
		m.agree(s, x)
	}
	if old != nil {
		s.Former = old.Former
		s.follow(old.Process)
		s.Released = uint32(old.inFlight())
		if old.attached() {
			m.tellTaken(old)
		}
		m.end(old, entry.Released)
	}
	m.addSession(s)
	return s
}

func (m *Machine) addSession(s *session) {
	v := s.vhost
	v.sessions++
	m.sessions.add(s)
	m.session[s.ID] = s
	if s.named() {
		v.byKey[sessionKey{s.User, s.Key}] = s
		v.namedOf[s.User]++
		s.timer = timer{table: tableSession, id: s.ID, owner: s}
	}
}

func (s *session) inFlight() int {
	n := 0
	for _, h := range s.channels {
		n += h.flight.Len()
	}
	return n
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
	if s.Epoch != r.Epoch || s.Node != m.batch.Node || s.Incarnation != m.batch.Incarnation || s.Node == 0 {
		return nil
	}
	return s
}

func (m *Machine) applyDetach(x *entry.Detach) {
	if s := m.sessionOf(&x.Ref); s != nil {
		m.detach(s)
	}
}

// detach is the one place where what outlives a connection parts from what does not.
func (m *Machine) detach(s *session) {
	if !s.named() || s.Expiry == 0 && s.Contended <= m.header.Stamp {
		m.end(s, entry.Modified)
		return
	}
	m.parkAll(s)
	s.counters().SessionsClosed++
	s.Node, s.Incarnation, s.Left, s.Adopt = 0, 0, m.header.Stamp, 0
	m.touch(s)
}

func (m *Machine) applyEnd(x *entry.End) {
	s := m.sessionOf(&x.Ref)
	if s == nil {
		return
	}
	if e := m.emit(s, EffectReply, 0); e != nil {
		e.Command = entry.KindEnd
	}
	if s.named() && s.KeepOnClose && s.Expiry > 0 {
		m.detach(s)
		return
	}
	m.end(s, entry.Released)
}

func (m *Machine) applySessionClose(x *entry.SessionClose) {
	s := m.session[x.Session]
	if s == nil {
		return
	}
	if s.attached() {
		if e := m.emit(s, EffectDetached, 0); e != nil {
			e.Command, e.Text = entry.KindSessionClose, x.Text
		}
	}
	m.end(s, entry.Released)
}

// end ends a session: its channels close, and its exclusive queues go.
func (m *Machine) end(s *session, how entry.Outcome) {
	m.closeChannels(s, how)
	m.forgetPublishes(s)
	if s.attached() {
		s.counters().SessionsClosed++
	}
	for len(s.exclusive) > 0 {
		m.deleteQueue(s.exclusive[len(s.exclusive)-1])
	}
	for len(s.generated) > 0 {
		m.unnamed(s.generated[len(s.generated)-1])
	}
	v := s.vhost
	v.sessions--
	delete(m.session, s.ID)
	if s.named() {
		delete(v.byKey, sessionKey{s.User, s.Key})
		if v.namedOf[s.User]--; v.namedOf[s.User] == 0 {
			delete(v.namedOf, s.User)
		}
	}
	if m.lastUsed == s {
		m.lastUsed = nil
	}
	s.gone = true
	m.touch(s)
	m.sessions.tidy()
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
