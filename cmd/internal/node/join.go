package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/config"
)

const (
	joinTimeout     = 15 * time.Second
	answerBytesMax  = 1 << 20
	clusterPath     = "/api/cluster"
	membersPath     = "/api/cluster/members"
	contentTypeJSON = "application/json"
)

// join asks the cluster behind the admin URLs to take this node as a learner, and answers what it told of itself. The
// first URL that answers serves; errors list what each one said.
func join(ctx context.Context, cfg config.Config) (api.Cluster, error) {
	var errs []error
	for _, u := range cfg.JoinURLs() {
		cluster, err := joinAt(ctx, cfg, strings.TrimRight(u, "/"))
		if err == nil {
			return cluster, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", u, err))
	}
	return api.Cluster{}, fmt.Errorf("no node of the cluster to join has taken this one:\n%w", errors.Join(errs...))
}

func joinAt(ctx context.Context, cfg config.Config, base string) (api.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	var cluster api.Cluster
	if err := call(ctx, cfg, http.MethodGet, base+clusterPath, nil, &cluster); err != nil {
		return cluster, err
	}
	if cluster.ID == "" {
		return cluster, errors.New("that cluster is still forming; try again when it is ready")
	}
	if cluster.Groups < 1 || cluster.Groups > config.GroupsMax {
		return cluster, fmt.Errorf("that cluster says it has %d data groups", cluster.Groups)
	}
	for _, m := range cluster.Members {
		if m.ID == cfg.NodeID && m.Address == cfg.Peer { // an earlier try got this far
			return cluster, nil
		}
		if m.ID == cfg.NodeID {
			return cluster, fmt.Errorf("that cluster has a node %d already, at %s: choose another --node-id, or remove that member first", m.ID, m.Address)
		}
	}
	return cluster, call(ctx, cfg, http.MethodPost, base+membersPath, api.NewMember{ID: cfg.NodeID, Address: cfg.Peer}, nil)
}

// call asks the admin API of another node as the default user.
func call(ctx context.Context, cfg config.Config, method, url string, body, into any) error {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", contentTypeJSON)
	r.SetBasicAuth(cfg.DefaultUser, cfg.DefaultPass)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	if err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		var refusal api.Error
		_ = json.Unmarshal(text, &refusal)
		return fmt.Errorf("%s: %s", answer.Status, refusal.Reason)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
