package node

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/audit"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// request sends a request to a node's admin port as USER:PASSWORD.
func request(t *testing.T, n *Node, who, method, path, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+address(n, protocolHTTP)+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	user, password, _ := strings.Cut(who, ":")
	r.SetBasicAuth(user, password)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

// exchange is a request and what is wanted of its answer.
type exchange struct {
	method, path, body string
	status             int
	says               string
}

// talk sends requests of guest's one after the other.
func talk(t *testing.T, n *Node, steps []exchange) {
	t.Helper()
	talkAs(t, n, "guest:guest", steps)
}

func talkAs(t *testing.T, n *Node, who string, steps []exchange) {
	t.Helper()
	for _, s := range steps {
		if status, text := request(t, n, who, s.method, s.path, s.body); status != s.status || !strings.Contains(text, s.says) {
			t.Errorf("%s %s %s: %d %s\nwant %d with %s", s.method, s.path, s.body, status, text, s.status, s.says)
		}
	}
}

func TestPoliciesAreSetShownAndDeleted(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	send(t, dial(t, n), "work", "x")
	const p, op = "/api/policies/%2F/p", "/api/operator-policies/%2F/p"
	talk(t, n, []exchange{
		{"PUT", p, `{"pattern":"^work","definition":{"max-length":7,"x":[1.5,{"a":true}]},"priority":3,"apply-to":"queues"}`, 201, ""},
		{"GET", p, "", 200, `"vhost":"/","name":"p","pattern":"^work","apply-to":"queues","definition":{"max-length":7,"x":[1.5,{"a":true}]},"priority":3`},
		{"PUT", p, `{"vhost":"/","name":"p","pattern":"","definition":{"max-length":9}}`, 204, ""},
		{"GET", "/api/policies", "", 200, `"apply-to":"all","definition":{"max-length":9},"priority":0`},
		{"GET", op, "", 404, "Not Found"},
		{"PUT", op, `{"pattern":"","definition":{"message-ttl":60000}}`, 201, ""},
		{"GET", "/api/operator-policies/%2F", "", 200, `"message-ttl":60000`},
		{"GET", "/api/queues/%2F/work", "", 200, `"policy":"p","operator_policy":"p","effective_policy_definition":{"max-length":9,"message-ttl":60000}`},
		{"GET", "/api/exchanges/%2F/amq.topic", "", 200, `"policy":"p"`},
		{"DELETE", p, "", 204, ""},
		{"DELETE", p, "", 404, "Not Found"},
		{"GET", "/api/queues/%2F/work", "", 200, `"policy":null,"operator_policy":"p"`},
		{"GET", "/api/policies/%2F", "", 200, "[]"},
	})
}

func TestTheRecordSaysWhoChangedPoliciesAndLimits(t *testing.T) {
	c := settings(t, 1)
	n := start(t, c)
	ready(t, n)
	talk(t, n, []exchange{
		{"PUT", "/api/policies/%2F/p", `{"pattern":"","definition":{"max-length":7}}`, 201, ""},
		{"PUT", "/api/operator-policies/%2F/o", `{"pattern":"","definition":{"max-length":7}}`, 201, ""},
		{"PUT", "/api/policies/%2F/bad", `{"pattern":"(","definition":{"max-length":7}}`, 400, ""},
		{"DELETE", "/api/policies/%2F/p", "", 204, ""},
		{"PUT", "/api/vhost-limits/%2F/max-queues", `{"value":9}`, 204, ""},
	})
	stop(t, n)
	record, err := os.ReadFile(filepath.Join(c.Data, audit.Name))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"event":"policy_set","by":"guest","vhost":"/","text":"p"`, `"event":"operator_policy_set","by":"guest","vhost":"/","text":"o"`,
		`"event":"policy_deleted","by":"guest","vhost":"/","text":"p"`, `"event":"vhost_limit","by":"guest","vhost":"/","text":"max-queues: 9"`,
	} {
		if !strings.Contains(string(record), want) {
			t.Errorf("no %s in the record:\n%s", want, record)
		}
	}
	if strings.Contains(string(record), "bad") {
		t.Errorf("what was refused is in the record:\n%s", record)
	}
}

func TestPoliciesThatMakeNoSenseAreRefusedWithTheReason(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	const p = "/api/policies/%2F/p"
	talk(t, n, []exchange{
		{"PUT", p, `{"pattern":"(","definition":{"max-length":7}}`, 400, "pattern of policy 'p'"},
		{"PUT", p, `{"pattern":"","definition":{"max-length":"7"}}`, 400, "invalid 'max-length'"},
		{"PUT", p, `{"pattern":"","definition":{"max-length":7},"apply-to":"cables"}`, 400, "applies to 'cables'"},
		{"PUT", p, `{"pattern":"","definition":{"max-length":18446744073709551616}}`, 400, "must fit 64 bits"},
		{"PUT", p, `{"pattern":"","definition":{}}`, 400, "at least one key"},
		{"PUT", p, `{"definition":{"max-length":7}}`, 400, "needs a pattern"},
		{"PUT", p, `{"pattern":"","definition":{"max-length":7},"priority":"high"}`, 400, "body"},
		{"PUT", "/api/policies/nowhere/p", `{"pattern":"","definition":{"max-length":7}}`, 404, "Not Found"},
		{"GET", "/api/policies", "", 200, "[]"},
	})
}

func TestVhostLimitsAreSetOneByOneAndCount(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	const limits = "/api/vhost-limits/%2F/"
	talk(t, n, []exchange{
		{"GET", "/api/vhost-limits", "", 200, "[]"},
		{"PUT", limits + "max-queues", `{"value":0}`, 204, ""},
		{"PUT", limits + "max-connections", `{"value":100}`, 204, ""},
		{"GET", "/api/vhost-limits/%2F", "", 200, `[{"vhost":"/","value":{"max-connections":100,"max-queues":0}}]`},
		{"PUT", limits + "max-loops", `{"value":1}`, 400, "unknown limit 'max-loops'"},
		{"PUT", limits + "max-queues", `{}`, 400, "value"},
	})
	ch, err := dial(t, n).Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err == nil || !strings.Contains(err.Error(), "queue limit") {
		t.Errorf("a queue over the limit: %v", err)
	}
	talk(t, n, []exchange{
		{"DELETE", limits + "max-queues", "", 204, ""},
		{"GET", "/api/vhost-limits", "", 200, `[{"vhost":"/","value":{"max-connections":100}}]`},
	})
	send(t, dial(t, n), "q", "x")
}

// The second node is a learner, which never leads: what it is asked to change has to reach the leader.
func TestANodeThatDoesNotLeadChangesPoliciesToo(t *testing.T) {
	first := start(t, settings(t, 1))
	ready(t, first)
	c := settings(t, 2)
	c.Join = "http://" + address(first, protocolHTTP)
	second := start(t, c)
	ready(t, second)
	talk(t, second, []exchange{
		{"PUT", "/api/policies/%2F/p", `{"pattern":"","definition":{"max-length":7}}`, 201, ""},
		{"GET", "/api/policies/%2F/p", "", 200, `"max-length":7`},
	})
	talk(t, first, []exchange{{"GET", "/api/policies/%2F/p", "", 200, `"max-length":7`}})
	stop(t, second)
}

func TestAChangeThatIsNotAppliedSaysSo(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	cmd := &entry.PolicyDelete{Vhost: "/", Name: "p"}
	if err := n.control(ctx, "/", cmd, func(*core.Machine) bool { return false }); !errors.As(err, new(admin.Unavailable)) {
		t.Errorf("answered %v, want unavailable", err)
	}
	cmd.Vhost = "nowhere"
	if err := n.control(ctx, "nowhere", cmd, func(*core.Machine) bool { return true }); !errors.As(err, new(admin.NotFound)) {
		t.Errorf("answered %v for a vhost that is not there, want not found", err)
	}
}
