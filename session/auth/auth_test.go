package auth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/session/auth"
)

func tcp(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 40000} }

type text string // an address of an unknown kind

func (t text) Network() string { return "other" }
func (t text) String() string  { return string(t) }

// refused wants a *auth.Refusal and answers its reason.
func refused(t *testing.T, err error) string {
	t.Helper()
	var r *auth.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("not refused: %v", err)
	}
	return r.Reason
}

func users() auth.Static {
	return auth.Static{
		"guest": {Name: "guest", PasswordHash: auth.HashPassword("guest"), LoopbackOnly: true},
		"app":   {Name: "app", PasswordHash: auth.HashPassword("secret"), Tags: []string{"monitoring"}},
		"mute":  {Name: "mute", PasswordHash: auth.HashPassword("")},
	}
}

func TestRightPasswordLogsIn(t *testing.T) {
	a := auth.New(auth.Options{Iterations: 1, Users: users()})
	id, err := a.Authenticate("app", "secret", tcp("192.0.2.1"))
	if want := (&auth.Identity{User: "app", Tags: []string{"monitoring"}}); err != nil || !reflect.DeepEqual(id, want) {
		t.Errorf("%+v, %v, want %+v", id, err, want)
	}
}

func TestACertificatesUserNeedsNoPassword(t *testing.T) {
	a := auth.New(auth.Options{Iterations: 1, Users: users()})
	id, err := a.Certified("app", tcp("192.0.2.1"))
	if want := (&auth.Identity{User: "app", Tags: []string{"monitoring"}}); err != nil || !reflect.DeepEqual(id, want) {
		t.Errorf("%+v, %v, want %+v", id, err, want)
	}
	for user, want := range map[string]string{
		"":                       "names no user",
		"nobody":                 "does not exist",
		"guest":                  "can only connect via localhost",
		strings.Repeat("x", 256): "at most 255",
	} {
		id, err := a.Certified(user, tcp("192.0.2.1"))
		if reason := refused(t, err); id != nil || !strings.Contains(reason, want) {
			t.Errorf("%.20q: %+v, %s", user, id, reason)
		}
	}
}

func TestWrongCredentialsAreRefused(t *testing.T) {
	a := auth.New(auth.Options{Iterations: 1, Users: users()})
	for _, c := range [][2]string{{"app", "Secret"}, {"app", "secret "}, {"nobody", "secret"}, {"", "secret"}, {"nobody", "decoy"}, {"APP", "secret"}} {
		id, err := a.Authenticate(c[0], c[1], tcp("127.0.0.1"))
		if reason := refused(t, err); id != nil || reason != "user '"+c[0]+"' - invalid credentials" {
			t.Errorf("%q: %+v, %s", c, id, reason)
		}
	}
}

func TestBlankPasswordIsAlwaysRefused(t *testing.T) {
	a := auth.New(auth.Options{Iterations: 1, Users: users()})
	for _, user := range []string{"app", "guest", "mute", "nobody", ""} {
		_, err := a.Authenticate(user, "", tcp("127.0.0.1"))
		if reason := refused(t, err); !strings.Contains(reason, "blank password") {
			t.Errorf("%s: %s", user, reason)
		}
	}
}

func TestGuestLogsInFromLoopbackPeersOnly(t *testing.T) {
	a := auth.New(auth.Options{Iterations: 1, Users: users()})
	for _, peer := range []net.Addr{tcp("127.0.0.1"), tcp("127.8.7.6"), tcp("::1"), tcp("::ffff:127.0.0.1"), text("127.0.0.1:5"), text("[::1]:5")} {
		if _, err := a.Authenticate("guest", "guest", peer); err != nil {
			t.Errorf("%s: %v", peer, refused(t, err))
		}
	}
	for _, peer := range []net.Addr{
		tcp("192.0.2.1"), tcp("10.0.0.1"), tcp("0.0.0.0"), tcp("::"), tcp("::ffff:192.0.2.1"), &net.TCPAddr{},
		text("localhost:5"), text("127.0.0.1"), text("127.0.0.1.example.com:5"), text(""), &net.UnixAddr{Name: "/run/understudy", Net: "unix"}, nil,
	} {
		_, err := a.Authenticate("guest", "guest", peer)
		if reason := refused(t, err); reason != "user 'guest' can only connect via localhost" {
			t.Errorf("%v: %s", peer, reason)
		}
	}
}

