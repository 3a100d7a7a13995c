package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/audit"
	"github.com/understudy-mq/understudy/cmd/internal/vhosts"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session"
)

// reconcileInterval is between looks whether the groups agree on which vhosts there are. Whoever makes or deletes a vhost
// sees to both groups itself; this is for what was left half done.
const reconcileInterval = time.Second

// stepsMost bounds what one look proposes.
const stepsMost = 1000

// homes is where each vhost is, as this node knows it: an immutable map that is replaced as a whole.
type homes struct{ current atomic.Pointer[homesAt] }

type homesAt struct {
	generation uint64
	byName     map[string]core.RegisteredVhost
}

// refresh takes what the system group says; true if that was news. One at a time.
func (h *homes) refresh(m *core.Machine) bool {
	generation := m.VhostsGeneration()
	if now := h.current.Load(); now != nil && now.generation == generation {
		return false
	}
	next := &homesAt{generation: generation, byName: map[string]core.RegisteredVhost{}}
	for _, v := range m.RegisteredVhosts() {
		if !v.Buried {
			next.byName[v.Name] = v
		}
	}
	h.current.Store(next)
	return true
}

func (h *homes) of(name string) (core.RegisteredVhost, bool) {
	now := h.current.Load()
	if now == nil {
		return core.RegisteredVhost{}, false
	}
	v, ok := now.byName[name]
	return v, ok
}

// vhostHome answers where a vhost is.
func (n *Node) vhostHome(name string) (session.Home, bool) {
	v, ok := n.accounts.homes.of(name)
	return session.Home{ID: v.ID, Group: v.Group}, ok && (n.formed.Load() || n.standsBy())
}

func (n *Node) dataGroups() uint64 { return uint64(len(n.groups) - 1) }

// holds says whether a registered vhost's group has it, on this node.
func (n *Node) holds(v core.RegisteredVhost) bool {
	return n.shown(v.Group, func(m *core.Machine) bool { return holds(m, v) })
}

func holds(m *core.Machine, v core.RegisteredVhost) bool {
	h, ok := m.HeldVhost(v.ID)
	return ok && h == vhosts.Held(v)
}

// held is what those data groups hold whose state this node knows.
func (n *Node) held() map[uint64][]core.HeldVhost {
	all := map[uint64][]core.HeldVhost{}
	for _, id := range n.groups[1:] {
		if _, behind := n.registered.missing([]uint64{id}); !behind {
			n.states[id].View(func(m *core.Machine) { all[id] = m.HeldVhosts() })
		}
	}
	return all
}

// VhostNames are the names of all vhosts, in order.
func (n *Node) VhostNames() []string {
	now := n.accounts.homes.current.Load()
	if now == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(now.byName))
}

// HasVhost says whether there is a vhost of that name.
func (n *Node) HasVhost(name string) bool {
	_, ok := n.accounts.homes.of(name)
	return ok
}

// Vhosts lists the vhosts.
func (n *Node) Vhosts() []api.Vhost {
	inside := map[string]core.VhostInfo{} // by ID
	for _, id := range n.groups[1:] {
		n.states[id].View(func(m *core.Machine) {
			for _, v := range m.Vhosts() {
				inside[v.ID] = v
			}
		})
	}
	rows := []api.Vhost{}
	for _, name := range n.VhostNames() {
		if v, ok := n.accounts.homes.of(name); ok {
			held, serves := inside[v.ID]
			rows = append(rows, n.vhostRow(v, held, serves))
		}
	}
	return rows
}

func (n *Node) vhostRow(v core.RegisteredVhost, held core.VhostInfo, serves bool) api.Vhost {
	about := api.VhostMetadata{Description: v.Description, Tags: v.Tags, DefaultQueueType: cmp.Or(v.QueueType, "classic")}
	state := "running"
	if !serves || n.leaderName(v.Group) == "" {
		state = "stopped"
	}
	return api.Vhost{
		Name: v.Name, ID: v.ID, Group: v.Group, VhostMetadata: about, Metadata: about, ClusterState: map[string]string{n.Name(): state},
		Messages: held.Ready + held.Unacknowledged, MessagesReady: held.Ready, MessagesUnacknowledged: held.Unacknowledged,
	}
}

// reconcile finishes, where this node leads the system group, what was begun with vhosts and not finished.
func (n *Node) reconcile(ctx context.Context) {
	tick := time.NewTicker(reconcileInterval)
	defer tick.Stop()
	var seen map[string]bool
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n.formed.Load() && !n.standsBy() && n.raft.Group(systemGroup).Status().Leader == n.cfg.NodeID {
			seen = n.reconcileOnce(seen)
		}
	}
}

