package admin

import (
	"context"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

func (f *fake) Sessions(string) []api.Session { return append([]api.Session{}, f.sessions...) }
func (f *fake) CloseSession(_ context.Context, by string, s api.Session) error {
	return f.called("%s closes %s of %s in %s", by, s.ID, s.User, s.Vhost)
}

func TestSessionsAreSeenByTheirUserAndByMonitors(t *testing.T) {
	f := &fake{vhost: "/", sessions: []api.Session{{ID: "a", User: "guest", Vhost: "/"}, {ID: "b", User: "management", Vhost: "/"}}}
	for user, want := range map[string]string{"monitoring": "ab", "management": "b"} {
		var got strings.Builder
		body := f.call("GET", "/api/sessions", "", as(user)).Body.String()
		for _, id := range []string{"a", "b"} {
			if strings.Contains(body, `"id":"`+id+`"`) {
				got.WriteString(id)
			}
		}
		if got.String() != want {
			t.Errorf("%s sees %q, want %q: %s", user, got.String(), want, body)
		}
	}
}

func TestSessionsAreClosedByTheirUserAndByAdministrators(t *testing.T) {
	two := []api.Session{{ID: "a", User: "guest", Vhost: "/"}, {ID: "b", User: "management", Vhost: "/"}, {ID: "b", User: "other", Vhost: "/"}}
	for _, c := range []struct {
		path, user string
		status     int
		call       string
	}{
		{"/api/sessions/%2F/a", "administrator", 204, "administrator closes a of guest in /"},
		{"/api/sessions/%2F/b", "management", 204, "management closes b of management in /"},
		{"/api/sessions/%2F/a", "management", 404, ""}, // as if there were none
		{"/api/sessions/%2F/a", "monitoring", 403, ""},
		{"/api/sessions/%2F/c", "administrator", 404, ""},
		{"/api/sessions/%2F/b", "administrator", 400, ""},
		{"/api/sessions/%2F/b?user=other", "administrator", 204, "administrator closes b of other in /"},
		{"/api/sessions/none/b", "administrator", 404, ""},
	} {
		f := &fake{vhost: "/", sessions: two}
		w := f.call("DELETE", c.path, "", as(c.user))
		if got := strings.Join(f.calls, ";"); w.Code != c.status || got != c.call {
			t.Errorf("%s by %s: %d %q, want %d %q", c.path, c.user, w.Code, got, c.status, c.call)
		}
	}
}

func TestASessionIsShown(t *testing.T) {
	f := &fake{sessions: []api.Session{{ID: "a", User: "guest", Vhost: "/", State: "detached", ExpiresAt: new(int64)}}}
	if body := f.call("GET", "/api/sessions/%2F/a", "").Body.String(); !strings.Contains(body, `"state":"detached"`) || !strings.Contains(body, `"expires_at":0`) {
		t.Errorf("got %s", body)
	}
}
