package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// PairOptions say what kind of source and standby a test wants.
type PairOptions struct {
	Nodes       int      // of each; 1 if 0
	Args        []string // further arguments of serve, on both sides
	SourceArgs  []string
	StandbyArgs []string // instead of --standby
	Seeded      bool     // the standby's first node begins with a seed, and the others join it
	Direct      bool     // no proxies anywhere: for measurements
	Cuttable    bool     // as in Options
}

// Pair is a cluster and the standby that follows it, with a network between them that can be cut.
type Pair struct {
	Source, Standby *Cluster
	Token           string // file of the token with which either may read and fence the other
	t               testing.TB
	proxies         []*proxy
	asks, answers   map[pair]*gate // from a standby's node to a source's node, and back
}

// NewPair prepares both clusters; no node runs yet.
func NewPair(t testing.TB, o PairOptions) *Pair {
	t.Helper()
	token := filepath.Join(t.TempDir(), "link-token")
	if err := os.WriteFile(token, []byte("a token of the tests\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Pair{t: t, Token: token, asks: map[pair]*gate{}, answers: map[pair]*gate{}}
	p.Source = New(t, Options{Nodes: o.Nodes, Direct: o.Direct, Cuttable: o.Cuttable, LinkTokens: token, Args: append(append([]string{}, o.Args...), o.SourceArgs...)})
	roles, nodes, spare := o.StandbyArgs, max(1, o.Nodes), 0
	switch {
	case o.Seeded:
		roles, nodes, spare = append(roles, "--link-seed", "1"), 1, nodes-1
	case roles == nil:
		roles = []string{"--standby"}
	}
	p.Standby = New(t, Options{
		Nodes: nodes, Spare: spare, Direct: o.Direct, Cuttable: o.Cuttable, LinkTokens: token, Args: append(append([]string{"--link-token-file", token}, o.Args...), roles...),
		NodeArgs: func(n *Node) []string { return []string{"--link-source", p.addresses(n, o.Direct)} },
	})
	t.Cleanup(func() {
		for _, x := range p.proxies {
			x.close()
		}
	})
	return p
}

// StartPair starts both and waits until the standby follows in every group.
func StartPair(t testing.TB, o PairOptions) *Pair {
	t.Helper()
	p := NewPair(t, o)
	for _, step := range []func() error{
		p.StartSource, func() error { return p.StartStandby(t.Context()) }, func() error { return p.WaitCaughtUp(Patience) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// StartSource starts the source and waits until it is ready.
func (p *Pair) StartSource() error { return p.Source.startAll() }

// StartStandby starts the standby and waits until it is ready: all nodes at once, or of a seeded one the first and then those that
// join it.
func (p *Pair) StartStandby(ctx context.Context) error {
	if err := p.Standby.startAll(); err != nil {
		return err
	}
	return p.Standby.joinSpares(ctx)
}

// addresses are where a standby's node finds the source's nodes: its proxies to them.
func (p *Pair) addresses(n *Node, direct bool) string {
	var list []string
	for _, s := range p.Source.Members() {
		if direct {
			list = append(list, s.Link)
			continue
		}
		way := pair{n.ID, s.ID}
		p.asks[way], p.answers[way] = newGate(), newGate()
		x, err := startProxy(s.Link, p.asks[way], p.answers[way])
		if err != nil {
			p.t.Fatal(err)
		}
		p.proxies = append(p.proxies, x)
		list = append(list, x.address())
	}
	return strings.Join(list, ",")
}

// CutLink cuts a standby's node from a source's node.
func (p *Pair) CutLink(standby, source int) {
	way := pair{standby, source}
	for _, g := range []*gate{p.asks[way], p.answers[way]} {
		g.set(cutGate)
	}
}

func cutGate(g *gate) { g.cut = true }

// CutAnswers holds all that the source says to the standby, which goes on being heard.
func (p *Pair) CutAnswers() {
	for _, g := range p.answers {
		g.set(cutGate)
	}
}

// CutAsks holds all that the standby says to the source; what it has been asked already the source goes on answering.
func (p *Pair) CutAsks() {
	for _, g := range p.asks {
		g.set(cutGate)
	}
}

// CutLinksOf cuts a standby's node from all of the source.
func (p *Pair) CutLinksOf(standby int) {
	for _, s := range p.Source.Members() {
		p.CutLink(standby, s.ID)
	}
}

// CutLinks cuts the clusters from one another.
func (p *Pair) CutLinks() {
	for _, n := range p.Standby.Members() {
		p.CutLinksOf(n.ID)
	}
}

// HealLinks ends all cuts between the clusters.
func (p *Pair) HealLinks() {
	for _, gates := range []map[pair]*gate{p.asks, p.answers} {
		for _, g := range gates {
			g.set(func(g *gate) { g.cut = false })
		}
	}
}

// Link is /api/link, as far as the tests look at it.
type Link struct {
	Role       string      `json:"role"`
	Cluster    string      `json:"cluster"`
	Generation uint64      `json:"generation"`
	Source     string      `json:"source"`
	Fenced     bool        `json:"fenced"`
	SplitBrain bool        `json:"split_brain_suspected"`
	Groups     []LinkGroup `json:"groups"`
	Switch     *LinkSwitch `json:"switch"`
	Level      struct {
		Members uint64 `json:"members"` // 0: a node has not told of itself
	} `json:"level"`
	Readers []struct {
		Name      string  `json:"name"`
		Idle      float64 `json:"idle_seconds"`
		Positions []struct {
			Group  uint64 `json:"group"`
			Behind uint64 `json:"behind_entries"`
		} `json:"positions"`
	} `json:"readers"`
	Holds []struct {
		Name    string `json:"name"`
		State   string `json:"state"`
		Holding bool   `json:"holding"`
	} `json:"holds"`
}

// LinkSwitch is how far a planned switch is.
type LinkSwitch struct {
	ID   string `json:"id"`
	Step string `json:"step"`
}

// LinkGroup is a group of a standby as one node sees it.
type LinkGroup struct {
	Group    uint64 `json:"group"`
	Role     string `json:"role"`
	State    string `json:"state"`
	Position struct {
		Index uint64 `json:"index"`
		Term  uint64 `json:"term"`
		Stamp int64  `json:"stamp"` // Unix ms
	} `json:"position"`
	LagEntries  uint64   `json:"lag_entries"`
	LagSeconds  float64  `json:"lag_seconds"`
	ContactAge  *float64 `json:"contact_age_seconds"`
	CompleteAge *float64 `json:"complete_age_seconds"`
	Error       *string  `json:"error"`
}

// stands is the group's state, and why.
func (g *LinkGroup) stands() string {
	if g.Error == nil {
		return g.State
	}
	return g.State + ": " + *g.Error
}

// Promotion is the report of a promotion, as far as the tests look at it.
type Promotion struct {
	Kind         string           `json:"kind"`
	Generation   uint64           `json:"generation"`
	At           int64            `json:"at"`
	Groups       []PromotionGroup `json:"groups"`
	SessionsLive int              `json:"sessions_live"`
}

// PromotionGroup is a group's cut.
type PromotionGroup struct {
	Group    uint64 `json:"group"`
	Position struct {
		Index uint64 `json:"index"`
		Term  uint64 `json:"term"`
		Hash  string `json:"hash"`
	} `json:"position"`
	Fingerprint  string `json:"fingerprint"`
	LagEntries   uint64 `json:"lag_entries"`
	LastContact  *int64 `json:"last_contact"`  // Unix ms
	MissingSince *int64 `json:"missing_since"` // Unix ms
}

// Link asks a node for its part in the standby link.
func (n *Node) LinkStatus(ctx context.Context) (Link, error) {
	var l Link
	return l, n.Get(ctx, "/api/link", &l)
}

// Promote has a node of the standby promote its cluster.
func (n *Node) Promote(ctx context.Context, how string) (Promotion, error) {
	return n.takeOver(ctx, how, nil)
}

// Switchover has the source hand over, with time for its consumers to acknowledge what they have.
func (n *Node) Switchover(ctx context.Context, drain time.Duration) (Promotion, error) {
	return n.takeOver(ctx, "switchover", strings.NewReader(fmt.Sprintf(`{"drain_seconds":%g}`, drain.Seconds())))
}

func (n *Node) takeOver(ctx context.Context, how string, body io.Reader) (Promotion, error) {
	var p Promotion
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.Admin+"/api/link/"+how, body)
	if err != nil {
		return p, err
	}
	req.SetBasicAuth("guest", "guest")
	req.Header.Set("Content-Type", "application/json")
	resp, err := adminClient.Do(req)
	if err != nil {
		return p, fmt.Errorf("node %d: %w", n.ID, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		var why struct{ Reason string }
		_ = json.NewDecoder(resp.Body).Decode(&why)
		return p, fmt.Errorf("node %d: %s: %s: %s", n.ID, how, resp.Status, why.Reason)
	}
	return p, json.NewDecoder(resp.Body).Decode(&p)
}

// CaughtUp is nil if the standby has replayed, in every group, what the source's nodes have applied.
func (p *Pair) CaughtUp(ctx context.Context) error { return p.Within(ctx, 0) }

// Within is nil if every node of the standby is at most so many entries behind, in every group.
func (p *Pair) Within(ctx context.Context, entries uint64) error {
	most := map[uint64]uint64{}
	for _, n := range p.Source.Running() {
		groups, err := n.Groups(ctx)
		if err != nil {
			return err
		}
		for id, g := range groups {
			most[id] = max(most[id], g.Applied)
		}
	}
	for _, n := range p.Standby.Running() {
		l, err := n.LinkStatus(ctx)
		if err != nil {
			return err
		}
		if len(l.Groups) != len(most) {
			return fmt.Errorf("standby node %d tells of %d groups, the source of %d", n.ID, len(l.Groups), len(most))
		}
		for _, g := range l.Groups {
			if g.Position.Index+entries < most[g.Group] {
				return fmt.Errorf("standby node %d is at entry %d of group %d, the source at %d: %s", n.ID, g.Position.Index, g.Group, most[g.Group], g.stands())
			}
		}
	}
	return nil
}

// WaitCaughtUp waits for CaughtUp.
func (p *Pair) WaitCaughtUp(atMost time.Duration) error { return Await(atMost, p.CaughtUp) }

// WaitCaughtUpWithin waits, under load, until the standby is at most so many entries behind in every group.
func (p *Pair) WaitCaughtUpWithin(entries uint64, atMost time.Duration) error {
	return Await(atMost, func(ctx context.Context) error { return p.Within(ctx, entries) })
}
