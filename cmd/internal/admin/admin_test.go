package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// fake is a node with a fixed state.
type fake struct {
	queues       []api.Queue
	groups       []api.Group
	member       []api.Member
	ready        error
	full         string   // why it is read-only
	verb         error    // what the verbs answer
	vhost        string   // that others than administrators and monitors may see
	calls        []string // verbs called
	certificates []api.Expiring
	sessions     []api.Session
	made         int // rows of queues made one by one
}

func (f *fake) Vhosts() []api.Vhost       { return []api.Vhost{{Name: "/", Group: 1}} }
func (f *fake) VhostNames() []string      { return []string{"/"} }
func (f *fake) HasVhost(name string) bool { return name == "/" }
func (f *fake) in(vhost string) []api.Queue {
	if vhost != "" && vhost != "/" {
		return nil
	}
	return f.queues
}
func (f *fake) Queue(vhost, name string) (api.Queue, bool) {
	for _, q := range f.in(vhost) {
		if q.Name == name {
			return q, true
		}
	}
	return api.Queue{}, false
}
func (f *fake) QueueRefs(vhost string) []api.QueueRef {
	refs := []api.QueueRef{}
	for _, q := range f.in(vhost) {
		refs = append(refs, api.QueueRef{Name: q.Name, Vhost: q.Vhost})
	}
	return refs
}
func (f *fake) QueuesAt(refs []api.QueueRef) iter.Seq2[int, api.Queue] {
	return func(yield func(int, api.Queue) bool) {
		for i, ref := range refs {
			q, ok := f.Queue(ref.Vhost, ref.Name)
			f.made++
			if ok && !yield(i, q) {
				return
			}
		}
	}
}
func (f *fake) Traffic([]string) api.Traffic    { return api.Traffic{} }
func (f *fake) Totals([]string) map[string]any  { return nil }
func (f *fake) Exchanges(string) []api.Exchange { return []api.Exchange{{Vhost: "/", Type: "direct"}} }
func (f *fake) Bindings(string) []api.Binding {
	return []api.Binding{
		{Destination: "a", DestinationType: "queue", Source: "x"},
		{Destination: "b", DestinationType: "queue"},
		{Destination: "a", DestinationType: "exchange"},
	}
}
func (f *fake) Consumers(string) []api.Consumer { return []api.Consumer{} }
func (f *fake) Name() string                    { return NodeName(1) }
func (f *fake) Cluster() api.Cluster {
	return api.Cluster{ID: "c", Node: 1, Members: f.member, ReadOnly: f.full}
}
func (f *fake) Groups() []api.Group { return f.groups }
func (f *fake) Listeners() []api.Listener {
	return []api.Listener{{Protocol: "amqp", Port: 5672}}
}
func (f *fake) LoginAttempts(_ context.Context, node string) ([]api.LoginAttempts, error) {
	if node != f.Name() {
		return nil, NotFound{errors.New("no such node")}
	}
	return []api.LoginAttempts{{Protocol: "http", All: 3, Failed: 1, Succeeded: 2}}, nil
}
func (f *fake) AddMember(_ context.Context, id uint64, address string) error {
	return f.called("add %d=%s", id, address)
}
func (f *fake) PromoteMember(_ context.Context, id uint64) error { return f.called("promote %d", id) }
func (f *fake) RemoveMember(_ context.Context, id uint64) error  { return f.called("remove %d", id) }
func (f *fake) TransferLeader(_ context.Context, group, id uint64) error {
	return f.called("transfer %d to %d", group, id)
}
func (f *fake) Nodes(context.Context) []api.Node {
	return []api.Node{{Name: NodeName(1), Running: true}, {Name: NodeName(2)}}
}
func (f *fake) Certificates() []api.Expiring { return f.certificates }

func (f *fake) called(format string, args ...any) error {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	return f.verb
}

func (f *fake) MayEnter(_, vhost string) bool { return vhost == f.vhost }
func (f *fake) Users() []api.User {
	return []api.User{{Name: "guest", Limits: map[string]int{LimitChannels: 2}}, {Name: "idle"}}
}
func (f *fake) Permissions() []api.Permission {
	return []api.Permission{{User: "guest", Vhost: "/", Read: "r"}}
}
func (f *fake) TopicPermissions() []api.TopicPermission {
	return []api.TopicPermission{{User: "guest", Vhost: "/", Exchange: "x"}}
}
func (f *fake) PutUser(_ context.Context, by, name string, u api.NewUser) error {
	return f.called("%s puts %s %v", by, name, *u.Tags)
}
func (f *fake) DeleteUser(_ context.Context, by, name string) error {
	return f.called("%s deletes %s", by, name)
}
func (f *fake) SetUserLimit(_ context.Context, by, user, limit string, value int) error {
	return f.called("%s limits %s %s %d", by, user, limit, value)
}
func (f *fake) SetPermission(_ context.Context, by string, p api.Permission) error {
	return f.called("%s permits %v", by, p)
}
func (f *fake) ClearPermission(_ context.Context, by, user, vhost string) error {
	return f.called("%s clears %s %s", by, user, vhost)
}
func (f *fake) SetTopicPermission(_ context.Context, by string, p api.TopicPermission) error {
	return f.called("%s permits %v", by, p)
}
func (f *fake) ClearTopicPermission(_ context.Context, by, user, vhost, exchange string) error {
	return f.called("%s clears %s %s %q", by, user, vhost, exchange)
}

