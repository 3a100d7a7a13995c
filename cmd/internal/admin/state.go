package admin

import (
	"cmp"
	"iter"
	"net/http"
	"net/url"
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

// queues lists queues; with disable_stats=true without what takes time to gather in RabbitMQ, and what tools then do not read.
func (h *Handler) queues(w http.ResponseWriter, r *http.Request) {
	vhost, ok := h.inVhost(w, r)
	if !ok {
		return
	}
	q, state := r.URL.Query(), h.state(r)
	refs := state.QueueRefs(vhost) // to make rows of all of them takes seconds where there are 100,000
	sortByName(refs, q)
	name := func(q api.QueueRef) string { return q.Name }
	switch {
	case !asked(r, "disable_stats"):
		listMade(w, q, refs, name, state.QueuesAt)
	case asked(r, "enable_queue_totals"):
		listMade(w, q, refs, name, convert(state.QueuesAt, func(q api.Queue) api.QueueWithTotals {
			return api.QueueWithTotals{QueueBasics: q.QueueBasics, QueueTotals: q.QueueTotals}
		}))
	default:
		listMade(w, q, refs, name, convert(state.QueuesAt, func(q api.Queue) api.QueueBasics { return q.QueueBasics }))
	}
}

// sortByName sorts queues if the query asks for it, and takes that out of the query.
func sortByName(refs []api.QueueRef, q url.Values) {
	if q.Get("sort") == "name" {
		order := orderOf(q)
		slices.SortStableFunc(refs, func(a, b api.QueueRef) int { return order * cmp.Compare(a.Name, b.Name) })
		q.Del("sort")
	}
}

// convert makes other rows of the rows that are made of keys.
func convert[K, T, R any](rows rowsOf[K, T], to func(T) R) rowsOf[K, R] {
	return func(keys []K) iter.Seq2[int, R] {
		return func(yield func(int, R) bool) {
			for i, row := range rows(keys) {
				if !yield(i, to(row)) {
					return
				}
			}
		}
	}
}

func (h *Handler) queue(w http.ResponseWriter, r *http.Request) {
	vhost, ok := h.inVhost(w, r)
	if !ok {
		return
	}
	q, ok := h.state(r).Queue(vhost, r.PathValue("name"))
	if !ok {
		notFound(w, r)
		return
	}
	row := api.QueueDetails{Queue: q, ConsumerDetails: []api.Consumer{}}
	if q.Consumers > 0 {
		row.ConsumerDetails = slices.DeleteFunc(h.state(r).Consumers(vhost), func(c api.Consumer) bool { return c.Queue.Name != q.Name })
	}
	answer(w, http.StatusOK, row)
}

func (h *Handler) queueBindings(w http.ResponseWriter, r *http.Request) {
	vhost, ok := h.inVhost(w, r)
	if !ok {
		return
	}
	name := r.PathValue("name")
	if _, ok := h.state(r).Queue(vhost, name); !ok {
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
	name := exchangeName(r.PathValue("name"))
	one(h, w, r, h.state(r).Exchanges, func(x api.Exchange) bool { return x.Name == name })
}

// exchangeBindings answers the bindings that the exchange of the path is the {end} of.
func (h *Handler) exchangeBindings(w http.ResponseWriter, r *http.Request) {
	name, end := exchangeName(r.PathValue("name")), r.PathValue("end")
	vhost, ok := h.inVhost(w, r)
	if !ok {
		return
	}
	if end != "source" && end != "destination" ||
		!slices.ContainsFunc(h.state(r).Exchanges(vhost), func(x api.Exchange) bool { return x.Name == name }) {
		notFound(w, r)
		return
	}
	rows := slices.DeleteFunc(h.state(r).Bindings(vhost), func(b api.Binding) bool {
		if end == "source" {
			return b.Source != name
		}
		return b.DestinationType != "exchange" || b.Destination != name
	})
	list(w, r, rows, func(b api.Binding) string { return b.Destination })
}

func (h *Handler) bindings(w http.ResponseWriter, r *http.Request) {
	inList(h, w, r, h.state(r).Bindings, func(b api.Binding) string { return b.Destination })
}
