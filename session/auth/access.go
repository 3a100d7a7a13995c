package auth

import (
	"bytes"
	"fmt"
	"slices"
)

// Operation is one of the three things that permissions are about.
type Operation uint8

// The operations, as RabbitMQ has them. Any is for what needs one of the three, whichever.
const (
	Configure Operation = iota
	Write
	Read
	Any
	operations = Any
)

func (o Operation) String() string {
	return [...]string{Configure: "configure", Write: "write", Read: "read", Any: "configure"}[o]
}

// The kinds of resource.
const (
	Queue    = "queue"
	Exchange = "exchange"
)

// decidedMax bounds the decisions that an Access remembers.
const decidedMax = 1024

type decision struct {
	op         Operation
	kind, name string
}

// Access is what one attachment of a user to a vhost may do. It remembers decisions for as long as the registry stays the
// same. It belongs to one goroutine.
type Access struct {
	registry    *Registry
	user, vhost string
	id          uint64
	isTopic     func(exchange string) bool

	of      *snapshot // the decisions are of this one
	grant   *grant    // nil: nothing is allowed any more
	decided map[decision]bool

	published []byte // the exchange published to last
	name      string // the same
	may       bool   // write to it
	topic     *grant // topic permission on it, if any
}

// Enter opens a vhost to a user; false if the user has no permissions there. isTopic says whether an exchange is a topic
// exchange, or may be one for all that is known here; nil is for always. It is called on the Access's goroutine.
func (r *Registry) Enter(user, vhost string, isTopic func(exchange string) bool) (*Access, bool) {
	if isTopic == nil {
		isTopic = func(string) bool { return true }
	}
	s := r.current.Load()
	p := s.users[user]
	if p == nil || p.vhosts[vhost] == nil {
		return nil, false
	}
	return &Access{registry: r, user: user, vhost: vhost, id: p.id, isTopic: isTopic}, true
}

// grantIn is what the user is granted in a snapshot: nothing if it is not the same user any more.
func (a *Access) grantIn(s *snapshot) *grant {
	p := s.users[a.user]
	if p == nil || p.id != a.id {
		return nil
	}
	return p.vhosts[a.vhost]
}

// refresh drops what was decided by an older snapshot.
func (a *Access) refresh() {
	s := a.registry.current.Load()
	if s == a.of {
		return
	}
	a.of, a.grant, a.decided = s, a.grantIn(s), map[decision]bool{}
	a.published, a.may, a.topic = nil, false, nil
}

// May judges an operation on a queue or exchange (kind); the default exchange's name is empty. It answers "", or the text
// of the refusal in RabbitMQ's words.
func (a *Access) May(op Operation, kind, name string) string {
	if kind == Exchange && name == "" {
		name = "amq.default"
	}
	if a.decide(op, kind, name) {
		return ""
	}
	return a.refusal(op, kind, name)
}

func (a *Access) refusal(op Operation, kind, name string) string {
	return fmt.Sprintf("%s access to %s '%s' in vhost '%s' refused for user '%s'", op, kind, name, a.vhost, a.user)
}

func (a *Access) decide(op Operation, kind, name string) bool {
	a.refresh()
	d := decision{op, kind, name}
	may, ok := a.decided[d]
	if ok {
		return may
	}
	if g := a.grant; g != nil && op == Any {
		may = g.allows(Configure, name) || g.allows(Write, name) || g.allows(Read, name)
	} else if g != nil {
		may = g.allows(op, name)
	}
	if len(a.decided) >= decidedMax {
		clear(a.decided)
	}
	a.decided[d] = may
	return may
}

// MayTopic judges a routing key at an exchange, by the topic permission there is if it is a topic exchange. Answers as May
// does.
func (a *Access) MayTopic(op Operation, exchange, key string) string {
	a.refresh()
	if a.grant == nil || exchange == "" {
		return ""
	}
	t := a.grant.topics[exchange]
	if t == nil || t.allows(op, key) || !a.isTopic(exchange) {
		return ""
	}
	return a.topicRefusal(op, exchange, key)
}

func (a *Access) topicRefusal(op Operation, exchange, key string) string {
	return fmt.Sprintf("%s access to topic '%s' in exchange '%s' in vhost '%s' refused for user '%s'", op, key, exchange, a.vhost, a.user)
}

// MayPublish judges a publish, as May and MayTopic do. topics says whether further routing keys are to be asked about with
// MayTopic. One publish after the other to the same exchange allocates nothing.
func (a *Access) MayPublish(exchange, key []byte) (refusal string, topics bool) {
	if a.registry.current.Load() != a.of || a.published == nil || !bytes.Equal(exchange, a.published) {
		a.aim(exchange)
	}
	switch {
	case !a.may:
		return a.May(Write, Exchange, string(exchange)), false
	case a.topic == nil || !a.isTopic(a.name):
		return "", false
	case a.topic.patterns[Write] == nil || !a.topic.patterns[Write].Match(key):
		return a.topicRefusal(Write, string(exchange), string(key)), true
	}
	return "", true
}

// aim takes note of the exchange that is published to.
func (a *Access) aim(exchange []byte) {
	a.refresh()
	a.may = a.May(Write, Exchange, string(exchange)) == ""
	a.published = append(make([]byte, 0, len(exchange)+1), exchange...)
	a.name, a.topic = string(exchange), nil
	if a.grant != nil && len(exchange) > 0 {
		a.topic = a.grant.topics[string(exchange)]
	}
}

// Standing is what an attachment still may, asked from outside of its goroutine.
type Standing uint8

// The standings.
const (
	Stands  Standing = iota
	Gone             // the user was deleted
	Outside          // the user may not be in the vhost any more
)

// Standing says whether the attachment may go on at all. Safe from any goroutine, as is StillReads.
func (a *Access) Standing() Standing {
	s := a.registry.current.Load()
	if p := s.users[a.user]; p == nil || p.id != a.id {
		return Gone
	}
	if a.grantIn(s) == nil {
		return Outside
	}
	return Stands
}

// StillReads answers "" if a queue may be read now, or the text of a refusal.
func (a *Access) StillReads(queue string) string {
	if g := a.grantIn(a.registry.current.Load()); g != nil && g.allows(Read, queue) {
		return ""
	}
	return a.refusal(Read, Queue, queue)
}

// Tagged says whether the user has a tag.
func (a *Access) Tagged(tag string) bool {
	p := a.registry.current.Load().users[a.user]
	return p != nil && p.id == a.id && slices.Contains(p.user.Tags, tag)
}

// Limits are the user's.
func (a *Access) Limits() Limits { return a.registry.Limits(a.user) }
