package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/node"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/replication/log"
)

func lostTailCommand() *cobra.Command {
	var data, into string
	var broker *string
	cmd := verb("lost-tail", "Print what a former source's log has beyond the cut of the promotion, or put its publishes in a quarantine", cobra.NoArgs,
		func(c *client, _ []string) error { return c.lostTail(data, into, *broker) })
	cmd.Long = `Print, as JSON lines, what the log in a stopped node's data folder has beyond the entry at which its standby was cut: the
tail that the promoted cluster does not have. --admin-url names a node of the promoted cluster, which tells the cuts. A line
is a command: a publish has exchange, routing key, message id, session and body (base64; of a large message the last piece),
others their fields. The log's very end may hold what was never confirmed. Of a cluster of several nodes ask each one's folder:
the logs are the same but end at different entries.

With --into VHOST nothing is printed: the tail's publishes are put into that vhost of the promoted cluster (--amqp-url), which is
made if need be and must be for that alone. Each goes to plain durable queues named as those it was routed
to, or to lost-tail.unplaced where that cannot be told, with its properties and body and these headers: x-lost-vhost,
x-lost-exchange, x-lost-routing-key, and x-lost-entry with its group, entry and place there. What would act on it again is
moved to headers with x-lost- before their names: expiration, user-id, CC, BCC and ids to recognise a repeated publish.
Messages that were settled in the tail, or belong to a transaction that was not committed, are among them. Asked for again, it goes on
after what it has put there, for as long as the cluster keeps its session (--session-expiry-max, a day unless set; a week at most).`
	cmd.Flags().StringVar(&data, "data", "", "data folder of a node of the former source; it must not run")
	cmd.Flags().StringVar(&into, "into", "", "vhost to put the tail's publishes into, instead of printing")
	broker = amqpFlags(cmd)
	return cmd
}

// lostCommand is a line of lost-tail.
type lostCommand struct {
	Group      uint64        `json:"group"`
	Index      uint64        `json:"index"`
	Term       uint64        `json:"term"`
	Stamp      int64         `json:"stamp"` // Unix ms
	Node       uint64        `json:"node"`
	Command    string        `json:"command"`
	Session    uint64        `json:"session,omitempty"`
	Exchange   *string       `json:"exchange,omitempty"`
	RoutingKey string        `json:"routing_key,omitempty"`
	MessageID  string        `json:"message_id,omitempty"`
	Body       []byte        `json:"body,omitempty"`
	Fields     entry.Command `json:"fields,omitempty"`
}

func (c *client) lostTail(data, into, broker string) error {
	if data == "" {
		return usageError{errors.New("--data must name the data folder of a node of the former source")}
	}
	folder, err := node.OpenUsedFolder(nil, data)
	if err != nil {
		return err
	}
	defer folder.Close()
	c.json = false
	var p api.Promotion
	if _, err := c.get("/api/link/promotion", &p); err != nil {
		return fmt.Errorf("the cuts of the promotion: %w (--admin-url must name a node of the promoted cluster)", err)
	}
	if id := folder.Identity().ClusterID; id != p.Source {
		return fmt.Errorf("%s is of cluster %q, the promoted cluster's source was %s", data, id, p.Source)
	}
	t := tail{data: data, cuts: map[uint64]uint64{}}
	for _, g := range p.Groups {
		t.cuts[g.Group] = g.Position.Index
	}
	if into != "" {
		return c.reinject(&t, p.Source, into, broker)
	}
	out := json.NewEncoder(c.out)
	return t.each(t.cuts, func(r *log.Record) error { return tellLost(out, r) })
}

// tail is what a former source's log has beyond the cuts, by group.
type tail struct {
	data string
	cuts map[uint64]uint64
}

// each visits the entries with commands beyond an index of each group, in a group's order. Of entries that the log has of
// several terms the last counts.
func (t *tail) each(beyond map[uint64]uint64, visit func(*log.Record) error) error {
	type place struct {
		segment uint64
		offset  int64
	}
	standing := map[uint64]map[uint64]place{}
	entries := func(visit func(*log.Record) error) error {
		return log.Dump(vfs.Default, filepath.Join(t.data, node.LogDir), func(r log.Record) error {
			if after, known := beyond[r.Group]; r.Kind != log.KindEntry || !known || r.Index <= after {
				return nil
			}
			return visit(&r)
		})
	}
	err := entries(func(r *log.Record) error {
		g := standing[r.Group]
		if g == nil {
			g = map[uint64]place{}
			standing[r.Group] = g
		}
		g[r.Index] = place{r.Segment, r.Offset}
		for i := r.Index + 1; len(g) > 0 && g[i] != (place{}); i++ { // an entry supersedes all behind it
			delete(g, i)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return entries(func(r *log.Record) error {
		if r.Type != raftpb.EntryNormal || len(r.Data) == 0 || standing[r.Group][r.Index] != (place{r.Segment, r.Offset}) {
			return nil
		}
		return visit(r)
	})
}

// eachCommand visits the commands of an entry.
func eachCommand(r *log.Record, visit func(stamp int64, node uint64, cmd entry.Command) error) error {
	e, err := entry.Read(r.Data)
	if err != nil {
		return fmt.Errorf("group %d entry %d: %w", r.Group, r.Index, err)
	}
	for b, ok := e.Next(); ok; b, ok = e.Next() {
		for rest := b.Commands; len(rest) > 0; {
			var cmd entry.Command
			if cmd, rest, err = entry.Next(rest); err != nil {
				return fmt.Errorf("group %d entry %d: %w", r.Group, r.Index, err)
			}
			if err := visit(e.Stamp, b.Node, cmd); err != nil {
				return err
			}
		}
	}
	return e.Err()
}

// tellLost prints the commands of an entry.
func tellLost(out *json.Encoder, r *log.Record) error {
	return eachCommand(r, func(stamp int64, node uint64, cmd entry.Command) error {
		l := lostCommand{Group: r.Group, Index: r.Index, Term: r.Term, Stamp: stamp, Node: node}
		l.describe(cmd)
		return out.Encode(l)
	})
}

// describe fills in what a command says; a publish is taken apart.
func (l *lostCommand) describe(cmd entry.Command) {
	l.Command = strings.TrimPrefix(fmt.Sprintf("%T", cmd), "*entry.")
	x, ok := cmd.(*entry.Publish)
	var m message.Record
	if !ok || message.ParseRecord(x.Record, &m) != nil {
		l.Fields = cmd
		return
	}
	exchange := string(m.Exchange)
	l.Session, l.Exchange, l.RoutingKey, l.Body = x.Session, &exchange, string(m.RoutingKey), m.Body
	if p, err := message.ParseProperties(m.Properties); err == nil {
		l.MessageID = p.MessageID
	}
}
