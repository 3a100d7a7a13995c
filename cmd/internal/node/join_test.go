package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/cmd/loopback"
)

func TestANodeWaitsForTheClusterThatItIsToJoin(t *testing.T) {
	t.Parallel() // it waits for the most part
	addresses := loopback.Addresses(t, 2)
	c := settings(t, 2)
	c.Admin, c.Join = addresses[0], "http://"+addresses[1]
	joined := make(chan *Node)
	go func() {
		n, err := Start(context.Background(), options(t, c))
		if err != nil {
			t.Error(err)
		}
		joined <- n
	}()
	eventually(t, "it says what it waits for", func() bool {
		answer, err := http.Get("http://" + c.Admin + "/health/ready")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		var h api.Health
		return json.NewDecoder(answer.Body).Decode(&h) == nil && answer.StatusCode == http.StatusServiceUnavailable && strings.Contains(h.Reason, "--join")
	})
	first := settings(t, 1)
	first.Admin = addresses[1]
	ready(t, start(t, first))
	if n := <-joined; n != nil {
		ready(t, n)
		stop(t, n)
	}
}

// tribunal is a cluster that answers a call of its API by what judge makes of the number of the call.
func tribunal(t *testing.T, judge func(call int64) (status int, body string)) *joining {
	t.Helper()
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status, body := judge(calls.Add(1))
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	c := config.Default()
	c.NodeID, c.Peer, c.Join = 4, "10.0.0.4:7400", s.URL
	return &joining{cfg: c, patience: time.Hour, pause: time.Millisecond, log: slog.New(slog.DiscardHandler)}
}

func TestWhatMayPassIsWaitedForAndARefusalEndsTheJoinAtOnce(t *testing.T) {
	const good = `{"id":"x","groups":4}`
	j := tribunal(t, func(call int64) (int, string) {
		return [...]int{503, 200, 200, 503, 200, 204}[call-1], [...]string{`{"reason":"users are not known yet"}`, `{"id":"","groups":4}`, good, "", good, ""}[call-1]
	})
	if cluster, err := j.run(t.Context()); err != nil || cluster.ID != "x" {
		t.Errorf("joined %q: %v", cluster.ID, err)
	}
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{401, `{"reason":"Login failed"}`, "Login failed: --default-user and --default-pass have to be"},
		{403, `{"reason":"Not administrator user"}`, "Not administrator user: --default-user"},
		{404, "no such page", "404 Not Found"},
		{200, "<html>", "no understudy's admin API"},
		{200, `{"id":"x","groups":4,"members":[{"id":4,"address":"10.0.0.9:7400"}]}`, "has a node 4 already, at 10.0.0.9:7400: choose another --node-id"},
		{200, `{"id":"x","groups":65}`, "65 data groups"},
	} {
		j := tribunal(t, func(int64) (int, string) { return c.status, c.body })
		j.cfg.Join += "," + "http://" + loopback.Addresses(t, 1)[0] // nobody there: that alone would be waited for
		_, err := j.run(t.Context())
		wantError(t, err, "no node of the cluster to join has taken this one:", c.want, "connection refused")
	}
}

func TestAJoinEndsWithItsPatienceOrASignalAndTellsWhatItWaitedFor(t *testing.T) {
	const why = "cannot reach the system group's leader"
	j := tribunal(t, func(int64) (int, string) { return 503, `{"reason":"` + why + `"}` })
	j.patience = 50 * time.Millisecond
	_, err := j.run(t.Context())
	wantError(t, err, "in 50ms", why)

	ctx, stop := context.WithCancel(t.Context())
	j = tribunal(t, func(call int64) (int, string) {
		if call == 3 {
			stop()
		}
		return 503, `{"reason":"` + why + `"}`
	})
	_, err = j.run(ctx)
	wantError(t, err, "told to stop", why)
}
