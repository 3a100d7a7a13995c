package auth

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// Limit says how many logins may fail. Zero fields have defaults.
type Limit struct {
	Burst  int           // failures at once, by one source or of one user; 100
	Every  time.Duration // then one more is allowed each Every; 100 ms
	Places int           // sources, users and pairs of both that are remembered, each; 4096
}

func (l Limit) withDefaults() Limit {
	if l.Burst == 0 {
		l.Burst = 100
	}
	if l.Every == 0 {
		l.Every = 100 * time.Millisecond
	}
	if l.Places == 0 {
		l.Places = 4096
	}
	return l
}

// limiter counts failed attempts. An attempt is paid for when it begins, so that many at once gain nothing, and paid back
// if it succeeds. It pays to its source and its user; or, where that user has logged in from that source before, only to
// this pair's own account: strangers who guess a user's password do not keep the user out, nor do their neighbours behind
// the same address.
type limiter struct {
	now     func() time.Time
	mu      sync.Mutex
	sources *accounts[netip.Prefix]
	users   *accounts[string]
	pairs   *accounts[pair]
}

type pair struct {
	source netip.Prefix
	user   string
}

func newLimiter(l Limit, now func() time.Time) *limiter {
	return &limiter{now: now, sources: newAccounts[netip.Prefix](l), users: newAccounts[string](l), pairs: newAccounts[pair](l)}
}

// attempt is a login that has begun.
type attempt struct {
	limiter *limiter
	pair    pair
	known   bool // paid by the pair
	byUser  bool // paid by the user too
}

// begin asks whether an attempt may be made. byUser is false for users that are not there (their names are the
// attacker's to choose, and would push out the rest) or cannot log in from here anyhow.
func (l *limiter) begin(from netip.Addr, user string, byUser bool) (attempt, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	a := attempt{limiter: l, pair: pair{sourceOf(from), user}, byUser: byUser}
	if a.known = l.knows(a.pair, from, byUser); a.known {
		return a, l.pairs.pay(a.pair, now)
	}
	if !l.sources.pay(a.pair.source, now) {
		return a, false
	}
	if byUser && !l.users.pay(user, now) {
		l.sources.payBack(a.pair.source)
		return a, false
	}
	return a, true
}

// knows says whether an attempt pays from its pair's own account. l.mu is held.
func (l *limiter) knows(p pair, from netip.Addr, byUser bool) bool {
	return byUser && (from.IsLoopback() || l.pairs.has(p))
}

// spent says whether begin would refuse now; nothing is paid.
func (l *limiter) spent(from netip.Addr, user string, byUser bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	p := pair{sourceOf(from), user}
	if l.knows(p, from, byUser) {
		return l.pairs.spent(p, now)
	}
	return l.sources.spent(p.source, now) || byUser && l.users.spent(user, now)
}

// succeeded pays the attempt back and remembers its pair.
func (a attempt) succeeded() {
	l := a.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.known {
		l.pairs.payBack(a.pair)
		return
	}
	l.sources.payBack(a.pair.source)
	if a.byUser {
		l.users.payBack(a.pair.user)
	}
	l.pairs.open(a.pair)
}

// sourceOf is the part of an address that one party has: all of an IPv4 address, the first 64 bits of an IPv6 one.
func sourceOf(from netip.Addr) netip.Prefix {
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	p, _ := from.Prefix(bits) // the zero Prefix for the zero Addr: all peers without an address are one source
	return p
}

// accounts are the debts of up to Places keys; the one not used for longest makes room.
type accounts[K comparable] struct {
	limit  Limit
	byKey  map[K]*list.Element // of account[K]
	recent list.List           // front: used last
}

// account owes up to a time: each failure adds Every to it. One that owes up to the past owes nothing.
type account[K comparable] struct {
	key  K
	owes time.Time
}

func newAccounts[K comparable](l Limit) *accounts[K] {
	return &accounts[K]{limit: l, byKey: make(map[K]*list.Element)}
}

func (s *accounts[K]) has(key K) bool { return s.byKey[key] != nil }

// open answers the account of a key, made if need be.
func (s *accounts[K]) open(key K) *account[K] {
	if e := s.byKey[key]; e != nil {
		s.recent.MoveToFront(e)
		return e.Value.(*account[K])
	}
	if s.recent.Len() >= s.limit.Places {
		delete(s.byKey, s.recent.Remove(s.recent.Back()).(*account[K]).key)
	}
	a := &account[K]{key: key}
	s.byKey[key] = s.recent.PushFront(a)
	return a
}

// pay takes one attempt from a key's account, or answers false where nothing is left.
func (s *accounts[K]) pay(key K, now time.Time) bool {
	a := s.open(key)
	if a.owes.Before(now) {
		a.owes = now
	}
	if s.exhausted(a, now) {
		return false
	}
	a.owes = a.owes.Add(s.limit.Every)
	return true
}

// spent says whether pay would refuse. Who asks is remembered as if it paid.
func (s *accounts[K]) spent(key K, now time.Time) bool {
	return s.byKey[key] != nil && s.exhausted(s.open(key), now)
}

func (s *accounts[K]) exhausted(a *account[K], now time.Time) bool {
	return a.owes.Sub(now) > time.Duration(s.limit.Burst-1)*s.limit.Every
}

func (s *accounts[K]) payBack(key K) {
	if e := s.byKey[key]; e != nil {
		a := e.Value.(*account[K])
		a.owes = a.owes.Add(-s.limit.Every)
	}
}
