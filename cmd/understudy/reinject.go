package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/node"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/core/store"
	"github.com/understudy-mq/understudy/replication/log"
)

const (
	// unplaced is the queue for what went nowhere, as far as the former source's state can tell.
	unplaced = "lost-tail.unplaced"
	// piecesBytesMax bounds the pieces of large messages whose end has not come yet.
	piecesBytesMax = 512 << 20
	// quarantineKept is how long the session that knows what was put in is kept, in seconds: a week.
	quarantineKept = "604800"
	// unconfirmedMax is how many messages are published ahead of their confirms.
	unconfirmedMax = 256
	// placesBits is how much of a sequence is the place in an entry.
	placesBits = 20
)

// lostPublish is a publish of the tail.
type lostPublish struct {
	group, index uint64
	place        int // among the entry's messages, one for each queue
	vhost        string
	message.Record
}

// study is a group of the former source as its state was when it stopped, on the way there.
type study struct {
	m       *core.Machine
	applied uint64
}

// reinjector follows the tail through the former source's state and puts its publishes into the quarantine.
type reinjector struct {
	groups      map[uint64]*study
	cuts        map[uint64]uint64
	pieces      map[entry.Ref][]byte
	piecesBytes int
	to          *quarantine
}

// reinject puts the tail's publishes into vhost into.
func (c *client) reinject(t *tail, source, into, broker string) error {
	x := reinjector{groups: map[uint64]*study{}, cuts: t.cuts, pieces: map[entry.Ref][]byte{}}
	from := map[uint64]uint64{}
	for group, cut := range t.cuts {
		m, applied, err := store.Study(vfs.Default, filepath.Join(t.data, node.StoreDir), group)
		if err != nil {
			return err
		}
		x.groups[group], from[group] = &study{m, applied}, min(cut, applied)
	}
	if err := c.quarantineVhost(source, into); err != nil {
		return err
	}
	var err error
	if x.to, err = openQuarantine(broker, source, into); err != nil {
		return err
	}
	defer x.to.conn.Close()
	if err := t.each(from, x.entry); err != nil {
		return err
	}
	if err := x.to.settle(0); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "put %d messages into vhost %s; %d were there already\n", x.to.fresh, into, x.to.repeated)
	return err
}

// quarantineVhost makes the vhost, or sees to it that the one of that name is such a quarantine.
func (c *client) quarantineVhost(source, name string) error {
	what := "publishes that only the former source " + source + " had"
	b, err := c.do(http.MethodGet, vhostPath(name), nil)
	if err != nil {
		return put(c, vhostPath(name), api.NewVhost{Description: &what})
	}
	var v api.Vhost
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("answer from %s is not understood: %w", c.url, err)
	}
	if v.Description != what {
		return usageError{fmt.Errorf("--into %s: that vhost is there for something else: name one for the quarantine alone", name)}
	}
	return nil
}

