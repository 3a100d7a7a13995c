package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// adminClient keeps no connections: nodes are killed and paused under it.
var adminClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// A look is soon taken again; a change may have to wait for a slow hash or a slow disk.
const (
	lookLimit   = 3 * time.Second
	changeLimit = 30 * time.Second
)

// Group is a row of /api/groups: a raft group as one node sees it.
type Group struct {
	Group       uint64          `json:"group"`
	Leader      uint64          `json:"leader"` // node id, 0 for none
	Term        uint64          `json:"term"`
	Applied     uint64          `json:"applied"`
	Fingerprint json.RawMessage `json:"fingerprint"`
	Role        string          `json:"role"`
}

// Queue is a row of /api/queues, as far as the tests look at it.
type Queue struct {
	Name      string `json:"name"`
	Vhost     string `json:"vhost"`
	Messages  int64  `json:"messages"`
	Ready     int64  `json:"messages_ready"`
	Unacked   int64  `json:"messages_unacknowledged"`
	Consumers int64  `json:"consumers"`
}

// Get asks the admin API of the node for path as guest and decodes the JSON answer into out.
func (n *Node) Get(ctx context.Context, path string, out any) error {
	body, err := n.Do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("node %d: %s: %w in %.200s", n.ID, path, err, body)
	}
	return nil
}

// Do sends a request to the admin API as guest and answers the body of a 2xx reply.
func (n *Node) Do(ctx context.Context, method, path string, body io.Reader) ([]byte, error) {
	answer, err := ask(ctx, method, "http://"+n.Admin+path, body)
	if err != nil {
		return nil, fmt.Errorf("node %d: %w", n.ID, err)
	}
	return answer, nil
}

// ask sends a request as guest and answers the body of a 2xx reply.
func ask(ctx context.Context, method, url string, body io.Reader) ([]byte, error) {
	limit := changeLimit
	if method == http.MethodGet {
		limit = lookLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth("guest", "guest")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := adminClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s %.200s", method, url, resp.Status, answer)
	}
	return answer, nil
}

// MakeVhost makes a vhost for guest over the HTTP API at an admin URL, be it this broker's or RabbitMQ's. A disk that stalls is waited for.
func MakeVhost(admin, vhost string) error {
	return Await(Patience, func(ctx context.Context) error {
		if _, err := ask(ctx, http.MethodPut, admin+"/api/vhosts/"+vhost, strings.NewReader("{}")); err != nil {
			return err
		}
		_, err := ask(ctx, http.MethodPut, admin+"/api/permissions/"+vhost+"/guest", strings.NewReader(`{"configure":".*","write":".*","read":".*"}`))
		return err
	})
}

// Put sends a JSON body to the admin API as guest.
func (n *Node) Put(ctx context.Context, path, body string) error {
	_, err := n.Do(ctx, http.MethodPut, path, strings.NewReader(body))
	return err
}

// Groups are the raft groups as this node sees them, by group id.
func (n *Node) Groups(ctx context.Context) (map[uint64]Group, error) {
	var rows []Group
	if err := n.Get(ctx, "/api/groups", &rows); err != nil {
		return nil, err
	}
	groups := make(map[uint64]Group, len(rows))
	for _, g := range rows {
		groups[g.Group] = g
	}
	return groups, nil
}

// Queues lists the queues of all vhosts.
func (n *Node) Queues(ctx context.Context) ([]Queue, error) {
	var rows []Queue
	return rows, n.Get(ctx, "/api/queues", &rows)
}

// Queue finds a queue of the vhost "/".
func (n *Node) Queue(ctx context.Context, name string) (Queue, error) {
	rows, err := n.Queues(ctx)
	if err != nil {
		return Queue{}, err
	}
	for _, q := range rows {
		if q.Name == name && q.Vhost == "/" {
			return q, nil
		}
	}
	return Queue{}, fmt.Errorf("node %d: no queue %s in vhost /", n.ID, url.QueryEscape(name))
}

// Metrics reads /metrics: each sample's value by its name with labels as written; and summed over labels by bare name.
func (n *Node) Metrics(ctx context.Context) (map[string]float64, error) {
	body, err := n.Do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(string(body)))
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("node %d: /metrics: %w in %q", n.ID, err, line)
		}
		name := line[:at]
		values[name] += v
		if bare, _, labelled := strings.Cut(name, "{"); labelled {
			values[bare] += v
		}
	}
	return values, lines.Err()
}
