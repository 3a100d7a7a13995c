package standby

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

const (
	vhosts     = 4
	publishers = 1 // a vhost
	rate       = 700
)

// The kinds of round.
var kinds = []kind{
	{name: "planned", lossless: true},
	{name: "crash"},
	{name: "crash-cut"}, // with the standby's leaders cut off from the source
	{name: "sync", lossless: true},
}

// result is a round, for the table.
type result struct {
	number int
	kind   kind
	seed   uint64
	faults []string
	verdict
	promotion harness.Promotion
	took      time.Duration // from asking for the promotion to the first confirm of the promoted cluster
	err       error
}

func (r *result) line() string {
	word := "ok"
	if r.err != nil {
		word = "FAILED"
	}
	return fmt.Sprintf("%-9s seed %-7d %s: confirmed %d, lost %d (tail %v), doubled %d, phantom %d, gaps %d, serving after %v; faults: %s",
		r.kind.name, r.seed, word, r.Confirmed, r.Lost, r.Tail.Round(time.Millisecond), r.Doubled, r.Phantom, r.Gaps,
		r.took.Round(time.Millisecond), strings.Join(r.faults, " "))
}

func (r *result) replay() string {
	return fmt.Sprintf("make failover ONLY=%s RUNS=1 SEED=%d", r.kind.name, r.seed)
}

// round is one take-over under load.
type round struct {
	*harness.Pair
	t       testing.TB
	kind    kind
	rng     *rand.Rand
	load    time.Duration // before the switch
	h       *history
	groups  map[int]uint64 // of vhosts
	holders []*holder
	res     *result

	publishing, consuming context.CancelFunc
	publishersDone        sync.WaitGroup
	consumersDone         sync.WaitGroup
}

// run does one round of a kind on clusters of its own.
func run(t testing.TB, k kind, number int, seed uint64, load time.Duration) result {
	res := result{number: number, kind: k, seed: seed}
	r := &round{
		t: t, kind: k, rng: rand.New(rand.NewPCG(seed, 7)), load: load, res: &res, groups: map[int]uint64{},
		h: &history{messages: map[string]*message{}},
	}
	r.Pair = harness.StartPair(t, harness.PairOptions{Nodes: 3, Args: []string{"--groups", fmt.Sprint(vhosts)}})
	defer r.Standby.Stop()
	defer r.Source.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	res.err = r.all(ctx)
	return res
}

func vhostName(i int) string { return fmt.Sprintf("v%d", i) }

func (r *round) all(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return fmt.Errorf("preparing: %w", err)
	}
	defer r.stopClients()
	if err := r.trouble(ctx); err != nil {
		return fmt.Errorf("before the switch: %w", err)
	}
	if err := r.takeOver(ctx); err != nil {
		return fmt.Errorf("taking over: %w", err)
	}
	if err := r.afterwards(ctx); err != nil {
		return fmt.Errorf("after the switch: %w", err)
	}
	return r.verdict(ctx)
}

// prepare makes the vhosts and sets everybody to work.
func (r *round) prepare(ctx context.Context) error {
	for i := range vhosts {
		if err := r.makeVhost(ctx, i); err != nil {
			return err
		}
	}
	var places []place
	for _, n := range r.Source.Members() {
		places = append(places, place{n.AMQP, true})
	}
	for _, n := range r.Standby.Members() {
		places = append(places, place{n.AMQP, false})
	}
	publishing, stopPublishing := context.WithCancel(context.Background())
	consuming, stopConsuming := context.WithCancel(context.Background())
	r.publishing, r.consuming = stopPublishing, stopConsuming
	for i := range vhosts {
		who := func(role string) client {
			return client{places: places, vhost: vhostName(i), session: fmt.Sprintf("%s-%d", role, i), at: r.rng.IntN(3)}
		}
		h := &holder{client: who("holder")}
		if err := h.begin(ctx); err != nil {
			return err
		}
		r.holders = append(r.holders, h)
		p := &publisher{client: who("publisher"), h: r.h, number: i, rate: rate}
		c := &consumer{client: who("consumer"), h: r.h}
		r.publishersDone.Go(func() { p.run(publishing) })
		r.consumersDone.Go(func() { c.run(consuming) })
	}
	return harness.Await(30*time.Second, func(context.Context) error {
		if n := r.h.confirms(); n < 1000 {
			return fmt.Errorf("%d messages were confirmed", n)
		}
		return nil
	})
}

func (r *round) makeVhost(ctx context.Context, i int) error {
	n, name := r.Source.Node(1), vhostName(i)
	return harness.Await(20*time.Second, func(context.Context) error {
		if _, err := n.Do(ctx, "PUT", "/api/vhosts/"+name, nil); err != nil {
			return err
		}
		var v struct {
			Group uint64 `json:"group"`
		}
		if err := n.Get(ctx, "/api/vhosts/"+name, &v); err != nil {
			return err
		}
		r.groups[i] = v.Group
		if err := n.Put(ctx, "/api/permissions/"+name+"/guest", `{"configure":".*","write":".*","read":".*"}`); err != nil {
			return err
		}
		if r.kind.name == "sync" {
			policy := `{"pattern":".*","apply-to":"vhost","definition":{"link-confirm":"sync","link-on-loss":"block"}}`
			if err := n.Put(ctx, "/api/policies/"+name+"/link", policy); err != nil {
				return err
			}
		}
		return n.Put(ctx, "/api/queues/"+name+"/work", `{"durable":true}`)
	})
}

