package admin

import (
	"context"
	"net/http"
	"slices"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// Connections are the clients of all nodes. Those of a node that does not answer are missing.
type Connections interface {
	Connections(ctx context.Context) []api.Connection
	// ConnectionsByUser counts them; those that are not opened yet are nobody's ("").
	ConnectionsByUser(ctx context.Context) map[string]int
	// CloseConnection closes one by its name, wherever it is; false if there is none.
	CloseConnection(ctx context.Context, name, reason string) (bool, error)
	// CloseConnectionsOf closes all of a user's.
	CloseConnectionsOf(ctx context.Context, user, reason string) error
}

func (h *Handler) clientRoutes() router {
	return router{
		{"GET", "/api/connections", h.connections},
		{"GET", "/api/connections/{name}", h.connection},
		{"GET", "/api/connections/{name}/channels", h.connectionChannels},
		{"GET", "/api/connections/username/{user}", h.connections},
		{"DELETE", "/api/connections/username/{user}", h.closeConnectionsOf},
		{"GET", "/api/vhosts/{vhost}/connections", h.connections},
		{"DELETE", "/api/connections/{name}", h.closeConnection},
		{"GET", "/api/channels", h.channels},
		{"GET", "/api/channels/{name}", h.channel},
		{"GET", "/api/vhosts/{vhost}/channels", h.channels},
		{"GET", "/api/consumers", h.consumers},
		{"GET", "/api/consumers/{vhost}", h.consumers},
	}
}

// clients are the connections that the caller may see.
func (h *Handler) clients(r *http.Request) []api.Connection {
	all := h.o.Connections.Connections(r.Context())
	if seesAll(r) {
		return all
	}
	name := caller(r).Name
	return slices.DeleteFunc(all, func(c api.Connection) bool { return c.User != name })
}

// countClients counts the connections that the caller may see.
func (h *Handler) countClients(r *http.Request) (count int) {
	for user, connections := range h.o.Connections.ConnectionsByUser(r.Context()) {
		if seesAll(r) || user == caller(r).Name {
			count += connections
		}
	}
	return count
}

// openChannels are the channels that the caller may see.
func (h *Handler) openChannels(r *http.Request, vhost string) []api.Channel {
	all := h.state(r).Channels(vhost)
	if seesAll(r) {
		return all
	}
	name := caller(r).Name
	return slices.DeleteFunc(all, func(c api.Channel) bool { return c.User != name })
}

// connections answers all, or those of the path's vhost or user.
func (h *Handler) connections(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.inVhost(w, r); ok {
		rows := slices.DeleteFunc(h.clients(r), func(c api.Connection) bool { return !of(r, c.User, c.Vhost) })
		list(w, r, rows, func(c api.Connection) string { return c.Name })
	}
}

func (h *Handler) connection(w http.ResponseWriter, r *http.Request) {
	one(h, w, r, func(string) []api.Connection { return h.clients(r) },
		func(c api.Connection) bool { return c.Name == r.PathValue("name") })
}

func (h *Handler) connectionChannels(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !slices.ContainsFunc(h.clients(r), func(c api.Connection) bool { return c.Name == name }) {
		notFound(w, r)
		return
	}
	rows := slices.DeleteFunc(h.openChannels(r, ""), func(c api.Channel) bool { return c.ConnectionDetails.Name != name })
	list(w, r, rows, func(c api.Channel) string { return c.Name })
}

func (h *Handler) closeConnection(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	own := slices.ContainsFunc(h.o.Connections.Connections(r.Context()), func(c api.Connection) bool {
		return c.Name == name && c.User == caller(r).Name
	})
	if !own && !has(caller(r), TagAdministrator) {
		h.forbidden(w, r, "Not administrator user")
		return
	}
	there, err := h.o.Connections.CloseConnection(r.Context(), name, closeReason(r))
	if err == nil && !there {
		notFound(w, r)
		return
	}
	done(w, err)
}

// closeConnectionsOf closes all connections of a user.
func (h *Handler) closeConnectionsOf(w http.ResponseWriter, r *http.Request) {
	user := r.PathValue("user")
	if user != caller(r).Name && !has(caller(r), TagAdministrator) {
		h.forbidden(w, r, "Not administrator user")
		return
	}
	done(w, h.o.Connections.CloseConnectionsOf(r.Context(), user, closeReason(r)))
}

// closeReason is what a client is told.
func closeReason(r *http.Request) string {
	if reason := r.Header.Get("X-Reason"); reason != "" {
		return reason
	}
	return "Closed via management API"
}

func (h *Handler) channels(w http.ResponseWriter, r *http.Request) {
	inList(h, w, r, func(vhost string) []api.Channel { return h.openChannels(r, vhost) }, func(c api.Channel) string { return c.Name })
}

func (h *Handler) channel(w http.ResponseWriter, r *http.Request) {
	all := h.openChannels(r, "")
	i := slices.IndexFunc(all, func(c api.Channel) bool { return c.Name == r.PathValue("name") })
	if i < 0 {
		notFound(w, r)
		return
	}
	row := api.ChannelDetails{Channel: all[i], ConsumerDetails: []api.Consumer{}}
	for _, c := range h.state(r).Consumers(row.Vhost) {
		if c.ChannelDetails.Name == row.Name {
			row.ConsumerDetails = append(row.ConsumerDetails, c)
		}
	}
	answer(w, http.StatusOK, row)
}

func (h *Handler) consumers(w http.ResponseWriter, r *http.Request) {
	inList(h, w, r, h.state(r).Consumers, func(c api.Consumer) string { return c.ConsumerTag })
}
