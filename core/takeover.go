package core

import (
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
)

const (
	takenText     = "session taken over"
	contendedText = "session contended: connections with the same session id take it from one another;" +
		" give each process an x-session-id of its own, or set x-session-incarnation to a random value at each start of the process"
)

// tellTaken tells a connection that it has lost its session to another one.
func (m *Machine) tellTaken(s *session) {
	if e := m.emit(s, EffectDetached, 0); e != nil {
		e.Command, e.Text = entry.KindAttach, takenText
	}
}

// follow refuses a process from now on, since another one has attached.
func (s *session) follow(process string) {
	digest := processDigest(process)
	if process == "" || slices.Contains(s.Former, digest) {
		return
	}
	if len(s.Former) >= formerMax {
		s.Former = s.Former[1:]
	}
	s.Former = append(slices.Clip(s.Former), digest)
}

// noteTakeover remembers that the present attachment is ended by one of the same process, in case it still answers.
func (s *session) noteTakeover(stamp int64) {
	if len(s.Takeovers) >= takeoversMax {
		s.Takeovers = slices.Delete(s.Takeovers, 0, 1)
	}
	s.Takeovers = append(s.Takeovers, takeover{Epoch: s.Epoch, Stamp: stamp})
}

// applyAnswered counts a takeover of a connection that was alive. Two that fight over a session would do so for ever.
func (m *Machine) applyAnswered(x *entry.Answered) {
	s := m.session[x.Session]
	if s == nil {
		return
	}
	n := 0
	for i := range s.Takeovers {
		t := &s.Takeovers[i]
		if t.Epoch == x.Epoch {
			t.Answered = true
			m.touch(s)
		}
		if t.Answered && t.Stamp > m.header.Stamp-takeoverWindow {
			n++
		}
	}
	if n >= takeoversStorm {
		m.contend(s)
	}
}

// contend detaches a session that is fought over, and has it refuse everybody for a while.
func (m *Machine) contend(s *session) {
	s.Contended, s.Takeovers = m.header.Stamp+contendedWait, nil
	m.touch(s)
	if !s.attached() {
		return
	}
	if e := m.emit(s, EffectDetached, 0); e != nil {
		e.Command, e.Text = entry.KindAnswered, contendedText
	}
	m.detach(s)
}
