package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/understudy-mq/understudy/cmd/internal/certs"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link"
	"github.com/understudy-mq/understudy/link/source"
	"github.com/understudy-mq/understudy/link/wire"
)

// seedsDir holds snapshots that wait for standbys.
const seedsDir = "link-seeds"

// linkage is the node's part in the standby link: as a node of a source, and of a standby.
type linkage struct {
	server    *http.Server
	source    *source.Server // nil: no standby is served
	follow    *link.Link     // nil: no source is set
	conductor *link.Conductor
	handover  *handover
	reports   reports
	seeding   seedProgress
	degraded  degradation
	parked    atomic.Int64 // clients that wait for a promotion
}

// close ends the link port.
func (l *linkage) close() error {
	if l.server == nil {
		return nil
	}
	return l.server.Close()
}

// startLink serves standbys and follows a source, as far as the settings say.
func (n *Node) startLink(work context.Context) error {
	if err := n.serveLink(); err != nil {
		return err
	}
	if len(n.cfg.LinkSources()) == 0 {
		return nil
	}
	secure, err := n.linkClientTLS()
	if err != nil {
		return err
	}
	replicas := map[uint64]link.Replica{}
	for _, g := range n.groups {
		replicas[g] = &replica{n, g}
	}
	n.linkage.follow = link.New(link.Options{
		Addresses: n.cfg.LinkSources(), TokenFile: n.cfg.LinkTokenFile, TLS: secure,
		Name: func() string { return readerName(n.ClusterID()) }, Cluster: n.ClusterID, Groups: n.groups, Replicas: replicas, Active: n.standsBy,
		Readable: n.readable, Level: n.membersLevel, Logger: n.log,
	})
	n.linkage.conductor = link.NewConductor(standbyCluster{n}, n.linkage.follow, n.log)
	n.recallReport()
	n.background.Go(func() { n.linkage.follow.Run(work) })
	n.background.Go(func() { n.linkage.conductor.Run(work) })
	n.background.Go(func() { n.watchPromotion(work) })
	return nil
}

// readerName is a standby's name on its source: the same for all its nodes.
func readerName(cluster string) string { return "standby-" + cluster }

// serveLink serves the link port, if it is open.
func (n *Node) serveLink() error {
	at := slices.IndexFunc(n.listeners, func(l listener) bool { return l.protocol == protocolLink })
	if at < 0 {
		return nil
	}
	secure, err := n.linkServerTLS()
	if err != nil {
		return err
	}
	o := source.Options{
		Node: n.cfg.NodeID, Logs: map[uint64]source.Log{}, Identity: n.linkIdentity, Notes: linkNotes{n}, Switch: n.linkage.handover, Cuts: n.cuts,
		Open: n.cfg.LinkTLSCA != "" && n.cfg.LinkServeTokenFile == "", Logger: n.log,
	}
	exports := map[uint64]source.Exporter{}
	for _, g := range n.groups {
		o.Logs[g], exports[g] = n.raft.Group(g), n.raft.Group(g)
	}
	if o.Seeds, err = source.OpenSeeds(filepath.Join(n.cfg.Data, seedsDir), exports, n.log); err != nil {
		return err
	}
	for _, t := range []struct {
		file string
		to   **source.Tokens
	}{{n.cfg.LinkServeTokenFile, &o.Read}, {n.cfg.LinkFenceTokenFile, &o.Fence}} {
		if t.file == "" {
			continue
		}
		if *t.to, err = source.OpenTokens(t.file, n.log); err != nil {
			return err
		}
	}
	n.linkage.source = source.New(o)
	n.linkage.server = &http.Server{
		Handler: n.linkage.source, ReadHeaderTimeout: adminHeaderTimeout, ReadTimeout: adminReadTimeout, IdleTimeout: adminIdleTimeout,
	}
	l := n.listeners[at].Listener
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	n.background.Go(func() {
		if err := n.linkage.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.o.Fatal(fmt.Errorf("link port: %w", err))
		}
	})
	return nil
}

// linkServerTLS is TLS for the link port, nil for a plain one: with an authority, standbys have to show a certificate of it.
func (n *Node) linkServerTLS() (*tls.Config, error) {
	files := certs.Files{Cert: n.cfg.LinkTLSCert, Key: n.cfg.LinkTLSKey, CA: n.cfg.LinkTLSCA}
	switch {
	case files.Cert == "":
		return nil, nil
	case files.CA == "":
		return certs.Server(files, n.log)
	}
	return certs.Mutual(files, n.log)
}

// linkClientTLS is TLS towards the source, nil for a plain link.
func (n *Node) linkClientTLS() (*tls.Config, error) {
	return linkClientTLS(certs.Files{Cert: n.cfg.LinkTLSCert, Key: n.cfg.LinkTLSKey, CA: n.cfg.LinkTLSCA}, n.log)
}

func linkClientTLS(files certs.Files, logger *slog.Logger) (*tls.Config, error) {
	switch {
	case files.CA == "":
		return nil, nil
	case files.Cert == "":
		return certs.Client(files.CA, logger)
	}
	return certs.Mutual(files, logger)
}

