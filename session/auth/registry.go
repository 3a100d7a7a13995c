package auth

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/understudy-mq/understudy/core"
)

// PatternBytesMax bounds a permission's pattern.
const PatternBytesMax = 1024

// guest is the user whose password everybody knows.
const guest = "guest"

// CheckPattern says what is wrong with a pattern of a permission. Patterns are RE2's: matched in linear time, without
// look-ahead and back-references.
func CheckPattern(pattern string) error {
	if len(pattern) > PatternBytesMax {
		return fmt.Errorf("pattern of %d bytes, at most %d are allowed", len(pattern), PatternBytesMax)
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return fmt.Errorf("pattern %.100q: %w", pattern, err)
	}
	return nil
}

// Registry is the users and permissions of the cluster as this node knows them: an immutable snapshot that is replaced as
// a whole.
type Registry struct {
	current  atomic.Pointer[snapshot]
	updating sync.Mutex
	patterns map[string]*regexp.Regexp // of the snapshot, by text; guarded by updating
}

var _ Users = (*Registry)(nil)

// snapshot is one state of the registry.
type snapshot struct {
	generation uint64
	users      map[string]*profile
}

type profile struct {
	user   User
	id     uint64 // tells the user from an earlier one of that name
	limits Limits
	vhosts map[string]*grant
}

// Limits bound what a user's clients hold over the whole cluster; -1 is no limit.
type Limits struct{ Connections, Channels int }

// grant is what a user may do in a vhost.
type grant struct {
	patterns [operations]*regexp.Regexp
	topics   map[string]*grant // by exchange: of routing keys. Configure has no meaning there
}

// NewRegistry makes a Registry that knows nobody.
func NewRegistry() *Registry {
	r := &Registry{}
	r.current.Store(&snapshot{})
	return r
}

// Generation is that of the last Update.
func (r *Registry) Generation() uint64 { return r.current.Load().generation }

// User answers the user of that name.
func (r *Registry) User(name string) (User, bool) {
	p := r.current.Load().users[name]
	if p == nil {
		return User{}, false
	}
	return p.user, true
}

// Limits are a user's.
func (r *Registry) Limits(user string) Limits {
	if p := r.current.Load().users[user]; p != nil {
		return p.limits
	}
	return Limits{-1, -1}
}

// MayEnter says whether a user has permissions in a vhost, whatever they are.
func (r *Registry) MayEnter(user, vhost string) bool {
	p := r.current.Load().users[user]
	return p != nil && p.vhosts[vhost] != nil
}

// Update replaces all that is known; generation tells this state from others.
func (r *Registry) Update(generation uint64, users []core.UserInfo, permissions []core.PermissionInfo, topics []core.TopicPermissionInfo) {
	r.updating.Lock()
	defer r.updating.Unlock()
	old := r.patterns
	r.patterns = make(map[string]*regexp.Regexp)
	s := &snapshot{generation: generation, users: make(map[string]*profile, len(users))}
	for _, u := range users {
		s.users[u.Name] = &profile{
			user:   User{Name: u.Name, PasswordHash: u.Hash, Algorithm: u.Algorithm, Tags: u.Tags, LoopbackOnly: u.Name == guest},
			id:     u.Created,
			limits: Limits{u.MaxConnections, u.MaxChannels},
			vhosts: map[string]*grant{},
		}
	}
	for _, p := range permissions {
		if u := s.users[p.User]; u != nil {
			u.vhosts[p.Vhost] = r.grant(old, p.Configure, p.Write, p.Read)
		}
	}
	for _, t := range topics {
		r.addTopic(old, s, t)
	}
	r.current.Store(s)
}

func (r *Registry) addTopic(old map[string]*regexp.Regexp, s *snapshot, t core.TopicPermissionInfo) {
	u := s.users[t.User]
	if u == nil || u.vhosts[t.Vhost] == nil {
		return
	}
	expand := strings.NewReplacer("{username}", regexp.QuoteMeta(t.User), "{vhost}", regexp.QuoteMeta(t.Vhost)).Replace
	in := u.vhosts[t.Vhost]
	if in.topics == nil {
		in.topics = map[string]*grant{}
	}
	in.topics[t.Exchange] = r.grant(old, "", expand(t.Write), expand(t.Read))
}

func (r *Registry) grant(old map[string]*regexp.Regexp, configure, write, read string) *grant {
	g := &grant{}
	for op, text := range map[Operation]string{Configure: configure, Write: write, Read: read} {
		g.patterns[op] = r.compile(old, text)
	}
	return g
}

// compile makes a pattern, or takes the one made before. An empty one matches nothing, nor does one that is wrong.
func (r *Registry) compile(old map[string]*regexp.Regexp, text string) *regexp.Regexp {
	if text == "" {
		return nil
	}
	re, ok := r.patterns[text]
	if !ok {
		if re, ok = old[text]; !ok {
			re, _ = regexp.Compile(text)
		}
		r.patterns[text] = re
	}
	return re
}

func (g *grant) allows(op Operation, name string) bool {
	re := g.patterns[op]
	return re != nil && re.MatchString(name)
}
