package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/amqp"
	"github.com/understudy-mq/understudy/cmd/internal/alarm"
	"github.com/understudy-mq/understudy/cmd/internal/audit"
	"github.com/understudy-mq/understudy/cmd/internal/certs"
	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/cmd/internal/telemetry"
	"github.com/understudy-mq/understudy/core/store"
	"github.com/understudy-mq/understudy/replication"
	"github.com/understudy-mq/understudy/session"
	"github.com/understudy-mq/understudy/session/auth"
	"github.com/understudy-mq/understudy/session/gate"
)

// systemGroup is the group of what belongs to the whole cluster; data groups are 1 to N.
const systemGroup = 0

// firstVhost is made at a cluster's first start.
const firstVhost = "/"

// Options are what Start needs beside the settings.
type Options struct {
	Config  config.Config
	Version string
	Logger  *slog.Logger
	// FS has the data folder; nil is the system's.
	FS vfs.FS
	// Gauges show what memory and disk there is; nil is the system's.
	Gauges alarm.Gauges
	// Fatal ends the process: a failed fsync and the like.
	Fatal func(error)
	// Older is by how many feature levels the node reads less than this code does: it stands for a node of an older version in tests.
	Older uint64
}

// Node is a running node.
type Node struct {
	o       Options
	cfg     config.Config
	log     *slog.Logger
	metrics *telemetry.Metrics

	folder *Folder
	groups []uint64 // all, the system group first
	store  *store.DB
	states map[uint64]*store.Group
	handle map[uint64]*handle
	raft   *replication.Node
	broker *session.Broker
	roll   *roll

	listeners []listener
	clients   *amqp.Server
	clientTLS *tls.Config
	accounts  *accounts
	alarms    *alarms
	linkage   linkage
	seeded    bool // the groups began with a source's snapshot
	gate      *gate.Gate

	adminHandler atomic.Pointer[http.Handler]
	audit        *audit.Log
	logins       *auth.Authenticator
	attempts     attempts
	admin        *http.Server

	rates         meter
	importing     sync.Mutex             // held while definitions are imported
	pending       atomic.Pointer[[]byte] // definitions that are to be loaded before clients are served
	registered    registrations
	announcements chan toSay
	started       time.Time
	clusterID     atomic.Pointer[string]
	formed        atomic.Bool // the cluster has its id, the first vhost and the first user, or had them
	served        atomic.Bool // it has formed, and this process was registered in every group since: no more a standby's
	draining      atomic.Bool
	ready         chan struct{} // closed when clients were first served
	readyOnce     sync.Once
	stop          context.CancelFunc // ends the background work
	background    sync.WaitGroup
}

// handle is a group of replication's that is not there yet when its users are made.
type handle struct {
	group atomic.Pointer[replication.Group]
}

var errStarting = errors.New("node is starting")

// Submit implements session.Submitter.
func (h *handle) Submit(commands []byte, n int) error {
	g := h.group.Load()
	if g == nil {
		return errStarting
	}
	return g.Submit(commands, n)
}

// SubmitLater implements session.Submitter.
func (h *handle) SubmitLater(commands []byte, n int) error {
	g := h.group.Load()
	if g == nil {
		return errStarting
	}
	return g.SubmitLater(commands, n)
}

func (h *handle) readEntry(index uint64, offset, size int) ([]byte, error) {
	g := h.group.Load()
	if g == nil {
		return nil, errStarting
	}
	return g.ReadEntry(index, offset, size)
}

// registrations tells in which groups the node may speak.
type registrations struct {
	mu sync.Mutex
	in map[uint64]bool
}

func (r *registrations) set(group uint64, in bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.in[group] = in
}

// missing answers the first of groups in which the node is not registered.
func (r *registrations) missing(groups []uint64) (uint64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range groups {
		if !r.in[g] {
			return g, true
		}
	}
	return 0, false
}

// Start starts a node; it becomes ready later (Ready). Errors are for people: they name the thing and the remedy.
func Start(ctx context.Context, o Options) (*Node, error) {
	folder, err := OpenFolder(o.FS, o.Config.Data)
	if err != nil {
		return nil, err
	}
	n := newNode(o, folder)
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(err, n.release())
	}
	return n, nil
}

func newNode(o Options, folder *Folder) *Node {
	people := newAccounts()
	n := &Node{
		o: o, cfg: o.Config, log: o.Logger, folder: folder, metrics: telemetry.NewMetrics(o.Logger),
		states: map[uint64]*store.Group{}, handle: map[uint64]*handle{}, ready: make(chan struct{}),
		started: time.Now(), rates: meter{readings: map[string]*reading{}}, registered: registrations{in: map[uint64]bool{}},
		announcements: make(chan toSay, announcementsMax),
		accounts:      people,
		alarms:        newAlarms(o),
		logins:        auth.New(auth.Options{Users: people.registry}),
	}
	n.linkage.handover = &handover{n: n}
	return n
}

