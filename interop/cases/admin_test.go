package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

// otherAdmin names an environment variable with the URL of the other broker's HTTP API, http://HOST:PORT.
const otherAdmin = "INTEROP_ADMIN_URL"

// admin asks the HTTP API of the broker under test as guest, and answers the body of a 2xx reply. A body of "" is none.
func admin(t *testing.T, method, path, body string) []byte {
	t.Helper()
	base := os.Getenv(otherAdmin)
	if node.cluster != nil {
		base = "http://" + node.cluster.Node(1).Admin
	} else if base == "" {
		t.Fatalf("this test needs %s, the URL of the broker's HTTP API", otherAdmin)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, base+path, strings.NewReader(body))
	must(t, err)
	req.SetBasicAuth("guest", "guest")
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: harness.Patience}
	resp, err := client.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	must(t, err)
	if resp.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s %.300s", method, path, resp.Status, answer)
	}
	return answer
}

// as connects as a user made for the test, who may do what the patterns say.
func as(t *testing.T, configure, write, read string) *client {
	t.Helper()
	user := name(t, "u")
	admin(t, "PUT", "/api/users/"+user, `{"password":"secret","tags":""}`)
	t.Cleanup(func() { admin(t, "DELETE", "/api/users/"+user, "") })
	permissions, err := json.Marshal(map[string]string{"configure": configure, "write": write, "read": read})
	must(t, err)
	admin(t, "PUT", "/api/permissions/%2F/"+user, string(permissions))
	u, err := url.Parse(node.url)
	must(t, err)
	u.User = url.UserPassword(user, "secret")
	f, err := rawclient.DialFrames(u.String(), rawclient.Handshake{})
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	c := &client{f, t}
	c.open(1)
	return c
}

func TestA25PassiveDeclareNeedsSomePermission(t *testing.T) {
	c := connect(t)
	q, x := c.queue(nil), c.exchange("direct", nil)
	for what, reader := range map[string]*client{
		"may configure": as(t, ".*", "^$", "^$"), "may write": as(t, "^$", ".*", "^$"), "may read": as(t, "^$", "^$", ".*"),
	} {
		t.Run(what, func(t *testing.T) {
			reader.t = t
			reader.call(1, "queue.declare-ok "+q, "queue.declare", q, true)
			reader.call(1, "exchange.declare-ok", "exchange.declare", x, "direct", true)
		})
	}
	reader := as(t, "^$", "^$", ".*")
	reader.refused(differs(t, "A25 text of a refusal")+q+"' in vhost '/' refused for user", "queue.declare", q, false, true)
	reader.refused("404 NOT_FOUND - no queue", "queue.declare", name(t, "none"), true)
	nobody := as(t, "^$", "^$", "^$")
	nobody.call(1, differs(t, "A25 passive declare without any permission"), "queue.declare", q, true)
}

func TestA11AndA29DefinitionsBringBackBindingsAndNoDeletedQueue(t *testing.T) {
	c := connect(t)
	q, gone := c.queue(nil), c.queue(nil)
	source, dead, live := c.exchange("direct", nil), c.exchange("fanout", nil), c.exchange("fanout", nil)
	c.bindExchange(dead, source, "k")
	c.bindExchange(live, source, "k")
	c.bind(q, live, "", nil)
	c.bind(gone, source, "k", nil)
	c.call(1, "queue.delete-ok", "queue.delete", gone)
	file := string(admin(t, "GET", "/api/definitions/%2F", ""))
	for _, x := range []string{source, dead, live} {
		c.call(1, "exchange.delete-ok", "exchange.delete", x)
	}
	c.call(1, "queue.delete-ok", "queue.delete", q)
	admin(t, "POST", "/api/definitions/%2F", file)
	c.publish(source, "k", "m")
	c.routed()
	c.wantBodies(q, "m")
	c.refused("404 NOT_FOUND - no queue", "queue.declare", gone, true)
}

// TestC16DeliveryThatFailedInItsMiddle has a client that reads nothing: its deliveries stay half written while its ack of the
// first comes, and then its socket ends.
func TestC16DeliveryThatFailedInItsMiddle(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	const messages, size = 24, 1 << 20
	for range messages {
		c.publishWith("", q, props{DeliveryMode: 2}, pattern(size))
	}
	c.routed()
	slow := connect(t)
	slow.send(1, "basic.consume", q, "t")
	c.awaitThat(func() error {
		if left := c.ready(q); left == messages {
			return fmt.Errorf("nothing was delivered of %d", left)
		}
		return nil
	})
	slow.send(1, "basic.ack", 1)
	c.awaitCounts(q, func(n counts) bool { return n.Ready+n.Unacked == messages-1 })
	must(t, slow.Close())
	c.awaitReady(q, messages-1)
	c.awaitCounts(q, func(n counts) bool { return n.Ready == messages-1 && n.Unacked == 0 })
	for i := range messages - 1 {
		if e := c.get(q, true); len(e.Body) != size {
			t.Fatalf("message %d has %d octets", i, len(e.Body))
		}
	}
	c.awaitCounts(q, func(n counts) bool { return n == counts{} })
}

func TestA19LongNamesOfVhostAndQueueTogether(t *testing.T) {
	vhost := strings.Repeat("v", 160) + fmt.Sprint(".", os.Getpid(), ".", names.Add(1))
	admin(t, "PUT", "/api/vhosts/"+vhost, "")
	t.Cleanup(func() { admin(t, "DELETE", "/api/vhosts/"+vhost, "") })
	admin(t, "PUT", "/api/permissions/"+vhost+"/guest", `{"configure":".*","write":".*","read":".*"}`)
	u, err := url.Parse(node.url)
	must(t, err)
	u.Path = "/" + vhost
	f, err := rawclient.DialFrames(u.String(), rawclient.Handshake{})
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	c := &client{f, t}
	c.open(1)
	q := strings.Repeat("q", 255)
	c.call(1, "queue.declare-ok "+q, "queue.declare", q, false, true)
	c.publish("", q, "m")
	c.routed()
	c.wantBodies(q, "m")
	if listed := string(admin(t, "GET", "/api/queues/"+vhost, "")); !strings.Contains(listed, q) {
		t.Errorf("the queue is not listed: %s", listed)
	}
	c.call(1, "queue.delete-ok 0", "queue.delete", q)
	c.refused("404 NOT_FOUND - no queue", "queue.declare", q, true)
}

// counts are what the HTTP API tells of a queue.
type counts struct {
	Ready   int64 `json:"messages_ready"`
	Unacked int64 `json:"messages_unacknowledged"`
	Octets  int64 `json:"message_bytes_ready"`
}

// awaitCounts waits until a queue's counts are right; none may be negative on the way. RabbitMQ's are seconds old.
func (c *client) awaitCounts(q string, right func(counts) bool) {
	c.t.Helper()
	must(c.t, harness.Await(harness.Patience, func(context.Context) error {
		var n counts
		must(c.t, json.Unmarshal(admin(c.t, "GET", "/api/queues/%2F/"+url.PathEscape(q), ""), &n))
		if n.Ready < 0 || n.Unacked < 0 || n.Octets < 0 {
			c.t.Fatalf("%+v", n)
		}
		if !right(n) {
			return fmt.Errorf("queue %s: %+v", q, n)
		}
		return nil
	}))
}
