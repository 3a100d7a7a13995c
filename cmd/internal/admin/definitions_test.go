package admin

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/definitions"
)

func (f *fake) Definitions(vhost string) api.Definitions {
	return api.Definitions{RabbitVersion: "of " + vhost}
}

func (f *fake) ImportDefinitions(_ context.Context, by, vhost string, text []byte) error {
	return f.called("%s imports %d bytes into %q", by, len(text), vhost)
}

func (f *fake) Parameters(string) []api.Parameter {
	return []api.Parameter{{Component: "a", Vhost: "/", Name: "x"}, {Component: "b", Vhost: "/", Name: "y"}}
}

func TestDefinitionsAreForAdministrators(t *testing.T) {
	for _, path := range []string{"/api/definitions", "/api/definitions/%2F"} {
		for method, body := range map[string]string{"GET": "", "POST": "{}"} {
			f := &fake{vhost: "/"}
			if w := f.call(method, path, body, as("monitoring")); w.Code != 403 || f.calls != nil {
				t.Errorf("%s %s as a monitor: %d, calls %v, want 403 and none", method, path, w.Code, f.calls)
			}
		}
	}
	f := &fake{}
	if w := f.call("GET", "/api/definitions/%2F", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"rabbit_version":"of /"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := f.call("POST", "/api/definitions/%2F", "{}"); w.Code != 204 || f.calls[0] != `guest imports 2 bytes into "/"` {
		t.Errorf("%d %v", w.Code, f.calls)
	}
	if w := f.call("POST", "/api/definitions", `"`+strings.Repeat("x", bigBodyBytesMax)+`"`); w.Code != 413 {
		t.Errorf("a body that is too big: %d, want 413", w.Code)
	}
}

func TestEveryFaultOfADefinitionsFileIsAnswered(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		text   string
	}{
		{definitions.Faults{"one", "two"}, 400, `{"error":"bad_request","reason":"one; two","faults":["one","two"]}`},
		{Unavailable{errors.New("not now")}, 503, "not now"},
	} {
		w := (&fake{verb: c.err}).call("POST", "/api/definitions", "{}")
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%d %s, want %d with %s", w.Code, w.Body, c.status, c.text)
		}
	}
}

func TestParametersByComponent(t *testing.T) {
	for path, want := range map[string]string{"": "xy", "/a": "x", "/b/%2F": "y", "/none": ""} {
		body := (&fake{}).call("GET", "/api/parameters"+path, "").Body.String()
		got := ""
		for _, name := range []string{"x", "y"} {
			if strings.Contains(body, `"name":"`+name+`"`) {
				got += name
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %q", path, body, want)
		}
	}
}
