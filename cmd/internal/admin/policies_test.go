package admin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

func (f *fake) Policies(_ string, operator bool) []api.Policy {
	if operator {
		return []api.Policy{}
	}
	return []api.Policy{{Vhost: "/", Name: "old"}}
}

func (f *fake) SetPolicy(_ context.Context, by string, operator bool, vhost, name string, p api.NewPolicy) error {
	return f.called("%s sets %v %s %s: %s %s", by, operator, vhost, name, *p.Pattern, p.ApplyTo)
}

func (f *fake) DeletePolicy(_ context.Context, by string, operator bool, vhost, name string) error {
	return f.called("%s deletes %v %s %s", by, operator, vhost, name)
}
func (f *fake) VhostLimits(string) []api.VhostLimits { return []api.VhostLimits{{Vhost: "/"}} }
func (f *fake) SetVhostLimit(_ context.Context, by, vhost, limit string, value int64) error {
	return f.called("%s limits %s %s %d", by, vhost, limit, value)
}

func TestPolicyVerbs(t *testing.T) {
	const body = `{"pattern":"x","definition":{"max-length":1}}`
	f := &fake{}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"PUT", "/api/policies/%2F/new", body, 201},
		{"PUT", "/api/policies/%2F/old", body, 204},
		{"PUT", "/api/operator-policies/%2F/old", body, 201},
		{"DELETE", "/api/policies/%2F/old", "", 204},
		{"DELETE", "/api/operator-policies/%2F/old", "", 404},
		{"PUT", "/api/vhost-limits/%2F/max-queues", `{"value":5}`, 204},
		{"DELETE", "/api/vhost-limits/%2F/max-queues", "", 204},
	} {
		if w := f.call(c.method, c.path, c.body); w.Code != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, w.Code, w.Body, c.status)
		}
	}
	want := []string{
		"guest sets false / new: x all", "guest sets false / old: x all", "guest sets true / old: x all", "guest deletes false / old",
		"guest limits / max-queues 5", "guest limits / max-queues -1",
	}
	if !slices.Equal(f.calls, want) {
		t.Errorf("called %q, want %q", f.calls, want)
	}
}

func TestPolicymakersChangeThePoliciesOfTheirVhosts(t *testing.T) {
	const body = `{"pattern":"x","definition":{"max-length":1}}`
	for _, c := range []struct {
		tag, vhost string
		status     int
	}{
		{TagPolicymaker, "/", 201}, {TagPolicymaker, "", 404}, {TagMonitoring, "/", 403}, {TagManagement, "/", 403},
	} {
		f := &fake{vhost: c.vhost}
		if w := f.call("PUT", "/api/policies/%2F/new", body, as(c.tag)); w.Code != c.status || (f.calls != nil) != (c.status == 201) {
			t.Errorf("%s in %q: %d %s, want %d", c.tag, c.vhost, w.Code, w.Body, c.status)
		}
	}
}

func TestPoliciesOfOtherVhostsAreNotSeen(t *testing.T) {
	f := &fake{}
	for _, path := range []string{"/api/policies", "/api/vhost-limits"} {
		if w := f.call("GET", path, "", as(TagManagement)); strings.TrimSpace(w.Body.String()) != "[]" {
			t.Errorf("%s without permissions: %s", path, w.Body)
		}
	}
	if w := f.call("GET", "/api/policies/%2F/old", "", as(TagManagement)); w.Code != 404 {
		t.Errorf("a policy of a vhost that it may not see: %d", w.Code)
	}
}

func TestWhatAPolicyVerbFailsWithDecidesTheStatus(t *testing.T) {
	for status, err := range map[int]error{
		400: errors.New("no sense"), 404: NotFound{errors.New("no vhost")}, 503: Unavailable{errors.New("no leader")},
	} {
		f := &fake{verb: err}
		w := f.call("PUT", "/api/policies/%2F/new", `{"pattern":"x","definition":{"max-length":1}}`)
		if w.Code != status || !strings.Contains(w.Body.String(), err.Error()) {
			t.Errorf("%v: %d %s, want %d", err, w.Code, w.Body, status)
		}
	}
}
