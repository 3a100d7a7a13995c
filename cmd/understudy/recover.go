package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/cmd/internal/node"
	"github.com/understudy-mq/understudy/cmd/internal/telemetry"
)

func recoverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover --data DIR --force-new-cluster",
		Short: "Make a stopped node a cluster of its own, after a majority was lost for ever",
		Long: `Make a stopped node the only member of a new cluster, with the state that its own data folder holds.

It is for a cluster that has lost the majority of its nodes for ever. Run it on one survivor only: the one whose groups
have applied most (its log, before it stopped, or understudy dump-log tells). It may lose what was confirmed by the lost
nodes and had not reached this one, and may keep what was never confirmed. The other nodes must not be started again with
their old data; give them empty folders and let them join.`,
		Args: arguments(cobra.NoArgs),
	}
	data := dataFlag(cmd)
	peer := cmd.Flags().String("peer", config.Default().Peer, "address where nodes to come will reach this one")
	force := cmd.Flags().Bool("force-new-cluster", false, "say that this is meant")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*force {
			return usageError{errors.New("recover can lose confirmed messages: read understudy help recover, then give --force-new-cluster")}
		}
		logger, err := telemetry.NewLogger(os.Stderr, "warn", "text")
		if err != nil {
			return err
		}
		cfg := config.Default()
		cfg.Data, cfg.Peer = *data, *peer
		r, err := node.ForceNewCluster(cmd.Context(), node.Options{Config: cfg, Version: version, Logger: logger, Fatal: fatal(logger)})
		if err != nil {
			return err
		}
		return tellRecovered(cmd.OutOrStdout(), r)
	}
	return cmd
}

func tellRecovered(out io.Writer, r node.Recovered) error {
	fmt.Fprintf(out, "This node is now cluster %s by itself; it was a member of cluster %s.\n\n", r.ClusterID, r.Former)
	rows := make([][]any, len(r.Groups))
	for i, g := range r.Groups {
		rows[i] = []any{g.Group, g.Applied, g.Term}
	}
	if err := table(out, []string{"GROUP", "KEPT UP TO", "TERM"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprint(out, `
Lost: whatever the other nodes had confirmed that lies beyond these entries.
Kept: also what this node's log held without a confirm; a publisher that tries such a message again makes a second one.
The other nodes must not be started again with their old data folders.
`)
	return err
}
