package link

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/wire"
)

const (
	beatInterval = 250 * time.Millisecond
	beatTimeout  = 2 * time.Second
	toldPause    = time.Minute // between complaints about one source node
)

// Options configure a Link.
type Options struct {
	Addresses []string // HOST:LINKPORT of the source's nodes
	TokenFile string
	TLS       *tls.Config // nil is plain
	Name      func() string
	Cluster   func() string // the standby's own UUID
	Groups    []uint64
	Replicas  map[uint64]Replica
	// Active says whether the cluster is a standby, or waits to become one.
	Active func() bool
	// Readable says why the standby's nodes, or some, cannot read an entry; nil is for entries that anybody can.
	Readable func(entry []byte) error
	// Level is the feature level that all members of the standby read; nil is for 0.
	Level func() uint64
	// Dial opens connections to source nodes; nil is net.Dialer's.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Logger *slog.Logger
}

// Link is a standby node's side: it follows the source in every group that it is to read for, and tells the source how
// far the standby is.
type Link struct {
	o         Options
	shared    *shared
	followers map[uint64]*follower
	wait      sync.WaitGroup

	mu      sync.Mutex
	sources []SourceNode
	told    []trouble // by source node
}

// shared is what the followers of a node have in common.
type shared struct {
	addresses []string
	client    *client
	view      *view
	name      func() string
	cluster   func() string
	readable  func([]byte) error
	level     func() uint64
}

// SourceNode is what is known of a node of the source.
type SourceNode struct {
	Address    string
	Answered   time.Time // when the newest answer was asked for; zero if none came
	Error      string
	Cluster    string
	Role       string
	Fenced     bool
	Generation entry.Generation
	Hold       *wire.Hold // what it keeps of its log for this standby, by its newest answer
}

// New makes a Link; Run makes it move.
func New(o Options) *Link {
	if o.Level == nil {
		o.Level = func() uint64 { return 0 }
	}
	l := &Link{
		o: o, followers: map[uint64]*follower{},
		shared: &shared{
			addresses: o.Addresses, client: newClient(o.TokenFile, o.TLS, o.Dial), view: newView(time.Now), name: o.Name, cluster: o.Cluster,
			readable: o.Readable, level: o.Level,
		},
		sources: make([]SourceNode, len(o.Addresses)), told: make([]trouble, len(o.Addresses)),
	}
	for i, a := range o.Addresses {
		l.sources[i].Address = a
	}
	for i, g := range o.Groups {
		l.followers[g] = &follower{
			group: g, replica: o.Replicas[g], shared: l.shared, at: i % len(o.Addresses), state: Idle,
			logger: o.Logger.With("group", g),
		}
	}
	return l
}

// Run follows and beats until ctx ends.
func (l *Link) Run(ctx context.Context) {
	for _, f := range l.followers {
		l.wait.Go(func() { f.run(ctx) })
	}
	for i := range l.o.Addresses {
		l.wait.Go(func() { l.beats(ctx, i) })
	}
	l.wait.Wait()
}

// Close ends the connections that no exchange uses.
func (l *Link) Close() { l.shared.client.http.CloseIdleConnections() }

// beats tells one source node, again and again, how far the standby is, and learns how far the source is.
func (l *Link) beats(ctx context.Context, i int) {
	for ctx.Err() == nil {
		pause := beatInterval
		if l.o.Active() && l.o.Cluster() != "" && l.beat(ctx, i, l.positions()) != nil {
			pause = 2 * beatInterval
		}
		sleep(ctx, pause)
	}
}

// positions are the groups' as applied here.
func (l *Link) positions() []wire.Position {
	list := make([]wire.Position, 0, len(l.o.Groups))
	for _, g := range l.o.Groups {
		if s := l.o.Replicas[g].Standing(); s.Role == Standby {
			list = append(list, wire.Position{Group: g, Position: s.Position})
		}
	}
	return list
}

// identity is the source's, by the newest word of one of its nodes; false while none has answered.
func (l *Link) identity() (best SourceNode, ok bool) {
	for _, n := range l.Sources() {
		if n.Cluster != "" && n.Answered.After(best.Answered) {
			best, ok = n, true
		}
	}
	return best, ok
}

