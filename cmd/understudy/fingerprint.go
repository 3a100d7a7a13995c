package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/node"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/store"
	"github.com/understudy-mq/understudy/replication/log"
)

func fingerprintCommand() *cobra.Command {
	var data string
	var at map[string]int64
	cmd := verb("fingerprint", "Print each group's fingerprint as JSON, to be compared between nodes", cobra.NoArgs,
		func(c *client, _ []string) error {
			c.json = false
			rows, err := []api.Fingerprint(nil), error(nil)
			switch {
			case data != "":
				rows, err = fingerprintsAt(data, at)
			case len(at) > 0:
				err = usageError{errors.New("--at takes --data too: a running node tells its fingerprints of now only")}
			default:
				rows, err = c.fingerprints()
			}
			if err != nil {
				return err
			}
			return json.NewEncoder(c.out).Encode(rows)
		})
	cmd.Long = `Print each group's fingerprint as JSON, to be compared between nodes.

With --data and --at it is not a running node's of now, but a stopped one's as it was after an entry of its log: of a former
source at the cuts that GET /api/link/promotion of the promoted cluster tells, to be compared with the fingerprints there.`
	cmd.Flags().StringVar(&data, "data", "", "data folder of a node that does not run")
	cmd.Flags().StringToInt64Var(&at, "at", nil, "with --data: GROUP=INDEX,... of the entries")
	return cmd
}

// fingerprints are a running node's.
func (c *client) fingerprints() ([]api.Fingerprint, error) {
	var groups []api.Group
	if _, err := c.get("/api/groups", &groups); err != nil {
		return nil, err
	}
	rows := make([]api.Fingerprint, len(groups))
	for i, g := range groups {
		rows[i] = api.Fingerprint{Group: g.Group, Applied: g.Applied, Term: g.Term, Fingerprint: g.Fingerprint}
	}
	return rows, nil
}

// fingerprintsAt are those of a stopped node's groups after an entry of each.
func fingerprintsAt(data string, at map[string]int64) (rows []api.Fingerprint, err error) {
	if len(at) == 0 {
		return nil, usageError{errors.New("--data takes --at too: the fingerprint of which entries?")}
	}
	folder, err := node.OpenUsedFolder(nil, data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	x := past{at: map[uint64]uint64{}, groups: map[uint64]*study{}, rows: map[uint64]*api.Fingerprint{}}
	for name, index := range at {
		group, err := strconv.ParseUint(name, 10, 64)
		if err != nil || index <= 0 {
			return nil, usageError{fmt.Errorf("--at %s=%d: want GROUP=INDEX", name, index)}
		}
		if err := x.begin(data, group, uint64(index)); err != nil {
			return nil, err
		}
	}
	return x.fingerprints(data)
}

// past are a stopped node's groups on their way to the entries that were asked for.
type past struct {
	at     map[uint64]uint64
	groups map[uint64]*study
	rows   map[uint64]*api.Fingerprint
}

// begin takes a group's newest checkpoint.
func (x *past) begin(data string, group, index uint64) error {
	m, applied, err := store.Study(vfs.Default, filepath.Join(data, node.StoreDir), group)
	if err != nil {
		return err
	}
	if applied > index {
		return fmt.Errorf("group %d: the newest checkpoint in %s is of entry %d, beyond %d: what was before it cannot be told", group, data, applied, index)
	}
	x.at[group], x.groups[group], x.rows[group] = index, &study{m, applied}, &api.Fingerprint{Group: group, Applied: applied}
	return nil
}

// fingerprints applies the log behind the checkpoints.
func (x *past) fingerprints(data string) ([]api.Fingerprint, error) {
	from := map[uint64]uint64{}
	for group, s := range x.groups {
		from[group] = s.applied
	}
	t := tail{data: data}
	err := t.each(from, func(r *log.Record) error {
		if r.Index > x.at[r.Group] {
			return nil
		}
		x.rows[r.Group].Applied, x.rows[r.Group].Term = r.Index, r.Term
		return x.groups[r.Group].m.Apply(r.Index, r.Data, &core.Effects{})
	})
	if err != nil {
		return nil, err
	}
	rows := make([]api.Fingerprint, 0, len(x.rows))
	for group, row := range x.rows {
		row.Fingerprint = fmt.Sprintf("%016x", x.groups[group].m.Fingerprint())
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b api.Fingerprint) int { return cmp.Compare(a.Group, b.Group) })
	return rows, nil
}
