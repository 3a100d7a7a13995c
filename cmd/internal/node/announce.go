package node

import (
	"context"
	"slices"
	"time"

	"github.com/understudy-mq/understudy/amqp/v091"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
)

// The broker's own messages to clients: where its nodes are, and what became of sessions. Those for one queue come when it is
// bound to the exchange that tells; those for all that are bound come when something has changed, from the node that leads.

const (
	announceName     = "announcements"
	announcementsMax = 1024 // that wait; more are left out
	announceTimeout  = 5 * time.Second
	changesEvery     = time.Second // between looks whether something has changed
)

// toSay is one message of the broker's.
type toSay struct {
	vhost, exchange, key string
	properties, body     []byte
}

// sayToQueue sends a message to one queue, soon.
func (n *Node) sayToQueue(vhost, queue string, properties, body []byte) {
	select {
	case n.announcements <- toSay{vhost: vhost, key: queue, properties: properties, body: body}:
	default:
		n.log.Warn("an announcement is left out: too many wait", "vhost", vhost, "queue", queue)
	}
}

// speak sends what there is to say, and tells of changes.
func (n *Node) speak(ctx context.Context) {
	look := time.NewTicker(changesEvery)
	defer look.Stop()
	var told changes
	for {
		select {
		case m := <-n.announcements:
			n.say(ctx, m)
		case <-look.C:
			if n.Ready() == nil {
				n.tellChanges(ctx, &told)
			}
		case <-ctx.Done():
			return
		}
	}
}

// changes is what clients were told last.
type changes struct {
	hosts       []string
	generations map[uint64]uint64 // by group
}

// tellChanges tells what has changed since the last time, in the vhosts whose group this node leads.
func (n *Node) tellChanges(ctx context.Context, told *changes) {
	hosts := n.hosts()
	slices.Sort(hosts)
	moved := told.hosts != nil && !slices.Equal(told.hosts, hosts)
	told.hosts = hosts
	if told.generations == nil {
		told.generations = map[uint64]uint64{}
	}
	for _, id := range n.groups[1:] {
		var generation uint64
		var vhosts []core.VhostInfo
		n.states[id].View(func(m *core.Machine) { generation, vhosts = m.Link().Generation.Number, m.Vhosts() })
		before, known := told.generations[id]
		told.generations[id] = generation
		if n.raft.Group(id).Status().Leader != n.cfg.NodeID {
			continue
		}
		for _, v := range vhosts {
			if moved {
				for _, exchange := range []string{"amq.session", "amq.failover", "amq.qpid"} {
					key, properties, body := v091.AnnounceHosts(exchange, n.hosts())
					n.say(ctx, toSay{v.Name, exchange, key, properties, body})
				}
			}
			if known && before != generation {
				properties, body := v091.AnnounceGeneration(generation)
				n.say(ctx, toSay{v.Name, "amq.session", "generation", properties, body})
			}
		}
	}
}

// mute is an endpoint that waits for nothing.
type mute struct{}

func (mute) Events([]session.Event) {}
func (mute) Closed(*session.Error)  {}

// say publishes a message on a session of the broker's own.
func (n *Node) say(ctx context.Context, m toSay) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	s, err := n.broker.Attach(ctx, session.Attach{Vhost: m.vhost, Connection: announceName, Own: true}, mute{})
	if err != nil {
		n.log.Warn("cannot announce", "vhost", m.vhost, "key", m.key, "error", err)
		return
	}
	defer s.End()
	s.Do(&entry.ChannelOpen{Ref: entry.Ref{Channel: errandChannel}})
	s.Publish(errandChannel, false, false, &message.Record{
		Form: message.FormAMQP091, Exchange: []byte(m.exchange), RoutingKey: []byte(m.key), Properties: m.properties,
		BodySize: uint64(len(m.body)), Body: m.body,
	})
}
