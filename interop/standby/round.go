package standby

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

const (
	nodes  = 3 // of each cluster
	vhosts = 4
)

// extent is how much a round is.
type extent struct {
	load time.Duration // before the switch
	rate int           // a second and vhost, of messages that are simply consumed
}

// The kinds of round.
var kinds = []kind{
	{name: "planned", lossless: true, whole: true},
	{name: "crash"},
	{name: "crash-cut"}, // with the standby's leaders cut off from the source
	{name: "sync", lossless: true},
}

// turn is a seed as a kind counts it, so that the kinds meet with different things at the same seed.
func (k kind) turn(seed uint64) uint64 {
	return seed + uint64(slices.IndexFunc(kinds, func(x kind) bool { return x.name == k.name }))
}

// seeded says whether a round's standby begins with a seed: one kind in four, whatever the seed number.
func (k kind) seeded(seed uint64) bool { return k.turn(seed)%uint64(len(kinds)) == 0 }

// powered says whether nodes of a round can lose their power: of two kinds in three, whatever the seed number.
func (k kind) powered(seed uint64) bool { return k.turn(seed)%3 != 0 }

// result is a round, for the table.
type result struct {
	kind   kind
	seed   uint64
	faults []string
	power  harness.PowerLoss
	verdict
	again      int      // publishes that were sent again
	midst      []string // what happened in the midst of the take-over
	refusals   []string // what those who asked for it were told before it was done
	promotions []harness.Promotion
	took       time.Duration // from asking for the promotion to the first confirm of the promoted cluster; 0: there was none
	compared   string        // at the cut
	entries    int           // of the log, compared
	lasted     time.Duration
	err        error
}

func (r *result) line() string {
	word := "ok"
	if r.err != nil {
		word = "FAILED"
	}
	line := fmt.Sprintf("%-9s seed %-6d %-5s %s: %s; confirmed %d, lost %d (tail %v), faults %v; stale %d, sent again %d; over the switch: %v; %s, %d log entries; serving after %v; %v; %.0f s; %s",
		r.kind.name, r.seed, r.start(), word, r.met(), r.Confirmed, r.Lost, r.Tail.Round(time.Millisecond), r.Faults, r.Stale, r.again, r.Over, r.compared, r.entries,
		r.took.Round(time.Millisecond), r.power, r.lasted.Seconds(), strings.Join(r.faults, " "))
	for _, why := range r.refusals {
		line += "\n  refused: " + why
	}
	if r.err != nil {
		line += "\n  " + r.why()
	}
	return line
}

// met is what happened in the midst of the take-over.
func (r *result) met() string {
	if len(r.midst) == 0 {
		return "nothing"
	}
	return strings.Join(r.midst, ", ")
}

// start is how the standby began.
func (r *result) start() string {
	if r.kind.seeded(r.seed) {
		return "seed"
	}
	return "empty"
}

// row is the round in the table that link/DESIGN.md keeps.
func (r *result) row() string {
	over := 0
	for _, n := range r.Over {
		over += n
	}
	return fmt.Sprintf("| %s | %d | %s | %s | %d | %d | %d | %v | %d | %d | %d | %.1f s |",
		r.kind.name, r.seed, r.start(), r.met(), r.power.Cuts, r.Confirmed, r.Lost, r.Faults, over, r.again, r.entries, r.took.Seconds())
}

// why is the error in one line that a cut-off log still shows.
func (r *result) why() string {
	const most = 600
	text := strings.Join(strings.Fields(r.err.Error()), " ")
	return text[:min(most, len(text))]
}

func (r *result) replay() string {
	return fmt.Sprintf("make failover ONLY=%s RUNS=1 SEED=%d", r.kind.name, r.seed)
}

// round is one take-over under load.
type round struct {
	*harness.Pair
	t       testing.TB
	kind    kind
	seeded  bool
	powered bool
	rng     *rand.Rand
	extent
	h       *history
	ahead   atomic.Bool // until the switch some messages are delayed to after it
	places  []place
	groups  map[int]uint64 // of vhosts
	holders []*holder
	plan    plan
	noting  sync.Mutex // guards res.midst
	fences  fences
	other   <-chan error      // what became of a second planned switch, or one that a promotion came before; nil: there was none
	forced  bool              // the promotion came before a planned switch
	cut     harness.Promotion // the report of the node that was asked
	lost    time.Time         // when the source was killed or cut off; zero: never
	back    time.Time         // when the fallen source was started again, or the standby of one that lives was promoted
	res     *result

	publishing, consuming         context.Context
	stopPublishing, stopConsuming context.CancelFunc
	publishersDone                sync.WaitGroup
	consumersDone                 sync.WaitGroup
}

// run does one round of a kind on clusters of its own.
func run(t testing.TB, k kind, seed uint64, much extent) result {
	began := time.Now()
	res := result{kind: k, seed: seed}
	r := &round{
		t: t, kind: k, seeded: k.seeded(seed), powered: k.powered(seed), rng: rand.New(rand.NewPCG(seed, 7)), extent: much, res: &res, groups: map[int]uint64{},
		h: &history{messages: map[string]*message{}}, fences: fences{spans: map[int][]span{}},
	}
	r.plan = r.planOf(k.turn(seed))
	r.ahead.Store(true)
	r.publishing, r.stopPublishing = context.WithCancel(context.Background())
	r.consuming, r.stopConsuming = context.WithCancel(context.Background())
	r.Pair = harness.NewPair(t, harness.PairOptions{Nodes: nodes, Seeded: r.seeded, Cuttable: r.powered, Args: []string{"--groups", fmt.Sprint(vhosts)}})
	defer r.Standby.Stop()
	defer r.Source.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	res.err = r.all(ctx)
	res.Confirmed = r.h.confirms()
	res.lasted = time.Since(began)
	return res
}

