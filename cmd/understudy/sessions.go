package main

import (
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

var sessionTitles = []string{"VHOST", "USER", "ID", "STATE", "NODE", "EPOCH", "IN-FLIGHT", "EXPIRES", "CONNECTION"}

func sessionRow(s api.Session) []any {
	expires := "-"
	if s.ExpiresAt != nil {
		expires = time.UnixMilli(*s.ExpiresAt).Format(time.RFC3339)
	}
	return []any{s.Vhost, s.User, s.ID, s.State, s.Node, s.Epoch, s.InFlight, expires, s.Connection}
}

func sessionsCommand() *cobra.Command {
	return group("sessions", "Named sessions, which outlive their connections",
		listVerb("List named sessions", "/api/sessions", sessionTitles, sessionRow), showSession(), closeSession())
}

func showSession() *cobra.Command {
	return sessionVerb("show ID", "Show a session", func(c *client, path string) error {
		var s api.Session
		printed, err := c.get(path, &s)
		if err != nil || printed {
			return err
		}
		return table(c.out, sessionTitles, [][]any{sessionRow(s)})
	})
}

func closeSession() *cobra.Command {
	return sessionVerb("close ID", "End a session: its connection is closed, what it holds goes back, its exclusive queues go",
		func(c *client, path string) error {
			_, err := c.do(http.MethodDelete, path, nil)
			return err
		})
}

// sessionVerb is a verb for one session, which vhost, id and where needed its user name.
func sessionVerb(use, short string, run func(c *client, path string) error) *cobra.Command {
	var vhost, of string
	cmd := verb(use, short, cobra.ExactArgs(1), func(c *client, args []string) error {
		if err := named(args[0]); err != nil {
			return err
		}
		path := "/api/sessions/" + url.PathEscape(vhost) + "/" + url.PathEscape(args[0])
		if of != "" {
			path += "?user=" + url.QueryEscape(of)
		}
		return run(c, path)
	})
	cmd.Flags().StringVar(&vhost, "vhost", "/", "vhost")
	cmd.Flags().StringVar(&of, "of", "", "the user whose session it is, where several have one of that id")
	return cmd
}
