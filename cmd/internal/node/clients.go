package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/understudy-mq/understudy/amqp"
	v091 "github.com/understudy-mq/understudy/amqp/v091"
	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/audit"
	"github.com/understudy-mq/understudy/cmd/internal/certs"
	"github.com/understudy-mq/understudy/cmd/internal/jsontable"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/session"
	"github.com/understudy-mq/understudy/session/auth"
)

// openClients makes the AMQP server; its listeners are served once the node is ready.
func (n *Node) openClients() error {
	if n.cfg.AMQPS != "" {
		var err error
		files := certs.Files{Cert: n.cfg.TLSCert, Key: n.cfg.TLSKey, CA: n.cfg.TLSCA}
		if n.clientTLS, err = certs.Server(files, n.log); err != nil {
			return err
		}
	}
	n.clients = amqp.New(amqp.Options{
		V091: v091.Options{
			Attach:          n.attach,
			Authenticate:    n.clientLogin,
			Certified:       n.certifiedLogin,
			MaxMessageBytes: uint64(n.cfg.MaxMessageBytes),
			Flow:            n.broker.Flow(),
			Version:         n.o.Version,
			ClusterName:     n.ClusterID,
			Hosts:           n.hosts,
			Announce:        n.sayToQueue,
			Occupied:        n.occupied,
		},
		Logger: n.log,
	})
	return nil
}

// serveClients lets AMQP clients in. Those that knocked since the start have waited for it.
func (n *Node) serveClients() {
	for _, l := range n.listeners {
		var secure *tls.Config
		switch l.protocol {
		case protocolAMQPS:
			secure = n.clientTLS
		case protocolAMQP:
		default:
			continue
		}
		n.background.Go(func() {
			if err := n.clients.Serve(context.Background(), l.Listener, secure); err != nil {
				n.o.Fatal(err)
			}
		})
	}
}

// ownConnections lists this node's clients.
func (n *Node) ownConnections() []api.Connection {
	infos := n.clients.Connections()
	rows := make([]api.Connection, len(infos))
	for i, c := range infos {
		peerHost, peerPort := hostPort(c.Peer)
		host, port := hostPort(c.Local)
		rows[i] = api.Connection{
			Type: "network", Name: c.Name, UserProvidedName: c.Title, Node: n.Name(), User: c.User, Vhost: c.Vhost, Protocol: c.Protocol,
			State: c.State, PeerHost: peerHost, PeerPort: peerPort, Host: host, Port: port, Channels: c.Channels, ChannelMax: c.ChannelMax,
			FrameMax: c.FrameMax, TimeoutSeconds: int64(c.Heartbeat.Seconds()), ConnectedAt: c.Since.UnixMilli(),
			ReceivedBytes: c.Received, SentBytes: c.Sent, UserWhoPerformedAction: c.User,
			SSL: n.secured(port), ClientProperties: jsontable.Decode(c.Properties),
		}
	}
	return rows
}

// Connections lists the clients of all nodes that answer, by name.
func (n *Node) Connections(ctx context.Context) []api.Connection {
	rows := []api.Connection{}
	for _, own := range askAll[[]api.Connection](ctx, n, question{Want: "connections"}) {
		rows = append(rows, own...)
	}
	slices.SortFunc(rows, func(a, b api.Connection) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node)) })
	return rows
}

// secured says whether the port is the one for TLS.
func (n *Node) secured(port int) bool {
	for _, l := range n.Listeners() {
		if l.Protocol == protocolAMQPS && l.Port == port {
			return true
		}
	}
	return false
}

// CloseConnection closes a client's connection with 320, at whatever node it is; false if there is none of that name.
func (n *Node) CloseConnection(ctx context.Context, name, reason string) (bool, error) {
	answers := askAll[bool](ctx, n, question{Want: "close", Name: name, Reason: reason})
	for _, closed := range answers {
		if closed {
			return true, nil
		}
	}
	return false, n.heardAll(len(answers))
}

// CloseConnectionsOf closes a user's connections with 320, at whatever node they are.
func (n *Node) CloseConnectionsOf(ctx context.Context, user, reason string) error {
	return n.heardAll(len(askAll[bool](ctx, n, question{Want: "close-user", Name: user, Reason: reason})))
}

// heardAll is an error if fewer answered than run.
func (n *Node) heardAll(answers int) error {
	if all := len(n.running()); answers < all {
		return admin.Unavailable{Err: fmt.Errorf("%d of %d nodes have not answered: what is asked for may be with one of them", all-answers, all)}
	}
	return nil
}

// ConnectionsByUser counts the clients of all nodes that answer.
func (n *Node) ConnectionsByUser(ctx context.Context) map[string]int {
	users := map[string]int{}
	for _, own := range askAll[map[string]int](ctx, n, question{Want: "users"}) {
		for user, connections := range own {
			users[user] += connections
		}
	}
	return users
}

// openAudit opens the record of logins, denials and changes.
func (n *Node) openAudit() error {
	log, err := audit.Open(n.cfg.Data, audit.Options{FS: n.folder.fs, Logger: n.log})
	n.audit, n.accounts.audit = log, log.Keep
	return err
}

// clientLogin judges AMQP clients, and takes note.
func (n *Node) clientLogin(user, password string, peer net.Addr) (string, error) {
	return n.entering(user, "", peer, func() (*auth.Identity, error) { return n.logins.Authenticate(user, password, peer) })
}

// certifiedLogin judges AMQP clients that show a certificate and ask for EXTERNAL, and takes note.
func (n *Node) certifiedLogin(cert *x509.Certificate, peer net.Addr) (string, error) {
	user := certs.UserOf(cert, n.cfg.TLSLoginFrom)
	how := "certificate " + cert.SerialNumber.Text(16)
	return n.entering(user, how, peer, func() (*auth.Identity, error) { return n.logins.Certified(user, peer) })
}

