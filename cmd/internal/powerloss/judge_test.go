package powerloss

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// judge looks at what a cluster holds, through node n: each client's queues must be in a state that they may be in.
func (c *cluster) judge(ctx context.Context, n *node, clients []bounds) error {
	var errs []error
	for vhost := range vhosts {
		found, err := n.inventory(ctx, vhost)
		if err != nil {
			errs = append(errs, fmt.Errorf("vhost %s of node %d: %w", vhost, n.id, err))
			continue
		}
		for _, b := range clients {
			if b.vhost != vhost {
				continue
			}
			own := contents{}
			for name, ids := range found {
				if b.owns(name) {
					own[name] = ids
					delete(found, name)
				}
			}
			if text := b.judge(own); text != "" {
				errs = append(errs, fmt.Errorf("as node %d has it: %s", n.id, text))
			}
		}
		if len(found) > 0 {
			errs = append(errs, fmt.Errorf("vhost %s of node %d has what nobody made: %v", vhost, n.id, found))
		}
	}
	return errors.Join(errs...)
}

// owns says whether a queue, exchange or binding is one of the client's.
func (b bounds) owns(name string) bool {
	return slices.ContainsFunc(b.asked, func(x change) bool { return x.what == declare && x.queues[0] == name })
}

// inventory reads all queues, exchanges and bindings of a vhost, and every message's body. It attaches before it looks: what anybody was
// promised before is applied here then, also where the node follows.
func (n *node) inventory(ctx context.Context, vhost string) (contents, error) {
	if !n.hasVhost(vhost) {
		return nil, nil
	}
	r := newClient(ctx, n.broker, "the judge", vhost)
	if err := r.attach(); err != nil {
		return nil, err
	}
	defer r.leave()
	group := n.states[vhosts[vhost]]
	found := contents{}
	var queues []core.QueueInfo
	if err := waitFor("deliveries of before the crash return to their queues", func() bool {
		group.View(func(m *core.Machine) { queues = m.Queues(vhost) })
		return !slices.ContainsFunc(queues, func(q core.QueueInfo) bool { return q.Unacknowledged > 0 })
	}); err != nil {
		return nil, err
	}
	group.View(func(m *core.Machine) {
		for _, x := range m.Exchanges(vhost) {
			if x.Name != "" && !strings.HasPrefix(x.Name, "amq.") {
				found[x.Name] = nil
			}
		}
		for _, b := range m.Bindings(vhost) {
			found[binding(b.Source, b.Destination)] = nil
		}
	})
	for _, q := range queues {
		ids, err := r.readAll(q)
		if err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.Name, err)
		}
		found[q.Name] = ids
	}
	return found, nil
}

// readAll reads a queue's messages, in order, and leaves them in flight.
func (c *client) readAll(q core.QueueInfo) ([]uint64, error) {
	c.call(&entry.Qos{Ref: entry.Ref{Channel: channel}, Prefetch: 1 << 20})
	if err := c.callAndWait(&entry.Consume{Ref: entry.Ref{Channel: channel}, Queue: q.Name, Tag: q.Name}); err != nil {
		return nil, err
	}
	came, err := c.take(q.Ready)
	var ids []uint64
	for _, a := range came {
		ids = append(ids, a.id)
	}
	return ids, err
}

// checkFingerprint compares the fingerprints that are kept up with those from scratch.
func (n *node) checkFingerprint() error {
	for id, g := range n.states {
		var err error
		g.View(func(m *core.Machine) {
			if kept, scratch := m.Fingerprint(), m.Recompute(); kept != scratch {
				err = fmt.Errorf("node %d, group %d: fingerprint %x, from scratch %x", n.id, id, kept, scratch)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// goesOn publishes a message and takes it out again: the node is of use.
func (n *node) goesOn(ctx context.Context, vhost string) error {
	if !n.hasVhost(vhost) {
		return nil
	}
	c := newClient(ctx, n.broker, "the probe", vhost)
	if err := c.attach(); err != nil {
		return err
	}
	defer c.leave()
	s := newScript(c, 99, 1)
	s.call(&entry.QueueDeclare{Ref: s.ref(), Name: "probe", Durable: true})
	s.change(change{what: publish, ids: []uint64{99}})
	s.publish("", "probe", makeBody(99, 100), 0)
	if err := s.confirmed(); err != nil {
		return err
	}
	s.call(&entry.Get{Ref: s.ref(), Queue: "probe", NoAck: true})
	came, err := s.take(1)
	if err == nil && came[0].id != 99 {
		err = fmt.Errorf("probe: got %v", came)
	}
	if err != nil {
		return err
	}
	return s.callAndWait(&entry.QueueDelete{Ref: s.ref(), Name: "probe"})
}

// agree waits until all nodes have applied the same entries, and compares their fingerprints.
func (c *cluster) agree() error {
	for _, id := range groups {
		var last string
		err := waitFor(fmt.Sprintf("all nodes have applied the same entries of group %d", id), func() bool {
			var at, print uint64
			for _, n := range c.nodes {
				before, _ := n.states[id].Applied()
				p := n.states[id].Fingerprint()
				after, _ := n.states[id].Applied()
				if at == 0 {
					at, print = before, p
				}
				if before != after || before != at {
					return false
				}
				if p != print {
					last = fmt.Sprintf("group %d: fingerprints differ at entry %d: %x and %x", id, at, print, p)
				}
			}
			return true
		})
		if err != nil {
			return err
		}
		if last != "" {
			return errors.New(last)
		}
	}
	return nil
}
