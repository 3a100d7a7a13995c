package admin

import (
	"context"
	"net/http"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// Vhosts makes and deletes vhosts. A call that answers nil has come to the groups that it concerns, and shows in the node's
// listings. Errors: NotFound, Conflict, Unavailable, or else what is wrong with the call. by is who makes it.
type Vhosts interface {
	// PutVhost makes a vhost in which by may do everything, or changes what is said of one. created says which.
	PutVhost(ctx context.Context, by, name string, v api.NewVhost) (created bool, err error)
	// DeleteVhost deletes a vhost, its permissions and all that is in it; its connections are closed.
	DeleteVhost(ctx context.Context, by, name string) error
}

func (h *Handler) vhostRoutes() router {
	return router{
		{"GET", "/api/vhosts", h.vhosts},
		{"GET", "/api/vhosts/{vhost}", h.vhost},
		{"PUT", "/api/vhosts/{vhost}", h.administrators(h.putVhost)},
		{"DELETE", "/api/vhosts/{vhost}", h.administrators(h.deleteVhost)},
	}
}

func (h *Handler) vhosts(w http.ResponseWriter, r *http.Request) {
	list(w, r, h.state(r).Vhosts(), func(v api.Vhost) string { return v.Name })
}

func (h *Handler) vhost(w http.ResponseWriter, r *http.Request) {
	one(h, w, r, func(string) []api.Vhost { return h.state(r).Vhosts() },
		func(v api.Vhost) bool { return v.Name == r.PathValue("vhost") })
}

func (h *Handler) putVhost(w http.ResponseWriter, r *http.Request) {
	var v api.NewVhost
	if r.ContentLength != 0 && !decode(w, r, &v) {
		return
	}
	if v.Tracing {
		fail(w, http.StatusBadRequest, "bad_request", "tracing is not supported")
		return
	}
	created, err := h.o.Vhosts.PutVhost(r.Context(), caller(r).Name, r.PathValue("vhost"), v)
	made(w, !created, err)
}

func (h *Handler) deleteVhost(w http.ResponseWriter, r *http.Request) {
	made(w, true, h.o.Vhosts.DeleteVhost(r.Context(), caller(r).Name, r.PathValue("vhost")))
}