func TestDefaultUserIsLoopbackOnlyIfGuest(t *testing.T) {
	for name, want := range map[string]bool{"guest": true, "boss": false} {
		u, ok := auth.DefaultUsers(name, "pw").User(name)
		if !ok || u.LoopbackOnly != want || !reflect.DeepEqual(u.Tags, []string{"administrator"}) {
			t.Errorf("%s: %+v, %v", name, u, ok)
		}
		if _, err := auth.New(auth.Options{Iterations: 1, Users: auth.DefaultUsers(name, "pw")}).Authenticate(name, "pw", tcp("::1")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARefusalTellsTheClientNothing(t *testing.T) {
	limit := auth.Limit{Burst: 6, Every: time.Hour}
	a := auth.New(auth.Options{Iterations: 1, Users: users(), Limit: limit})
	var reasons []string
	for _, c := range []struct{ user, password, peer string }{
		{"app", "wrong", "192.0.2.1"}, {"nobody", "x", "192.0.2.1"}, {"app", "", "192.0.2.1"}, {"guest", "guest", "192.0.2.1"},
		{"guest", "wrong", "192.0.2.1"}, {strings.Repeat("n", 256), "x", "192.0.2.1"}, {"nobody", "x", "192.0.2.1"}, {"app", "secret", "192.0.2.1"},
	} {
		_, err := a.Authenticate(c.user, c.password, tcp(c.peer))
		reasons = append(reasons, refused(t, err))
		r := err.(*auth.Refusal)
		if got := r.Text("PLAIN"); r.Error() != "login was refused" ||
			got != "Login was refused using authentication mechanism PLAIN. For details see the broker logfile." {
			t.Errorf("%s: %q, %q", r.Reason, r.Error(), got)
		}
	}
	if last := reasons[len(reasons)-1]; !strings.Contains(last, "too many failed attempts") {
		t.Errorf("the last reason is %q", last)
	}
}

func TestConcurrentGuessesGainNothing(t *testing.T) {
	const burst = 50
	a := auth.New(auth.Options{Iterations: 1, Users: users(), Limit: auth.Limit{Burst: burst, Every: time.Hour}})
	var mu sync.Mutex
	var judged int
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				_, err := a.Authenticate("app", "wrong", tcp("192.0.2.1"))
				if strings.Contains(err.(*auth.Refusal).Reason, "invalid credentials") {
					mu.Lock()
					judged++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if judged != burst {
		t.Errorf("%d guesses were judged, want %d", judged, burst)
	}
}

func TestRabbitHashesVerify(t *testing.T) {
	const vector = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR" // salt 908DC60A
	if !auth.Verify(vector, "", "test12") {
		t.Error("test12 does not match")
	}
	for _, password := range []string{"test1", "test13", "test12\x00", "Test12", ""} {
		if auth.Verify(vector, "", password) {
			t.Errorf("%q matches", password)
		}
	}
	for _, hash := range []string{"", "!", vector[:44], vector + "AAAA", "z" + vector[1:], vector[:47] + "S"} {
		if auth.Verify(hash, "", "test12") {
			t.Errorf("%q matches", hash)
		}
	}
}

func TestABlankPasswordMatchesNotEvenItsOwnHash(t *testing.T) {
	salt := []byte("salt")
	sum := sha256.Sum256(salt)
	if auth.Verify(base64.StdEncoding.EncodeToString(append(salt, sum[:]...)), "", "") {
		t.Error("it matches")
	}
}

func TestHashPasswordIsSaltedAndVerifies(t *testing.T) {
	first, second := auth.HashPassword("pä$$"), auth.HashPassword("pä$$")
	if first == second || !auth.Verify(first, "", "pä$$") || !auth.Verify(second, "", "pä$$") {
		t.Errorf("%s, %s", first, second)
	}
	if auth.HashPassword("") != "" {
		t.Error("a blank password has a hash")
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	a := auth.New(auth.Options{Iterations: 1, Users: users()})
	peer := tcp("127.0.0.1")
	for b.Loop() {
		if _, err := a.Authenticate("app", "secret", peer); err != nil {
			b.Fatal(err)
		}
	}
}
