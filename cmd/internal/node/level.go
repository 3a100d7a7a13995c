package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// levelLook is the time between looks whether the feature level can be raised.
const levelLook = time.Second

// level is the feature level that this node reads.
func (n *Node) level() uint64 { return entry.Level - n.o.Older }

// membersLevel is what all members of the cluster read, as they have told; 0 while one has not.
func (n *Node) membersLevel() uint64 {
	level, _ := n.lowest()
	return level
}

// lowest is membersLevel and, where that is less than this node reads, whose word it is.
func (n *Node) lowest() (level uint64, by string) {
	told := n.told()
	level = n.level()
	for _, id := range n.members() {
		reads := uint64(0)
		if i := slices.IndexFunc(told, func(a core.NodeAddress) bool { return a.Node == id }); i >= 0 {
			reads = told[i].Level
		}
		if reads < level {
			level, by = reads, fmt.Sprintf("node %d", id)
		}
	}
	return level, by
}

// raisable is the feature level that all who read this cluster's log can read: its members, and the standbys that it is kept for.
// by is who reads less than this node does.
func (n *Node) raisable() (level uint64, by string) {
	level, by = n.lowest()
	for _, h := range n.raft.Holds() {
		if h.Holding && h.Level < level {
			level, by = h.Level, h.Name
		}
	}
	return level, by
}

// readable says why a member of this standby that has told what it reads cannot read an entry of the source. One that has told
// nothing was never up.
func (n *Node) readable(data []byte) error {
	level, members := n.level(), n.members()
	for _, a := range n.told() {
		if slices.Contains(members, a.Node) {
			level = min(level, a.Level)
		}
	}
	return entry.Readable(data, level)
}

// raiseLevels raises the feature level of the groups that this node leads, as soon as everybody reads it.
func (n *Node) raiseLevels(ctx context.Context) {
	look := time.NewTicker(levelLook)
	defer look.Stop()
	held := ""
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		if n.Ready() != nil || n.standsBy() {
			continue
		}
		level, by := n.raisable()
		if by != held && by != "" {
			n.log.Info("the feature level stays", "level", level, "this_node_reads", n.level(), "held_by", by)
		}
		held = by
		n.raise(level)
	}
}

func (n *Node) raise(level uint64) {
	for _, g := range n.groups {
		if n.raft.Group(g).Status().Leader != n.cfg.NodeID || n.levelOf(g) >= level {
			continue
		}
		from, told := n.levelOf(g), slog.LevelInfo
		if from == 0 {
			told = slog.LevelDebug // a group that is new
		}
		n.log.Log(context.Background(), told, "raising the feature level, which every node reads", "group", g, "from", from, "to", level)
		if err := n.raft.Group(g).Control(entry.Append(nil, &entry.LevelRaise{Level: uint8(level)})); err != nil {
			n.log.Debug("proposal refused", "group", g, "error", err)
		}
	}
}

// levelOf is a group's feature level.
func (n *Node) levelOf(group uint64) (level uint64) {
	n.states[group].View(func(m *core.Machine) { level = m.Level() })
	return level
}

// levels are what the cluster reads, for people.
func (n *Node) levels() api.LinkLevel {
	l := api.LinkLevel{Now: n.levelOf(systemGroup), Reads: n.level(), Members: n.membersLevel()}
	_, l.HeldBy = n.raisable()
	return l
}
