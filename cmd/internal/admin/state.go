package admin

import (
	"net/http"
	"slices"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// inVhost answers the {vhost} of the path, "" where the path has none; false if it has answered 404.
func (h *Handler) inVhost(w http.ResponseWriter, r *http.Request) (string, bool) {
	name := r.PathValue("vhost")
	if name == "" {
		return "", true
	}
	if h.state(r).HasVhost(name) {
		return name, true
	}
	notFound(w, r)
	return "", false
}

// inList answers rows of the path's vhost, or of all.
func inList[T any](h *Handler, w http.ResponseWriter, r *http.Request, rows func(string) []T, name func(T) string) {
	if vhost, ok := h.inVhost(w, r); ok {
		list(w, r, rows(vhost), name)
	}
}

// one answers the row called {name} of the path's vhost.
func one[T any](h *Handler, w http.ResponseWriter, r *http.Request, rows func(string) []T, is func(T) bool) {
	vhost, ok := h.inVhost(w, r)
	if !ok {
		return
	}
	all := rows(vhost)
	if i := slices.IndexFunc(all, is); i >= 0 {
		answer(w, http.StatusOK, all[i])
		return
	}
	notFound(w, r)
}

func (h *Handler) queues(w http.ResponseWriter, r *http.Request) {
	inList(h, w, r, h.state(r).Queues, func(q api.Queue) string { return q.Name })
}

func (h *Handler) queue(w http.ResponseWriter, r *http.Request) {
	one(h, w, r, h.state(r).Queues, func(q api.Queue) bool { return q.Name == r.PathValue("name") })
}

func (h *Handler) queueBindings(w http.ResponseWriter, r *http.Request) {
	vhost, ok := h.inVhost(w, r)
	if !ok {
		return
	}
	name := r.PathValue("name")
	if !slices.ContainsFunc(h.state(r).Queues(vhost), func(q api.Queue) bool { return q.Name == name }) {
		notFound(w, r)
		return
	}
	rows := slices.DeleteFunc(h.state(r).Bindings(vhost), func(b api.Binding) bool {
		return b.DestinationType != "queue" || b.Destination != name
	})
	list(w, r, rows, func(b api.Binding) string { return b.Source })
}

func (h *Handler) exchanges(w http.ResponseWriter, r *http.Request) {
	inList(h, w, r, h.state(r).Exchanges, func(x api.Exchange) string { return x.Name })
}

func (h *Handler) exchange(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name == "amq.default" { // the default exchange's name is empty, which no path can say
		name = ""
	}
	one(h, w, r, h.state(r).Exchanges, func(x api.Exchange) bool { return x.Name == name })
}

func (h *Handler) bindings(w http.ResponseWriter, r *http.Request) {
	inList(h, w, r, h.state(r).Bindings, func(b api.Binding) string { return b.Destination })
}

func (h *Handler) consumers(w http.ResponseWriter, r *http.Request) {
	inList(h, w, r, h.state(r).Consumers, func(c api.Consumer) string { return c.ConsumerTag })
}

func (h *Handler) connections(w http.ResponseWriter, r *http.Request) {
	list(w, r, h.clients(r), func(c api.Connection) string { return c.Name })
}

func (h *Handler) connection(w http.ResponseWriter, r *http.Request) {
	one(h, w, r, func(string) []api.Connection { return h.clients(r) },
		func(c api.Connection) bool { return c.Name == r.PathValue("name") })
}

func (h *Handler) closeConnection(w http.ResponseWriter, r *http.Request) {
	reason := r.Header.Get("X-Reason")
	if reason == "" {
		reason = "Closed via management API"
	}
	name := r.PathValue("name")
	own := slices.ContainsFunc(h.o.Connections.Connections(), func(c api.Connection) bool { return c.Name == name && c.User == caller(r).Name })
	if !own && !has(caller(r), TagAdministrator) {
		h.forbidden(w, r, "Not administrator user")
		return
	}
	if !h.o.Connections.CloseConnection(name, reason) {
		notFound(w, r)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
