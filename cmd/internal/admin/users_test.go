package admin

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

func as(user string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(user, "p") }
}

func TestAccountVerbs(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		status             int
		call               string
	}{
		{"PUT", "/api/users/new", `{"password":"p","tags":"a, b"}`, 201, "guest puts new [a b]"},
		{"PUT", "/api/users/guest", `{"password_hash":"","tags":["a"]}`, 204, "guest puts guest [a]"},
		{"DELETE", "/api/users/idle", "", 204, "guest deletes idle"},
		{"POST", "/api/users/bulk-delete", `{"users":["idle"]}`, 204, "guest deletes idle"},
		{"PUT", "/api/permissions/%2F/guest", `{"configure":"c","write":"w","read":"r"}`, 204, "guest permits {guest / c w r}"},
		{"PUT", "/api/permissions/%2F/idle", `{"configure":"c","write":"w","read":"r"}`, 201, "guest permits {idle / c w r}"},
		{"DELETE", "/api/permissions/%2F/guest", "", 204, "guest clears guest /"},
		{"PUT", "/api/topic-permissions/%2F/guest", `{"exchange":"x","write":"w","read":"r"}`, 204, "guest permits {guest / x w r}"},
		{"DELETE", "/api/topic-permissions/%2F/guest", "", 204, `guest clears guest / ""`},
		{"DELETE", "/api/topic-permissions/%2F/guest/x", "", 204, `guest clears guest / "x"`},
		{"PUT", "/api/user-limits/guest/max-channels", `{"value":3}`, 204, "guest limits guest max-channels 3"},
		{"DELETE", "/api/user-limits/guest/max-channels", "", 204, "guest limits guest max-channels -1"},
		{"PUT", "/api/permissions/none/guest", `{}`, 404, ""},
		{"PUT", "/api/permissions/%2F/none", `{}`, 404, ""},
	} {
		f := &fake{}
		w := f.call(c.method, c.path, c.body)
		if got := strings.Join(f.calls, ";"); w.Code != c.status || got != c.call {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, w.Code, got, c.status, c.call)
		}
	}
}

func TestAccountListings(t *testing.T) {
	for path, want := range map[string]string{
		"/api/users":                         `"name":"idle"`,
		"/api/users/guest":                   `"limits":{"max-channels":2}`,
		"/api/users/without-permissions":     `[{"name":"idle"`,
		"/api/users/guest/permissions":       `[{"user":"guest","vhost":"/","configure":"","write":"","read":"r"}]`,
		"/api/users/idle/permissions":        `[]`,
		"/api/vhosts/%2F/permissions":        `"user":"guest"`,
		"/api/permissions/%2F/guest":         `{"user":"guest"`,
		"/api/topic-permissions/%2F/guest":   `"exchange":"x"`,
		"/api/user-limits":                   `[{"user":"guest","value":{"max-channels":2}}]`,
		"/api/users/guest/topic-permissions": `"exchange":"x"`,
		"/api/vhosts/%2F/topic-permissions":  `"exchange":"x"`,
		"/api/user-limits/idle":              `[]`,
	} {
		if w := (&fake{}).call("GET", path, ""); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", path, w.Code, w.Body, want)
		}
	}
}

func TestAChangeOfAUserThatIsNotThereIs404(t *testing.T) {
	if w := (&fake{verb: ErrNoUser}).call("DELETE", "/api/users/none", ""); w.Code != 404 {
		t.Errorf("%d, want 404", w.Code)
	}
}

func TestTagsSayWhatACallerMayDo(t *testing.T) {
	for _, c := range []struct {
		method, path string
		allowed      []string
	}{
		{"GET", "/api/whoami", []string{TagMonitoring, TagPolicymaker, TagManagement}},
		{"GET", "/api/queues", []string{TagMonitoring, TagPolicymaker, TagManagement}},
		{"GET", "/api/nodes", []string{TagMonitoring}},
		{"GET", "/api/groups", []string{TagMonitoring}},
		{"GET", "/api/users", nil},
		{"GET", "/api/permissions", nil},
		{"DELETE", "/api/users/idle", nil},
		{"DELETE", "/api/cluster/members/2", nil},
		{"DELETE", "/api/connections/a%20-%3E%20b", nil},
		{"GET", "/api/policies", []string{TagMonitoring, TagPolicymaker, TagManagement}},
		{"PUT", "/api/operator-policies/%2F/old", nil},
		{"DELETE", "/api/operator-policies/%2F/old", nil},
		{"PUT", "/api/vhost-limits/%2F/max-queues", nil},
		{"DELETE", "/api/vhost-limits/%2F/max-queues", nil},
	} {
		for _, tag := range []string{TagMonitoring, TagPolicymaker, TagManagement} {
			f := &fake{}
			w, may := f.call(c.method, c.path, "", as(tag)), slices.Contains(c.allowed, tag)
			if may && w.Code != 200 || !may && (w.Code != 403 || f.calls != nil) {
				t.Errorf("%s of %s by %s: %d, calls %v", c.method, c.path, tag, w.Code, f.calls)
			}
		}
	}
}

func TestManagementUsersSeeTheirVhostsAlone(t *testing.T) {
	f := &fake{queues: []api.Queue{queueRow("a", 0)}}
	for _, path := range []string{"/api/queues", "/api/vhosts", "/api/exchanges", "/api/connections"} {
		if w := f.call("GET", path, "", as(TagManagement)); strings.TrimSpace(w.Body.String()) != "[]" {
			t.Errorf("%s without permissions: %s", path, w.Body)
		}
	}
	if w := f.call("GET", "/api/queues/%2F/a", "", as(TagManagement)); w.Code != 404 {
		t.Errorf("a queue of a vhost that it may not see: %d", w.Code)
	}
	f.vhost = "/"
	if w := f.call("GET", "/api/queues", "", as(TagManagement)); !strings.Contains(w.Body.String(), `"name":"a"`) {
		t.Errorf("with a permission: %s", w.Body)
	}
}
