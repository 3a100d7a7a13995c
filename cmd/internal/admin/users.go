package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// ErrNoUser is the error of what is asked of a user that is not there.
var ErrNoUser = errors.New("no such user")

// The limits that a user may have.
const (
	LimitConnections = "max-connections"
	LimitChannels    = "max-channels"
)

// Accounts are the users of the cluster and what they may do. Changes are in force on this node when they answer, and on
// the others soon after. by is who makes them.
type Accounts interface {
	MayEnter(user, vhost string) bool
	Users() []api.User
	Permissions() []api.Permission
	TopicPermissions() []api.TopicPermission
	PutUser(ctx context.Context, by, name string, u api.NewUser) error
	DeleteUser(ctx context.Context, by, name string) error
	// SetUserLimit sets one of the limits; a value below 0 takes it away.
	SetUserLimit(ctx context.Context, by, user, limit string, value int) error
	SetPermission(ctx context.Context, by string, p api.Permission) error
	ClearPermission(ctx context.Context, by, user, vhost string) error
	SetTopicPermission(ctx context.Context, by string, p api.TopicPermission) error
	// ClearTopicPermission clears one exchange's, or with "" all of the vhost.
	ClearTopicPermission(ctx context.Context, by, user, vhost, exchange string) error
}

func (h *Handler) accountRoutes() router {
	routes := router{
		{"GET", "/api/users", h.users},
		{"GET", "/api/users/without-permissions", h.usersWithoutPermissions},
		{"POST", "/api/users/bulk-delete", h.deleteUsers},
		{"GET", "/api/users/{user}", h.user},
		{"PUT", "/api/users/{user}", h.putUser},
		{"DELETE", "/api/users/{user}", h.deleteUser},
		{"GET", "/api/users/{user}/permissions", h.permissions},
		{"GET", "/api/users/{user}/topic-permissions", h.topicPermissions},
		{"GET", "/api/vhosts/{vhost}/permissions", h.permissions},
		{"GET", "/api/vhosts/{vhost}/topic-permissions", h.topicPermissions},
		{"GET", "/api/auth/hash_password/{password}", h.hashPassword},
		{"POST", "/api/auth/hash_password/{password}", h.hashPassword},
		{"GET", "/api/permissions", h.permissions},
		{"GET", "/api/permissions/{vhost}/{user}", h.permission},
		{"PUT", "/api/permissions/{vhost}/{user}", h.putPermission},
		{"DELETE", "/api/permissions/{vhost}/{user}", h.clearPermission},
		{"GET", "/api/topic-permissions", h.topicPermissions},
		{"GET", "/api/topic-permissions/{vhost}/{user}", h.topicPermissions},
		{"PUT", "/api/topic-permissions/{vhost}/{user}", h.putTopicPermission},
		{"DELETE", "/api/topic-permissions/{vhost}/{user}", h.clearTopicPermission},
		{"DELETE", "/api/topic-permissions/{vhost}/{user}/{exchange}", h.clearTopicPermission},
		{"GET", "/api/user-limits", h.userLimits},
		{"GET", "/api/user-limits/{user}", h.userLimits},
		{"PUT", "/api/user-limits/{user}/{limit}", h.putUserLimit},
		{"DELETE", "/api/user-limits/{user}/{limit}", h.clearUserLimit},
	}
	for i := range routes {
		routes[i].serve = h.administrators(routes[i].serve)
	}
	return routes
}

// changed answers a change: 201 for what is new, 204 for what was there, 404 for what a change needs and is not there.
func changed(w http.ResponseWriter, r *http.Request, isNew bool, err error) {
	switch {
	case errors.Is(err, ErrNoUser):
		notFound(w, r)
	case err == nil && isNew:
		w.WriteHeader(http.StatusCreated)
	default:
		done(w, err)
	}
}

func (h *Handler) findUser(name string) (api.User, bool) {
	all := h.o.Accounts.Users()
	if i := slices.IndexFunc(all, func(u api.User) bool { return u.Name == name }); i >= 0 {
		return all[i], true
	}
	return api.User{}, false
}

func (h *Handler) users(w http.ResponseWriter, r *http.Request) {
	list(w, r, h.o.Accounts.Users(), func(u api.User) string { return u.Name })
}

func (h *Handler) usersWithoutPermissions(w http.ResponseWriter, r *http.Request) {
	permitted := map[string]bool{}
	for _, p := range h.o.Accounts.Permissions() {
		permitted[p.User] = true
	}
	rows := slices.DeleteFunc(h.o.Accounts.Users(), func(u api.User) bool { return permitted[u.Name] })
	list(w, r, rows, func(u api.User) string { return u.Name })
}

func (h *Handler) user(w http.ResponseWriter, r *http.Request) {
	u, ok := h.findUser(r.PathValue("user"))
	if !ok {
		notFound(w, r)
		return
	}
	answer(w, http.StatusOK, u)
}

func (h *Handler) putUser(w http.ResponseWriter, r *http.Request) {
	var u api.NewUser
	if !decode(w, r, &u) {
		return
	}
	_, there := h.findUser(r.PathValue("user"))
	changed(w, r, !there, h.o.Accounts.PutUser(r.Context(), caller(r).Name, r.PathValue("user"), u))
}

