package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/config"
)

func statusCommand() *cobra.Command {
	return verb("status", "Show the cluster as a node sees it", cobra.NoArgs, func(c *client, _ []string) error {
		asJSON := c.json
		c.json = false
		var s struct {
			Cluster api.Cluster `json:"cluster"`
			Groups  []api.Group `json:"groups"`
		}
		if _, err := c.get("/api/cluster", &s.Cluster); err != nil {
			return err
		}
		if _, err := c.get("/api/groups", &s.Groups); err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(c.out).Encode(s)
		}
		ready := "ready"
		if !s.Cluster.Ready {
			ready = "not ready: " + s.Cluster.Reason
		}
		fmt.Fprintf(c.out, "cluster %s, node %d, understudy %s, %s\n\n", s.Cluster.ID, s.Cluster.Node, s.Cluster.Version, ready)
		if err := memberTable(c, s.Cluster.Members); err != nil {
			return err
		}
		fmt.Fprintln(c.out)
		return groupTable(c, s.Groups)
	})
}

func groupTable(c *client, groups []api.Group) error {
	rows := make([][]any, len(groups))
	for i, g := range groups {
		rows[i] = []any{g.Group, g.Role, g.Leader, g.Term, g.Applied, g.Fingerprint, g.Error}
	}
	return table(c.out, []string{"GROUP", "ROLE", "LEADER", "TERM", "APPLIED", "FINGERPRINT", "ERROR"}, rows)
}

func memberTable(c *client, members []api.Member) error {
	rows := make([][]any, len(members))
	for i, m := range members {
		leads := make([]string, len(m.Leads))
		for j, g := range m.Leads {
			leads[j] = strconv.FormatUint(g, 10)
		}
		rows[i] = []any{m.ID, m.Address, m.Role, m.Running, strings.Join(leads, ","), strings.Join(m.Alarms, ",")}
	}
	return table(c.out, []string{"NODE", "ADDRESS", "ROLE", "RUNNING", "LEADS", "ALARMS"}, rows)
}

func membersCommand() *cobra.Command {
	return group("members", "The nodes of the cluster",
		verb("list", "List the members", cobra.NoArgs, func(c *client, _ []string) error {
			var members []api.Member
			printed, err := c.get("/api/cluster/members", &members)
			if err != nil || printed {
				return err
			}
			return memberTable(c, members)
		}),
		verb("add ID=HOST:PEERPORT", "Add a node as a learner; it is started with --join", cobra.ExactArgs(1), addMember),
		verb("promote ID", "Make a learner that has caught up a voter", cobra.ExactArgs(1),
			memberVerb(http.MethodPost, "/promote")),
		verb("remove ID", "Remove a node from the cluster", cobra.ExactArgs(1), memberVerb(http.MethodDelete, "")),
		verb("transfer-leader GROUP ID", "Make a node the leader of a group", cobra.ExactArgs(2), transferLeader),
	)
}

func addMember(c *client, args []string) error {
	id, address, err := config.ParseMember(args[0])
	if err != nil {
		return usageError{err}
	}
	_, err = c.do(http.MethodPost, "/api/cluster/members", api.NewMember{ID: id, Address: address})
	return err
}

// memberVerb asks for something to be done with the member that the argument names.
func memberVerb(method, action string) func(*client, []string) error {
	return func(c *client, args []string) error {
		id, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil {
			return usageError{fmt.Errorf("%q is no node id", args[0])}
		}
		_, err = c.do(method, "/api/cluster/members/"+strconv.FormatUint(id, 10)+action, nil)
		return err
	}
}

func transferLeader(c *client, args []string) error {
	g, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return usageError{fmt.Errorf("%q is no group", args[0])}
	}
	id, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return usageError{fmt.Errorf("%q is no node id", args[1])}
	}
	_, err = c.do(http.MethodPost, "/api/cluster/transfer-leader", api.Transfer{Group: g, ID: id})
	return err
}
