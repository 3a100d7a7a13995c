package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"

	"github.com/understudy-mq/understudy/cmd/internal/certs"
	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/cmd/internal/node"
	"github.com/understudy-mq/understudy/cmd/internal/telemetry"
	"github.com/understudy-mq/understudy/replication/durable"
)

// rejoin makes a former source's node a standby's.
type rejoin struct {
	data, token string
	sources     []string
	tls         certs.Files
	seed, json  bool
}

func rejoinCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rejoin --data DIR --source HOST:LINKPORT,... --link-token-file FILE",
		Short: "Make a stopped node of a former source ready to be a standby of the cluster that serves now",
		Long: `Set aside what a stopped node of a former source holds, and make it ready to follow the cluster that serves now. That must
serve its link (--link-serve-token-file).

Where it can be, the node is wound back: a state at or before the place where its cluster was cut at the promotion is brought to
that place by the node's own log, and compared with what the promoted cluster tells of it. Then only what came after the
promotion goes over the link. It takes a node whose log reaches to the cut, and a promoted cluster that still has its log
since its promotion (it keeps that for --link-hold-seconds). Where it cannot be, the reason is told, and the node begins
with a snapshot of the cluster that serves now, as with --seed. Of a node that lagged behind when its cluster was lost nothing is
changed: take another one.

Nothing is deleted: the former data lies in a folder beside, for understudy link lost-tail. Run it on one node; the others
join that one with empty folders. The commands are printed. Broken off at any moment, it can be run again.`,
		Args: arguments(cobra.NoArgs),
	}
	j, data := &rejoin{}, dataFlag(cmd)
	f := cmd.Flags()
	sources := f.String("source", "", "link addresses of the cluster that serves now")
	f.StringVar(&j.token, "link-token-file", "", "file with the token that is shown to it")
	f.StringVar(&j.tls.CA, "link-tls-ca", "", "authority by which it is checked (PEM)")
	f.StringVar(&j.tls.Cert, "link-tls-cert", "", "certificate to show it (PEM)")
	f.StringVar(&j.tls.Key, "link-tls-key", "", "key of --link-tls-cert (PEM)")
	f.BoolVar(&j.seed, "seed", false, "do not wind the node back: it begins with a snapshot of the cluster that serves now")
	f.BoolVar(&j.json, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		j.data = filepath.Clean(*data)
		if err := j.check(*sources); err != nil {
			return usageError{err}
		}
		return j.run(cmd.Context(), cmd.OutOrStdout())
	}
	return cmd
}

// check takes the addresses, and refuses what cannot be meant, before anything is changed: a seed is dear.
func (j *rejoin) check(sources string) (err error) {
	if j.sources, err = config.ParseAddresses(sources); err != nil {
		return fmt.Errorf("--source: %w", err)
	}
	switch t := j.tls; {
	case len(j.sources) == 0:
		return errors.New("--source must name the cluster that serves now")
	case (t.Cert == "") != (t.Key == "") || t.Cert != "" && t.CA == "":
		return errors.New("--link-tls-cert goes with --link-tls-key and --link-tls-ca")
	case !j.seed && j.token == "" && t.Cert == "":
		return errors.New("the cluster that serves now cannot be asked without --link-token-file (or a certificate): give it, or --seed to do without asking")
	}
	return nil
}

// rejoined is what rejoin prints.
type rejoined struct {
	Way      string   `json:"way"`              // rewind or seed
	Reason   string   `json:"reason,omitempty"` // why it is a seed
	Former   string   `json:"former"`           // where the former data is
	Seconds  float64  `json:"seconds"`
	Commands []string `json:"commands"` // to go on with: the first on this node, the others for each further one
	*node.Rewound
}

