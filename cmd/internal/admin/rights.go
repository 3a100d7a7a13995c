package admin

import (
	"iter"
	"net/http"
	"slices"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// What callers may do is told by their tags, as in RabbitMQ. Each of the four lets a caller in, to see the vhosts that it
// has permissions in and its own connections there; monitoring sees all, and what belongs to the whole cluster; an
// administrator may do everything.

// caller is who made a request.
func caller(r *http.Request) api.Whoami {
	c, _ := r.Context().Value(callerKey{}).(api.Whoami)
	return c
}

func has(c api.Whoami, tags ...string) bool {
	return slices.ContainsFunc(c.Tags, func(tag string) bool { return slices.Contains(tags, tag) })
}

// seesAll says whether the caller sees every vhost and connection.
func seesAll(r *http.Request) bool { return has(caller(r), TagAdministrator, TagMonitoring) }

// administrators lets only them through.
func (h *Handler) administrators(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !has(caller(r), TagAdministrator) {
			h.forbidden(w, r, "Not administrator user")
			return
		}
		next(w, r)
	}
}

// policymakers lets those through who may change the policies of the vhosts that they see.
func (h *Handler) policymakers(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !has(caller(r), TagAdministrator, TagPolicymaker) {
			h.forbidden(w, r, "Not policymaker user")
			return
		}
		next(w, r)
	}
}

// monitors lets those through who may see what belongs to the whole cluster.
func (h *Handler) monitors(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !seesAll(r) {
			h.forbidden(w, r, "Not monitor user")
			return
		}
		next(w, r)
	}
}

func (h *Handler) forbidden(w http.ResponseWriter, r *http.Request, reason string) {
	h.o.Logger.Warn("admin call refused", "user", caller(r).Name, "method", r.Method, "path", r.URL.Path, "reason", reason)
	fail(w, http.StatusForbidden, "not_authorized", reason)
}

// state is what the caller may see of the vhosts.
func (h *Handler) state(r *http.Request) State {
	if seesAll(r) {
		return h.o.State
	}
	name := caller(r).Name
	return scoped{h.o.State, func(vhost string) bool { return h.o.Accounts.MayEnter(name, vhost) }}
}

// scoped is a State of some of the vhosts.
type scoped struct {
	all State
	may func(vhost string) bool
}

var _ State = scoped{}

func (s scoped) Vhosts() []api.Vhost {
	return slices.DeleteFunc(s.all.Vhosts(), func(v api.Vhost) bool { return !s.may(v.Name) })
}

func (s scoped) Queue(vhost, name string) (api.Queue, bool) {
	if !s.may(vhost) {
		return api.Queue{}, false
	}
	return s.all.Queue(vhost, name)
}

func (s scoped) QueueRefs(vhost string) []api.QueueRef { return within(s, vhost, s.all.QueueRefs) }

// QueuesAt is of what QueueRefs has answered.
func (s scoped) QueuesAt(refs []api.QueueRef) iter.Seq2[int, api.Queue] { return s.all.QueuesAt(refs) }

func (s scoped) VhostNames() []string {
	return slices.DeleteFunc(s.all.VhostNames(), func(name string) bool { return !s.may(name) })
}

func (s scoped) HasVhost(name string) bool { return s.may(name) && s.all.HasVhost(name) }

func (s scoped) Exchanges(vhost string) []api.Exchange { return within(s, vhost, s.all.Exchanges) }
func (s scoped) Bindings(vhost string) []api.Binding   { return within(s, vhost, s.all.Bindings) }
func (s scoped) Consumers(vhost string) []api.Consumer { return within(s, vhost, s.all.Consumers) }
func (s scoped) Channels(vhost string) []api.Channel   { return within(s, vhost, s.all.Channels) }

// Traffic and Totals are of vhosts that have been looked up here already.
func (s scoped) Traffic(vhosts []string) api.Traffic   { return s.all.Traffic(vhosts) }
func (s scoped) Totals(vhosts []string) map[string]any { return s.all.Totals(vhosts) }

// visible narrows a listing to the vhosts that the caller may see.
func visible[T any](h *Handler, r *http.Request, list func(vhost string) []T) func(vhost string) []T {
	s, some := h.state(r).(scoped)
	if !some {
		return list
	}
	return func(vhost string) []T { return within(s, vhost, list) }
}

// within lists something of one vhost, or with "" of all, as far as they may be seen.
func within[T any](s scoped, vhost string, list func(string) []T) []T {
	rows := []T{}
	if vhost != "" {
		if s.HasVhost(vhost) {
			rows = append(rows, list(vhost)...)
		}
		return rows
	}
	for _, name := range s.VhostNames() {
		rows = append(rows, list(name)...)
	}
	return rows
}
