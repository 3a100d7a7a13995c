package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/config"
)

const (
	joinPatience    = 2 * time.Minute // machines and containers start in any order
	joinPause       = time.Second
	joinTold        = 15 * time.Second // between lines that say the same
	joinTimeout     = 15 * time.Second
	answerBytesMax  = 1 << 20
	clusterPath     = "/api/cluster"
	membersPath     = "/api/cluster/members"
	contentTypeJSON = "application/json"
)

// joining asks a cluster to take a node.
type joining struct {
	cfg             config.Config
	patience, pause time.Duration
	log             *slog.Logger
}

// join asks the cluster behind the admin URLs to take this node as a learner, and answers what it told of itself. Meanwhile the admin
// port says so.
func (n *Node) join(ctx context.Context) (api.Cluster, error) {
	n.showMeanwhile("the node waits for the cluster that it is to join (--join)", nil)
	j := joining{cfg: n.cfg, patience: joinPatience, pause: joinPause, log: n.log}
	return j.run(ctx)
}

// run asks until the cluster takes the node, and waits where it is not there yet or still forming. A refusal ends it at once, and so
// does ctx. Errors list what each URL said last.
func (j *joining) run(ctx context.Context) (api.Cluster, error) {
	bounded, cancel := context.WithTimeout(ctx, j.patience)
	defer cancel()
	var last error
	var told time.Time
	for {
		cluster, err := j.round(bounded)
		if err == nil || !errors.As(err, new(notYet)) {
			return cluster, err
		}
		if bounded.Err() == nil && (last == nil || last.Error() != err.Error() || time.Since(told) > joinTold) {
			told = time.Now()
			j.log.Info("waiting for the cluster to join", "at_most", j.patience.String(), "reason", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		if last == nil || bounded.Err() == nil { // what is broken off says nothing
			last = err
		}
		select {
		case <-time.After(j.pause):
		case <-bounded.Done():
			if ctx.Err() != nil {
				return api.Cluster{}, fmt.Errorf("told to stop while no node of the cluster to join had taken this one:\n%w", last)
			}
			return api.Cluster{}, fmt.Errorf("no node of the cluster to join has taken this one in %v:\n%w", j.patience, last)
		}
	}
}

// notYet is for what may pass: nobody answers, or the cluster is still forming.
type notYet struct{ error }

func (e notYet) Unwrap() error { return e.error }

// round asks each URL until one takes the node. An error is notYet only if each one's was.
func (j *joining) round(ctx context.Context) (api.Cluster, error) {
	var errs []error
	refused := false
	for _, u := range j.cfg.JoinURLs() {
		cluster, err := j.at(ctx, strings.TrimRight(u, "/"))
		if err == nil {
			return cluster, nil
		}
		refused = refused || !errors.As(err, new(notYet))
		errs = append(errs, fmt.Errorf("%s: %w", u, err))
	}
	if refused {
		return api.Cluster{}, fmt.Errorf("no node of the cluster to join has taken this one:\n%v", errors.Join(errs...)) // no longer notYet, whatever else it is
	}
	return api.Cluster{}, errors.Join(errs...)
}

func (j *joining) at(ctx context.Context, base string) (api.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	var cluster api.Cluster
	if err := j.call(ctx, http.MethodGet, base+clusterPath, nil, &cluster); err != nil {
		return cluster, err
	}
	if cluster.ID == "" {
		return cluster, notYet{errors.New("that cluster is still forming")}
	}
	if cluster.Groups < 1 || cluster.Groups > config.GroupsMax {
		return cluster, fmt.Errorf("that cluster says it has %d data groups", cluster.Groups)
	}
	for _, m := range cluster.Members {
		if m.ID == j.cfg.NodeID && m.Address == j.cfg.Peer { // an earlier try got this far
			return cluster, nil
		}
		if m.ID == j.cfg.NodeID {
			return cluster, fmt.Errorf("that cluster has a node %d already, at %s: choose another --node-id, or remove that member first", m.ID, m.Address)
		}
	}
	return cluster, j.call(ctx, http.MethodPost, base+membersPath, api.NewMember{ID: j.cfg.NodeID, Address: j.cfg.Peer}, nil)
}

// call asks the admin API of another node as the default user.
func (j *joining) call(ctx context.Context, method, to string, body, into any) error {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", contentTypeJSON)
	r.SetBasicAuth(j.cfg.DefaultUser, j.cfg.DefaultPass)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return unanswered(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	if err != nil {
		return notYet{err}
	}
	if answer.StatusCode/100 != 2 {
		return j.refused(answer, text)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("that is no understudy's admin API: %w", err)
	}
	return nil
}

// unanswered tells nobody there from somebody who speaks something else.
func unanswered(err error) error {
	var where *url.Error
	if errors.As(err, &where) {
		err = where.Err // the rest repeats the URL
	}
	if errors.As(err, new(net.Error)) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) {
		return notYet{err}
	}
	return err
}

func (j *joining) refused(answer *http.Response, text []byte) error {
	var refusal api.Error
	_ = json.Unmarshal(text, &refusal) // another server's has none
	err := fmt.Errorf("%s: %s", answer.Status, refusal.Reason)
	switch answer.StatusCode {
	case http.StatusServiceUnavailable:
		return notYet{err}
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: --default-user and --default-pass have to be an administrator's of that cluster (guest logs in from the same machine only)", err)
	}
	return err
}
