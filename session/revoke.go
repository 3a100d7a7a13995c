package session

import (
	"fmt"
	"sync"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session/auth"
)

// reading is the queues that a session consumes from.
type reading struct {
	mu     sync.Mutex
	queues map[consumerKey]string
}

type consumerKey struct {
	channel uint16
	tag     string
}

// admit puts a consumer on the list if may does not refuse it, and answers what that says. Whoever takes a permission away
// finds it there, or it is judged by what is left; one that is refused is never found.
func (r *reading) admit(channel uint16, tag, queue string, may func() string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refusal := may(); refusal != "" {
		return refusal
	}
	if r.queues == nil {
		r.queues = map[consumerKey]string{}
	}
	r.queues[consumerKey{channel, tag}] = queue
	return ""
}

func (r *reading) remove(channel uint16, tag string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.queues, consumerKey{channel, tag})
}

func (r *reading) removeAll(channel uint16) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.queues {
		if k.channel == channel {
			delete(r.queues, k)
		}
	}
}

// refused answers the text for a queue that may not be read any more, "" if all may.
func (r *reading) refused(a *auth.Access) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, queue := range r.queues {
		if text := a.StillReads(queue); text != "" {
			return text
		}
	}
	return ""
}

// outlawed answers why a session may not go on, nil if it may.
func (s *Session) outlawed() *Error {
	if s.access == nil {
		return nil
	}
	if home, ok := s.homeOf(s.vhost); !ok || home != s.home {
		return &Error{Code: core.CodeConnectionForced, Text: fmt.Sprintf("vhost '%s' is deleted", s.vhost)}
	}
	switch s.access.Standing() {
	case auth.Gone:
		return &Error{Code: core.CodeConnectionForced, Text: fmt.Sprintf("user '%s' was deleted", s.user)}
	case auth.Outside:
		return &Error{Code: core.CodeAccessRefused, Text: noEntry(s.user, s.vhost)}
	}
	if text := s.reading.refused(s.access); text != "" {
		return &Error{Code: core.CodeAccessRefused, Text: text}
	}
	return nil
}

// noEntry is what a user hears who may not be in a vhost, in RabbitMQ's words.
func noEntry(user, vhost string) string {
	return fmt.Sprintf("access to vhost '%s' refused for user '%s'", vhost, user)
}

// Reauthorize closes the sessions that the registry does not allow any more: the client is told why, no event reaches it
// from now on, and the session leaves the machine without waiting for the client. To be called when the registry has
// changed.
func (b *Broker) Reauthorize() {
	for _, g := range b.groups {
		g.reauthorize()
	}
}

func (g *group) reauthorize() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.sessions {
		if s.cut {
			continue
		}
		why := s.outlawed()
		if why == nil {
			continue
		}
		s.cut = true
		s.endpoint.Closed(why)
		detach := entry.Append(nil, &entry.Detach{Ref: s.ref(0)})
		go g.submitter.Submit(detach, 1) //nolint:errcheck // unregistered: ended with the node
	}
}

// closed tells the endpoint that the attachment is over, unless it knows. The caller holds group.mu.
func (s *Session) closed(why *Error) {
	s.release()
	if !s.cut {
		s.endpoint.Closed(why)
	}
}