func (l *Link) beat(outer context.Context, i int, positions []wire.Position) error {
	ctx, cancel := context.WithTimeout(outer, beatTimeout)
	defer cancel()
	asked := time.Now()
	first := l.o.Replicas[l.o.Groups[0]].Standing()
	var a wire.BeatAnswer
	err := l.shared.client.call(ctx, l.o.Addresses[i], wire.PathBeat, wire.Beat{
		Reader: l.o.Name(), Standby: l.o.Cluster(), Cluster: first.Source, Level: l.o.Level(), Positions: positions, Prove: l.toProve(i, positions),
	}, &a)
	l.mu.Lock()
	defer l.mu.Unlock()
	n := &l.sources[i]
	if err != nil {
		n.Error = err.Error()
		if outer.Err() == nil {
			l.tell(i)
		}
		return err
	}
	*n = SourceNode{
		Address: n.Address, Answered: asked, Cluster: a.Cluster, Role: a.Role, Fenced: a.Fenced, Generation: a.Generation, Hold: a.Hold,
	}
	if first.Source != "" && a.Cluster != first.Source {
		n.Error = "this node belongs to cluster " + a.Cluster
		l.tell(i)
		return nil
	}
	l.tell(i)
	l.sees(i, asked, a.Groups)
	return nil
}

// trouble is what the log was told last of a source node.
type trouble struct {
	text string // "" for none
	at   time.Time
}

// tell logs what is wrong with a source node when that begins, changes and ends. l.mu is held.
func (l *Link) tell(i int) {
	n, was := &l.sources[i], &l.told[i]
	switch {
	case n.Error == was.text:
		return
	case n.Error == "":
		l.o.Logger.Info("a node of the source answers", "address", n.Address)
	case !was.at.IsZero() && time.Since(was.at) < toldPause:
		return
	default:
		l.o.Logger.Warn("no use of a node of the source", "address", n.Address, "reason", n.Error)
	}
	*was = trouble{n.Error, time.Now()}
}

// toProve are the groups of which the source node at address i is to prove what is committed.
func (l *Link) toProve(i int, positions []wire.Position) (groups []uint64) {
	for _, p := range positions {
		if l.shared.view.toProve(p.Group, i) {
			groups = append(groups, p.Group)
		}
	}
	return groups
}

// sees takes over what the source node at address i told of its groups.
func (l *Link) sees(i int, asked time.Time, groups []wire.GroupBeat) {
	v := l.shared.view
	for _, g := range groups {
		if l.followers[g.Group] == nil {
			continue
		}
		v.contact(g.Group, i, g.Applied, asked)
		if g.Leads {
			v.leads(g.Group, i)
		}
		if g.Committed > 0 {
			v.proof(g.Group, i, g.Committed, asked)
		}
		v.settled(g.Group, l.o.Replicas[g.Group].Standing().Position.Index)
	}
}

// Follower is a group's, as this node sees it.
type Follower struct {
	Group      uint64
	State      State
	Error      string
	Source     string // the source node that is, or was last, read from
	Position   entry.Position
	Stamp      int64
	Lag        Lag
	Mismatches uint64
}

// Followers are the groups' followers, by group.
func (l *Link) Followers() []Follower {
	list := make([]Follower, 0, len(l.followers))
	for _, g := range l.o.Groups {
		f := l.followers[g]
		now := f.replica.Standing()
		f.mu.Lock()
		x := Follower{Group: g, State: f.state, Error: f.err, Source: f.source, Mismatches: f.mismatch}
		f.mu.Unlock()
		x.Position, x.Stamp, x.Lag = now.Position, now.Stamp, l.shared.view.lag(g, now.Position.Index)
		if now.Role == Primary && l.o.Active() {
			x.State, x.Error = Waiting, l.unattached(now.Leads)
		}
		list = append(list, x)
	}
	return list
}

// unattached says what a group waits for that does not know yet whose it is, as this node sees it. Its leader attaches it, once a
// source node has told that who it is.
func (l *Link) unattached(leads bool) string {
	if l.o.Cluster() == "" {
		return "this node does not know its own cluster's id yet"
	}
	if _, known := l.identity(); known && leads {
		return "this node leads the group and is attaching it to its source"
	} else if known {
		return "the node that leads the group has not attached it to its source yet: see what that node waits for"
	}
	for _, n := range l.Sources() {
		if n.Error != "" {
			return n.Error
		}
	}
	return "no node of the source has answered this node yet"
}

// Sources are the source's nodes as the beats found them.
func (l *Link) Sources() []SourceNode {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sources)
}
