package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// NotFound says that what a call names is not there. It is answered with 404 and its own text.
type NotFound struct{ Err error }

// Forbidden says that the caller may not do this. It is answered with 403 and its own text.
type Forbidden struct{ Err error }

func (e NotFound) Error() string  { return e.Err.Error() }
func (e Forbidden) Error() string { return e.Err.Error() }

// Policies are the vhosts' policies, operator policies and limits, and the verbs that change them. A change that answers nil
// is applied and shows in the node's listings. Errors: NotFound (no such vhost), Unavailable, or else what is wrong with the
// change. by is who makes it.
type Policies interface {
	// Policies lists those of a vhost, of all vhosts with "".
	Policies(vhost string, operator bool) []api.Policy
	SetPolicy(ctx context.Context, by string, operator bool, vhost, name string, p api.NewPolicy) error
	DeletePolicy(ctx context.Context, by string, operator bool, vhost, name string) error
	// VhostLimits lists the vhosts that have any, of one vhost or with "" of all.
	VhostLimits(vhost string) []api.VhostLimits
	// SetVhostLimit sets max-queues or max-connections; a negative value is no limit.
	SetVhostLimit(ctx context.Context, by, vhost, limit string, value int64) error
}

// policyRoutes are those of policies, or with operator of operator policies.
func (h *Handler) policyRoutes(operator bool) router {
	path := "/api/policies"
	if operator {
		path = "/api/operator-policies"
	}
	change := h.policymakers
	if operator {
		change = h.administrators
	}
	rows := func(vhost string) []api.Policy { return h.o.Policies.Policies(vhost, operator) }
	listing := func(w http.ResponseWriter, r *http.Request) {
		inList(h, w, r, visible(h, r, rows), func(p api.Policy) string { return p.Name })
	}
	return router{
		{"GET", path, listing},
		{"GET", path + "/{vhost}", listing},
		{"GET", path + "/{vhost}/{name}", func(w http.ResponseWriter, r *http.Request) {
			one(h, w, r, visible(h, r, rows), func(p api.Policy) bool { return p.Name == r.PathValue("name") })
		}},
		{"PUT", path + "/{vhost}/{name}", change(func(w http.ResponseWriter, r *http.Request) { h.setPolicy(w, r, operator) })},
		{"DELETE", path + "/{vhost}/{name}", change(func(w http.ResponseWriter, r *http.Request) { h.deletePolicy(w, r, operator) })},
	}
}

func (h *Handler) setPolicy(w http.ResponseWriter, r *http.Request, operator bool) {
	vhost, ok := h.inVhost(w, r)
	if !ok {
		return
	}
	var p api.NewPolicy
	if !decode(w, r, &p) {
		return
	}
	if p.Pattern == nil || len(p.Definition) == 0 {
		fail(w, http.StatusBadRequest, "bad_request", "a policy needs a pattern and a definition with at least one key")
		return
	}
	if p.ApplyTo == "" {
		p.ApplyTo = "all"
	}
	there := h.hasPolicy(operator, vhost, r.PathValue("name"))
	made(w, there, h.o.Policies.SetPolicy(r.Context(), caller(r).Name, operator, vhost, r.PathValue("name"), p))
}

func (h *Handler) deletePolicy(w http.ResponseWriter, r *http.Request, operator bool) {
	vhost, ok := h.inVhost(w, r)
	if !ok {
		return
	}
	if !h.hasPolicy(operator, vhost, r.PathValue("name")) {
		notFound(w, r)
		return
	}
	made(w, true, h.o.Policies.DeletePolicy(r.Context(), caller(r).Name, operator, vhost, r.PathValue("name")))
}

func (h *Handler) hasPolicy(operator bool, vhost, name string) bool {
	return slices.ContainsFunc(h.o.Policies.Policies(vhost, operator), func(p api.Policy) bool { return p.Name == name })
}

// made answers a PUT or DELETE: 204 for a thing that was there before, 201 for a new one, or what the error stands for.
func made(w http.ResponseWriter, there bool, err error) {
	switch {
	case errors.As(err, new(NotFound)):
		fail(w, http.StatusNotFound, "Object Not Found", oneLine(err))
	case errors.As(err, new(Forbidden)):
		fail(w, http.StatusForbidden, "access_refused", oneLine(err))
	case err != nil || there:
		done(w, err)
	default:
		w.WriteHeader(http.StatusCreated)
	}
}

func (h *Handler) limitRoutes() router {
	return router{
		{"GET", "/api/vhost-limits", h.vhostLimits},
		{"GET", "/api/vhost-limits/{vhost}", h.vhostLimits},
		{"PUT", "/api/vhost-limits/{vhost}/{limit}", h.administrators(h.setVhostLimit)},
		{"DELETE", "/api/vhost-limits/{vhost}/{limit}", h.administrators(h.deleteVhostLimit)},
	}
}

func (h *Handler) vhostLimits(w http.ResponseWriter, r *http.Request) {
	inList(h, w, r, visible(h, r, h.o.Policies.VhostLimits), func(l api.VhostLimits) string { return l.Vhost })
}

func (h *Handler) setVhostLimit(w http.ResponseWriter, r *http.Request) {
	vhost, ok := h.inVhost(w, r)
	if !ok {
		return
	}
	var l api.NewLimit
	if !decode(w, r, &l) {
		return
	}
	if l.Value == nil {
		fail(w, http.StatusBadRequest, "bad_request", `a limit needs a "value", a whole number`)
		return
	}
	made(w, true, h.o.Policies.SetVhostLimit(r.Context(), caller(r).Name, vhost, r.PathValue("limit"), *l.Value))
}

func (h *Handler) deleteVhostLimit(w http.ResponseWriter, r *http.Request) {
	if vhost, ok := h.inVhost(w, r); ok {
		made(w, true, h.o.Policies.SetVhostLimit(r.Context(), caller(r).Name, vhost, r.PathValue("limit"), -1))
	}
}
