package main

import (
	"strings"
	"testing"
)

func TestUsersAndPermissionsByTheVerbs(t *testing.T) {
	s := serveNode(t)
	admin := []string{"--admin-url", s.admin}
	for _, c := range []struct {
		args string
		want string // in the output, or of a failure in its line
		code int
	}{
		{"users add app secret management", "", 0},
		{"users add app again", "is there already", 1},
		{"users list", "app", 0},
		{"users tags app monitoring policymaker", "", 0},
		{"users password app other", "", 0},
		{"users list --json", `"tags":["monitoring","policymaker"]`, 0},
		{"vhosts list --user app:other", "/", 0},
		{"users list --user app:other", "Not administrator user", 1},
		{"permissions set app ^c ^w ^r", "", 0},
		{"permissions set app ( ^w ^r", "pattern", 1},
		{"permissions list --json", `{"user":"app","vhost":"/","configure":"^c","write":"^w","read":"^r"}`, 0},
		{"permissions topic set app amq.topic ^w ^r", "", 0},
		{"permissions topic list", "amq.topic", 0},
		{"permissions topic clear app amq.topic", "", 0},
		{"permissions clear app", "", 0},
		{"permissions clear nobody", "not found", 1},
		{"users delete app", "", 0},
		{"users delete app", "not found", 1},
		{"users password app x", "not found", 1},
	} {
		out, text, code := run(t, append(strings.Fields(c.args), admin...)...)
		if code != c.code || !strings.Contains(strings.ToLower(out+text), strings.ToLower(c.want)) {
			t.Errorf("%s: exit %d\n%s%s", c.args, code, out, text)
		}
	}
}
