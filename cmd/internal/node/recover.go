package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/replication"
)

const (
	recoverTimeout = 2 * time.Minute
	recoverPoll    = 10 * time.Millisecond
)

// Recovered says what ForceNewCluster has made.
type Recovered struct {
	Former, ClusterID string
	Groups            []replication.Status
}

// ForceNewCluster makes the node of a data folder the only voter of every group, under a new cluster id, so that it can
// serve by itself after a majority was lost for ever. What the others had and this node's log has not is lost; what its
// log has beyond what was committed becomes committed. The node must not run (the folder is locked), and the others must
// never run again with their data: the new cluster id keeps them away.
//
// Errors leave the folder so that it can be called again. o.Config needs Data, NodeID and Peer.
func ForceNewCluster(ctx context.Context, o Options) (Recovered, error) {
	folder, err := OpenUsedFolder(o.FS, o.Config.Data)
	if err != nil {
		return Recovered{}, err
	}
	o.Config.NodeID, o.Config.Groups, o.Config.Cluster = folder.Identity().NodeID, folder.Identity().Groups, ""
	n := newNode(o, folder)
	r, err := n.recover(ctx)
	return r, errors.Join(err, n.release())
}

func (n *Node) recover(ctx context.Context) (r Recovered, err error) {
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	if err := n.claim(ctx, nil); err != nil {
		return r, err
	}
	if err := n.openStore(); err != nil {
		return r, err
	}
	for id, g := range n.states {
		if err := n.stayAlone(g); err != nil {
			return r, fmt.Errorf("group %d: %w", id, err)
		}
	}
	if err := n.startRaft(""); err != nil {
		return r, err
	}
	r.Former = n.presentID()
	r.ClusterID = uuid.NewString()
	err = n.renew(ctx, r.ClusterID)
	r.Groups = n.statuses()
	if err = errors.Join(err, n.raft.Stop(ctx)); err != nil {
		return r, err
	}
	return r, n.folder.replaceClusterID(r.ClusterID)
}

// stayAlone rewrites a group's membership, on disk.
func (n *Node) stayAlone(g replication.Machine) error {
	conf, err := replication.SoloMembership(g.Conf(), n.cfg.NodeID, n.cfg.Peer)
	if err != nil {
		return err
	}
	index, term := g.Applied()
	return g.ApplyConf(index, term, conf)
}

// renew waits until every group has applied its whole log under this node's lead, and replaces the cluster's id.
func (n *Node) renew(ctx context.Context, id string) error {
	tick := time.NewTicker(recoverPoll)
	defer tick.Stop()
	proposed := false
	for {
		left := n.behind()
		if left == "" && n.presentID() == id {
			return nil
		}
		if left == "" && !proposed {
			cmd := entry.ClusterInit{ID: id, Former: n.presentID()}
			proposed = n.raft.Group(systemGroup).Control(entry.Append(nil, &cmd)) == nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not finished: %s; call recover again (%w)", left, ctx.Err())
		}
	}
}

// behind names a group that does not lead itself or has entries to apply, "" for none.
func (n *Node) behind() string {
	for _, s := range n.statuses() {
		switch {
		case s.Error != "":
			return fmt.Sprintf("group %d stopped: %s", s.Group, s.Error)
		case s.Leader != n.cfg.NodeID:
			return fmt.Sprintf("group %d has no leader", s.Group)
		case s.Applied < s.LastIndex:
			return fmt.Sprintf("group %d has applied %d of %d entries", s.Group, s.Applied, s.LastIndex)
		case len(s.Voters) != 1:
			return fmt.Sprintf("group %d had a change of its membership in its log", s.Group)
		}
	}
	return ""
}
