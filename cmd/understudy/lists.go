package main

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// listVerb lists what path answers, of one vhost with --vhost.
func listVerb[T any](short, path string, titles []string, row func(T) []any) *cobra.Command {
	var vhost string
	cmd := verb("list", short, cobra.NoArgs, func(c *client, _ []string) error {
		where := path
		if vhost != "" {
			where += "/" + url.PathEscape(vhost)
		}
		return list(c, where, titles, row)
	})
	cmd.Flags().StringVar(&vhost, "vhost", "", "only of this vhost")
	return cmd
}

func list[T any](c *client, path string, titles []string, row func(T) []any) error {
	var items []T
	printed, err := c.get(path, &items)
	if err != nil || printed {
		return err
	}
	rows := make([][]any, len(items))
	for i, item := range items {
		rows[i] = row(item)
	}
	return table(c.out, titles, rows)
}

// listCommands are the verbs that show what the cluster holds, and those beside them.
func listCommands() []*cobra.Command {
	return []*cobra.Command{
		group("queues", "Queues", listVerb("List queues", "/api/queues",
			[]string{"VHOST", "NAME", "READY", "UNACKED", "MESSAGES", "CONSUMERS", "DURABLE"},
			func(q api.Queue) []any {
				return []any{q.Vhost, q.Name, q.MessagesReady, q.MessagesUnacknowledged, q.Messages, q.Consumers, q.Durable}
			}), purgeQueue(), deleteQueue()),
		group("exchanges", "Exchanges", listVerb("List exchanges", "/api/exchanges",
			[]string{"VHOST", "NAME", "TYPE", "DURABLE", "AUTO-DELETE", "INTERNAL"},
			func(x api.Exchange) []any {
				return []any{x.Vhost, x.Name, x.Type, x.Durable, x.AutoDelete, x.Internal}
			})),
		group("bindings", "Bindings", listVerb("List bindings", "/api/bindings",
			[]string{"VHOST", "SOURCE", "KEY", "TO", "DESTINATION"},
			func(b api.Binding) []any {
				return []any{b.Vhost, b.Source, b.RoutingKey, b.DestinationType, b.Destination}
			})),
		group("consumers", "Consumers", listVerb("List consumers", "/api/consumers",
			[]string{"VHOST", "QUEUE", "TAG", "ACK", "PREFETCH", "CONNECTION"},
			func(x api.Consumer) []any {
				return []any{x.Queue.Vhost, x.Queue.Name, x.ConsumerTag, x.AckRequired, x.PrefetchCount, x.ChannelDetails.ConnectionName}
			})),
		group("connections", "Client connections", listConnections(), closeConnection()),
	}
}

func listConnections() *cobra.Command {
	return verb("list", "List client connections", cobra.NoArgs, func(c *client, _ []string) error {
		return list(c, "/api/connections", []string{"NAME", "USER", "VHOST", "PROTOCOL", "TLS", "CHANNELS", "STATE"},
			func(x api.Connection) []any {
				return []any{x.Name, x.User, x.Vhost, x.Protocol, x.SSL, x.Channels, x.State}
			})
	})
}

func closeConnection() *cobra.Command {
	return verb("close NAME", "Close a client connection, by the name that list shows", cobra.ExactArgs(1),
		func(c *client, args []string) error {
			_, err := c.do(http.MethodDelete, "/api/connections/"+url.PathEscape(args[0]), nil)
			return err
		})
}
