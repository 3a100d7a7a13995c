package admin

import (
	"context"
	"net/http"
	"net/url"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// Objects declare, bind and delete what clients do, on behalf of a user and by the rules for clients. A call that answers nil
// is applied and shows in the node's listings. Errors: NotFound, Forbidden, Unavailable, or else what is wrong with the call.
type Objects interface {
	// DeclareQueue says in created that the queue was not there before; so does DeclareExchange.
	DeclareQueue(ctx context.Context, user, vhost, name string, q api.NewQueue) (created bool, err error)
	DeleteQueue(ctx context.Context, user, vhost, name string, ifUnused, ifEmpty bool) error
	PurgeQueue(ctx context.Context, user, vhost, name string) error
	DeclareExchange(ctx context.Context, user, vhost, name string, x api.NewExchange) (created bool, err error)
	DeleteExchange(ctx context.Context, user, vhost, name string, ifUnused bool) error
	Bind(ctx context.Context, user string, at api.BindingRef, b api.NewBinding) (propertiesKey string, err error)
	Unbind(ctx context.Context, user string, at api.BindingRef, propertiesKey string) error
}

func (h *Handler) objectRoutes() router {
	const queue, exchange = "/api/queues/{vhost}/{name}", "/api/exchanges/{vhost}/{name}"
	routes := router{
		{"PUT", queue, h.declareQueue},
		{"DELETE", queue, h.deleteQueue},
		{"DELETE", queue + "/contents", h.purgeQueue},
		{"PUT", exchange, h.declareExchange},
		{"DELETE", exchange, h.deleteExchange},
	}
	for _, kind := range []string{"q", "e"} {
		path := "/api/bindings/{vhost}/e/{source}/" + kind + "/{destination}"
		toQueue := kind == "q"
		routes = append(routes, router{
			{"GET", path, func(w http.ResponseWriter, r *http.Request) { h.bindingsBetween(w, r, toQueue) }},
			{"POST", path, func(w http.ResponseWriter, r *http.Request) { h.bind(w, r, toQueue) }},
			{"GET", path + "/{properties}", func(w http.ResponseWriter, r *http.Request) { h.bindingBetween(w, r, toQueue) }},
			{"DELETE", path + "/{properties}", func(w http.ResponseWriter, r *http.Request) { h.unbind(w, r, toQueue) }},
		}...)
	}
	return routes
}

// asked says whether the query has name=true.
func asked(r *http.Request, name string) bool { return r.URL.Query().Get(name) == "true" }

func (h *Handler) declareQueue(w http.ResponseWriter, r *http.Request) {
	vhost, ok := h.inVhost(w, r)
	var q api.NewQueue
	if !ok || !decode(w, r, &q) {
		return
	}
	created, err := h.o.Objects.DeclareQueue(r.Context(), caller(r).Name, vhost, r.PathValue("name"), q)
	made(w, !created, err)
}

func (h *Handler) deleteQueue(w http.ResponseWriter, r *http.Request) {
	if vhost, ok := h.inVhost(w, r); ok {
		ifUnused, ifEmpty := asked(r, "if-unused"), asked(r, "if-empty")
		made(w, true, h.o.Objects.DeleteQueue(r.Context(), caller(r).Name, vhost, r.PathValue("name"), ifUnused, ifEmpty))
	}
}

func (h *Handler) purgeQueue(w http.ResponseWriter, r *http.Request) {
	if vhost, ok := h.inVhost(w, r); ok {
		made(w, true, h.o.Objects.PurgeQueue(r.Context(), caller(r).Name, vhost, r.PathValue("name")))
	}
}

func (h *Handler) declareExchange(w http.ResponseWriter, r *http.Request) {
	vhost, ok := h.inVhost(w, r)
	var x api.NewExchange
	if !ok || !decode(w, r, &x) {
		return
	}
	created, err := h.o.Objects.DeclareExchange(r.Context(), caller(r).Name, vhost, r.PathValue("name"), x)
	made(w, !created, err)
}

func (h *Handler) deleteExchange(w http.ResponseWriter, r *http.Request) {
	if vhost, ok := h.inVhost(w, r); ok {
		made(w, true, h.o.Objects.DeleteExchange(r.Context(), caller(r).Name, vhost, r.PathValue("name"), asked(r, "if-unused")))
	}
}

// bindingRef reads which ends the path names; the default exchange is called amq.default there.
func (h *Handler) bindingRef(w http.ResponseWriter, r *http.Request, toQueue bool) (api.BindingRef, bool) {
	vhost, ok := h.inVhost(w, r)
	at := api.BindingRef{Vhost: vhost, Source: r.PathValue("source"), Destination: r.PathValue("destination"), ToQueue: toQueue}
	at.Source = exchangeName(at.Source)
	return at, ok
}

func (h *Handler) bindingsBetween(w http.ResponseWriter, r *http.Request, toQueue bool) {
	if at, ok := h.bindingRef(w, r, toQueue); ok {
		list(w, r, h.bindingsAt(r, at), func(b api.Binding) string { return b.PropertiesKey })
	}
}

func (h *Handler) bindingBetween(w http.ResponseWriter, r *http.Request, toQueue bool) {
	if at, ok := h.bindingRef(w, r, toQueue); ok {
		one(h, w, r, func(string) []api.Binding { return h.bindingsAt(r, at) },
			func(b api.Binding) bool { return b.PropertiesKey == r.PathValue("properties") })
	}
}

func (h *Handler) bindingsAt(r *http.Request, at api.BindingRef) []api.Binding {
	rows := []api.Binding{}
	for _, b := range h.state(r).Bindings(at.Vhost) {
		if b.Source == at.Source && b.Destination == at.Destination && (b.DestinationType == "queue") == at.ToQueue {
			rows = append(rows, b)
		}
	}
	return rows
}

func (h *Handler) bind(w http.ResponseWriter, r *http.Request, toQueue bool) {
	at, ok := h.bindingRef(w, r, toQueue)
	var b api.NewBinding
	if !ok || !decode(w, r, &b) {
		return
	}
	key, err := h.o.Objects.Bind(r.Context(), caller(r).Name, at, b)
	if err == nil {
		w.Header().Set("Location", url.PathEscape(at.Destination)+"/"+url.PathEscape(key)) // from the call's own path
	}
	made(w, false, err)
}

func (h *Handler) unbind(w http.ResponseWriter, r *http.Request, toQueue bool) {
	if at, ok := h.bindingRef(w, r, toQueue); ok {
		made(w, true, h.o.Objects.Unbind(r.Context(), caller(r).Name, at, r.PathValue("properties")))
	}
}