func (f *fake) login(user, password string, peer net.Addr) (api.Whoami, error) {
	tcp, ok := peer.(*net.TCPAddr)
	switch {
	case user == "early":
		return api.Whoami{}, Unavailable{errors.New("users are not known yet")}
	case user == "plain" && password == "p":
		return api.Whoami{Name: user, Tags: []string{"impersonator"}}, nil
	case user != "guest" && password == "p": // named after its tag
		return api.Whoami{Name: user, Tags: []string{user}}, nil
	case user != "guest" || password != "guest":
		return api.Whoami{}, errors.New("bad password")
	case !ok || !tcp.IP.IsLoopback():
		return api.Whoami{}, errors.New("guest is for loopback")
	}
	return api.Whoami{Name: "guest", Tags: []string{"administrator"}}, nil
}

func (f *fake) handler() *Handler {
	return New(Options{
		State: f, Cluster: f, Connections: f, Accounts: f, Policies: f, Objects: f, Vhosts: f, Messages: f, Definitions: f, Sessions: f, Login: f.login, Ready: func() error { return f.ready },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "metrics") }),
		Version: "v", Logger: slog.New(slog.DiscardHandler),
	})
}

// call sends a request as guest from loopback, unless edit says otherwise.
func (f *fake) call(method, path, body string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:1"
	r.SetBasicAuth("guest", "guest")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	f.handler().ServeHTTP(w, r)
	return w
}

func TestALoginThatCannotBeJudgedIsNotRefused(t *testing.T) {
	w := (&fake{}).call("GET", "/api/queues", "", func(r *http.Request) { r.SetBasicAuth("early", "p") })
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || w.Header().Get("WWW-Authenticate") != "" || !strings.Contains(w.Body.String(), "users are not known yet") {
		t.Errorf("%d %v %s, want 503 with the reason and when to come again", w.Code, w.Header(), w.Body)
	}
}

func TestTheAPINeedsAPassword(t *testing.T) {
	for name, edit := range map[string]func(*http.Request){
		"no password":        func(r *http.Request) { r.Header.Del("Authorization") },
		"wrong password":     func(r *http.Request) { r.SetBasicAuth("guest", "x") },
		"guest from outside": func(r *http.Request) { r.RemoteAddr = "10.0.0.1:1" },
		"no management tag":  func(r *http.Request) { r.SetBasicAuth("plain", "p") },
	} {
		f := &fake{}
		for _, path := range []string{"/api/queues", "/api/no-such-thing"} {
			w := f.call("GET", path, "", edit)
			if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" || !strings.Contains(w.Body.String(), "not_authorized") {
				t.Errorf("%s: %s: %d %s, want 401", name, path, w.Code, w.Body)
			}
		}
		if w := f.call("DELETE", "/api/cluster/members/3", "", edit); w.Code != http.StatusUnauthorized || f.calls != nil {
			t.Errorf("%s: delete: %d, calls %v, want 401 and none", name, w.Code, f.calls)
		}
	}
}

