package admin

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// frontPage is for whoever looks for RabbitMQ's pages with a browser.
const frontPage = `Understudy %s

This is its admin port. It has no pages, but answers

  /api/overview and what else RabbitMQ's management API has
  /metrics        for Prometheus
  /health/ready   whether clients are served

On a command line: understudy status --admin-url http://%s
`

func (h *Handler) front(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	fmt.Fprintf(w, frontPage, h.o.Version, r.Host)
}

// minorRoutes are what tools ask for and we have next to nothing to say to.
func (h *Handler) minorRoutes() router {
	return router{
		{"GET", "/api/cluster-name", h.clusterName},
		{"GET", "/api/extensions", fixed([]any{})},
		{"GET", "/api/feature-flags", fixed(featureFlags)},
		{"PUT", "/api/feature-flags/{name}/enable", h.administrators(enableFeature)},
		{"GET", "/api/deprecated-features", fixed([]any{})},
		{"GET", "/api/deprecated-features/used", fixed([]any{})},
		{"GET", "/api/auth", fixed(map[string]bool{"oauth_enabled": false})},
		{"GET", "/api/auth/attempts/{node}", h.monitors(h.loginAttempts)},
		{"GET", "/api/global-parameters", h.administrators(h.globalParameters)},
		{"GET", "/api/global-parameters/{name}", h.administrators(h.globalParameter)},
		{"GET", "/api/federation-links", fixed([]any{})},
		{"GET", "/api/shovels", fixed([]any{})},
		{"GET", "/api/version", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, CompatibleVersion) }},
	}
}

func fixed(body any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, body) }
}

func (h *Handler) clusterName(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]string{"name": h.o.Cluster.Cluster().ID})
}

// noComponent refuses what only plugins of RabbitMQ's know (shovel, federation-upstream), in RabbitMQ's words.
func noComponent(w http.ResponseWriter, r *http.Request) {
	fail(w, http.StatusBadRequest, "bad_request", "Validation failed\n\ncomponent "+r.PathValue("component")+" not found\n")
}

func (h *Handler) loginAttempts(w http.ResponseWriter, r *http.Request) {
	rows, err := h.o.Cluster.LoginAttempts(r.Context(), r.PathValue("node"))
	if err != nil {
		made(w, true, err)
		return
	}
	answer(w, http.StatusOK, rows)
}

// featureFlags are those of RabbitMQ's that say something of this broker.
var featureFlags = []api.FeatureFlag{
	flag("drop_unroutable_metric", "Messages that are dropped for want of a route are counted"),
	flag("empty_basic_get_metric", "A basic.get of an empty queue is counted"),
	flag("implicit_default_bindings", "Every queue is bound to the default exchange without a binding of its own"),
	flag("quorum_queue", "Queues of the type quorum"),
	flag("user_limits", "Limits of a user's connections and channels"),
	flag("virtual_host_metadata", "Vhosts have a description, tags and a default type of queues"),
}

func flag(name, desc string) api.FeatureFlag {
	return api.FeatureFlag{Name: name, State: "enabled", Stability: "stable", ProvidedBy: "rabbit", Desc: desc}
}

// enableFeature has nothing to do for what is always enabled.
func enableFeature(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !slices.ContainsFunc(featureFlags, func(f api.FeatureFlag) bool { return f.Name == name }) {
		fail(w, http.StatusBadRequest, "bad_request", "unsupported") // in RabbitMQ's word
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// globals are the global parameters: what RabbitMQ keeps there that we have.
func (h *Handler) globals() []api.GlobalParameter {
	id := h.o.Cluster.Cluster().ID
	return []api.GlobalParameter{{Name: "cluster_name", Value: id}, {Name: "internal_cluster_id", Value: id}}
}

func (h *Handler) globalParameters(w http.ResponseWriter, r *http.Request) {
	list(w, r, h.globals(), func(p api.GlobalParameter) string { return p.Name })
}

func (h *Handler) globalParameter(w http.ResponseWriter, r *http.Request) {
	one(h, w, r, func(string) []api.GlobalParameter { return h.globals() },
		func(p api.GlobalParameter) bool { return p.Name == r.PathValue("name") })
}

// ExchangeTypes are those that a client can declare.
var ExchangeTypes = []api.Named{
	{Name: "direct", Description: "by equal routing key", Enabled: true},
	{Name: "fanout", Description: "to all that is bound", Enabled: true},
	{Name: "topic", Description: "by patterns over the routing key", Enabled: true},
	{Name: "headers", Description: "by headers", Enabled: true},
	{Name: "x-consistent-hash", Description: "by a hash of the routing key, weighted", Enabled: true},
	{Name: "x-modulus-hash", Description: "by a hash of the routing key", Enabled: true},
	{Name: "x-random", Description: "to one of what is bound, by chance", Enabled: true},
	{Name: "x-delayed-message", Description: "as another type, after a delay", Enabled: true},
}
