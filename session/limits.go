package session

import (
	"fmt"
	"sync"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// usage counts what this node's sessions hold, per user. Over the cluster a limit is kept as well as the node knows of the
// others: what is opened on several nodes in the same moment may exceed it.
type usage struct {
	elsewhere func(user string) (connections, channels int)

	mu     sync.Mutex
	byUser map[string]*held
}

type held struct{ connections, channels int }

func newUsage(elsewhere func(string) (int, int)) *usage {
	if elsewhere == nil {
		elsewhere = func(string) (int, int) { return 0, 0 }
	}
	return &usage{elsewhere: elsewhere, byUser: map[string]*held{}}
}

// add counts, unless that would exceed a limit; a limit below 0 is none.
func (u *usage) add(user string, limits, more held) bool {
	var others held
	if limits.connections >= 0 || limits.channels >= 0 {
		others.connections, others.channels = u.elsewhere(user)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.byUser[user]
	if h == nil {
		h = &held{}
	}
	exceeds := func(limit, more, here, there int) bool { return limit >= 0 && more > 0 && here+there+more > limit }
	if exceeds(limits.connections, more.connections, h.connections, others.connections) ||
		exceeds(limits.channels, more.channels, h.channels, others.channels) {
		return false
	}
	u.byUser[user] = h
	h.connections += more.connections
	h.channels += more.channels
	return true
}

func (u *usage) remove(user string, less held) {
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.byUser[user]
	h.connections -= less.connections
	h.channels -= less.channels
	if *h == (held{}) {
		delete(u.byUser, user)
	}
}

// holding is what one session counts for.
type holding struct {
	usage    *usage // nil: nothing is counted
	mu       sync.Mutex
	over     bool
	channels map[uint16]struct{}
}

// hold takes one of the user's connections.
func (s *Session) hold(u *usage) *Error {
	limit := s.access.Limits().Connections
	if !u.add(s.user, held{limit, -1}, held{connections: 1}) {
		return &Error{Code: core.CodeNotAllowed, Text: fmt.Sprintf("connection refused for user '%s': user connection limit (%d) is reached", s.user, limit)}
	}
	s.holding.usage = u
	return nil
}

// release gives back all that the session counts for, once.
func (s *Session) release() {
	h := &s.holding
	if h.usage == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.over = true
		h.usage.remove(s.user, held{1, len(h.channels)})
	}
}

// judgeChannel counts a channel that is opened or closed; it answers why one may not be opened.
func (s *Session) judgeChannel(cmd entry.Addressed) string {
	h := &s.holding
	if h.usage == nil {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	number := channelOf(cmd)
	_, open := h.channels[number]
	switch cmd.(type) {
	case *entry.ChannelOpen:
		if h.over || open {
			return ""
		}
		limit := s.access.Limits().Channels
		if !h.usage.add(s.user, held{-1, limit}, held{channels: 1}) {
			return fmt.Sprintf("number of channels opened for user '%s' has reached the maximum allowed user limit of (%d)", s.user, limit)
		}
		if h.channels == nil {
			h.channels = map[uint16]struct{}{}
		}
		h.channels[number] = struct{}{}
	case *entry.ChannelClose:
		if open && !h.over {
			delete(h.channels, number)
			h.usage.remove(s.user, held{channels: 1})
		}
	}
	return ""
}
