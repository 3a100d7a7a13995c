package sessions

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

func TestRepliesWaitForASessionThatIsAway(t *testing.T) {
	c := shared()
	id, q := unique("s"), unique("q")
	server := connect(t, c.Node(3).URL(), nil)
	server.declare(q, false)
	server.call("confirm.select-ok", 1, "confirm.select")
	a := connect(t, c.Node(1).URL(), session(id))
	a.call("basic.consume-ok", 1, "basic.consume", "amq.rabbitmq.reply-to", "r", false, true)
	b := rawclient.AppendCall(nil, 1, "basic.publish", "", q)
	if err := a.Write(rawclient.AppendContent(b, 1, a.FrameMax, &props{ReplyTo: "amq.rabbitmq.reply-to"}, []byte("ask"))); err != nil {
		t.Fatal(err)
	}
	a.quiet()
	a.cut()
	request := server.call("basic.get-ok", 1, "basic.get", q, true)
	server.publish(1, request.Properties.ReplyTo, "answer", props{})
	again := connect(t, c.Node(2).URL(), session(id))
	again.call("basic.consume-ok", 1, "basic.consume", "amq.rabbitmq.reply-to", "r", false, true)
	again.deliver("answer")
}

func TestQosIsRemembered(t *testing.T) {
	c := shared()
	id, q := unique("s"), unique("q")
	a := confirming(t, c, 1, q, session(id))
	a.call("basic.qos-ok", 1, "basic.qos", 0, 1)
	a.cut()
	b := connect(t, c.Node(2).URL(), session(id))
	b.call("confirm.select-ok", 1, "confirm.select")
	for _, body := range []string{"1", "2"} {
		b.publish(1, q, body, props{})
	}
	b.consume(q, "c")
	tag, _ := b.deliver("1")
	b.quiet() // the prefetch of 1 holds
	b.send(1, "basic.ack", tag, false)
	b.deliver("2")
}

