package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// policiesCommand are the verbs of policies, and with --operator of operator policies.
func policiesCommand() *cobra.Command {
	return group("policies", "Policies and operator policies", listPolicies(), setPolicy(), deletePolicy())
}

// policyFlags declares --operator and --vhost; the answer is the API's path that they and a policy's name stand for.
func policyFlags(cmd *cobra.Command, vhost string) func(name string) string {
	operator := cmd.Flags().Bool("operator", false, "operator policies instead of policies")
	usage := "vhost"
	if vhost == "" {
		usage = "only of this vhost"
	}
	where := cmd.Flags().String("vhost", vhost, usage)
	return func(name string) string {
		path := "/api/policies"
		if *operator {
			path = "/api/operator-policies"
		}
		for _, segment := range []string{*where, name} {
			if segment != "" {
				path += "/" + url.PathEscape(segment)
			}
		}
		return path
	}
}

func listPolicies() *cobra.Command {
	var path func(string) string
	cmd := verb("list", "List policies", cobra.NoArgs, func(c *client, _ []string) error {
		return list(c, path(""), []string{"VHOST", "NAME", "PATTERN", "APPLY-TO", "PRIORITY", "DEFINITION"},
			func(p api.Policy) []any {
				definition, _ := json.Marshal(p.Definition) // it came as JSON
				return []any{p.Vhost, p.Name, p.Pattern, p.ApplyTo, p.Priority, string(definition)}
			})
	})
	path = policyFlags(cmd, "")
	return cmd
}

func setPolicy() *cobra.Command {
	var (
		path  func(string) string
		apply string
		rank  int64
	)
	cmd := verb("set NAME PATTERN DEFINITION", "Make or replace a policy", cobra.ExactArgs(3), func(c *client, args []string) error {
		p := api.NewPolicy{Pattern: &args[1], ApplyTo: apply, Priority: rank}
		if err := named(args[0]); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(args[2]), &p.Definition); err != nil {
			return usageError{fmt.Errorf(`DEFINITION is a JSON object like {"max-length":1000}: %w`, err)}
		}
		_, err := c.do(http.MethodPut, path(args[0]), p)
		return err
	})
	cmd.Long = `Make or replace a policy. PATTERN is a regular expression over the names of queues and exchanges, DEFINITION a
JSON object like {"max-length":1000,"overflow":"reject-publish"}. Of a vhost's policies the one with the highest priority counts
for each name, and beside it one operator policy, whose limits win where they are smaller.

With --apply-to connections PATTERN is over the connections' names, and DEFINITION gives sessions that outlive a connection:
{"session":"connection-name","session-expiry":120}; further keys are session-user (a pattern), session-inflight, session-dedup
and session-dedup-headers. With --apply-to vhost PATTERN is over vhosts' names, and DEFINITION says what a confirm there says of a
standby: {"link-confirm":"sync","link-on-loss":"degrade(30s)"}.`
	cmd.Flags().StringVar(&apply, "apply-to", "all", "kind of thing: all, queues, classic_queues, quorum_queues, exchanges, connections or vhost")
	cmd.Flags().Int64Var(&rank, "priority", 0, "the highest one counts")
	path = policyFlags(cmd, "/")
	return cmd
}

func deletePolicy() *cobra.Command {
	var path func(string) string
	cmd := verb("delete NAME", "Delete a policy", cobra.ExactArgs(1), func(c *client, args []string) error {
		if err := named(args[0]); err != nil {
			return err
		}
		_, err := c.do(http.MethodDelete, path(args[0]), nil)
		return err
	})
	path = policyFlags(cmd, "/")
	return cmd
}

// named refuses a name that no path of the API can say.
func named(name string) error {
	if name == "" {
		return usageError{errors.New("NAME is empty")}
	}
	return nil
}