func (j *rejoin) run(ctx context.Context, out io.Writer) error {
	began := time.Now()
	next := j.data + ".rejoined"
	if err := j.complete(next); err != nil {
		return err
	}
	folder, err := node.OpenUsedFolder(nil, j.data) // nobody runs on it
	if errors.Is(err, node.ErrNoData) {
		return fmt.Errorf("%w (--data): a node without data starts with --link-seed right away", err)
	}
	if err != nil {
		return err
	}
	id := folder.Identity()
	r := &rejoined{Way: "rewind"}
	if r.Rewound, err = j.rewind(ctx, folder, next); errors.Is(err, node.ErrNoRewind) {
		r.Way, r.Reason, err = "seed", err.Error(), nil
	}
	if err = errors.Join(err, folder.Close()); err != nil {
		return fmt.Errorf("%w (nothing was changed; --seed does without asking)", err)
	}
	if r.Former, err = j.exchange(next, r.Way == "rewind"); err != nil {
		return err
	}
	r.Seconds = time.Since(began).Seconds()
	r.Commands = j.commands(id.NodeID, r.Former)
	return r.print(out, j.json)
}

// rewind has the node's new folder made of what it holds. Errors: node.ErrNoRewind where it is to begin with a seed.
func (j *rejoin) rewind(ctx context.Context, folder *node.Folder, next string) (*node.Rewound, error) {
	if j.seed {
		return nil, fmt.Errorf("%w: --seed was given", node.ErrNoRewind)
	}
	logger, err := telemetry.NewLogger(os.Stderr, "warn", "text")
	if err != nil {
		return nil, err
	}
	return node.Rewind(ctx, node.RewindOptions{
		Folder: folder, Sources: j.sources, Token: j.token, TLS: j.tls, To: next, Logger: logger,
	})
}

// exchange sets the former data aside and, if there is a new folder, puts it in its stead.
func (j *rejoin) exchange(next string, rewound bool) (aside string, err error) {
	aside = fmt.Sprintf("%s.former-%s", j.data, time.Now().UTC().Format("20060102T150405"))
	if err := durable.Rename(vfs.Default, j.data, aside); err != nil {
		return "", fmt.Errorf("set the former data aside: %w", err)
	}
	if !rewound {
		return aside, os.RemoveAll(next)
	}
	if err := durable.Rename(vfs.Default, next, j.data); err != nil {
		return "", fmt.Errorf("put what was wound back in the place of the former data, which is in %s: %w; run this again", aside, err)
	}
	return aside, nil
}

// complete ends an exchange that broke off between its two steps, by undoing the first.
func (j *rejoin) complete(next string) error {
	if _, err := os.Stat(j.data); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(next); err != nil {
		return nil
	}
	aside, err := filepath.Glob(j.data + ".former-*")
	if err != nil || len(aside) == 0 {
		return err
	}
	if err := durable.Rename(vfs.Default, slices.Max(aside), j.data); err != nil {
		return fmt.Errorf("take up a rejoin that broke off: %w", err)
	}
	return nil
}

// commands are those to go on with.
func (j *rejoin) commands(id uint64, former string) []string {
	follow := fmt.Sprintf("--link-source %s --link-token-file FILE", strings.Join(j.sources, ","))
	return []string{
		fmt.Sprintf("understudy serve --data %s --node-id %d --link-seed %d %s", j.data, id, id, follow),
		fmt.Sprintf("understudy serve --data DIR --node-id N --join http://ADMIN-ADDRESS --peer ADDRESS %s", follow),
		"understudy members promote N --admin-url http://ADMIN-ADDRESS",
		fmt.Sprintf("understudy link lost-tail --data %s --admin-url URL-OF-THE-CLUSTER-THAT-SERVES", former),
	}
}

func (r *rejoined) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	how := "It begins with a snapshot of the cluster that serves now: " + r.Reason + "."
	if r.Way == "rewind" {
		how = fmt.Sprintf("It was wound back to where its cluster was cut: %d bytes of state from this disk, %d bytes over the link, %.1f s.",
			r.Bytes, r.LinkBytes, r.Seconds)
	}
	_, err := fmt.Fprintf(out, `The former data is in %s.
%s
Start the node:

  %s

with the addresses and certificates that it had, but without --cluster. Each further node joins it with an empty folder:

  %s
  %s

What only the former cluster had: %s
`, r.Former, how, r.Commands[0], r.Commands[1], r.Commands[2], r.Commands[3])
	return err
}
