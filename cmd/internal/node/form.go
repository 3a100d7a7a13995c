package node

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/vhosts"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/replication"
	"github.com/understudy-mq/understudy/session/auth"
)

const (
	formInterval  = 25 * time.Millisecond // between looks at what the cluster still lacks
	proposalPause = 2 * time.Second       // before a proposal that has not been applied is made again
)

// form waits until the cluster has its id, its first vhost and its first user, proposing what is missing where this node leads, and
// then, once the node is registered, lets clients in.
func (n *Node) form(ctx context.Context) {
	tick := time.NewTicker(formInterval)
	defer tick.Stop()
	var proposed proposal
	for {
		var changed <-chan struct{} // what was proposed may have come; asked for before anybody looks
		if !proposed.at.IsZero() {
			changed = n.raft.Group(proposed.group).Changed()
		}
		if err := n.learn(); err != nil {
			n.o.Fatal(err)
			return
		}
		if _, deaf := n.registered.missing(n.groups); n.formed.Load() && !deaf {
			n.loadDefinitions(ctx)
		}
		if n.Ready() == nil {
			n.served.Store(n.formed.Load())
			n.serveClients()
			n.readyOnce.Do(func() { close(n.ready) })
			return
		}
		switch {
		case n.standsBy():
			n.formStandby(&proposed)
		case !n.formed.Load():
			n.propose(&proposed)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

// learn takes note of what the groups' states say by now. An error: the cluster's id is not the folder's. A state that is
// still catching up says nothing yet: it may hold an id that was replaced later.
func (n *Node) learn() error {
	id := n.presentID()
	_, behind := n.registered.missing([]uint64{systemGroup})
	if n.standsBy() { // it registers nobody
		behind = n.raft.Group(systemGroup).Status().Leader == 0
	}
	if behind || id == "" {
		return nil
	}
	if err := n.folder.SetClusterID(id); err != nil {
		return err
	}
	n.clusterID.Store(&id)
	if !n.standsBy() && n.servesFirstVhost() && n.hasUsers() {
		n.accounts.refresh()
		n.formed.Store(true)
	}
	return nil
}

// servesFirstVhost says whether the first vhost is there, or was: it may have been deleted.
func (n *Node) servesFirstVhost() bool {
	v, there, ever := n.registeredFirst()
	return ever && (!there || n.holds(v))
}

// registeredFirst is the first vhost as the system group has it, and whether any vhost was ever registered.
func (n *Node) registeredFirst() (v core.RegisteredVhost, there, ever bool) {
	n.states[systemGroup].View(func(m *core.Machine) {
		if ever = m.VhostsGeneration() > 0; ever {
			v, there = m.RegisteredVhost(firstVhost)
		}
	})
	return v, there, ever
}

func (n *Node) hasUsers() (has bool) {
	n.states[systemGroup].View(func(m *core.Machine) { has = len(m.Users()) > 0 })
	return has
}

// proposal is the newest proposal of something that the cluster lacks.
type proposal struct {
	kind  entry.Kind
	group uint64
	at    time.Time
}

// missing answers the kind of the first thing that is missing, the group that has to have it, and what makes the command.
// The commands do nothing when they come twice.
func (n *Node) missing() (kind entry.Kind, group uint64, command func() entry.Command) {
	switch {
	case n.presentID() == "":
		return entry.KindClusterInit, systemGroup, func() entry.Command { return &entry.ClusterInit{ID: uuid.NewString()} }
	case !n.servesFirstVhost():
		return n.missingVhost()
	}
	return entry.KindUserPut, systemGroup, n.firstUser
}

// missingVhost is missing for the first vhost. A data group may have it already: it did before the system group knew of
// vhosts.
func (n *Node) missingVhost() (kind entry.Kind, group uint64, command func() entry.Command) {
	v, _, ever := n.registeredFirst()
	if ever {
		return entry.KindVhostCreate, v.Group, func() entry.Command { return vhosts.Create(v) }
	}
	if h, group := n.heldFirst(); group != 0 {
		return entry.KindVhostFound, systemGroup, func() entry.Command {
			return &entry.VhostFound{ID: h.ID, Name: h.Name, QueueType: h.QueueType, Group: group}
		}
	}
	return entry.KindVhostPut, systemGroup, func() entry.Command {
		return &entry.VhostPut{ID: uuid.NewString(), Name: firstVhost, Groups: n.dataGroups(), First: true}
	}
}

// heldFirst finds the first vhost among the data groups' own.
func (n *Node) heldFirst() (core.HeldVhost, uint64) {
	for group, list := range n.held() {
		if i := slices.IndexFunc(list, func(h core.HeldVhost) bool { return h.Name == firstVhost }); i >= 0 {
			return list[i], group
		}
	}
	return core.HeldVhost{}, 0
}

// firstUser is the administrator that a cluster starts with, who may do everything in the first vhost.
func (n *Node) firstUser() entry.Command {
	return &entry.UserPut{
		Name: n.cfg.DefaultUser, Hash: auth.HashSlowly(n.cfg.DefaultPass), Algorithm: auth.AlgorithmSlow, Tags: admin.TagAdministrator,
		FirstIn: firstVhost,
	}
}

// propose proposes the first thing that is missing, if this node leads the group that has to have it and knows what the
// others hold.
func (n *Node) propose(last *proposal) {
	if _, behind := n.registered.missing(n.groups); behind {
		return
	}
	kind, group, command := n.missing()
	g := n.raft.Group(group)
	if g.Status().Leader != n.cfg.NodeID || kind == last.kind && time.Since(last.at) < proposalPause {
		return
	}
	if err := g.Control(entry.Append(nil, command())); err != nil {
		n.log.Debug("proposal refused", "group", group, "error", err)
		return
	}
	*last = proposal{kind, group, time.Now()}
}

// presentID is the cluster's id as the system group's state has it.
func (n *Node) presentID() (id string) {
	n.states[systemGroup].View(func(m *core.Machine) { id = m.ClusterID() })
	return id
}

// dispatch hands effects to the broker.
func (n *Node) dispatch(group uint64, fx *core.Effects) {
	if fx.Linked {
		n.linkChanges(fx)
	}
	if group == systemGroup {
		n.accounts.applied(n.cfg.NodeID, fx)
		return
	}
	n.gate.Dispatch(group, fx)
}

// codec lets replication frame entries without knowing them.
func codec() replication.Codec {
	return replication.Codec{
		AppendHeader: entry.AppendHeader,
		AppendBatch:  entry.AppendBatch,
		NodeUp:       func(node, nonce uint64) []byte { return entry.Append(nil, &entry.NodeUp{Node: node, Nonce: nonce}) },
		NodeDown: func(node, incarnation uint64) []byte {
			return entry.Append(nil, &entry.NodeDown{Node: node, Incarnation: incarnation})
		},
		LeaderUp: func(node, term uint64) []byte { return entry.Append(nil, &entry.LeaderUp{Node: node, Term: term}) },
		Hash:     entry.Hash,
		Tick:     func() []byte { return entry.Append(nil, &entry.Tick{}) },
	}
}
