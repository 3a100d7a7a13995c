package admin

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

func (f *fake) PutVhost(_ context.Context, by, name string, v api.NewVhost) (bool, error) {
	text := ""
	if v.Description != nil {
		text = *v.Description
	}
	return name != "/", f.called("%s puts %q %q", by, name, text)
}

func (f *fake) DeleteVhost(_ context.Context, by, name string) error {
	if name != "/" {
		return NotFound{errors.New("vhost '" + name + "' not found")}
	}
	return f.called("%s deletes %q", by, name)
}

func TestVhostVerbs(t *testing.T) {
	f := &fake{}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/api/vhosts/%2F", "", 200},
		{"GET", "/api/vhosts/none", "", 404},
		{"PUT", "/api/vhosts/a%2Fb%22%C3%A4", `{"description":"d","tags":"x,y","default_queue_type":"quorum"}`, 201},
		{"PUT", "/api/vhosts/%2F", "", 204},
		{"PUT", "/api/vhosts/%2F", `{"tracing":true}`, 400},
		{"DELETE", "/api/vhosts/%2F", "", 204},
		{"DELETE", "/api/vhosts/none", "", 404},
	} {
		if w := f.call(c.method, c.path, c.body); w.Code != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, w.Code, w.Body, c.status)
		}
	}
	if want := []string{`guest puts "a/b\"ä" "d"`, `guest puts "/" ""`, `guest deletes "/"`}; !slices.Equal(f.calls, want) {
		t.Errorf("called %q, want %q", f.calls, want)
	}
}

func TestOnlyAdministratorsMakeAndDeleteVhosts(t *testing.T) {
	for _, tag := range []string{TagPolicymaker, TagMonitoring, TagManagement} {
		f := &fake{vhost: "/"}
		for _, method := range []string{"PUT", "DELETE"} {
			if w := f.call(method, "/api/vhosts/%2F", "", as(tag)); w.Code != 403 || f.calls != nil {
				t.Errorf("%s %s: %d, called %v", tag, method, w.Code, f.calls)
			}
		}
	}
}
