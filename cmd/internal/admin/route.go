package admin

import (
	"net/http"
	"net/url"
	"strings"
)

// route is a method and a path of segments; one like {name} takes any segment, and the handler reads it by PathValue.
type route struct {
	method, path string
	serve        http.HandlerFunc
}

// router finds the route of a request. (http.ServeMux cannot: to it a segment %2F, the name of the vhost "/", is the end
// of a path.)
type router []route

func (rs router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	segments, ok := segmentsOf(r.URL.EscapedPath())
	if !ok {
		notFound(w, r)
		return
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var allowed []string
	for _, x := range rs {
		values, ok := match(x.path, segments)
		switch {
		case !ok:
		case x.method == method:
			for name, value := range values {
				r.SetPathValue(name, value)
			}
			x.serve(w, r)
			return
		default:
			allowed = append(allowed, x.method)
		}
	}
	if allowed == nil {
		notFound(w, r)
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	fail(w, http.StatusMethodNotAllowed, "Method Not Allowed", "use "+strings.Join(allowed, " or "))
}

// segmentsOf splits an escaped path; a slash at its end makes no segment.
func segmentsOf(path string) ([]string, bool) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/"), "/")
	for i, p := range parts {
		text, err := url.PathUnescape(p)
		if err != nil {
			return nil, false
		}
		parts[i] = text
	}
	return parts, true
}

// match answers the values of a route's {name} segments.
func match(path string, segments []string) (values map[string]string, ok bool) {
	pattern := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(pattern) != len(segments) {
		return nil, false
	}
	for i, p := range pattern {
		name, variable := strings.CutPrefix(p, "{")
		if !variable && p != segments[i] {
			return nil, false
		}
		if variable {
			if values == nil {
				values = make(map[string]string)
			}
			values[strings.TrimSuffix(name, "}")] = segments[i]
		}
	}
	return values, true
}
