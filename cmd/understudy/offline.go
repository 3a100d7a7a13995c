package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/cmd/internal/node"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/replication/log"
)

func dataFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("data", config.Default().Data, "data folder of a node that does not run")
}

func dumpLogCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dump-log",
		Short: "Print what a stopped node's log holds, a line a record",
		Args:  arguments(cobra.NoArgs),
	}
	data := dataFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object a record, with the commands in full")
	sums := cmd.Flags().Bool("sums", false, "print one JSON object a record, without the commands: to compare logs")
	only := cmd.Flags().Int64("group", -1, "only this group")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		folder, err := node.OpenUsedFolder(nil, *data)
		if err != nil {
			return err
		}
		defer folder.Close()
		return log.Dump(vfs.Default, filepath.Join(*data, node.LogDir), func(r log.Record) error {
			if *only >= 0 && r.Group != uint64(*only) {
				return nil
			}
			d := describe(&r, !*sums)
			if *asJSON || *sums {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(d)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), d.line())
			return err
		})
	}
	return cmd
}

// dumped is a record as --json prints it.
type dumped struct {
	Segment uint64        `json:"segment"`
	Offset  int64         `json:"offset"`
	Kind    string        `json:"kind"`
	Group   uint64        `json:"group"`
	Index   uint64        `json:"index"`
	Term    uint64        `json:"term"`
	Vote    uint64        `json:"vote,omitempty"`
	Type    string        `json:"type,omitempty"`
	Stamp   int64         `json:"stamp,omitempty"`   // Unix ms
	Replays *replayed     `json:"replays,omitempty"` // of a standby: where the entry stands in its source's log
	Sum     string        `json:"sum,omitempty"`     // SHA-256 of the entry's bytes, the first 16 hexadecimal digits; of a replay those that it replays
	Batches []dumpedBatch `json:"batches,omitempty"`
	Error   string        `json:"error,omitempty"`
	bytes   int
}

// replayed is a place in a source's log.
type replayed struct {
	Source string `json:"source"`
	Index  uint64 `json:"index"`
	Term   uint64 `json:"term"`
}

type dumpedBatch struct {
	Node        uint64          `json:"node"`
	Incarnation uint64          `json:"incarnation"` // 0 marks control commands
	Seq         uint64          `json:"seq"`
	Commands    []dumpedCommand `json:"commands"`
}

type dumpedCommand struct {
	Kind    string        `json:"kind"`
	Command entry.Command `json:"command"`
}

// describe is a record as it is shown, with the commands of an entry if they are wanted.
func describe(r *log.Record, commands bool) *dumped {
	d := &dumped{
		Segment: r.Segment, Offset: r.Offset, Kind: fmt.Sprint(r.Kind), Group: r.Group, Index: r.Index, Term: r.Term, Vote: r.Vote,
		bytes: len(r.Data),
	}
	if r.Kind != log.KindEntry {
		return d
	}
	d.Type = strings.TrimPrefix(r.Type.String(), "Entry")
	if r.Type == raftpb.EntryNormal {
		if data := d.unwrap(r.Data); commands && len(data) > 0 {
			d.decode(data)
		}
	}
	return d
}

// unwrap takes an entry's own bytes out of an envelope, if it is in one, and sums them up. It answers nil for raft's own, and for
// an envelope that cannot be read.
func (d *dumped) unwrap(data []byte) []byte {
	if entry.IsReplay(data) {
		x, err := entry.ReadReplay(data)
		if err != nil {
			d.Error = err.Error()
			return nil
		}
		d.Replays = &replayed{x.Source, x.Position.Index, x.Position.Term}
		data = x.Inner
	}
	if len(data) == 0 {
		return nil
	}
	sum := sha256.Sum256(data)
	d.Sum = hex.EncodeToString(sum[:8])
	return data
}

// decode reads an entry. One that cannot be read is shown with its error: that is what a dump is for.
func (d *dumped) decode(data []byte) {
	e, err := entry.Read(data)
	if err != nil {
		d.Error = err.Error()
		return
	}
	d.Stamp = e.Stamp
	for {
		b, ok := e.Next()
		if !ok {
			break
		}
		commands, err := decodeCommands(b.Commands)
		d.Batches = append(d.Batches, dumpedBatch{b.Node, b.Incarnation, b.Seq, commands})
		if err != nil {
			d.Error = err.Error()
		}
	}
	if err := e.Err(); err != nil {
		d.Error = err.Error()
	}
}

func decodeCommands(b []byte) (list []dumpedCommand, err error) {
	for len(b) > 0 {
		var cmd entry.Command
		if cmd, b, err = entry.Next(b); err != nil {
			return list, err
		}
		list = append(list, dumpedCommand{strings.TrimPrefix(fmt.Sprintf("%T", cmd), "*entry."), cmd})
	}
	return list, nil
}

// line is the record for people: where, what, and for an entry its batches with the commands counted by kind.
func (d *dumped) line() string {
	var s strings.Builder
	fmt.Fprintf(&s, "segment %d offset %d: %s group %d index %d term %d", d.Segment, d.Offset, d.Kind, d.Group, d.Index, d.Term)
	if d.Vote != 0 {
		fmt.Fprintf(&s, " vote %d", d.Vote)
	}
	if d.Type != "" {
		fmt.Fprintf(&s, " %s %d bytes", d.Type, d.bytes)
	}
	if d.Stamp != 0 {
		s.WriteString(" " + time.UnixMilli(d.Stamp).UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	if x := d.Replays; x != nil {
		fmt.Fprintf(&s, " | replays %s index %d term %d", x.Source, x.Index, x.Term)
	}
	for _, b := range d.Batches {
		fmt.Fprintf(&s, " | node %d incarnation %d seq %d:%s", b.Node, b.Incarnation, b.Seq, runs(b.Commands))
	}
	if d.Error != "" {
		s.WriteString(" | ERROR " + d.Error)
	}
	return s.String()
}

// runs names the kinds of commands in order, those that repeat with a count.
func runs(commands []dumpedCommand) string {
	var s strings.Builder
	for i := 0; i < len(commands); {
		n := 1
		for i+n < len(commands) && commands[i+n].Kind == commands[i].Kind {
			n++
		}
		s.WriteString(" " + commands[i].Kind)
		if n > 1 {
			fmt.Fprintf(&s, "*%d", n)
		}
		i += n
	}
	return s.String()
}