func TestHealthAndMetricsNeedNone(t *testing.T) {
	anybody := func(r *http.Request) { r.Header.Del("Authorization"); r.RemoteAddr = "10.0.0.1:1" }
	f := &fake{ready: errors.New("not yet")}
	for path, want := range map[string]int{"/health/live": 200, "/health/ready": 503, "/metrics": 200} {
		if w := f.call("GET", path, "", anybody); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	f.ready = nil
	if w := f.call("GET", "/health/ready", "", anybody); w.Code != 200 {
		t.Errorf("ready: %d, want 200", w.Code)
	}
}

func TestABrowserIsToldWhereToLook(t *testing.T) {
	w := (&fake{}).call("GET", "/", "", func(r *http.Request) { r.Header.Del("Authorization"); r.Host = "10.0.0.1:15672" })
	if got := w.Body.String(); w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || !strings.Contains(got, "--admin-url http://10.0.0.1:15672") {
		t.Errorf("%d %v %s", w.Code, w.Header(), got)
	}
}

func TestProfilesAreForLoopbackOnly(t *testing.T) {
	f := &fake{}
	if w := f.call("GET", "/debug/pprof/cmdline", ""); w.Code != 200 {
		t.Errorf("from loopback: %d, want 200", w.Code)
	}
	if w := f.call("GET", "/debug/pprof/cmdline", "", func(r *http.Request) { r.RemoteAddr = "10.0.0.1:1" }); w.Code != 403 {
		t.Errorf("from outside: %d, want 403", w.Code)
	}
}

func TestWhatABrowserSendsFromAnotherPageChangesNothing(t *testing.T) {
	for name, edit := range map[string]func(*http.Request){
		"cross-site":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another origin": func(r *http.Request) { r.Header.Set("Origin", "http://elsewhere.example") },
		"a form":         func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") },
		"plain text":     func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
	} {
		f := &fake{}
		w := f.call("POST", "/api/cluster/members", `{"id":2,"address":"h:1"}`, edit)
		if w.Code != 403 && w.Code != 415 || f.calls != nil {
			t.Errorf("%s: %d, calls %v, want a refusal and none", name, w.Code, f.calls)
		}
	}
}

func TestMemberVerbs(t *testing.T) {
	for _, c := range []struct{ method, path, body, call string }{
		{"POST", "/api/cluster/members", `{"id":2,"address":"h:1"}`, "add 2=h:1"},
		{"POST", "/api/cluster/members/2/promote", "", "promote 2"},
		{"DELETE", "/api/cluster/members/2", "", "remove 2"},
		{"POST", "/api/cluster/transfer-leader", `{"group":1,"id":2}`, "transfer 1 to 2"},
		{"DELETE", "/api/connections/a%20-%3E%20b", "", "close a -> b: Closed via management API"},
	} {
		f := &fake{}
		if w := f.call(c.method, c.path, c.body); w.Code != 204 || len(f.calls) != 1 || f.calls[0] != c.call {
			t.Errorf("%s %s: %d, calls %v, want 204 and %q", c.method, c.path, w.Code, f.calls, c.call)
		}
	}
}

func TestRefusedVerbsSayWhyOnOneLine(t *testing.T) {
	for err, want := range map[error]int{
		error(Conflict{errors.New("a\nb")}):    409,
		error(Unavailable{errors.New("a\nb")}): 503,
		errors.New("a\nb"):                     400,
	} {
		w := (&fake{verb: err}).call("DELETE", "/api/cluster/members/2", "")
		if w.Code != want || !strings.Contains(w.Body.String(), `"reason":"a; b"`) {
			t.Errorf("%d %s, want %d with the reason", w.Code, w.Body, want)
		}
	}
}

func TestBadBodiesAreRefused(t *testing.T) {
	for name, body := range map[string]string{
		"no JSON":          "{",
		"an unknown field": `{"id":2,"adress":"h:1"}`,
		"two values":       `{"id":2,"address":"h:1"}{}`,
		"a wrong type":     `{"id":"two"}`,
	} {
		f := &fake{}
		if w := f.call("POST", "/api/cluster/members", body); w.Code != 400 || f.calls != nil {
			t.Errorf("%s: %d, calls %v, want 400 and none", name, w.Code, f.calls)
		}
	}
	f := &fake{}
	if w := f.call("POST", "/api/cluster/members", `{"address":"`+strings.Repeat("x", bodyBytesMax)+`"}`); w.Code != 413 || f.calls != nil {
		t.Errorf("too big: %d, want 413", w.Code)
	}
}

func TestWhatIsNotThereIs404AsRabbitMQSaysIt(t *testing.T) {
	f := &fake{queues: []api.Queue{queueRow("a", 0)}}
	for _, path := range []string{
		"/api/nothing", "/nothing", "/api/queues/other", "/api/queues/%2F/b", "/api/queues/other/a", "/api/exchanges/%2F/b",
		"/api/connections/b", "/api/nodes/b", "/api/vhosts/b", "/api/queues/%2F/b/bindings", "/api/queues/%zz",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path, r.URL.RawPath = path, path
		r.RemoteAddr = "127.0.0.1:1"
		r.SetBasicAuth("guest", "guest")
		w := httptest.NewRecorder()
		f.handler().ServeHTTP(w, r)
		if got := strings.TrimSpace(w.Body.String()); w.Code != 404 || got != `{"error":"Object Not Found","reason":"Not Found"}` {
			t.Errorf("%s: %d %s", path, w.Code, got)
		}
	}
	if w := f.call("DELETE", "/api/connections/b", ""); w.Code != 404 {
		t.Errorf("close of a connection that is not there: %d", w.Code)
	}
}

func TestLoginAttemptsAndFeatureFlags(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"GET", "/api/auth/attempts/understudy@1", 200, `[{"protocol":"http","auth_attempts":3,"auth_attempts_failed":1,"auth_attempts_succeeded":2}]`},
		{"GET", "/api/auth/attempts/understudy@2", 404, "no such node"},
		{"GET", "/api/feature-flags", 200, `{"name":"quorum_queue","state":"enabled","stability":"stable","provided_by":"rabbit",`},
		{"PUT", "/api/feature-flags/quorum_queue/enable", 204, ""},
		{"PUT", "/api/feature-flags/stream_queue/enable", 400, `"reason":"unsupported"`},
	} {
		if w := (&fake{}).call(c.method, c.path, ""); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.method, c.path, w.Code, w.Body, c.status, c.says)
		}
	}
	for path, c := range map[string]struct{ method, as string }{
		"/api/auth/attempts/understudy@1":        {"GET", "management"},
		"/api/feature-flags/quorum_queue/enable": {"PUT", "monitoring"},
	} {
		if w := (&fake{}).call(c.method, path, "", as(c.as)); w.Code != 403 {
			t.Errorf("%s %s as %s: %d, want 403", c.method, path, c.as, w.Code)
		}
	}
}