func TestPermissionsAreCheckedAgainOnResume(t *testing.T) {
	c := shared()
	id, q := unique("s"), unique("q")
	name := unique("fickle")
	user(t, c, name)
	as := func(node int) string {
		return strings.Replace(c.Node(node).URL(), "guest:guest", name+":pass", 1)
	}
	a := connect(t, as(1), session(id))
	a.declare(q, false)
	a.cut()
	permit := func(read string) {
		body := fmt.Sprintf(`{"configure":".*","write":".*","read":%q}`, read)
		if _, err := c.Node(2).Do(t.Context(), "PUT", "/api/permissions/%2F/"+name, strings.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	}
	permit("^$")
	b := connect(t, as(2), session(id))
	b.send(1, "basic.consume", q, "c")
	want(t, "a consume without the permission", b.next("channel.close").Number(0), 403)
	b.cut()
	if _, err := c.Node(2).Do(t.Context(), "DELETE", "/api/permissions/%2F/"+name, nil); err != nil {
		t.Fatal(err)
	}
	_, err := rawclient.DialFrames(as(2), rawclient.Handshake{Properties: session(id)})
	if err == nil || !strings.Contains(err.Error(), "530") {
		t.Errorf("into a vhost that is closed to the user: %v", err)
	}
}

func TestAClientThatFallsSilentIsDetached(t *testing.T) {
	c := shared()
	id := unique("s")
	cut, err := startCutter(c.Node(1).AMQP, true, -1, endClosed)
	if err != nil {
		t.Fatal(err)
	}
	defer cut.close()
	f, err := rawclient.DialFrames("amqp://guest:guest@"+cut.address()+"/", rawclient.Handshake{Properties: session(id), Heartbeat: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it is cut
	cut.hangUp(endHalfOpen)
	err = harness.Await(harness.Patience, func(ctx context.Context) error {
		r, err := listed(ctx, c.Node(2), id)
		if err == nil && (r.State != "detached" || r.ExpiresAt == nil) {
			err = fmt.Errorf("it is %s", r.State)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAUserHasABoundNumberOfSessions(t *testing.T) {
	c := harness.Start(t, harness.Options{Args: []string{"--sessions-per-user-max=3", "--session-expiry-max=100"}})
	for range 3 { // attached or not
		connect(t, c.Node(1).URL(), session(unique("s"))).cut()
	}
	code, text := refusal(t, c.Node(1).URL(), session(unique("s")))
	want(t, "code", code, 530)
	hasText(t, "text", text, "3", "session")
	user(t, c, "other")
	others := strings.Replace(c.Node(1).URL(), "guest:guest", "other:pass", 1)
	want(t, "another user's", connect(t, others, session(unique("s"))).status()["x-session-state"], "new")
	a := connect(t, others, session(unique("s"), "x-session-expiry", "1000000"))
	want(t, "the expiry that is granted", a.status()["x-session-expiry"], 100)
}

func TestSessionsAreListedShownAndClosed(t *testing.T) {
	c := shared()
	binary := harness.Binary(t)
	id, own := unique("s"), unique("q")
	a := connect(t, c.Node(1).URL(), session(id))
	a.declare(own, true)
	verb := func(arguments ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), binary, append(arguments, "--admin-url", "http://"+c.Node(2).Admin)...).CombinedOutput()
		return string(out), err
	}
	for _, arguments := range [][]string{{"sessions", "list"}, {"sessions", "show", id}} {
		out, err := verb(arguments...)
		if err != nil {
			t.Fatalf("%v: %v %s", arguments, err, out)
		}
		hasText(t, strings.Join(arguments, " "), out, id, "attached", "guest")
	}
	if out, err := verb("sessions", "close", id); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	closed := a.next("connection.close")
	want(t, "code", closed.Number(0), 320)
	hasText(t, "text", closed.Text(1), "closed by user 'guest'")
	if _, err := listed(t.Context(), c.Node(2), id); !errors.Is(err, errNoSession) {
		t.Errorf("the session is there yet: %v", err)
	}
	out, err := verb("sessions", "close", id)
	if err == nil {
		t.Errorf("closing it again succeeds: %s", out)
	}
	metrics, err := c.Node(1).Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"attached", "detached", "resumed_total", "expired_total", "taken_over_total", "redelivered_total", "duplicates_dropped_total"} {
		if _, there := metrics["understudy_sessions_"+name]; !there {
			t.Errorf("no metric understudy_sessions_%s", name)
		}
	}
}

func TestTwoConnectionsWithOneIDInScopesOfTheirNames(t *testing.T) {
	c := shared()
	id := unique("s")
	for _, name := range []string{"worker-1", "worker-2"} {
		p := session(id, "x-session-scope", "connection-name", "connection_name", name)
		want(t, name, connect(t, c.Node(1).URL(), p).status()["x-session-state"], "new")
	}
}

func TestAConnectionNameCarriesAnID(t *testing.T) {
	c := shared()
	p := table{"connection_name": "billing;session=" + unique("s")}
	connect(t, c.Node(1).URL(), p).cut()
	again := connect(t, c.Node(2).URL(), p)
	if state := again.status()["x-session-state"]; state == "new" {
		t.Errorf("the second connection's session is %v", state)
	}
	var rows []struct {
		Name string `json:"user_provided_name"`
	}
	if err := c.Node(2).Get(t.Context(), "/api/connections", &rows); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(rows); strings.Contains(text, ";session=") {
		t.Errorf("the listing shows the id: %s", text)
	}
}

func TestTheSameIDInAnotherVhostIsAnotherSession(t *testing.T) {
	c := shared()
	id, vhost := unique("s"), unique("v")
	n := c.Node(1)
	if _, err := n.Do(t.Context(), "PUT", "/api/vhosts/"+vhost, strings.NewReader("{}")); err != nil {
		t.Fatal(err)
	}
	everything := strings.NewReader(`{"configure":".*","write":".*","read":".*"}`)
	if _, err := n.Do(t.Context(), "PUT", "/api/permissions/"+vhost+"/guest", everything); err != nil {
		t.Fatal(err)
	}
	connect(t, n.URL(), session(id)).status()
	code, _ := refusal(t, n.URL()+vhost, session(id, "x-session-expect", "resume"))
	want(t, "code", code, 404)
	want(t, "the state there", connect(t, n.URL()+vhost, session(id)).status()["x-session-state"], "new")
}
