package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

const (
	controlTimeout = 10 * time.Second     // for a control command to be seen applied
	controlAgain   = time.Second          // before one that has not been is sent again
	controlLook    = 5 * time.Millisecond // between looks
)

// control has the group of a vhost carry out an idempotent command, and answers once this node's own state of it shows what
// the command asks for. It works from any node. Of two that contradict each other at the same moment the later one counts;
// one that had to be sent again, because its effect did not show, may be that later one.
func (n *Node) control(ctx context.Context, vhost string, cmd entry.Command, shows func(m *core.Machine) bool) error {
	home, ok := n.vhostHome(vhost)
	if !ok {
		return noVhost(vhost)
	}
	return n.controlGroup(ctx, home.Group, cmd, shows)
}

// controlGroup is control for a group.
func (n *Node) controlGroup(ctx context.Context, group uint64, cmd entry.Command, shows func(m *core.Machine) bool) error {
	if n.standsBy() {
		return errChangesNothing
	}
	if full, why := n.raft.ReadOnly(); full {
		return admin.Unavailable{Err: errors.New(why)}
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	again, look := time.NewTicker(controlAgain), time.NewTicker(controlLook)
	defer again.Stop()
	defer look.Stop()
	commands := entry.Append(nil, cmd)
	if err := n.raft.Group(group).Control(commands); err != nil {
		return admin.Unavailable{Err: err}
	}
	for !n.shown(group, shows) {
		select {
		case <-look.C:
		case <-again.C:
			if err := n.raft.Group(group).Control(commands); err != nil {
				return admin.Unavailable{Err: err}
			}
		case <-ctx.Done():
			return n.notApplied(group)
		}
	}
	return nil
}

func (n *Node) shown(group uint64, shows func(m *core.Machine) bool) (yes bool) {
	n.states[group].View(func(m *core.Machine) { yes = shows(m) })
	return yes
}

// notApplied says why a command has not been seen applied in time.
func (n *Node) notApplied(group uint64) error {
	if n.raft.Group(group).Status().Leader == 0 {
		return admin.Unavailable{Err: fmt.Errorf("group %d has no leader: a majority of the nodes must be up", group)}
	}
	return admin.Unavailable{Err: fmt.Errorf("group %d did not apply the change within %v: it may still come, look before trying again",
		group, controlTimeout)}
}

func noVhost(vhost string) error {
	return admin.NotFound{Err: fmt.Errorf("vhost '%s' not found", vhost)}
}
