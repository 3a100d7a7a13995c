package admin

import (
	"context"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// Conflict is an error that does not go away by itself: the call does not fit the state of the cluster. It is answered
// with 409 and its own text.
type Conflict struct{ Err error }

// Unavailable is an error that may go away: the cluster cannot do it now. It is answered with 503 and its own text.
type Unavailable struct{ Err error }

func (e Conflict) Error() string    { return e.Err.Error() }
func (e Unavailable) Error() string { return e.Err.Error() }

// State lists what the vhosts hold. vhost "" means all.
type State interface {
	Vhosts() []api.Vhost
	VhostNames() []string
	HasVhost(name string) bool
	Queue(vhost, name string) (api.Queue, bool)
	// QueueRefs are the queues of one vhost, or with "" of all, by name in each; QueuesAt makes rows of those that are still there, one
	// after the other as they are asked for, each with its ref's place.
	QueueRefs(vhost string) []api.QueueRef
	QueuesAt([]api.QueueRef) iter.Seq2[int, api.Queue]
	Exchanges(vhost string) []api.Exchange
	Bindings(vhost string) []api.Binding
	Consumers(vhost string) []api.Consumer
	Channels(vhost string) []api.Channel
	// Traffic is what has passed through some vhosts, with rates.
	Traffic(vhosts []string) api.Traffic
	// Totals are the numbers of messages in some vhosts, with rates, by the names of api.QueueTotals.
	Totals(vhosts []string) map[string]any
}

// Cluster is the node's view of its cluster, and the verbs that change it.
type Cluster interface {
	Name() string // of this node, as listings give it
	Cluster() api.Cluster
	Groups() []api.Group
	Listeners() []api.Listener
	// Certificates are this node's.
	Certificates() []api.Expiring
	// Nodes are the members; what only a node itself knows is missing of one that does not answer.
	Nodes(ctx context.Context) []api.Node
	// LoginAttempts are those at the node of that name. Errors: NotFound, Unavailable.
	LoginAttempts(ctx context.Context, node string) ([]api.LoginAttempts, error)
	AddMember(ctx context.Context, id uint64, address string) error
	PromoteMember(ctx context.Context, id uint64) error
	RemoveMember(ctx context.Context, id uint64) error
	TransferLeader(ctx context.Context, group, id uint64) error
}

// Login answers who a caller is. An Unavailable error says that this cannot be judged now, and is told; any other one's text goes
// to the log, never to the caller.
type Login func(user, password string, peer net.Addr) (api.Whoami, error)

// Options configure a Handler.
type Options struct {
	State       State
	Cluster     Cluster
	Connections Connections
	Accounts    Accounts
	Policies    Policies
	Vhosts      Vhosts
	Objects     Objects
	Link        Link
	Messages    Messages
	Definitions Definitions
	Sessions    Sessions
	Login       Login
	Ready       func() error // nil: clients are served
	Metrics     http.Handler
	Version     string
	Logger      *slog.Logger
}

// Handler answers the requests of an admin port.
type Handler struct {
	o    Options
	root http.Handler
}

// Bounds of a request's body.
const (
	bodyBytesMax    = 1 << 20
	bigBodyBytesMax = 24 << 20 // of those that carry messages or definitions
)

// New makes a Handler.
func New(o Options) *Handler {
	h := &Handler{o: o}
	secured, open, debug := h.authenticated(slices.Concat(h.apiRoutes(), h.accountRoutes(), h.linkRoutes())), h.openRoutes(), loopbackOnly(profiles())
	h.root = http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.EscapedPath(); {
		case strings.HasPrefix(path, "/api/"):
			secured.ServeHTTP(w, r)
		case strings.HasPrefix(path, "/debug/pprof/"):
			debug.ServeHTTP(w, r)
		default:
			open.ServeHTTP(w, r)
		}
	}))
	return h
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	most := int64(bodyBytesMax)
	if path := r.URL.EscapedPath(); strings.HasPrefix(path, "/api/definitions") || strings.HasSuffix(path, "/publish") {
		most = bigBodyBytesMax
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	h.root.ServeHTTP(w, r)
}

var _ http.Handler = (*Handler)(nil)

// openRoutes need no password.
func (h *Handler) openRoutes() router {
	return router{
		{"GET", "/", h.front},
		{"GET", "/health/live", h.live},
		{"GET", "/health/ready", h.ready},
		{"GET", "/metrics", h.o.Metrics.ServeHTTP},
	}
}

func (h *Handler) apiRoutes() router {
	return slices.Concat(h.stateRoutes(), h.policyRoutes(false), h.policyRoutes(true), h.limitRoutes(), h.objectRoutes(),
		h.messageRoutes(), h.clientRoutes(), h.sessionRoutes(), h.healthRoutes(), h.minorRoutes(), h.definitionRoutes(), h.vhostRoutes())
}

// stateRoutes show what there is, and change the cluster.
func (h *Handler) stateRoutes() router {
	return router{
		{"GET", "/api/overview", h.overview},
		{"GET", "/api/nodes", h.monitors(h.nodes)},
		{"GET", "/api/nodes/{name}", h.monitors(h.node)},
		{"GET", "/api/whoami", h.whoami},
		{"GET", "/api/queues", h.queues},
		{"GET", "/api/queues/{vhost}", h.queues},
		{"GET", "/api/queues/{vhost}/{name}", h.queue},
		{"GET", "/api/queues/{vhost}/{name}/bindings", h.queueBindings},
		{"GET", "/api/exchanges", h.exchanges},
		{"GET", "/api/exchanges/{vhost}", h.exchanges},
		{"GET", "/api/exchanges/{vhost}/{name}", h.exchange},
		{"GET", "/api/exchanges/{vhost}/{name}/bindings/{end}", h.exchangeBindings},
		{"GET", "/api/bindings", h.bindings},
		{"GET", "/api/bindings/{vhost}", h.bindings},
		{"GET", "/api/cluster", h.monitors(h.cluster)},
		{"GET", "/api/cluster/members", h.monitors(h.members)},
		{"POST", "/api/cluster/members", h.administrators(h.addMember)},
		{"DELETE", "/api/cluster/members/{id}", h.administrators(h.removeMember)},
		{"POST", "/api/cluster/members/{id}/promote", h.administrators(h.promoteMember)},
		{"POST", "/api/cluster/transfer-leader", h.administrators(h.transferLeader)},
		{"GET", "/api/groups", h.monitors(h.groups)},
	}
}
