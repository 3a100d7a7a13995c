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
	told := map[uint64]standing{}
	for {
		select {
		case m := <-n.announcements:
			n.say(ctx, m)
		case <-look.C:
			if n.Ready() == nil {
				n.tellChanges(ctx, told)
			}
		case <-ctx.Done():
			return
		}
	}
}

// standing is what clients of a group's vhosts were told last.
type standing struct {
	hosts      []string
	generation uint64
}

// tellChanges tells what has changed since the last time, in the vhosts whose group this node leads. One that has just begun to lead
// does not know what its clients were told, and tells them.
func (n *Node) tellChanges(ctx context.Context, told map[uint64]standing) {
	hosts := n.hosts()
	for _, id := range n.groups[1:] {
		now, speaks := standing{hosts: hosts}, n.raft.Group(id).Status().Leader == n.cfg.NodeID
		n.states[id].View(func(m *core.Machine) {
			link := m.Link()
			now.generation = link.Generation.Number
			speaks = speaks && link.Role != core.RoleStandby // its clients are the source's
		})
		if !speaks {
			delete(told, id)
			continue
		}
		before, known := told[id]
		told[id] = now
		moved, promoted := !known || !slices.Equal(before.hosts, hosts), !known || before.generation != now.generation
		if !moved && !promoted {
			continue
		}
		for _, vhost := range n.listening(id) {
			n.tell(ctx, vhost, now, moved, promoted)
		}
	}
}

// listening are the vhosts of a group in which something is bound to an exchange of the broker's own.
func (n *Node) listening(group uint64) (names []string) {
	n.states[group].View(func(m *core.Machine) {
		for _, v := range m.Vhosts() {
			if slices.ContainsFunc(m.Bindings(v.Name), func(b core.BindingInfo) bool { return session.Announces(b.Source) }) {
				names = append(names, v.Name)
			}
		}
	})
	return names
}

func (n *Node) tell(ctx context.Context, vhost string, now standing, moved, promoted bool) {
	if moved {
		for _, exchange := range []string{"amq.session", "amq.failover", "amq.qpid"} {
			key, properties, body := v091.AnnounceHosts(exchange, now.hosts)
			n.say(ctx, toSay{vhost, exchange, key, properties, body})
		}
	}
	if promoted {
		properties, body := v091.AnnounceGeneration(now.generation)
		n.say(ctx, toSay{vhost, "amq.session", "generation", properties, body})
	}
}

// mute is an endpoint that waits for nothing.
type mute struct{}

func (mute) Events([]session.Event) {}
func (mute) Closed(*session.Error)  {}
func (mute) Ending() bool           { return false }

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
