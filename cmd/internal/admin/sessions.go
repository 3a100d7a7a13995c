package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// Sessions lists the named sessions of a vhost ("" for all), and ends them.
type Sessions interface {
	Sessions(vhost string) []api.Session
	// CloseSession ends a session, attached or not: what it holds goes back to its queues. Errors: NotFound, Unavailable.
	CloseSession(ctx context.Context, by string, s api.Session) error
}

func (h *Handler) sessionRoutes() router {
	return router{
		{"GET", "/api/sessions", h.sessions},
		{"GET", "/api/sessions/{vhost}", h.sessions},
		{"GET", "/api/sessions/{vhost}/{id}", h.session},
		{"DELETE", "/api/sessions/{vhost}/{id}", h.closeSession},
	}
}

// seenSessions are those that the caller may see: its own, and with the tag all. An id is as good as a password, but for the
// same user only.
func (h *Handler) seenSessions(r *http.Request, vhost string) []api.Session {
	all := h.o.Sessions.Sessions(vhost)
	if seesAll(r) {
		return all
	}
	name := caller(r).Name
	return slices.DeleteFunc(all, func(s api.Session) bool { return s.User != name })
}

func (h *Handler) sessions(w http.ResponseWriter, r *http.Request) {
	if vhost, ok := h.inVhost(w, r); ok {
		list(w, r, h.seenSessions(r, vhost), func(s api.Session) string { return s.ID })
	}
}

// namedSession finds the one session that path and query name: {id}, and ?user= where several users have it.
func (h *Handler) namedSession(w http.ResponseWriter, r *http.Request) (api.Session, bool) {
	vhost, ok := h.inVhost(w, r)
	if !ok {
		return api.Session{}, false
	}
	user, id := r.URL.Query().Get("user"), r.PathValue("id")
	found := slices.DeleteFunc(h.seenSessions(r, vhost), func(s api.Session) bool { return s.ID != id || user != "" && s.User != user })
	switch len(found) {
	case 0:
		notFound(w, r)
		return api.Session{}, false
	case 1:
		return found[0], true
	}
	fail(w, http.StatusBadRequest, "bad_request", fmt.Sprintf("%d users have a session of that id: say which with ?user=NAME", len(found)))
	return api.Session{}, false
}

func (h *Handler) session(w http.ResponseWriter, r *http.Request) {
	if s, ok := h.namedSession(w, r); ok {
		answer(w, http.StatusOK, s)
	}
}

// closeSession is for the session's own user and for administrators.
func (h *Handler) closeSession(w http.ResponseWriter, r *http.Request) {
	s, ok := h.namedSession(w, r)
	if !ok {
		return
	}
	if who := caller(r); who.Name != s.User && !has(who, TagAdministrator) {
		h.forbidden(w, r, "Not administrator user")
		return
	}
	made(w, true, h.o.Sessions.CloseSession(r.Context(), caller(r).Name, s))
}