// linkIdentity is what the node tells its standbys of itself.
func (n *Node) linkIdentity() source.Identity {
	s := n.linkState(systemGroup)
	return source.Identity{Cluster: n.ClusterID(), Generation: s.Generation, Role: s.Role.String(), Fenced: n.fenced()}
}

// fenced says whether every group is behind a fence here. The system group is fenced first: from then on nobody is let in.
func (n *Node) fenced() bool {
	for _, g := range n.groups {
		if !n.linkState(g).Gate.Fenced {
			return false
		}
	}
	return true
}

// fencedForGood says whether another cluster was promoted in this one's place, or it has handed over to one.
func (n *Node) fencedForGood() bool { return n.linkState(systemGroup).Gate.Fenced }

// linkState is a group's part in the link as this node has applied it.
func (n *Node) linkState(group uint64) (l core.Link) {
	n.states[group].View(func(m *core.Machine) { l = m.Link() })
	return l
}

// standsBy says whether this cluster is a standby, or waits to become one.
func (n *Node) standsBy() bool { return n.raft.Group(systemGroup).Status().Standby }

// linkNotes takes down how far standbys are.
type linkNotes struct{ n *Node }

// Note implements source.Notes.
func (x linkNotes) Note(reader, _ string, level uint64, positions []wire.Position) {
	for _, p := range positions {
		if x.n.states[p.Group] != nil {
			x.n.raft.Hold(reader, level, p.Group, p.Index)
			x.n.covered(reader, p.Group, p.Index)
		}
	}
}

// Held implements source.Notes.
func (x linkNotes) Held(reader string) *wire.Hold {
	for _, h := range x.n.raft.Holds() {
		if h.Name == reader {
			return &wire.Hold{State: string(h.State), Holding: h.Holding, Reason: h.Reason, Held: h.Held, Left: h.Left}
		}
	}
	return nil
}

// Hurried implements source.Notes.
func (x linkNotes) Hurried(group uint64) bool { return x.n.gate.Wants(group) }

// replica is a group of this node for the link.
type replica struct {
	n     *Node
	group uint64
}

// Standing implements link.Replica.
func (r *replica) Standing() link.Standing { return r.n.standing(r.group) }

func (n *Node) standing(group uint64) link.Standing {
	var l core.Link
	var stamp int64
	n.states[group].View(func(m *core.Machine) { l, stamp = m.Link(), m.Stamp() })
	s := link.Standing{
		Role: link.Role(l.Role.String()), Leads: n.raft.Group(group).Status().Leader == n.cfg.NodeID, Generation: l.Generation,
		Source: l.Source, SourceGeneration: l.SourceGeneration, Position: l.Position, Stamp: stamp,
		Switch: l.Switch, Accepted: l.SwitchState == core.SwitchAccepted, Cancelled: l.SwitchState == core.SwitchCancelled,
		Undone: l.SourceGate.Cancelled,
	}
	if l.Role == core.RolePromoted {
		s.Stamp = l.Stamp
	}
	if l.Diverged != 0 {
		s.Diverged = fmt.Sprintf("after entry %d the source had another state than this standby: one of them is damaged; a new seed is needed", l.Diverged)
	}
	if l.SourceGate.Fenced {
		s.Fence = l.SourceGate.Switch
	}
	return s
}

// Replay implements link.Replica.
func (r *replica) Replay(entries []entry.Replay) error {
	envelopes := make([][]byte, len(entries))
	for i := range entries {
		envelopes[i] = entry.AppendReplay(nil, &entries[i])
	}
	return r.n.raft.Group(r.group).Replay(entries[0].Position.Index, envelopes)
}

// Wait implements link.Replica.
func (r *replica) Wait(ctx context.Context, index uint64) {
	g := r.n.raft.Group(r.group)
	for {
		changed := g.Changed()
		if r.n.linkState(r.group).Position.Index >= index {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// standbyCluster is the node's cluster for the conductor.
type standbyCluster struct{ n *Node }

var _ link.Cluster = standbyCluster{}

func (c standbyCluster) ID() string                          { return c.n.ClusterID() }
func (c standbyCluster) Groups() []uint64                    { return c.n.groups }
func (c standbyCluster) Standing(group uint64) link.Standing { return c.n.standing(group) }
func (c standbyCluster) Serves() error                       { return c.n.Ready() }

// Propose implements link.Cluster.
func (c standbyCluster) Propose(group uint64, cmd entry.Command) error {
	return c.n.raft.Group(group).ControlLocal(entry.Append(nil, cmd))
}

// Waits implements link.Cluster.
func (c standbyCluster) Waits() bool {
	return slices.ContainsFunc(c.n.groups, func(g uint64) bool {
		return c.n.raft.Group(g).Status().Standby && c.n.linkState(g).Role == core.RolePrimary
	})
}

// Begins implements link.Cluster.
func (c standbyCluster) Begins(group uint64) link.Beginning {
	if b, ok := c.n.folder.seeded(group); ok {
		return b
	}
	return link.Beginning{At: entry.Origin(), Fingerprint: core.EmptyFingerprint()}
}

// Hosts implements link.Cluster: this node's and, as soon as they have told, the others'.
func (c standbyCluster) Hosts() []string {
	if hosts := c.n.hosts(); len(hosts) > 0 {
		return hosts
	}
	return []string{c.n.clientAddress()}
}
