package admin

import (
	"context"
	"net/http"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// Link is the cluster's part in the standby link.
type Link interface {
	Link() api.Link
	// Promote and Switchover answer once the promoted cluster serves. Errors: Conflict, Unavailable.
	Promote(ctx context.Context) (api.Promotion, error)
	Switchover(ctx context.Context, s api.Switchover) (api.Promotion, error)
	// Promotion is the report; false if there was none.
	Promotion() (api.Promotion, bool)
}

func (h *Handler) linkRoutes() router {
	return router{
		{"GET", "/api/link", h.monitors(func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, h.o.Link.Link()) })},
		{"GET", "/api/link/promotion", h.monitors(h.promotion)},
		{"POST", "/api/link/promote", h.administrators(h.promote)},
		{"POST", "/api/link/switchover", h.administrators(h.switchover)},
	}
}

func (h *Handler) promotion(w http.ResponseWriter, r *http.Request) {
	p, ok := h.o.Link.Promotion()
	if !ok {
		notFound(w, r)
		return
	}
	answer(w, http.StatusOK, p)
}

func (h *Handler) promote(w http.ResponseWriter, r *http.Request) {
	p, err := h.o.Link.Promote(r.Context())
	if err != nil {
		done(w, err)
		return
	}
	answer(w, http.StatusOK, p)
}

func (h *Handler) switchover(w http.ResponseWriter, r *http.Request) {
	var s api.Switchover
	if r.ContentLength != 0 && !decode(w, r, &s) {
		return
	}
	if err := s.Check(); err != nil {
		done(w, err)
		return
	}
	p, err := h.o.Link.Switchover(r.Context(), s)
	if err != nil {
		done(w, err)
		return
	}
	answer(w, http.StatusOK, p)
}