func (n *Node) start(ctx context.Context) error {
	if err := n.listen(); err != nil {
		return err
	}
	if err := n.takeDefinitions(); err != nil {
		return err
	}
	seed, err := n.seedFolder(ctx)
	if err != nil {
		return err
	}
	if err := n.claim(ctx, seed); err != nil {
		return err
	}
	if err := n.keepDefinitions(); err != nil {
		return err
	}
	if err := n.openAudit(); err != nil {
		return err
	}
	if err := n.openStore(); err != nil {
		return err
	}
	if err := n.takeSeed(ctx, seed); err != nil {
		return err
	}
	if err := n.openClients(); err != nil {
		return err
	}
	if err := n.startRaft(n.cfg.Peer); err != nil {
		return err
	}
	work, stop := context.WithCancel(context.Background())
	n.stop = stop
	if err := errors.Join(n.startLink(work), n.serveAdmin()); err != nil {
		stop()
		return errors.Join(err, n.raft.Stop(ctx))
	}
	n.background.Go(func() { n.accounts.watch(work) })
	n.background.Go(func() { n.watchGate(work) })
	n.background.Go(func() { n.watchAlarms(work) })
	n.background.Go(func() { n.form(work) })
	n.background.Go(func() { n.announce(work) })
	n.background.Go(func() { n.speak(work) })
	n.background.Go(func() { n.reconcile(work) })
	n.background.Go(func() { n.raiseLevels(work) })
	return nil
}

// claim makes the folder this node's, asking the cluster to join where that is wanted.
func (n *Node) claim(ctx context.Context, seed *seedRecord) error {
	want := Identity{NodeID: n.cfg.NodeID, Groups: n.cfg.Groups}
	switch known := n.folder.Identity(); {
	case n.folder.Fresh() && n.cfg.Join != "":
		cluster, err := n.join(ctx)
		if err != nil {
			return err
		}
		want.Groups, want.ClusterID, want.Joined = cluster.Groups, cluster.ID, true
	case seed != nil: // it has its source's number of groups
		n.seeded = true
		want.Groups, want.ClusterID = len(seed.Seed.Files)-1, seed.Standby
	case known.Joined: // it has the cluster's number of groups, whatever its own setting
		want.Groups = known.Groups
	}
	if err := n.folder.Claim(want); err != nil {
		return err
	}
	for g := range uint64(want.Groups) + 1 {
		n.groups = append(n.groups, g)
	}
	id := n.folder.Identity().ClusterID
	n.clusterID.Store(&id)
	return nil
}

// openStore opens every group's state and makes the broker that its effects go to.
func (n *Node) openStore() error {
	db, err := store.Open(n.folder.fs, filepath.Join(n.cfg.Data, StoreDir), store.Options{
		Logger:  n.log,
		Fatal:   n.o.Fatal,
		Metrics: store.Metrics{Checkpoint: n.metrics.Checkpoint, Evacuated: n.metrics.Evacuated},
	})
	if err != nil {
		return err
	}
	n.store = db
	submit := make(map[uint64]session.Submitter)
	contents := make(map[uint64]session.Contents)
	for _, id := range n.groups {
		n.handle[id] = &handle{}
		options := store.GroupOptions{Node: n.cfg.NodeID, ReadEntry: n.handle[id].readEntry, OnEffects: n.dispatch}
		if n.states[id], err = db.Group(id, options); err != nil {
			return err
		}
		if id != systemGroup {
			submit[id], contents[id] = n.handle[id], n.states[id]
		}
	}
	n.roll = newRoll(func(ctx context.Context, node uint64, sessions []sessionRef) ([]bool, error) {
		return askNode[[]bool](ctx, n, node, question{Want: "attached", Sessions: sessions})
	})
	n.broker = session.New(session.Options{
		Node: n.cfg.NodeID, Submit: submit, Contents: contents, VhostHome: n.vhostHome, Access: n.accounts.registry, Denied: n.denied,
		Elsewhere: n.heldElsewhere, Policy: n.sessionPolicy,
		ExpiryMax: uint32(n.cfg.SessionExpiryMax), SessionsMax: uint32(n.cfg.SessionsPerUserMax),
		IsTopic: n.isTopic,
	})
	n.openGate()
	a := n.accounts
	a.state, a.submit, a.changed = n.states[systemGroup].View, n.handle[systemGroup].Submit, n.broker.Reauthorize
	a.standsBy = n.standsBy
	return nil
}

