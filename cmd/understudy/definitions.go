package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// importPatience bounds the import of definitions, which may be many.
const importPatience = 5 * time.Minute

// definitionsCommand are the verbs of definitions.
func definitionsCommand() *cobra.Command {
	return group("definitions", "Users, vhosts, queues and all else but messages, as RabbitMQ's JSON", exportDefinitions(), importDefinitions())
}

// definitionsPath is the API's path, of one vhost where one is named.
func definitionsPath(vhost string) string {
	if vhost == "" {
		return "/api/definitions"
	}
	return "/api/definitions/" + url.PathEscape(vhost)
}

func exportDefinitions() *cobra.Command {
	var vhost string
	cmd := verb("export [FILE]", "Write the definitions to a file, or print them", cobra.MaximumNArgs(1), func(c *client, args []string) error {
		text, err := c.do(http.MethodGet, definitionsPath(vhost), nil)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			_, err = c.out.Write(text)
			return err
		}
		return os.WriteFile(args[0], text, 0o600) // there are hashes of passwords in it
	})
	cmd.Flags().StringVar(&vhost, "vhost", "", "only of this vhost")
	return cmd
}

func importDefinitions() *cobra.Command {
	var vhost string
	cmd := verb("import FILE", "Have the cluster become what a file says, on top of what it has; a file with any fault changes nothing", cobra.ExactArgs(1),
		func(c *client, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			var file json.RawMessage
			if err := json.Unmarshal(text, &file); err != nil {
				return fmt.Errorf("%s is no JSON: %w", args[0], err)
			}
			c.patience = importPatience
			_, err = c.do(http.MethodPost, definitionsPath(vhost), file)
			return err
		})
	cmd.Flags().StringVar(&vhost, "vhost", "", "into this vhost: a file of one vhost's definitions")
	return cmd
}