func TestOtherMethodsAre405(t *testing.T) {
	w := (&fake{}).call("PUT", "/api/queues", "")
	if w.Code != 405 || w.Header().Get("Allow") != "GET" {
		t.Errorf("%d, Allow %q, want 405 and GET", w.Code, w.Header().Get("Allow"))
	}
	if w := (&fake{}).call("HEAD", "/api/queues", ""); w.Code != 200 {
		t.Errorf("HEAD: %d, want 200", w.Code)
	}
}

func TestNamesMayHoldSlashesAndTheVhostIsASlash(t *testing.T) {
	f := &fake{queues: []api.Queue{queueRow("a/b", 0)}}
	for _, path := range []string{"/api/queues/%2F/a%2Fb", "/api/queues/%2f/a%2fb", "/api/queues/%2F", "/api/queues/%2F/", "/api/queues/"} {
		if w := f.call("GET", path, ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"name":"a/b"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestAQueuesBindingsAreItsOwn(t *testing.T) {
	f := &fake{queues: []api.Queue{queueRow("a", 0)}}
	w := f.call("GET", "/api/queues/%2F/a/bindings", "")
	var rows []api.Binding
	if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil || len(rows) != 1 || rows[0].Source != "x" {
		t.Errorf("%v %s, want the one binding from x", err, w.Body)
	}
}

func TestHealthChecks(t *testing.T) {
	voters := func(running ...bool) (list []api.Member) {
		for i, up := range running {
			list = append(list, api.Member{ID: uint64(i + 1), Role: "voter", Running: up})
		}
		return list
	}
	good := []api.Group{{Group: 1, Leader: 1}}
	for _, c := range []struct {
		name, path string
		f          fake
		want       int
	}{
		{"all groups led", "/api/health/checks/alarms", fake{groups: good}, 200},
		{"a full disk", "/api/health/checks/local-alarms", fake{groups: good, full: "disk is full"}, 503},
		{"no leader", "/api/health/checks/virtual-hosts", fake{groups: []api.Group{{Group: 1}}}, 503},
		{"stopped", "/api/health/checks/local-alarms", fake{groups: []api.Group{{Leader: 1, Error: "damage"}}}, 503},
		{"ready", "/api/health/checks/ready-to-serve-clients", fake{}, 200},
		{"not ready", "/api/health/checks/is-in-service", fake{ready: errors.New("x")}, 503},
		{"port", "/api/health/checks/port-listener/5672", fake{}, 200},
		{"no port", "/api/health/checks/port-listener/5671", fake{}, 503},
		{"protocol", "/api/health/checks/protocol-listener/amqp", fake{}, 200},
		{"no protocol", "/api/health/checks/protocol-listener/stomp", fake{}, 503},
		{"alone", "/api/health/checks/node-is-quorum-critical", fake{member: voters(true)}, 200},
		{"one of three", "/api/health/checks/node-is-quorum-critical", fake{member: voters(true, true, true)}, 200},
		{"one of two left", "/api/health/checks/node-is-quorum-critical", fake{member: voters(true, true, false)}, 503},
	} {
		if w := c.f.call("GET", c.path, ""); w.Code != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.want)
		}
	}
}
