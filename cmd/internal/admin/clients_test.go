package admin

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

func (f *fake) Connections(context.Context) []api.Connection {
	return []api.Connection{
		{Name: "a -> b", User: "u", Vhost: "/", Channels: 2}, {Name: "c -> d", User: "policymaker", Vhost: "other"},
	}
}

func (f *fake) CloseConnection(_ context.Context, name, reason string) (bool, error) {
	return strings.Contains(name, " -> "), f.called("close %s: %s", name, reason)
}

func (f *fake) ConnectionsByUser(ctx context.Context) map[string]int {
	users := map[string]int{}
	for _, c := range f.Connections(ctx) {
		users[c.User]++
	}
	return users
}

func (f *fake) CloseConnectionsOf(_ context.Context, user, reason string) error {
	return f.called("close those of %s: %s", user, reason)
}

func (f *fake) Channels(vhost string) []api.Channel {
	if vhost != "" && vhost != "/" {
		return nil
	}
	ref := api.ConnectionRef{Name: "a -> b"}
	return []api.Channel{
		{Name: "a -> b (1)", User: "u", Vhost: "/", ConnectionDetails: ref},
		{Name: "e -> f (1)", User: "policymaker", Vhost: "/", ConnectionDetails: api.ConnectionRef{Name: "e -> f"}},
	}
}

func TestConnectionsAndChannelsByTheirPaths(t *testing.T) {
	f := &fake{vhost: "/"}
	for _, c := range []struct {
		path   string
		edit   func(*http.Request)
		status int
		has    string // names in the answer, in order
	}{
		{"/api/connections", as("monitoring"), 200, "a -> b,c -> d"},
		{"/api/connections", as("policymaker"), 200, "c -> d"},
		{"/api/connections/username/u", as("monitoring"), 200, "a -> b"},
		{"/api/vhosts/%2F/connections", as("monitoring"), 200, "a -> b"},
		{"/api/vhosts/none/connections", as("monitoring"), 404, ""},
		{"/api/connections/a%20-%3E%20b", as("monitoring"), 200, "a -> b"},
		{"/api/connections/a%20-%3E%20b", as("policymaker"), 404, ""},
		{"/api/connections/a%20-%3E%20b/channels", as("monitoring"), 200, "a -> b (1)"},
		{"/api/connections/x/channels", as("monitoring"), 404, ""},
		{"/api/channels", as("monitoring"), 200, "a -> b (1),e -> f (1)"},
		{"/api/channels", as("policymaker"), 200, "e -> f (1)"},
		{"/api/vhosts/%2F/channels", as("monitoring"), 200, "a -> b (1),e -> f (1)"},
		{"/api/channels/a%20-%3E%20b%20(1)", as("monitoring"), 200, "a -> b (1)"},
		{"/api/channels/a%20-%3E%20b%20(1)", as("policymaker"), 404, ""},
		{"/api/channels/x", as("monitoring"), 404, ""},
	} {
		w := f.call("GET", c.path, "", c.edit)
		var names []string
		for part := range strings.SplitSeq(w.Body.String(), `"name":"`) {
			if name, _, ok := strings.Cut(part, `"`); ok && !strings.HasPrefix(part, "[") && !strings.HasPrefix(part, "{") {
				names = append(names, strings.ReplaceAll(name, `\u003e`, ">"))
			}
		}
		got := strings.Join(names, ",")
		got = strings.NewReplacer("a -> b (1),a -> b", "a -> b (1)", "e -> f (1),e -> f", "e -> f (1)").Replace(got)
		if w.Code != c.status || c.status == 200 && got != c.has {
			t.Errorf("%s: %d %s (%s), want %d with %s", c.path, w.Code, w.Body, got, c.status, c.has)
		}
	}
}

func TestOnlyItsOwnerAndAdministratorsCloseAConnection(t *testing.T) {
	for _, c := range []struct {
		path, user string
		status     int
		calls      string
	}{
		{"a%20-%3E%20b", "administrator", 204, "close a -> b: Closed via management API"},
		{"a%20-%3E%20b", "monitoring", 403, ""},
		{"c%20-%3E%20d", "policymaker", 204, "close c -> d: Closed via management API"},
		{"none", "administrator", 404, "close none: Closed via management API"},
		{"username/u", "administrator", 204, "close those of u: Closed via management API"},
		{"username/u", "monitoring", 403, ""},
		{"username/policymaker", "policymaker", 204, "close those of policymaker: Closed via management API"},
	} {
		f := &fake{vhost: "/"}
		w := f.call("DELETE", "/api/connections/"+c.path, "", as(c.user))
		if got := strings.Join(f.calls, ","); w.Code != c.status || got != c.calls {
			t.Errorf("%s closes %s: %d, calls %q, want %d and %q", c.user, c.path, w.Code, got, c.status, c.calls)
		}
	}
}

