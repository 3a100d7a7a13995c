package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/cmd/internal/audit"
	"github.com/understudy-mq/understudy/cmd/loopback"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session/auth"
)

// adminCall sends an admin request as guest and wants a status.
func adminCall(t *testing.T, n *Node, method, path, body string, status int) {
	t.Helper()
	if got, text := request(t, n, "guest:guest", method, path, body); got != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
}

// newUser makes a user with permissions in vhost /.
func newUser(t *testing.T, n *Node, name, configure, write, read string) {
	t.Helper()
	adminCall(t, n, "PUT", "/api/users/"+name, `{"password":"secret","tags":""}`, 201)
	permit(t, n, name, configure, write, read, 201)
}

func permit(t *testing.T, n *Node, name, configure, write, read string, status int) {
	t.Helper()
	body := fmt.Sprintf(`{"configure":%q,"write":%q,"read":%q}`, configure, write, read)
	adminCall(t, n, "PUT", "/api/permissions/%2F/"+name, body, status)
}

func dialAs(n *Node, user, password string) (*amqp.Connection, error) {
	return amqp.Dial("amqp://" + user + ":" + password + "@" + address(n, protocolAMQP) + "/")
}

func channelAs(t *testing.T, n *Node, user string) (*amqp.Connection, *amqp.Channel) {
	t.Helper()
	c, err := dialAs(n, user, "secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return c, ch
}

func TestAUsersConnectionsAreCountedAndClosedAtOnce(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	newUser(t, n, "app", ".*", ".*", ".*")
	other := dial(t, n).NotifyClose(make(chan *amqp.Error, 1))
	for range 2 {
		channelAs(t, n, "app")
	}
	third, _ := channelAs(t, n, "app")
	closed := third.NotifyClose(make(chan *amqp.Error, 1))
	if users := n.ConnectionsByUser(t.Context()); users["app"] != 3 || users["guest"] != 1 {
		t.Errorf("connections by user: %v", users)
	}
	adminCall(t, n, "DELETE", "/api/connections/username/app", "", 204)
	wantClosed(t, closed, "Closed via management API")
	eventually(t, "all of the user's are gone", func() bool { return n.ConnectionsByUser(t.Context())["app"] == 0 })
	select {
	case err := <-other:
		t.Errorf("another user's was closed: %v", err)
	default:
	}
}

func wantReply(t *testing.T, what string, err error, code int, reason string) {
	t.Helper()
	e, ok := err.(*amqp.Error)
	if !ok || e.Code != code || e.Reason != reason {
		t.Errorf("%s: %v, want %d %s", what, err, code, reason)
	}
}

func TestADeniedUserHearsWhyAndTheRecordHasIt(t *testing.T) {
	c := settings(t, 1)
	n := start(t, c)
	ready(t, n)
	newUser(t, n, "app", "^app", "^amq\\.default$", "^app")
	_, ch := channelAs(t, n, "app")
	_, err := ch.QueueDeclare("other", true, false, false, false, nil)
	wantReply(t, "declare", err, 403, "ACCESS_REFUSED - configure access to queue 'other' in vhost '/' refused for user 'app'")
	_, ch = channelAs(t, n, "app")
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	_ = ch.Publish("amq.fanout", "", false, false, amqp.Publishing{})
	wantReply(t, "publish", error(<-closed), 403, "ACCESS_REFUSED - write access to exchange 'amq.fanout' in vhost '/' refused for user 'app'")
	_, ch = channelAs(t, n, "app")
	if _, err := ch.QueueDeclare("app1", true, false, false, false, nil); err != nil {
		t.Error(err)
	}
	_, err = dialAs(n, "app", "wrong")
	wantReply(t, "login", err, 403, amqp.ErrCredentials.Reason)
	adminCall(t, n, "DELETE", "/api/permissions/%2F/app", "", 204)
	_, err = dialAs(n, "app", "secret")
	wantReply(t, "open", err, 530, "NOT_ALLOWED - access to vhost '/' refused for user 'app'")

	record, err := os.ReadFile(filepath.Join(c.Data, audit.Name))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"event":"login","user":"app"`, `"event":"login_refused","user":"app"`, `"event":"denied","user":"app"`,
		`"event":"user_put","user":"app","by":"guest"`, `"event":"permission_set","user":"app","by":"guest"`,
		`"event":"permission_cleared"`,
	} {
		if !strings.Contains(string(record), want) {
			t.Errorf("the record lacks %s", want)
		}
	}
	if strings.Contains(string(record), "secret") {
		t.Error("the record has a password")
	}
}

func TestUsersOutliveARestart(t *testing.T) {
	c := settings(t, 1)
	n := start(t, c)
	ready(t, n)
	newUser(t, n, "app", ".*", ".*", ".*")
	adminCall(t, n, "PUT", "/api/users/guest", `{"password":"changed","tags":"administrator"}`, 204)
	stop(t, n)
	n = start(t, c)
	ready(t, n)
	channelAs(t, n, "app")
	if _, err := dialAs(n, "guest", "guest"); err == nil {
		t.Error("the first user was made anew")
	}
}

func TestAnImportedHashLogsInAndBadOnesAreRefused(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	const vector = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR" // test12
	adminCall(t, n, "PUT", "/api/users/old", `{"password_hash":"`+vector+`","tags":"management"}`, 201)
	permit(t, n, "old", ".*", ".*", ".*", 201)
	if _, err := dialAs(n, "old", "test12"); err != nil {
		t.Error(err)
	}
	adminCall(t, n, "PUT", "/api/users/old", `{"tags":"monitoring"}`, 204) // keeps it
	if _, err := dialAs(n, "old", "test12"); err != nil {
		t.Error(err)
	}
	for _, body := range []string{
		`{"password_hash":"abc"}`, `{"password_hash":"","hashing_algorithm":"rot13"}`, `{"password":""}`, `{"tags":"a"}`,
		`{"password":"a","password_hash":""}`, `{"password":"a","tags":["a,b"]}`,
	} {
		adminCall(t, n, "PUT", "/api/users/new", body, 400)
	}
	adminCall(t, n, "PUT", "/api/permissions/%2F/old", `{"configure":"(","write":"","read":""}`, 400)
	adminCall(t, n, "PUT", "/api/user-limits/old/max-nothing", `{"value":1}`, 400)
	adminCall(t, n, "DELETE", "/api/users/none", "", 404)
}

// revocations are the ways to take a queue from a consumer.
var revocations = map[string]func(*testing.T, *Node){
	"read":  func(t *testing.T, n *Node) { permit(t, n, "app", "", "", "^other$", 204) },
	"vhost": func(t *testing.T, n *Node) { adminCall(t, n, "DELETE", "/api/permissions/%2F/app", "", 204) },
	"user":  func(t *testing.T, n *Node) { adminCall(t, n, "DELETE", "/api/users/app", "", 204) },
}

// A publisher keeps a queue busy while its consumer's right goes: nothing is delivered later than 5 s after the answer, and
// the connection is closed by then.
func TestARevokedConsumerHearsNothingMore(t *testing.T) {
	for name, revoke := range revocations {
		t.Run(name, func(t *testing.T) {
			n := start(t, settings(t, 1))
			ready(t, n)
			newUser(t, n, "app", "", "", ".*")
			publisher, err := dial(t, n).Channel()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := publisher.QueueDeclare("q", true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			var over atomic.Bool
			done := make(chan struct{})
			go func() {
				defer close(done)
				for !over.Load() {
					_ = publisher.Publish("", "q", false, false, amqp.Publishing{Body: []byte("m")})
				}
			}()
			defer func() { over.Store(true); <-done }()
			c, ch := channelAs(t, n, "app")
			closed := c.NotifyClose(make(chan *amqp.Error, 1))
			deliveries, err := ch.Consume("q", "", true, false, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			<-deliveries
			revoke(t, n)
			limit := time.After(patience)
			for open := true; open; {
				select {
				case _, open = <-deliveries:
				case <-limit:
					t.Fatal("deliveries go on after the answer")
				}
			}
			if e := <-closed; e == nil || e.Code != 403 && e.Code != 320 {
				t.Errorf("closed with %v", e)
			}
		})
	}
}

func TestAUsersLimitsAreKept(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	newUser(t, n, "app", ".*", ".*", ".*")
	adminCall(t, n, "PUT", "/api/user-limits/app/max-connections", `{"value":1}`, 204)
	adminCall(t, n, "PUT", "/api/user-limits/app/max-channels", `{"value":1}`, 204)
	c, _ := channelAs(t, n, "app")
	_, err := dialAs(n, "app", "secret")
	wantReply(t, "a second connection", err, 530, "NOT_ALLOWED - connection refused for user 'app': user connection limit (1) is reached")
	_, err = c.Channel()
	wantReply(t, "a second channel", err, 530,
		"NOT_ALLOWED - number of channels opened for user 'app' has reached the maximum allowed user limit of (1)")
}

func TestARevocationReachesTheOtherNodes(t *testing.T) {
	first := start(t, settings(t, 1))
	ready(t, first)
	c := settings(t, 2)
	c.Join = "http://" + address(first, protocolHTTP)
	second := start(t, c)
	ready(t, second)
	newUser(t, second, "app", ".*", ".*", ".*") // by a node that does not lead
	eventually(t, "the user is known to node 1", func() bool { return first.accounts.MayEnter("app", "/") })
	conn, _ := channelAs(t, second, "app")
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	adminCall(t, first, "DELETE", "/api/users/app", "", 204)
	select {
	case e := <-closed:
		wantReply(t, "close", error(e), 320, "CONNECTION_FORCED - user 'app' was deleted")
	case <-time.After(patience):
		t.Error("still connected after the answer")
	}
	stop(t, second)
}

func TestANodeThatHearsNoChangesOfUsersServesNobody(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	closed := dial(t, n).NotifyClose(make(chan *amqp.Error, 1))
	n.observer().Unregistered(systemGroup, "no leader")
	wantReply(t, "close", error(<-closed), 320, "CONNECTION_FORCED - no leader")
	for _, password := range []string{"guest", "wrong"} { // it may have been changed
		_, err := dialAs(n, "guest", password)
		wantReply(t, "open", err, 320, "CONNECTION_FORCED - node cannot reach the system group's leader")
	}
	_, err := dialAs(n, "new", "secret") // it may have been made
	wantReply(t, "open", err, 320, "CONNECTION_FORCED - node cannot reach the system group's leader")
	talk(t, n, []exchange{{"GET", "/api/whoami", "", 200, "guest"}}) // to see what is wrong
	talkAs(t, n, "new:secret", []exchange{{"GET", "/api/whoami", "", 503, "cannot reach the system group's leader, and by what it knew last the login is refused"}})
	n.observer().Registered(systemGroup, 1)
	dial(t, n)
	talkAs(t, n, "new:secret", []exchange{{"GET", "/api/whoami", "", 401, "not_authorized"}})
}

// TestANodeThatKnowsNoUsersYetSaysSo: the first of three voters waits for another one.
func TestANodeThatKnowsNoUsersYetSaysSo(t *testing.T) {
	t.Parallel() // it waits for the most part
	addresses := loopback.Addresses(t, 3)
	c := settings(t, 1)
	c.Peer, c.Cluster = addresses[0], "1="+addresses[0]+",2="+addresses[1]+",3="+addresses[2]
	n := start(t, c)
	talk(t, n, []exchange{{"GET", "/api/whoami", "", 503, "users are not known yet: node cannot reach the system group's leader"}})
	n.observer().Registered(systemGroup, 1)
	talk(t, n, []exchange{{"GET", "/api/whoami", "", 503, "users are not known yet: cluster is forming"}})
}

// TestALoginIsJudgedByTheNewestState: while a login is judged a user is made, and the registry cannot look.
func TestALoginIsJudgedByTheNewestState(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	calls := 0
	_, err := n.judged(func() (*auth.Identity, error) {
		if calls++; calls == 2 {
			return &auth.Identity{User: "app"}, nil
		}
		n.accounts.refreshing.Lock()
		defer n.accounts.refreshing.Unlock()
		if err := n.accounts.submit(entry.Append(nil, &entry.UserPut{Name: "app"}), 1); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the user is made", func() (made bool) {
			n.accounts.state(func(m *core.Machine) { made = len(m.Users()) == 2 })
			return made
		})
		return nil, &auth.Refusal{}
	})
	if err != nil || calls != 2 {
		t.Errorf("judged %d times: %v", calls, err)
	}
	_, err = n.judged(func() (*auth.Identity, error) { calls++; return nil, &auth.Refusal{} })
	if err == nil || calls != 3 {
		t.Errorf("where nothing has changed: judged %d times, %v", calls-2, err)
	}
}
