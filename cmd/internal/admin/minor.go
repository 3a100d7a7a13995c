package admin

import (
	"net/http"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// minorRoutes are what tools ask for and we have next to nothing to say to.
func (h *Handler) minorRoutes() router {
	return router{
		{"GET", "/api/cluster-name", h.clusterName},
		{"GET", "/api/extensions", fixed([]any{})},
		{"GET", "/api/feature-flags", fixed([]any{})},
		{"GET", "/api/deprecated-features", fixed([]any{})},
		{"GET", "/api/deprecated-features/used", fixed([]any{})},
		{"GET", "/api/auth", fixed(map[string]bool{"oauth_enabled": false})},
		{"GET", "/api/auth/attempts/{node}", h.monitors(fixed([]any{}))},
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
