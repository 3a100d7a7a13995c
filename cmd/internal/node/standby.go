package node

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session"
)

// standbyReason is what clients of a standby are told.
const standbyReason = "standby, not promoted"

// errChangesNothing is what callers of a standby's admin API are told who want something changed.
var errChangesNothing = admin.Unavailable{Err: errors.New(standbyReason + ": it takes what its source has")}

// formStandby proposes a standby's cluster id where this node leads the system group; everything else comes from the source.
func (n *Node) formStandby(last *proposal) {
	g := n.raft.Group(systemGroup)
	if n.presentID() != "" || g.Status().Leader != n.cfg.NodeID || time.Since(last.at) < proposalPause {
		return
	}
	id := n.folder.Identity().ClusterID // a seed's is known beforehand
	if id == "" {
		id = uuid.NewString()
	}
	if err := g.ControlLocal(entry.Append(nil, &entry.ClusterInit{ID: id})); err != nil {
		n.log.Debug("proposal refused", "group", systemGroup, "error", err)
		return
	}
	last.at = time.Now()
}

// standbyReady is Ready of a standby: it follows its source, or waits for it. What the groups' states say of the cluster's id has to
// have been taken note of (learn): without it nobody is asked for entries, and the groups that this node leads are attached to nothing.
func (n *Node) standbyReady() error {
	if id := n.presentID(); id == "" || id != n.ClusterID() {
		return errors.New("standby is forming")
	}
	for _, g := range n.groups {
		if n.raft.Group(g).Status().Leader == 0 {
			return errors.New("a group of the standby has no leader")
		}
	}
	return nil
}

// parkedMax bounds the clients that wait at a node for a promotion: fewer than there may be handshakes at a time
// (amqp.Options.HandshakesMax), so that those beyond it are still told where they are.
const parkedMax = 512

// admit keeps a client out once this cluster is fenced, also of groups that the fence has not come to yet; and while it is
// a standby, or has it wait until it is none.
func (n *Node) admit(ctx context.Context) error {
	if gate := n.linkState(systemGroup).Gate; gate.Fenced {
		return &session.Error{Code: core.CodeConnectionForced, Text: gate.Reason()}
	}
	refusal := &session.Error{Code: core.CodeConnectionForced, Text: standbyReason}
	if n.standsBy() {
		if n.cfg.StandbyClients != config.ClientsPark {
			return refusal
		}
		defer n.linkage.parked.Add(-1)
		if n.linkage.parked.Add(1) > parkedMax {
			return refusal
		}
	}
	for n.standsBy() || n.promotedLately() {
		select {
		case <-n.raft.Group(systemGroup).Changed():
		case <-time.After(formInterval):
		case <-ctx.Done():
			return refusal
		}
		if n.draining.Load() {
			return refusal
		}
	}
	return nil
}

// promotedLately says whether the cluster was promoted and this node has not served since: it is not registered in every group
// yet. Later it is as any other node: one that has lost a group's leader serves the others' vhosts, and lets nobody wait.
func (n *Node) promotedLately() bool {
	return !n.served.Load() && n.linkState(systemGroup).Role == core.RolePromoted
}

// noUsersYet says whether this is a standby to which its source's users have not come: it cannot judge passwords.
func (n *Node) noUsersYet() bool { return n.standsBy() && n.accounts.registry.Generation() == 0 }

// linkChanges looks for changes of a group's part in the link among effects.
func (n *Node) linkChanges(fx *core.Effects) {
	for i := range fx.List {
		if e := &fx.List[i]; e.Kind == core.EffectLink {
			n.linkChanged(e)
		}
	}
}

// linkChanged reacts to a change of a group's part in the link, in its apply goroutine.
func (n *Node) linkChanged(e *core.Effect) {
	switch e.Command {
	case entry.KindLinkFence, entry.KindLinkFenced:
		if n.clients != nil {
			n.clients.CloseAll(e.Text)
		}
	}
}
