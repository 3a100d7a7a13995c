package admin

import (
	"context"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
)

// The tags that users of the API have, as RabbitMQ has them.
const (
	TagAdministrator = "administrator"
	TagMonitoring    = "monitoring"
	TagPolicymaker   = "policymaker"
	TagManagement    = "management"
)

type callerKey struct{}

// authenticated lets requests with a good password through, and of those that change something only what a browser
// cannot be made to send from a foreign page.
func (h *Handler) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth() // who gives none is judged as nobody
		caller, err := h.o.Login(user, password, peerOf(r))
		if errors.As(err, new(Unavailable)) {
			unavailable(w, err)
			return
		}
		if err != nil {
			h.o.Logger.Warn("admin login refused", "user", user, "from", r.RemoteAddr, "error", err)
			unauthorized(w, "Login failed")
			return
		}
		if !has(caller, TagAdministrator, TagMonitoring, TagPolicymaker, TagManagement) {
			unauthorized(w, "Not management user")
			return
		}
		if !jsonOrEmpty(r) {
			fail(w, http.StatusUnsupportedMediaType, "unsupported_media_type", "the body must be application/json")
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
}

func jsonOrEmpty(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.ContentLength == 0 {
		return true
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == "application/json"
}

func unauthorized(w http.ResponseWriter, reason string) {
	w.Header().Set("WWW-Authenticate", `Basic realm="Understudy"`)
	fail(w, http.StatusUnauthorized, "not_authorized", reason)
}

// peerOf is the caller's address.
func peerOf(r *http.Request) net.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return nil
	}
	return net.TCPAddrFromAddrPort(at)
}

// isLoopback says whether the caller is on this machine.
func isLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r) {
			fail(w, http.StatusForbidden, "not_allowed", "only for callers on the node's own machine")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
