package node

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/replication"
)

const (
	formInterval  = 25 * time.Millisecond // between looks at what the cluster still lacks
	proposalPause = 2 * time.Second       // before a proposal that has not been applied is made again
)

// form waits until the cluster has its id and its first vhost, proposing what is missing where this node leads, and
// then, once the node is registered, lets clients in.
func (n *Node) form(ctx context.Context) {
	tick := time.NewTicker(formInterval)
	defer tick.Stop()
	var proposed proposal
	for {
		if err := n.learn(); err != nil {
			n.o.Fatal(err)
			return
		}
		if n.Ready() == nil {
			n.serveClients()
			n.readyOnce.Do(func() { close(n.ready) })
			return
		}
		if !n.formed.Load() {
			n.propose(&proposed)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// learn takes note of what the groups' states say by now. An error: the cluster's id is not the folder's. A state that is
// still catching up says nothing yet: it may hold an id that was replaced later.
func (n *Node) learn() error {
	id := n.presentID()
	if _, behind := n.registered.missing([]uint64{systemGroup}); behind || id == "" {
		return nil
	}
	if err := n.folder.SetClusterID(id); err != nil {
		return err
	}
	n.clusterID.Store(&id)
	n.states[firstVhostGroup].View(func(m *core.Machine) {
		if slices.ContainsFunc(m.Vhosts(), func(v core.VhostInfo) bool { return v.Name == firstVhost }) {
			n.formed.Store(true)
		}
	})
	return nil
}

// proposal is the newest proposal of something that the cluster lacks.
type proposal struct {
	kind entry.Kind
	at   time.Time
}

// propose proposes the first thing that is missing, if this node leads the group that has to have it. Both commands do
// nothing when they come twice.
func (n *Node) propose(last *proposal) {
	group, cmd := uint64(systemGroup), entry.Command(&entry.ClusterInit{ID: uuid.NewString()})
	if n.presentID() != "" {
		group, cmd = firstVhostGroup, &entry.VhostCreate{ID: uuid.NewString(), Name: firstVhost}
	}
	g := n.raft.Group(group)
	if g.Status().Leader != n.cfg.NodeID || cmd.Kind() == last.kind && time.Since(last.at) < proposalPause {
		return
	}
	if err := g.Control(entry.Append(nil, cmd)); err != nil {
		n.log.Debug("proposal refused", "group", group, "error", err)
		return
	}
	*last = proposal{cmd.Kind(), time.Now()}
}

// presentID is the cluster's id as the system group's state has it.
func (n *Node) presentID() (id string) {
	n.states[systemGroup].View(func(m *core.Machine) { id = m.ClusterID() })
	return id
}

// dispatch hands effects to the broker.
func (n *Node) dispatch(group uint64, fx *core.Effects) { n.broker.Dispatch(group, fx) }

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
		Tick:     func() []byte { return entry.Append(nil, &entry.Tick{}) },
	}
}