// entry takes one entry of the log.
func (x *reinjector) entry(r *log.Record) error {
	var lost []*entry.Publish
	var vhosts []string
	s := x.groups[r.Group]
	err := commandsOf(r, func(cmd entry.Command) error {
		switch cmd := cmd.(type) {
		case *entry.Fragment:
			return x.piece(cmd)
		case *entry.Publish:
			if r.Index > x.cuts[r.Group] {
				lost, vhosts = append(lost, cmd), append(vhosts, s.vhostOf(cmd.Session))
			} else {
				x.takePieces(cmd)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if r.Index > s.applied {
		if err := s.m.Apply(r.Index, r.Data, &core.Effects{}); err != nil {
			return fmt.Errorf("the former source's state: %w", err)
		}
	}
	place := 0
	for i, cmd := range lost {
		p := lostPublish{group: r.Group, index: r.Index, vhost: vhosts[i]}
		if place, err = x.publish(&p, cmd, place); err != nil {
			return err
		}
	}
	return nil
}

// commandsOf visits the commands of an entry but for those that it replays: they were another source's, before the cut.
func commandsOf(r *log.Record, visit func(entry.Command) error) error {
	if entry.IsReplay(r.Data) {
		return nil
	}
	return eachCommand(r, func(_ int64, _ uint64, cmd entry.Command) error { return visit(cmd) })
}

// publish puts a publish into the quarantine, once for each queue. It answers the place of the next one.
func (x *reinjector) publish(p *lostPublish, cmd *entry.Publish, place int) (int, error) {
	if err := message.ParseRecord(cmd.Record, &p.Record); err != nil {
		return 0, fmt.Errorf("group %d entry %d: %w", p.group, p.index, err)
	}
	p.Body = append(x.takePieces(cmd), p.Body...)
	queues, err := x.groups[p.group].m.Destinations(p.vhost, cmd.Record)
	if err != nil || len(queues) == 0 {
		queues = []string{unplaced}
	}
	for _, queue := range queues {
		p.place = place
		if err := x.to.put(p, queue); err != nil {
			return 0, err
		}
		place++
	}
	return place, nil
}

// vhostOf is the vhost of a session. Of one that the state does not know, since it ended before the newest checkpoint, the
// group tells where it has one vhost only; "" if nothing does.
func (s *study) vhostOf(session uint64) string {
	if name := s.m.SessionVhost(session); name != "" {
		return name
	}
	if all := s.m.Vhosts(); len(all) == 1 {
		return all[0].Name
	}
	return ""
}

// piece keeps a piece of a large message until its publish comes.
func (x *reinjector) piece(f *entry.Fragment) error {
	if x.piecesBytes += len(f.Piece); x.piecesBytes > piecesBytesMax {
		return fmt.Errorf("large messages that were never finished have more than %d bytes in the tail: print it and choose by hand", piecesBytesMax)
	}
	x.pieces[f.Ref] = append(x.pieces[f.Ref], f.Piece...)
	return nil
}

// takePieces is the body up to what is in the publish itself.
func (x *reinjector) takePieces(cmd *entry.Publish) []byte {
	if !cmd.Fragmented {
		return nil
	}
	b := x.pieces[cmd.Ref]
	delete(x.pieces, cmd.Ref)
	x.piecesBytes -= len(b)
	return b
}

// quarantine is the vhost that the tail goes to, under a named session which remembers what it has had.
type quarantine struct {
	conn            *amqp.Connection
	ch              *amqp.Channel
	queues          map[string]bool   // declared
	last            map[string]uint64 // sequence by publisher: all up to it are in
	unconfirmed     []sent
	fresh, repeated int
}

// sent is a message that is not confirmed yet.
type sent struct {
	*amqp.DeferredConfirmation
	entry, queue string
}

func openQuarantine(broker, source, vhost string) (*quarantine, error) {
	properties := amqp.NewConnectionProperties()
	properties["connection_name"] = "understudy link lost-tail"
	properties["x-session-id"] = "lost-tail of " + source
	properties["x-session-expiry"] = quarantineKept
	properties["x-session-on-close"] = "keep"
	conn, err := amqp.DialConfig(broker, amqp.Config{Vhost: vhost, Dial: amqp.DefaultDial(dialTimeout), Properties: properties})
	if err != nil {
		return nil, fmt.Errorf("connect to vhost %s: %w (--amqp-url names broker, user and password)", vhost, err)
	}
	q := &quarantine{conn: conn, queues: map[string]bool{}, last: map[string]uint64{}}
	if err := q.open(); err != nil {
		conn.Close() //nolint:errcheck // the error at hand is the one to tell
		return nil, fmt.Errorf("vhost %s: %w", vhost, err)
	}
	return q, nil
}

// open opens the channel and asks what was put in before.
func (q *quarantine) open() (err error) {
	if q.ch, err = q.conn.Channel(); err != nil {
		return err
	}
	if err := q.ch.Confirm(false); err != nil {
		return err
	}
	d, ok, err := q.ch.Get("amq.session", true)
	if err != nil || !ok {
		return fmt.Errorf("ask what was put in before: %w", cmp.Or(err, errors.New("there is no answer")))
	}
	var known struct {
		Publishers []struct {
			Name string `json:"name"`
			Last uint64 `json:"last_sequence"`
		} `json:"publishers"`
	}
	if err := json.Unmarshal(d.Body, &known); err != nil {
		return fmt.Errorf("ask what was put in before: %w", err)
	}
	for _, p := range known.Publishers {
		q.last[p.Name] = p.Last
	}
	return nil
}

// put publishes a message to a queue, which it makes, unless it is there.
func (q *quarantine) put(p *lostPublish, queue string) error {
	publisher, sequence := fmt.Sprintf("group %d", p.group), p.index<<placesBits|uint64(p.place)
	if sequence <= q.last[publisher] {
		q.repeated++
		return nil
	}
	if !q.queues[queue] {
		if _, err := q.ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
			return fmt.Errorf("queue %s: %w", queue, err)
		}
		q.queues[queue] = true
	}
	m, err := p.publishing()
	if err != nil {
		return fmt.Errorf("group %d entry %d: %w", p.group, p.index, err)
	}
	m.Headers["x-pub-name"], m.Headers["x-pub-seq"] = publisher, int64(sequence)
	confirm, err := q.ch.PublishWithDeferredConfirm("", queue, true, false, m)
	if err != nil {
		return err
	}
	q.fresh++
	q.unconfirmed = append(q.unconfirmed, sent{confirm, p.entry(), queue})
	return q.settle(unconfirmedMax)
}

// settle waits until no more than left messages are unconfirmed.
func (q *quarantine) settle(left int) error {
	ctx, cancel := context.WithTimeout(context.Background(), confirmTimeout)
	defer cancel()
	for len(q.unconfirmed) > left {
		next := q.unconfirmed[0]
		ok, err := next.WaitContext(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("not confirmed within %v; run it again, it goes on where it was", confirmTimeout)
		case !ok && q.conn.IsClosed():
			return errors.New("the connection was lost; run it again, it goes on where it was")
		case !ok:
			return fmt.Errorf("queue %s refused entry %s, and may have taken others after it: see which policy limits it, "+
				"delete the vhost and run it again", next.queue, next.entry)
		}
		q.unconfirmed = slices.Delete(q.unconfirmed, 0, 1)
	}
	return nil
}