func TestHealthChecksSayWhatIsWrong(t *testing.T) {
	day := 24 * time.Hour
	well := []api.Group{{Group: 1, Leader: 1}}
	voters := func(running ...bool) (rows []api.Member) {
		for i, up := range running {
			rows = append(rows, api.Member{ID: uint64(i + 1), Role: "voter", Running: up})
		}
		return rows
	}
	for _, c := range []struct {
		f      fake
		check  string
		status int
		has    string
	}{
		{fake{groups: well}, "alarms", 200, `"status":"ok"`},
		{fake{groups: well, full: "disk full"}, "local-alarms", 503, `"alarms":[{"node":"understudy@1","resource":"disk"}]`},
		{fake{groups: well, member: []api.Member{{ID: 1, Alarms: []string{"memory"}}}}, "local-alarms", 503, `"alarms":[{"node":"understudy@1","resource":"memory"}]`},
		{fake{groups: well, member: []api.Member{{ID: 2, Alarms: []string{"disk"}}}}, "alarms", 503, `"alarms":[{"node":"understudy@2","resource":"disk"}]`},
		{fake{groups: well, member: []api.Member{{ID: 2, Alarms: []string{"disk"}}}}, "local-alarms", 200, `"status":"ok"`},
		{fake{groups: []api.Group{{Group: 2}}}, "virtual-hosts", 503, "group 2 has no leader"},
		{fake{groups: []api.Group{{Group: 2, Error: "bad"}}}, "virtual-hosts", 503, "group 2 stopped: bad"},
		{fake{}, "port-listener/5672", 200, `"port":5672`},
		{fake{}, "port-listener/1", 503, `"missing":1,"ports":[5672]`},
		{fake{}, "port-listener/x", 400, "number"},
		{fake{}, "protocol-listener/amqp091", 200, `"protocol":"amqp"`},
		{fake{}, "protocol-listener/mqtt", 503, `"missing":"mqtt","protocols":["amqp"]`},
		{fake{member: voters(true)}, "node-is-quorum-critical", 200, "single node cluster"},
		{fake{member: voters(true, true, true)}, "node-is-quorum-critical", 200, `"status":"ok"`},
		{fake{member: voters(true, true, false)}, "node-is-mirror-sync-critical", 503, "no majority"},
		{fake{}, "certificate-expiration/1/weeks", 200, `"status":"ok"`},
		{fake{certificates: []api.Expiring{{File: "c.pem", NotAfter: time.Now().Add(6 * day)}}}, "certificate-expiration/1/weeks", 503, "c.pem"},
		{fake{certificates: []api.Expiring{{File: "c.pem", NotAfter: time.Now().Add(8 * day)}}}, "certificate-expiration/1/weeks", 200, "ok"},
		{fake{}, "certificate-expiration/1/fortnights", 400, "not recognised"},
		{fake{}, "certificate-expiration/-1/days", 400, "Invalid"},
	} {
		w := c.f.call("GET", "/api/health/checks/"+c.check, "")
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s: %d %s, want %d with %s", c.check, w.Code, w.Body, c.status, c.has)
		}
	}
}

func (f *fake) GetMessages(_ context.Context, user, vhost, queue string, q api.GetMessages) ([]api.Message, error) {
	return []api.Message{{Payload: "p"}}, f.called("%s gets %d from %s %s: %s %s", user, q.Count, vhost, queue, q.AckMode, q.Encoding)
}

func (f *fake) PublishMessage(_ context.Context, user, vhost, exchange string, p api.PublishMessage) (bool, error) {
	return true, f.called("%s publishes %s to %s %q %s", user, p.Payload, vhost, exchange, p.RoutingKey)
}

func TestMessagesAreGotAndPublished(t *testing.T) {
	for _, c := range []struct{ path, body, call, has string }{
		{"queues/%2F/q/get", `{"count":"2","ackmode":"reject_requeue_true","encoding":"base64","queue":"q","vhost":"/"}`,
			"guest gets 2 from / q: reject_requeue_true base64", `"payload":"p"`},
		{"queues/%2F/q/get", `{"requeue":false}`, "guest gets 1 from / q: ack_requeue_false auto", `"payload":"p"`},
		{"exchanges/%2F/amq.default/publish", `{"properties":[],"routing_key":"k","payload":"x","payload_encoding":"string"}`,
			`guest publishes x to / "" k`, `{"routed":true}`},
		{"exchanges/%2F/amq.topic/publish", `{"properties":{"delivery_mode":2,"priority":"3","headers":{"a":1}},"payload":"x"}`,
			`guest publishes x to / "amq.topic" `, `{"routed":true}`},
	} {
		f := &fake{}
		w := f.call("POST", "/api/"+c.path, c.body)
		if w.Code != 200 || len(f.calls) != 1 || f.calls[0] != c.call || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s %s: %d %s, calls %q, want %q", c.path, c.body, w.Code, w.Body, f.calls, c.call)
		}
	}
	for _, bad := range []string{`{"count":"many"}`, `{"requeue":"perhaps"}`, `[]`} {
		f := &fake{}
		if w := f.call("POST", "/api/queues/%2F/q/get", bad); w.Code != 400 || f.calls != nil {
			t.Errorf("%s: %d %v, want 400 and no call", bad, w.Code, f.calls)
		}
	}
}

func TestOverviewCountsTheConnectionsThatTheCallerMaySee(t *testing.T) {
	for user, want := range map[string]string{"monitoring": "2", "policymaker": "1", "management": "0"} {
		f := &fake{vhost: "/"}
		if w := f.call("GET", "/api/overview", "", as(user)); w.Code != 200 || !strings.Contains(w.Body.String(), `"connections":`+want+`,`) {
			t.Errorf("%s: %d %s, want connections: %s", user, w.Code, w.Body, want)
		}
	}
}