// entering judges an AMQP client and takes note, unless nobody can be judged now.
func (n *Node) entering(user, how string, peer net.Addr, judge func() (*auth.Identity, error)) (string, error) {
	if err := n.undecided(); err != nil {
		return "", &session.Error{Code: core.CodeConnectionForced, Text: err.Error()}
	}
	name, err := amqp.NameOf(n.judged(judge))
	n.noteLogin(user, how, peer, err)
	return name, err
}

// undecided says why nobody's login can be judged here now, nil if it can: a standby does not know its source's users yet, or
// the node does not hear what is changed. While it is being promoted nothing is.
func (n *Node) undecided() error {
	if n.noUsersYet() {
		n.accounts.refresh() // what is known of users is a moment old
	}
	if n.noUsersYet() {
		return errors.New(standbyReason)
	}
	if _, deaf := n.registered.missing([]uint64{systemGroup}); deaf && !n.standsBy() && !n.promotedLately() {
		return errDeaf
	}
	return nil
}

// judged is what judge answers by the newest that the system group's state says: what the registry knows is a moment old.
func (n *Node) judged(judge func() (*auth.Identity, error)) (*auth.Identity, error) {
	known := n.accounts.registry.Generation()
	who, err := judge()
	if err == nil {
		return who, nil
	}
	if n.accounts.refresh(); n.accounts.registry.Generation() != known {
		return judge()
	}
	return nil, err
}

func (n *Node) noteLogin(user, how string, peer net.Addr, refusal error) {
	n.attempts.amqp091.note(refusal)
	e := audit.Event{Event: "login", User: user, Peer: peerText(peer), Text: how}
	if refusal != nil {
		e.Event, e.Text = "login_refused", refusal.Error()
	}
	n.audit.Note(e)
}

// isTopic says whether an exchange is a topic exchange, or is not known to this node yet: what is published right behind
// the exchange's declaration is judged before that is applied.
func (n *Node) isTopic(vhost, exchange string) bool {
	home, ok := n.vhostHome(vhost)
	if !ok {
		return true
	}
	kind, known := "", false
	n.states[home.Group].View(func(m *core.Machine) { kind, known = m.ExchangeType(vhost, exchange) })
	return !known || kind == "topic"
}

// denied takes note of what a client was not allowed.
func (n *Node) denied(user, vhost, text string) {
	n.audit.Note(audit.Event{Event: "denied", User: user, Vhost: vhost, Text: text})
}

// nobody may look at a standby from its own machine until its source's users have come.
func (n *Node) nobody(peer net.Addr) (api.Whoami, bool) {
	at, ok := peer.(*net.TCPAddr)
	if !ok || !at.IP.IsLoopback() || !n.noUsersYet() {
		return api.Whoami{}, false
	}
	return api.Whoami{Name: n.cfg.DefaultUser, Tags: api.Tags{admin.TagAdministrator}}, true
}

// errDeaf is why a node that has lost the system group's leader lets nobody in.
var errDeaf = errors.New("node cannot reach the system group's leader")

// attach lets a client in while the node hears of changes to what its user may do.
func (n *Node) attach(ctx context.Context, a session.Attach, e session.Endpoint) (v091.Session, error) {
	if err := n.admit(ctx); err != nil {
		return nil, err
	}
	if _, deaf := n.registered.missing([]uint64{systemGroup}); deaf {
		return nil, &session.Error{Code: core.CodeConnectionForced, Text: errDeaf.Error()}
	}
	return amqp.Sessions(n.broker)(ctx, a, e)
}

// heldElsewhere counts what a user holds on the other nodes.
func (n *Node) heldElsewhere(user string) (connections, channels int) {
	for _, id := range n.groups[1:] {
		n.states[id].View(func(m *core.Machine) {
			s, c := m.HeldBy(user, n.cfg.NodeID)
			connections, channels = connections+s, channels+c
		})
	}
	return connections, channels
}

// peerText is a peer's address for people; it may have none.
func peerText(peer net.Addr) string {
	if peer == nil {
		return ""
	}
	return peer.String()
}

// login judges callers of the admin API as AMQP clients are judged, but lets in whom it knows also while the node is cut off:
// that is when people want to look. Who is refused then, or before the node knows anybody, hears admin.Unavailable.
func (n *Node) login(user, password string, peer net.Addr) (api.Whoami, error) {
	if who, ok := n.nobody(peer); ok {
		return who, nil
	}
	if n.accounts.registry.Generation() == 0 {
		return api.Whoami{}, admin.Unavailable{Err: fmt.Errorf("users are not known yet: %w", cmp.Or(n.undecided(), errForming))}
	}
	who, err := n.judged(func() (*auth.Identity, error) { return n.logins.Authenticate(user, password, peer) })
	if why := n.undecided(); err != nil && why != nil {
		return api.Whoami{}, admin.Unavailable{Err: fmt.Errorf("%w, and by what it knew last the login is refused", why)}
	}
	n.attempts.http.note(err)
	if r := (*auth.Refusal)(nil); errors.As(err, &r) {
		n.audit.Note(audit.Event{Event: "login_refused", User: user, Peer: peerText(peer), Text: "admin API: " + r.Reason})
		return api.Whoami{}, errors.New(r.Reason) // for the log
	}
	if err != nil {
		return api.Whoami{}, err
	}
	return api.Whoami{Name: who.User, Tags: who.Tags}, nil
}

func hostPort(address string) (string, int) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address, 0
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return host, 0
	}
	return host, n
}

var (
	_ admin.Connections = (*Node)(nil)
	_ admin.Cluster     = (*Node)(nil)
	_ admin.State       = (*Node)(nil)
)
