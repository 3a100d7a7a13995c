package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// vhostsCommand are the verbs of vhosts.
func vhostsCommand() *cobra.Command {
	return group("vhosts", "Virtual hosts", listVhosts(), addVhost(),
		verb("delete NAME", "Delete a virtual host with all that is in it, and close its connections", cobra.ExactArgs(1),
			func(c *client, args []string) error { return remove(c, vhostPath(args[0])) }))
}

func vhostPath(name string) string { return "/api/vhosts/" + url.PathEscape(name) }

func listVhosts() *cobra.Command {
	return verb("list", "List virtual hosts", cobra.NoArgs, func(c *client, _ []string) error {
		return list(c, "/api/vhosts", []string{"NAME", "GROUP", "MESSAGES", "STATE", "DESCRIPTION", "TAGS"}, func(v api.Vhost) []any {
			state := ""
			for _, s := range v.ClusterState { // of the node that answers
				state = s
			}
			return []any{v.Name, v.Group, v.Messages, state, v.Description, strings.Join(v.Tags, ",")}
		})
	})
}

func addVhost() *cobra.Command {
	var (
		v                 api.NewVhost
		description, kind string
		tags              []string
	)
	cmd := verb("add NAME", "Add a virtual host; whoever adds it gets all permissions in it", cobra.ExactArgs(1),
		func(c *client, args []string) error {
			if _, err := c.do(http.MethodGet, vhostPath(args[0]), nil); err == nil {
				return fmt.Errorf("vhost %q is there already", args[0])
			}
			all := api.Tags(tags)
			v.Description, v.Tags, v.DefaultQueueType = &description, &all, &kind
			return put(c, vhostPath(args[0]), v)
		})
	cmd.Flags().StringVar(&description, "description", "", "what it is for")
	cmd.Flags().StringSliceVar(&tags, "tags", nil, "tags, separated by commas")
	cmd.Flags().StringVar(&kind, "default-queue-type", "", "of queues that do not name theirs: classic or quorum")
	return cmd
}