func vhostName(i int) string { return fmt.Sprintf("v%d", i) }

func (r *round) all(ctx context.Context) error {
	defer r.stopClients()
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"preparing", r.prepare}, {"before the switch", r.trouble}, {"taking over", r.takeOver}, {"after the switch", r.afterwards},
		{"the verdict", r.judge}, {"at the cut", r.compare},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// prepare makes the vhosts and sets everybody to work. A standby that begins with a seed finds a history.
func (r *round) prepare(ctx context.Context) error {
	for _, c := range []*harness.Cluster{r.Source, r.Standby} {
		for id := range nodes {
			n := c.Node(1 + id)
			r.places = append(r.places, place{n.AMQP, n.ID, c == r.Source})
		}
	}
	if err := r.StartSource(); err != nil {
		return err
	}
	if !r.seeded {
		if err := r.StartStandby(ctx); err != nil {
			return err
		}
	}
	for i := range vhosts {
		if err := r.makeVhost(ctx, i); err != nil {
			return err
		}
	}
	for i := range vhosts {
		if err := r.populate(ctx, i); err != nil {
			return fmt.Errorf("vhost %s: %w", vhostName(i), err)
		}
	}
	err := harness.Await(harness.Patience, func(context.Context) error {
		if n := r.h.confirms(); n < 500 && r.kind.name != "sync" { // nobody is waited for before there is a standby
			return fmt.Errorf("%d messages were confirmed", n)
		}
		return nil
	})
	if err == nil && r.seeded {
		err = r.StartStandby(ctx)
	}
	return err
}

// populate has the holder hold what it is to hold and sets the others of a vhost to work.
func (r *round) populate(ctx context.Context, i int) error {
	h := &holder{client: client{places: r.places, vhost: vhostName(i), session: fmt.Sprint("holder-", i), at: r.rng.IntN(3)}}
	if err := h.begin(ctx, i%2 == 0); err != nil {
		return fmt.Errorf("the holder: %w", err)
	}
	r.holders = append(r.holders, h)
	publish, consume := r.cast(i)
	for _, p := range publish {
		r.publishersDone.Go(func() { p(r.publishing) })
	}
	for _, c := range consume {
		r.consumersDone.Go(func() { c(r.consuming) })
	}
	return nil
}

func (r *round) makeVhost(ctx context.Context, i int) error {
	n, name := r.Source.Node(1), vhostName(i)
	return harness.Await(harness.Patience, func(context.Context) error {
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
		conn, err := amqp.DialConfig(n.URL(), amqp.Config{Vhost: name, Dial: amqp.DefaultDial(5 * time.Second)})
		if err != nil {
			return err
		}
		defer drop(conn)
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		return furnish(ch)
	})
}

// trouble does things to both sides while the load runs, and leaves everything in order.
func (r *round) trouble(ctx context.Context) error {
	for end := time.Now().Add(r.load); time.Now().Before(end) && ctx.Err() == nil; {
		f := r.choose()
		r.res.faults = append(r.res.faults, f.name)
		if err := f.do(r); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	for _, c := range []*harness.Cluster{r.Source, r.Standby} {
		if err := c.WaitReady(harness.Patience); err != nil {
			return err
		}
	}
	since := time.Now()
	return harness.Await(harness.Patience, func(ctx context.Context) error {
		if err := r.h.flowing(since); err != nil {
			return err
		}
		return r.Within(ctx, 30) // what is behind at the switch is to be of the last moments
	})
}

func (r *round) stopClients() {
	r.stopPublishing()
	r.stopConsuming()
	r.publishersDone.Wait()
	r.consumersDone.Wait()
}

// judge judges the round by what its clients saw and the promoted nodes' reports.
func (r *round) judge(ctx context.Context) error {
	r.stopClients()
	r.fences.wait()
	for _, m := range r.h.messages {
		r.res.again += m.again
	}
	t := trial{
		kind: r.kind, h: r.h, group: func(v int) uint64 { return r.groups[v] }, since: map[uint64]time.Time{}, back: r.back, fenced: r.fences.spans,
		cutOff: r.lost,
	}
	if r.forced { // what it says of itself counts
		t.kind.lossless = r.cut.Kind == "planned"
		t.kind.whole = false
	}
	for _, n := range r.Standby.Members() {
		var p harness.Promotion
		if err := n.Get(ctx, "/api/link/promotion", &p); err != nil {
			return err
		}
		r.res.promotions = append(r.res.promotions, p)
		t.believe(p)
	}
	r.res.verdict = judge(t)
	var faults []error
	if len(r.res.Faults) > 0 {
		faults = append(faults, errors.New(strings.Join(r.res.examples, "; ")))
	}
	if lack := r.res.thin(); lack != "" {
		faults = append(faults, errors.New(lack))
	}
	if !r.forced {
		faults = append(faults, named(r.kind, r.cut.Kind))
	}
	return errors.Join(append(faults, r.Standby.Fingerprints(harness.Patience))...)
}

// named says whether a report calls the take-over what it was.
func named(k kind, report string) error {
	if want := map[bool]string{true: "planned", false: "forced"}[k.whole]; report != want {
		return fmt.Errorf("the report says that the take-over was %s, not %s", report, want)
	}
	return nil
}

// believe takes over what a node's report says: every node's is to be true.
func (t *trial) believe(p harness.Promotion) {
	for _, g := range p.Groups {
		if g.LastContact != nil {
			t.contact = newer(t.contact, time.UnixMilli(*g.LastContact))
		}
		if g.MissingSince != nil {
			t.since[g.Group] = newer(t.since[g.Group], time.UnixMilli(*g.MissingSince))
		}
	}
}

func newer(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
