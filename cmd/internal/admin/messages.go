package admin

import (
	"context"
	"net/http"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// Messages gets and publishes messages on behalf of a user, by the rules for clients. Errors: as those of Objects.
type Messages interface {
	// GetMessages gets up to q.Count messages from the head of a queue and settles them as q.AckMode says; fewer if they are
	// very big.
	GetMessages(ctx context.Context, user, vhost, queue string, q api.GetMessages) ([]api.Message, error)
	// PublishMessage answers once the message is confirmed; routed says that it went to a queue. The default exchange is "".
	PublishMessage(ctx context.Context, user, vhost, exchange string, p api.PublishMessage) (routed bool, err error)
}

func (h *Handler) messageRoutes() router {
	return router{
		{"POST", "/api/queues/{vhost}/{name}/get", h.getMessages},
		{"POST", "/api/exchanges/{vhost}/{name}/publish", h.publishMessage},
	}
}

func (h *Handler) getMessages(w http.ResponseWriter, r *http.Request) {
	vhost, ok := h.inVhost(w, r)
	q := api.GetMessages{Count: 1, AckMode: api.AckRequeue, Encoding: api.EncodingAuto}
	if !ok || !decode(w, r, &q) {
		return
	}
	if q.Requeue != nil && !bool(*q.Requeue) {
		q.AckMode = api.AckRemove
	}
	rows, err := h.o.Messages.GetMessages(r.Context(), caller(r).Name, vhost, r.PathValue("name"), q)
	if err != nil {
		made(w, true, err)
		return
	}
	answer(w, http.StatusOK, rows)
}

func (h *Handler) publishMessage(w http.ResponseWriter, r *http.Request) {
	vhost, ok := h.inVhost(w, r)
	var p api.PublishMessage
	if !ok || !decode(w, r, &p) {
		return
	}
	routed, err := h.o.Messages.PublishMessage(r.Context(), caller(r).Name, vhost, exchangeName(r.PathValue("name")), p)
	if err != nil {
		made(w, true, err)
		return
	}
	answer(w, http.StatusOK, api.Published{Routed: routed})
}

// exchangeName is the exchange that a path means: the default exchange's name is empty, which no path can say.
func exchangeName(name string) string {
	if name == "amq.default" {
		return ""
	}
	return name
}
