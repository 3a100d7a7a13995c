package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

func purgeQueue() *cobra.Command {
	var vhost *string
	cmd := verb("purge NAME", "Drop a queue's ready messages; what consumers hold stays", cobra.ExactArgs(1),
		func(c *client, args []string) error {
			return remove(c, queuePath(*vhost, args[0])+"/contents")
		})
	vhost = cmd.Flags().String("vhost", "/", "vhost")
	return cmd
}

func deleteQueue() *cobra.Command {
	var (
		vhost             *string
		ifUnused, ifEmpty bool
	)
	cmd := verb("delete NAME", "Delete a queue with its messages", cobra.ExactArgs(1), func(c *client, args []string) error {
		path, query := queuePath(*vhost, args[0]), url.Values{}
		if ifUnused {
			query.Set("if-unused", "true")
		}
		if ifEmpty {
			query.Set("if-empty", "true")
		}
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		return remove(c, path)
	})
	vhost = cmd.Flags().String("vhost", "/", "vhost")
	cmd.Flags().BoolVar(&ifUnused, "if-unused", false, "only if it has no consumers")
	cmd.Flags().BoolVar(&ifEmpty, "if-empty", false, "only if it has no ready messages")
	return cmd
}

func queuePath(vhost, name string) string {
	return "/api/queues/" + url.PathEscape(vhost) + "/" + url.PathEscape(name)
}
