package admin

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/definitions"
)

// Definitions are all that a cluster has but for messages; vhost "" is the whole cluster.
type Definitions interface {
	Definitions(vhost string) api.Definitions
	// ImportDefinitions has the cluster become what a file says. Errors: definitions.Faults, all that is wrong with the file, and
	// then nothing has changed; Unavailable, and then a part of it may have come, and the file may be imported again. by is who
	// does it.
	ImportDefinitions(ctx context.Context, by, vhost string, text []byte) error
	// Parameters lists what RabbitMQ keeps as runtime parameters.
	Parameters(vhost string) []api.Parameter
}

func (h *Handler) definitionRoutes() router {
	return router{
		{"GET", "/api/definitions", h.administrators(h.exportDefinitions)},
		{"GET", "/api/definitions/{vhost}", h.administrators(h.exportDefinitions)},
		{"GET", "/api/all-configuration", h.administrators(h.exportDefinitions)},
		{"POST", "/api/definitions", h.administrators(h.importDefinitions)},
		{"POST", "/api/definitions/{vhost}", h.administrators(h.importDefinitions)},
		{"POST", "/api/all-configuration", h.administrators(h.importDefinitions)},
		{"GET", "/api/parameters", h.policymakers(h.parameters)},
		{"GET", "/api/parameters/{component}", h.policymakers(h.parameters)},
		{"GET", "/api/parameters/{component}/{vhost}", h.policymakers(h.parameters)},
		{"GET", "/api/parameters/{component}/{vhost}/{name}", h.policymakers(h.parameter)},
		{"PUT", "/api/parameters/{component}/{vhost}/{name}", h.policymakers(noComponent)},
		{"DELETE", "/api/parameters/{component}/{vhost}/{name}", h.policymakers(notFound)},
	}
}

func (h *Handler) exportDefinitions(w http.ResponseWriter, r *http.Request) {
	if vhost, ok := h.inVhost(w, r); ok {
		answer(w, http.StatusOK, h.o.Definitions.Definitions(vhost))
	}
}

func (h *Handler) importDefinitions(w http.ResponseWriter, r *http.Request) {
	vhost, ok := h.inVhost(w, r)
	if !ok {
		return
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		unreadable(w, err)
		return
	}
	err = h.o.Definitions.ImportDefinitions(r.Context(), caller(r).Name, vhost, text)
	var faults definitions.Faults
	if errors.As(err, &faults) {
		answer(w, http.StatusBadRequest, api.Error{Error: "bad_request", Reason: oneLine(faults), Faults: faults})
		return
	}
	made(w, true, err)
}

func (h *Handler) parameters(w http.ResponseWriter, r *http.Request) {
	inList(h, w, r, visible(h, r, h.parametersOf(r)), func(p api.Parameter) string { return p.Name })
}

func (h *Handler) parameter(w http.ResponseWriter, r *http.Request) {
	one(h, w, r, visible(h, r, h.parametersOf(r)), func(p api.Parameter) bool { return p.Name == r.PathValue("name") })
}

// parametersOf are the parameters of the path's component, or of all.
func (h *Handler) parametersOf(r *http.Request) func(vhost string) []api.Parameter {
	return func(vhost string) []api.Parameter {
		rows := []api.Parameter{}
		for _, p := range h.o.Definitions.Parameters(vhost) {
			if component := r.PathValue("component"); component == "" || component == p.Component {
				rows = append(rows, p)
			}
		}
		return rows
	}
}
