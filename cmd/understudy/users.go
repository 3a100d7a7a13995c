package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// accountCommands are the verbs about who may do what.
func accountCommands() []*cobra.Command {
	return []*cobra.Command{
		vhostsCommand(), definitionsCommand(),
		group("users", "Users", listVerb("List users", "/api/users", []string{"NAME", "TAGS", "LIMITS"},
			func(u api.User) []any { return []any{u.Name, strings.Join(u.Tags, ","), limitsText(u.Limits)} }),
			verb("add NAME PASSWORD [TAG...]", "Add a user; - reads the password from the input", cobra.MinimumNArgs(2), addUser),
			verb("delete NAME", "Delete a user and close its connections", cobra.ExactArgs(1), deleteUser),
			verb("password NAME PASSWORD", "Change a user's password; - reads it from the input", cobra.ExactArgs(2), setPassword),
			verb("tags NAME [TAG...]", "Set a user's tags: administrator, monitoring, policymaker, management, impersonator", cobra.MinimumNArgs(1), setTags)),
		permissionsCommand(),
	}
}

func permissionsCommand() *cobra.Command {
	return group("permissions", "What users may do",
		listVerb("List permissions", "/api/permissions", []string{"VHOST", "USER", "CONFIGURE", "WRITE", "READ"},
			func(p api.Permission) []any { return []any{p.Vhost, p.User, p.Configure, p.Write, p.Read} }),
		vhostVerb("set USER CONFIGURE WRITE READ", "Set a user's permissions in a vhost, by patterns over names", cobra.ExactArgs(4),
			func(c *client, vhost string, args []string) error {
				p := api.Permission{User: args[0], Vhost: vhost, Configure: args[1], Write: args[2], Read: args[3]}
				return put(c, permissionPath("permissions", vhost, args[0]), p)
			}),
		vhostVerb("clear USER", "Take a user out of a vhost", cobra.ExactArgs(1), func(c *client, vhost string, args []string) error {
			return remove(c, permissionPath("permissions", vhost, args[0]))
		}),
		topicsCommand())
}

func topicsCommand() *cobra.Command {
	return group("topic", "Which routing keys users may use",
		listVerb("List topic permissions", "/api/topic-permissions", []string{"VHOST", "USER", "EXCHANGE", "WRITE", "READ"},
			func(p api.TopicPermission) []any { return []any{p.Vhost, p.User, p.Exchange, p.Write, p.Read} }),
		vhostVerb("set USER EXCHANGE WRITE READ", "Set which routing keys a user may use, by patterns", cobra.ExactArgs(4),
			func(c *client, vhost string, args []string) error {
				p := api.TopicPermission{User: args[0], Vhost: vhost, Exchange: args[1], Write: args[2], Read: args[3]}
				return put(c, permissionPath("topic-permissions", vhost, args[0]), p)
			}),
		vhostVerb("clear USER [EXCHANGE]", "Undo set, for one exchange or for all", cobra.RangeArgs(1, 2),
			func(c *client, vhost string, args []string) error {
				path := permissionPath("topic-permissions", vhost, args[0])
				if len(args) > 1 {
					path += "/" + url.PathEscape(args[1])
				}
				return remove(c, path)
			}))
}

// vhostVerb is a verb with the flag --vhost.
func vhostVerb(use, short string, args cobra.PositionalArgs, run func(c *client, vhost string, args []string) error) *cobra.Command {
	var vhost string
	cmd := verb(use, short, args, func(c *client, args []string) error { return run(c, vhost, args) })
	cmd.Flags().StringVar(&vhost, "vhost", "/", "virtual host")
	return cmd
}

func permissionPath(kind, vhost, user string) string {
	return "/api/" + kind + "/" + url.PathEscape(vhost) + "/" + url.PathEscape(user)
}

func userPath(name string) string { return "/api/users/" + url.PathEscape(name) }

func put(c *client, path string, body any) error {
	_, err := c.do(http.MethodPut, path, body)
	return err
}

func remove(c *client, path string) error {
	_, err := c.do(http.MethodDelete, path, nil)
	return err
}

func limitsText(limits map[string]int) string {
	var all []string
	for _, name := range []string{"max-connections", "max-channels"} {
		if n, ok := limits[name]; ok {
			all = append(all, fmt.Sprintf("%s=%d", name, n))
		}
	}
	return strings.Join(all, " ")
}

// passwordOf is an argument, or with - the first line of the input: what other users of the machine cannot see.
func passwordOf(argument string) (*string, error) {
	if argument != "-" {
		return &argument, nil
	}
	var text string
	if _, err := fmt.Fscanln(os.Stdin, &text); err != nil {
		return nil, errors.New("no password in the input")
	}
	return &text, nil
}

func addUser(c *client, args []string) error {
	if _, err := c.do(http.MethodGet, userPath(args[0]), nil); err == nil {
		return fmt.Errorf("user %q is there already", args[0])
	}
	password, err := passwordOf(args[1])
	if err != nil {
		return err
	}
	tags := api.Tags(args[2:])
	return put(c, userPath(args[0]), api.NewUser{Password: password, Tags: &tags})
}

func deleteUser(c *client, args []string) error { return remove(c, userPath(args[0])) }

// setPassword keeps the tags.
func setPassword(c *client, args []string) error {
	c.json = false
	var u api.User
	if _, err := c.get(userPath(args[0]), &u); err != nil {
		return err
	}
	password, err := passwordOf(args[1])
	if err != nil {
		return err
	}
	return put(c, userPath(args[0]), api.NewUser{Password: password, Tags: &u.Tags})
}

// setTags keeps the password.
func setTags(c *client, args []string) error {
	if _, err := c.do(http.MethodGet, userPath(args[0]), nil); err != nil {
		return err
	}
	tags := api.Tags(args[1:])
	return put(c, userPath(args[0]), api.NewUser{Tags: &tags})
}