// startRaft starts the groups, listening for peers on an address ("": nowhere). Effects go to the broker from here on.
func (n *Node) startRaft(listen string) error {
	peers, err := n.cfg.Members()
	if err != nil {
		return err
	}
	peerTLS, err := n.peerTLS()
	if err != nil {
		return err
	}
	machines := make(map[uint64]replication.Machine)
	for id, g := range n.states {
		machines[id] = g
	}
	n.raft, err = replication.Start(replication.Options{
		NodeID:    n.cfg.NodeID,
		Dir:       filepath.Join(n.cfg.Data, LogDir),
		FS:        n.folder.fs,
		Listen:    listen,
		Peers:     peers,
		Join:      n.folder.Identity().Joined,
		Standby:   n.cfg.Standby,
		Seeded:    n.seeded,
		Known:     func(node uint64) bool { return n.addresses()[node] != "" },
		Groups:    n.groups,
		Machines:  machines,
		Codec:     codec(),
		Observer:  n.observer(),
		ClusterID: n.ClusterID,
		PeerTLS:   peerTLS,

		Image: n.store.Image, ImageDir: filepath.Join(n.cfg.Data, imagesDir), Fenced: n.fencedForGood,
		HoldSilence: n.cfg.LinkHold(), HoldDiskPercent: n.cfg.LinkHoldDiskPercent,

		Logger: n.log,
		Fatal:  n.o.Fatal,
		Answer: n.answerPeer,
	})
	if at := (*net.OpError)(nil); errors.As(err, &at) && at.Op == "listen" {
		return occupied("peer", at)
	}
	if err != nil {
		return err
	}
	for id, h := range n.handle {
		h.group.Store(n.raft.Group(id))
	}
	return nil
}

func (n *Node) peerTLS() (*tls.Config, error) {
	if n.cfg.PeerTLSCert == "" {
		return nil, nil
	}
	return certs.Mutual(certs.Files{Cert: n.cfg.PeerTLSCert, Key: n.cfg.PeerTLSKey, CA: n.cfg.PeerTLSCA}, n.log)
}

// observer follows the groups' fortunes.
func (n *Node) observer() replication.Observer {
	return replication.Observer{
		Covered: func(name string, group, index uint64) { n.gate.Covered(name, group, index) },
		Registered: func(group, incarnation uint64) {
			n.broker.Registered(group, incarnation)
			n.registered.set(group, true)
		},
		Unregistered: func(group uint64, reason string) {
			n.registered.set(group, false)
			n.broker.Unregistered(group, reason)
			n.gate.Refresh(group)                         // it may be for a snapshot
			if group == systemGroup && n.clients != nil { // who may do what is not known for certain
				n.clients.CloseAll(reason)
			}
		},
		Leader: func(_, _, _ uint64) { n.metrics.LeaderChanged() },
		Synced: n.metrics.Synced,
	}
}

var errForming = errors.New("cluster is forming")

// Ready answers nil when clients are served, or why they are not.
func (n *Node) Ready() error {
	if n.draining.Load() {
		return errors.New("node is stopping")
	}
	if n.standsBy() {
		return n.standbyReady()
	}
	if g, missing := n.registered.missing(n.groups); missing {
		return fmt.Errorf("node is not registered in group %d", g)
	}
	if !n.formed.Load() {
		return errForming
	}
	if full, why := n.raft.ReadOnly(); full {
		return errors.New(why)
	}
	if n.pending.Load() != nil {
		return errors.New("definitions are being loaded")
	}
	return nil
}

// Started is closed once clients are served for the first time.
func (n *Node) Started() <-chan struct{} { return n.ready }

// listener is an open port.
type listener struct {
	net.Listener
	protocol string
}

// The protocols of listeners, as RabbitMQ names them.
const (
	protocolAMQP  = "amqp"
	protocolAMQPS = "amqp/ssl"
	protocolHTTP  = "http"
	protocolLink  = "link"
)

// listen opens the ports, so that one in use stops the start; they are served later.
func (n *Node) listen() error {
	for _, l := range []struct{ protocol, flag, address string }{
		{protocolAMQP, "amqp", n.cfg.AMQP}, {protocolAMQPS, "amqps", n.cfg.AMQPS}, {protocolHTTP, "admin", n.cfg.Admin},
		{protocolLink, "link", n.cfg.LinkAddress()},
	} {
		if l.address == "" {
			continue
		}
		open, err := net.Listen("tcp", l.address)
		if err != nil {
			return occupied(l.flag, err)
		}
		n.listeners = append(n.listeners, listener{open, l.protocol})
	}
	return nil
}

// occupied names the flag of an address that cannot be listened on.
func occupied(flag string, err error) error {
	return fmt.Errorf("--%s: %w (give another address, or stop who has it)", flag, err)
}

// adminTimeouts bound what a slow or silent caller can hold.
const (
	adminHeaderTimeout = 10 * time.Second
	adminReadTimeout   = 30 * time.Second
	adminIdleTimeout   = 2 * time.Minute
)
