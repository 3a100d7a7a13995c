package auth

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// bench is an Authenticator with a clock that stands until it is moved.
type bench struct {
	*Authenticator
	t   *testing.T
	now time.Time
}

func newBench(t *testing.T, l Limit) *bench {
	b := &bench{t: t, now: time.Unix(1e9, 0)}
	set := Static{}
	for _, name := range []string{"app", "other"} {
		set[name] = User{Name: name, PasswordHash: HashPassword("right")}
	}
	b.Authenticator = New(Options{Users: set, Limit: l, Iterations: 1, Now: func() time.Time { return b.now }})
	return b
}

// try logs in; it says whether that worked, and whether it was the limit that refused.
func (b *bench) try(user, password, ip string) (in, limited bool) {
	_, err := b.Authenticate(user, password, &net.TCPAddr{IP: net.ParseIP(ip)})
	return err == nil, err != nil && strings.Contains(err.(*Refusal).Reason, "too many")
}

func (b *bench) wants(user, password, ip string, in, limited bool) {
	b.t.Helper()
	if i, l := b.try(user, password, ip); i != in || l != limited {
		b.t.Errorf("%s with %s from %s: in %v, limited %v; want %v, %v", user, password, ip, i, l, in, limited)
	}
}

func TestFailuresOfOneSourceAreLimited(t *testing.T) {
	b := newBench(t, Limit{Burst: 3, Every: time.Second})
	for i := range 3 {
		b.wants(fmt.Sprint("nobody", i), "guess", "192.0.2.1", false, false)
	}
	b.wants("app", "right", "192.0.2.1", false, true)
	b.wants("app", "right", "192.0.2.2", true, false)
	b.now = b.now.Add(time.Second)
	b.wants("nobody", "guess", "192.0.2.1", false, false)
	b.wants("nobody", "guess", "192.0.2.1", false, true)
	b.now = b.now.Add(time.Hour)
	for range 3 {
		b.wants("nobody", "guess", "192.0.2.1", false, false)
	}
	b.wants("nobody", "guess", "192.0.2.1", false, true)
}

func TestFailuresOfOneUserAreLimitedAcrossSources(t *testing.T) {
	b := newBench(t, Limit{Burst: 3, Every: time.Second})
	for i := range 3 {
		b.wants("app", "guess", fmt.Sprint("192.0.2.", i), false, false)
	}
	b.wants("app", "right", "192.0.2.9", false, true)
	b.wants("other", "right", "192.0.2.9", true, false)
	b.now = b.now.Add(time.Second)
	b.wants("app", "right", "192.0.2.9", true, false)
}

func TestAttemptsOnAUserWithoutRestDoNotCountAgainstTheSource(t *testing.T) {
	b := newBench(t, Limit{Burst: 3, Every: time.Hour})
	for i := range 3 {
		b.wants("app", "guess", fmt.Sprint("192.0.2.", i), false, false)
	}
	for range 10 {
		b.wants("app", "right", "192.0.2.9", false, true)
	}
	b.wants("other", "right", "192.0.2.9", true, false)
}

func TestSuccessesAreNotLimited(t *testing.T) {
	b := newBench(t, Limit{Burst: 1, Every: time.Hour})
	for i := range 20 {
		b.wants("app", "right", "192.0.2.1", true, false)
		b.wants("app", "right", fmt.Sprint("192.0.3.", i), true, false)
	}
}

func TestAFloodDoesNotLockOutAUserWhereItWasLoggingIn(t *testing.T) {
	b := newBench(t, Limit{Burst: 3, Every: time.Hour})
	b.wants("app", "right", "192.0.2.1", true, false)
	for i := range 100 {
		b.try("app", "guess", fmt.Sprint("198.51.100.", i)) // strangers
		b.try("nobody", "guess", "192.0.2.1")               // a neighbour
	}
	b.wants("app", "right", "192.0.2.1", true, false)
	b.wants("app", "right", "127.0.0.1", true, false)
	b.wants("app", "right", "192.0.2.2", false, true)
}

func TestAKnownPairIsLimitedToo(t *testing.T) {
	for _, ip := range []string{"192.0.2.1", "127.0.0.1"} {
		b := newBench(t, Limit{Burst: 3, Every: time.Second})
		b.wants("app", "right", ip, true, false)
		for range 3 {
			b.wants("app", "guess", ip, false, false)
		}
		b.wants("app", "right", ip, false, true)
		b.now = b.now.Add(time.Second)
		b.wants("app", "right", ip, true, false)
	}
}

func TestRemoteAttemptsOnALoopbackUserDoNotCountAgainstIt(t *testing.T) {
	b := newBench(t, Limit{Burst: 3, Every: time.Hour})
	b.users = DefaultUsers("guest", "guest")
	for i := range 100 {
		b.try("guest", "guest", fmt.Sprint("192.0.2.", i))
	}
	if b.limiter.users.recent.Len() != 0 {
		t.Error("they count against the user")
	}
	b.wants("guest", "guest", "127.0.0.1", true, false)
}

func TestANetworkOfOnePartyIsOneSource(t *testing.T) {
	b := newBench(t, Limit{Burst: 3, Every: time.Hour})
	for i := range 3 {
		b.wants("nobody", "guess", fmt.Sprintf("2001:db8:0:1::%x", i), false, false)
	}
	b.wants("nobody", "guess", "2001:db8:0:1:ffff::1", false, true)
	b.wants("nobody", "guess", "2001:db8:0:2::1", false, false)
}

func TestAClockThatGoesBackForgivesNothing(t *testing.T) {
	b := newBench(t, Limit{Burst: 1, Every: time.Minute})
	b.wants("nobody", "guess", "192.0.2.1", false, false)
	b.now = b.now.Add(-time.Hour)
	b.wants("nobody", "guess", "192.0.2.1", false, true)
}

func TestMemoryIsBoundedWhateverIsTried(t *testing.T) {
	const places = 100
	b := newBench(t, Limit{Burst: 3, Every: time.Second, Places: places})
	for i := range 10 * places {
		ip := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String()
		b.try(fmt.Sprint("nobody", i), "guess", ip)
		b.try("app", "guess", ip)
		b.now = b.now.Add(time.Second)
		b.try("app", "right", ip)
	}
	l := b.limiter
	if n := l.users.recent.Len(); n > 1 {
		t.Errorf("%d users are remembered, of 1 that exists", n)
	}
	for what, n := range map[string][2]int{
		"sources": {l.sources.recent.Len(), len(l.sources.byKey)},
		"pairs":   {l.pairs.recent.Len(), len(l.pairs.byKey)},
	} {
		if n[0] != places || n[1] != places {
			t.Errorf("%d and %d %s are remembered, want %d", n[0], n[1], what, places)
		}
	}
	b.wants("app", "right", "10.0.0.1", true, false) // forgotten, and so a stranger again
}

func TestTheUsedLastIsRemembered(t *testing.T) {
	b := newBench(t, Limit{Burst: 1, Every: time.Hour, Places: 2})
	for _, ip := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.3"} {
		b.try("nobody", "guess", ip)
	}
	b.wants("nobody", "guess", "192.0.2.1", false, true)
	b.wants("nobody", "guess", "192.0.2.2", false, false)
}