// trouble does things to both sides while the load runs, and leaves everything in order.
func (r *round) trouble(ctx context.Context) error {
	for end := time.Now().Add(r.load); time.Now().Before(end) && ctx.Err() == nil; {
		f := faults[r.rng.IntN(len(faults))]
		r.res.faults = append(r.res.faults, f.name)
		if err := f.do(r); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	for _, c := range []*harness.Cluster{r.Source, r.Standby} {
		if err := c.WaitReady(time.Minute); err != nil {
			return err
		}
	}
	confirmed := r.h.confirms()
	return harness.Await(time.Minute, func(ctx context.Context) error {
		if n := r.h.confirms(); n < confirmed+500 {
			return fmt.Errorf("%d of 500 more messages were confirmed", n-confirmed)
		}
		return r.nearlyCaughtUp(ctx)
	})
}

// nearlyCaughtUp says whether every group of the standby follows closely.
func (r *round) nearlyCaughtUp(ctx context.Context) error {
	most := map[uint64]uint64{}
	for _, n := range r.Source.Running() {
		groups, err := n.Groups(ctx)
		if err != nil {
			return err
		}
		for id, g := range groups {
			most[id] = max(most[id], g.Applied)
		}
	}
	l, err := r.Standby.Node(1).LinkStatus(ctx)
	if err != nil {
		return err
	}
	for _, g := range l.Groups {
		if g.Position.Index+200 < most[g.Group] {
			return fmt.Errorf("group %d of the standby is at %d, the source at %d", g.Group, g.Position.Index, most[g.Group])
		}
	}
	return nil
}

// takeOver has the standby take over as the round's kind says.
func (r *round) takeOver(ctx context.Context) (err error) {
	how := "promote"
	switch r.kind.name {
	case "planned":
		how = "switchover"
	case "crash-cut":
		for g := range uint64(vhosts + 1) {
			leader, _, err := r.Standby.WaitLeader(g, 20*time.Second)
			if err != nil {
				return err
			}
			r.CutLinksOf(leader)
			if g == 1 {
				break // one node is left that reaches the source
			}
		}
		time.Sleep(time.Duration(1000+r.rng.IntN(2000)) * time.Millisecond)
		r.Source.KillAll()
	default:
		r.Source.KillAll()
	}
	asked := time.Now()
	err = harness.Await(2*time.Minute, func(ctx context.Context) error {
		r.res.promotion, err = r.Standby.Node(1+r.rng.IntN(3)).Promote(ctx, how)
		return err
	})
	if err != nil {
		return err
	}
	err = harness.Await(time.Minute, func(context.Context) error { return r.confirmedSince(asked) })
	r.res.took = time.Since(asked)
	return err
}

// confirmedSince says whether the promoted cluster has confirmed something.
func (r *round) confirmedSince(asked time.Time) error {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	for _, m := range r.h.messages {
		if !m.bySource && m.confirmed.After(asked) {
			return nil
		}
	}
	return errors.New("the promoted cluster has confirmed nothing yet")
}

// afterwards lets the load go on, brings the old source back, which is to be fenced, and empties the queues.
func (r *round) afterwards(ctx context.Context) error {
	for _, n := range r.Source.Members() {
		if !n.Running() {
			if err := n.Start(); err != nil {
				return err
			}
		}
	}
	r.HealLinks()
	if err := harness.Await(90*time.Second, r.fenced); err != nil {
		return err
	}
	r.publishing()
	r.publishersDone.Wait()
	for _, h := range r.holders {
		if err := h.finish(ctx); err != nil {
			return fmt.Errorf("%s: %w", h.session, err)
		}
	}
	quiet, last := 0, -1
	return harness.Await(time.Minute, func(context.Context) error {
		if n := r.h.deliveries(); n != last {
			quiet, last = 0, n
		}
		if quiet++; quiet < 75 {
			return errors.New("deliveries still come")
		}
		return nil
	})
}

// fenced says whether every node of the old source knows that it is fenced.
func (r *round) fenced(ctx context.Context) error {
	for _, n := range r.Source.Members() {
		l, err := n.LinkStatus(ctx)
		if err != nil {
			return err
		}
		if !l.Fenced {
			return fmt.Errorf("node %d of the old source is not fenced", n.ID)
		}
	}
	return nil
}

func (r *round) stopClients() {
	r.publishing()
	r.consuming()
	r.publishersDone.Wait()
	r.consumersDone.Wait()
}

// verdict judges the round.
func (r *round) verdict(context.Context) error {
	r.stopClients()
	t := trial{kind: r.kind, h: r.h, group: func(v int) uint64 { return r.groups[v] }}
	var since []int64
	for _, g := range r.res.promotion.Groups {
		if g.LastContact != nil {
			t.contact = later(t.contact, time.UnixMilli(*g.LastContact))
		}
		if g.MissingSince != nil {
			since = append(since, *g.MissingSince)
		}
	}
	if len(since) > 0 {
		t.since = time.UnixMilli(slices.Min(since))
	}
	r.res.verdict = judge(t)
	var faults []error
	if !r.res.OK(r.kind) {
		faults = append(faults, errors.New(strings.Join(r.res.examples, "; ")))
	}
	return errors.Join(append(faults, r.Standby.Fingerprints(30*time.Second))...)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