func (h *Handler) deleteUser(w http.ResponseWriter, r *http.Request) {
	changed(w, r, false, h.o.Accounts.DeleteUser(r.Context(), caller(r).Name, r.PathValue("user")))
}

// deleteUsers deletes those that are there.
func (h *Handler) deleteUsers(w http.ResponseWriter, r *http.Request) {
	var b api.BulkDelete
	if !decode(w, r, &b) {
		return
	}
	for _, name := range b.Users {
		if err := h.o.Accounts.DeleteUser(r.Context(), caller(r).Name, name); err != nil && !errors.Is(err, ErrNoUser) {
			done(w, err)
			return
		}
	}
	done(w, nil)
}

// of says whether a row is of the path's user and vhost, as far as the path names them.
func of(r *http.Request, user, vhost string) bool {
	u, v := r.PathValue("user"), r.PathValue("vhost")
	return (u == "" || u == user) && (v == "" || v == vhost)
}

// known answers 404 and false if the path names a user or vhost that is not there.
func (h *Handler) known(w http.ResponseWriter, r *http.Request) bool {
	if name := r.PathValue("user"); name != "" {
		if _, ok := h.findUser(name); !ok {
			notFound(w, r)
			return false
		}
	}
	_, ok := h.inVhost(w, r)
	return ok
}

func (h *Handler) permissions(w http.ResponseWriter, r *http.Request) {
	if h.known(w, r) {
		rows := slices.DeleteFunc(h.o.Accounts.Permissions(), func(p api.Permission) bool { return !of(r, p.User, p.Vhost) })
		list(w, r, rows, func(p api.Permission) string { return p.User })
	}
}

func (h *Handler) permission(w http.ResponseWriter, r *http.Request) {
	all := h.o.Accounts.Permissions()
	if i := slices.IndexFunc(all, func(p api.Permission) bool { return of(r, p.User, p.Vhost) }); i >= 0 {
		answer(w, http.StatusOK, all[i])
		return
	}
	notFound(w, r)
}

func (h *Handler) putPermission(w http.ResponseWriter, r *http.Request) {
	var p api.Permission
	if !h.known(w, r) || !decode(w, r, &p) {
		return
	}
	p.User, p.Vhost = r.PathValue("user"), r.PathValue("vhost")
	there := slices.ContainsFunc(h.o.Accounts.Permissions(), func(p api.Permission) bool { return of(r, p.User, p.Vhost) })
	changed(w, r, !there, h.o.Accounts.SetPermission(r.Context(), caller(r).Name, p))
}

func (h *Handler) clearPermission(w http.ResponseWriter, r *http.Request) {
	changed(w, r, false, h.o.Accounts.ClearPermission(r.Context(), caller(r).Name, r.PathValue("user"), r.PathValue("vhost")))
}

func (h *Handler) topicPermissions(w http.ResponseWriter, r *http.Request) {
	if h.known(w, r) {
		rows := slices.DeleteFunc(h.o.Accounts.TopicPermissions(), func(p api.TopicPermission) bool { return !of(r, p.User, p.Vhost) })
		list(w, r, rows, func(p api.TopicPermission) string { return p.User })
	}
}

func (h *Handler) putTopicPermission(w http.ResponseWriter, r *http.Request) {
	var p api.TopicPermission
	if !h.known(w, r) || !decode(w, r, &p) {
		return
	}
	p.User, p.Vhost = r.PathValue("user"), r.PathValue("vhost")
	there := slices.ContainsFunc(h.o.Accounts.TopicPermissions(), func(q api.TopicPermission) bool {
		return of(r, q.User, q.Vhost) && q.Exchange == p.Exchange
	})
	changed(w, r, !there, h.o.Accounts.SetTopicPermission(r.Context(), caller(r).Name, p))
}

func (h *Handler) clearTopicPermission(w http.ResponseWriter, r *http.Request) {
	changed(w, r, false, h.o.Accounts.ClearTopicPermission(r.Context(), caller(r).Name, r.PathValue("user"), r.PathValue("vhost"), r.PathValue("exchange")))
}

func (h *Handler) userLimits(w http.ResponseWriter, r *http.Request) {
	if !h.known(w, r) {
		return
	}
	rows := []api.UserLimits{}
	for _, u := range h.o.Accounts.Users() {
		if len(u.Limits) > 0 && of(r, u.Name, "") {
			rows = append(rows, api.UserLimits{User: u.Name, Value: u.Limits})
		}
	}
	list(w, r, rows, func(l api.UserLimits) string { return l.User })
}

func (h *Handler) putUserLimit(w http.ResponseWriter, r *http.Request) {
	var l api.Limit
	if decode(w, r, &l) {
		h.limit(w, r, l.Value)
	}
}

func (h *Handler) clearUserLimit(w http.ResponseWriter, r *http.Request) { h.limit(w, r, -1) }

func (h *Handler) limit(w http.ResponseWriter, r *http.Request, value int) {
	changed(w, r, false, h.o.Accounts.SetUserLimit(r.Context(), caller(r).Name, r.PathValue("user"), r.PathValue("limit"), value))
}
