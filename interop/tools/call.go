//go:build interop

package tools

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

var client = &http.Client{Timeout: 30 * time.Second}

// call asks an admin API as guest.
func call(admin, method, path, body string) (status int, answer string, err error) {
	return callAs(admin, "guest", "guest", method, path, body)
}

// callAs is call as another user.
func callAs(admin, user, password, method, path, body string) (status int, answer string, err error) {
	r, err := http.NewRequest(method, admin+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.SetBasicAuth(user, password)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, 64<<20))
	return a.StatusCode, string(text), err
}

// mustCall is call for what has to succeed.
func mustCall(t testing.TB, admin, method, path, body string) string {
	t.Helper()
	status, answer, err := call(admin, method, path, body)
	if err != nil || status/100 != 2 {
		t.Fatalf("%s %s %s: %d %s %v", admin, method, path, status, answer, err)
	}
	return answer
}

// get reads a path's JSON.
func get(t testing.TB, admin, path string) (v any) {
	t.Helper()
	decode(t, mustCall(t, admin, "GET", path, ""), &v)
	return v
}

// decode reads JSON.
func decode(t testing.TB, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
}