// reconcileOnce proposes what is left to do and was so at the last look too: somebody may be about it just now. It answers
// what this look has seen. The data groups are read first: what the system group knows is then no older.
func (n *Node) reconcileOnce(before map[string]bool) (seen map[string]bool) {
	if _, behind := n.registered.missing([]uint64{systemGroup}); behind {
		return nil
	}
	held := n.held()
	var known []core.RegisteredVhost
	n.states[systemGroup].View(func(m *core.Machine) { known = m.RegisteredVhosts() })
	plan := vhosts.Plan(systemGroup, known, held)
	commands := map[uint64][]byte{}
	seen = make(map[string]bool, len(plan))
	for _, step := range plan[:min(len(plan), stepsMost)] {
		b := entry.Append(nil, step.Command)
		if seen[string(b)] = true; before[string(b)] {
			commands[step.Group] = append(commands[step.Group], b...)
		}
	}
	for group, b := range commands {
		n.log.Info("vhosts are made or deleted where that was begun and not finished", "group", group)
		if err := n.raft.Group(group).Control(b); err != nil {
			n.log.Debug("proposal refused", "group", group, "error", err)
		}
	}
	return seen
}

// descriptionBytesMax bounds what is said of a vhost.
const descriptionBytesMax = 1024

// PutVhost makes a vhost, or changes what is said of one. It answers once both groups have it; created says that it was not
// there before.
func (n *Node) PutVhost(ctx context.Context, by, name string, v api.NewVhost) (created bool, err error) {
	return n.putVhost(ctx, by, by, name, v)
}

// putVhost is PutVhost with the user who may do everything in a new vhost; "" for nobody.
func (n *Node) putVhost(ctx context.Context, by, owner, name string, v api.NewVhost) (created bool, err error) {
	cmd := entry.VhostPut{ID: uuid.NewString(), Name: name, Groups: n.dataGroups(), Owner: owner}
	now, _ := n.accounts.homes.of(name)
	if err := errors.Join(checkName("vhost name", name), describe(&cmd, now, v)); err != nil {
		return false, err
	}
	e, err := n.accounts.propose(ctx, func(request uint64) entry.Command { cmd.Request = request; return &cmd })
	if err != nil {
		return false, err
	}
	there, ok := n.accounts.homes.of(name)
	if !ok {
		return false, admin.Conflict{Err: fmt.Errorf("vhost '%s' was deleted meanwhile", name)}
	}
	n.audit.Keep(audit.Event{Event: "vhost_put", By: by, Vhost: name, Text: "id: " + there.ID})
	return e.Count > 0, n.controlGroup(ctx, there.Group, vhosts.Create(there), func(m *core.Machine) bool {
		return holds(m, there) || !n.stillRegistered(there)
	})
}

// stillRegistered says whether a vhost is what it was when it was read.
func (n *Node) stillRegistered(v core.RegisteredVhost) bool {
	now, ok := n.accounts.homes.of(v.Name)
	return ok && vhosts.Held(now) == vhosts.Held(v)
}

// describe fills in what is said of a vhost; what v leaves out stays as it is now.
func describe(cmd *entry.VhostPut, now core.RegisteredVhost, v api.NewVhost) error {
	cmd.Description, cmd.Tags, cmd.QueueType = now.Description, strings.Join(now.Tags, ","), now.QueueType
	if v.Description != nil {
		cmd.Description = *v.Description
	}
	if v.DefaultQueueType != nil {
		cmd.QueueType = *v.DefaultQueueType
	}
	switch cmd.QueueType {
	case "", "classic", "quorum":
	case "undefined": // as RabbitMQ's own exports may have it
		cmd.QueueType = ""
	default:
		return fmt.Errorf("default queue type '%s' is not supported: there are classic and quorum", cmd.QueueType)
	}
	if len(cmd.Description) > descriptionBytesMax {
		return fmt.Errorf("a description has at most %d bytes", descriptionBytesMax)
	}
	if v.Tags == nil {
		return nil
	}
	text, err := tagsText(*v.Tags)
	cmd.Tags = text
	return err
}

// DeleteVhost deletes a vhost with all that is in it. It answers once nobody can use it; what it held goes in pieces after that.
func (n *Node) DeleteVhost(ctx context.Context, by, name string) error {
	v, ok := n.accounts.homes.of(name)
	if !ok {
		return noVhost(name)
	}
	e, err := n.accounts.propose(ctx, func(request uint64) entry.Command { return &entry.VhostBury{Request: request, ID: v.ID} })
	switch {
	case err != nil:
		return err
	case e.Kind == core.EffectRefused:
		return noVhost(name)
	}
	n.audit.Keep(audit.Event{Event: "vhost_deleted", By: by, Vhost: name, Text: "id: " + v.ID})
	return n.controlGroup(ctx, v.Group, &entry.VhostDelete{ID: v.ID}, func(m *core.Machine) bool {
		_, there := m.HeldVhost(v.ID)
		return !there
	})
}

var _ admin.Vhosts = (*Node)(nil)
