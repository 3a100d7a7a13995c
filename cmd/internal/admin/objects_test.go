package admin

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

func (f *fake) DeclareQueue(_ context.Context, user, vhost, name string, _ api.NewQueue) (bool, error) {
	return name == "new", f.called("%s declares queue %s %s", user, vhost, name)
}

func (f *fake) DeleteQueue(_ context.Context, user, vhost, name string, ifUnused, ifEmpty bool) error {
	return f.called("%s deletes queue %s %s %v %v", user, vhost, name, ifUnused, ifEmpty)
}

func (f *fake) PurgeQueue(_ context.Context, user, vhost, name string) error {
	return f.called("%s purges %s %s", user, vhost, name)
}

func (f *fake) DeclareExchange(_ context.Context, user, vhost, name string, x api.NewExchange) (bool, error) {
	return name == "new", f.called("%s declares exchange %s %s %s", user, vhost, name, x.Type)
}

func (f *fake) DeleteExchange(_ context.Context, user, vhost, name string, ifUnused bool) error {
	return f.called("%s deletes exchange %s %s %v", user, vhost, name, ifUnused)
}

func (f *fake) Bind(_ context.Context, user string, at api.BindingRef, b api.NewBinding) (string, error) {
	return "a key", f.called("%s binds %v %s", user, at, b.RoutingKey)
}

func (f *fake) Unbind(_ context.Context, user string, at api.BindingRef, key string) error {
	return f.called("%s unbinds %v %s", user, at, key)
}

func TestObjectVerbs(t *testing.T) {
	f := &fake{}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"PUT", "/api/queues/%2F/new", "{}", 201},
		{"PUT", "/api/queues/%2F/old", "{}", 204},
		{"DELETE", "/api/queues/%2F/a%2Fb?if-unused=true", "", 204},
		{"DELETE", "/api/queues/%2F/a?if-empty=true&if-unused=false", "", 204},
		{"DELETE", "/api/queues/%2F/a/contents", "", 204},
		{"PUT", "/api/exchanges/%2F/new", `{"type":"topic"}`, 201},
		{"DELETE", "/api/exchanges/%2F/old?if-unused=true", "", 204},
		{"POST", "/api/bindings/%2F/e/x/q/a", `{"routing_key":"k"}`, 201},
		{"DELETE", "/api/bindings/%2F/e/amq.default/e/y/~", "", 204},
		{"PUT", "/api/queues/nowhere/q", "{}", 404},
		{"DELETE", "/api/queues/nowhere/q", "", 404},
		{"POST", "/api/bindings/nowhere/e/x/q/a", "{}", 404},
		{"PUT", "/api/queues/%2F/q", `{"durable":"yes"}`, 400},
	} {
		if w := f.call(c.method, c.path, c.body); w.Code != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, w.Code, w.Body, c.status)
		}
	}
	want := []string{
		"guest declares queue / new", "guest declares queue / old", "guest deletes queue / a/b true false",
		"guest deletes queue / a false true", "guest purges / a", "guest declares exchange / new topic",
		"guest deletes exchange / old true", "guest binds {/ x a true} k", "guest unbinds {/  y false} ~",
	}
	if !slices.Equal(f.calls, want) {
		t.Errorf("called %q\nwant   %q", f.calls, want)
	}
}

func TestANewBindingSaysWhereItIs(t *testing.T) {
	w := (&fake{}).call("POST", "/api/bindings/%2F/e/x/q/a%2Fb", "{}")
	if got := w.Header().Get("Location"); got != "a%2Fb/a%20key" {
		t.Errorf("Location %q, want a%%2Fb/a%%20key: where it is from the path of the call", got)
	}
}

func TestWhatTheCallerMayNotDoIs403(t *testing.T) {
	f := &fake{verb: Forbidden{errors.New("not yours")}}
	if w := f.call("DELETE", "/api/queues/%2F/q", ""); w.Code != 403 {
		t.Errorf("%d %s, want 403", w.Code, w.Body)
	}
}
