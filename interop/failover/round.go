package failover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/checker"
	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/load"
)

const (
	confirmedMin  = 1000 // messages to be confirmed during or after a fault
	steadyMin     = 500  // messages to be confirmed and delivered before it
	mixedRate     = 40   // publishes per second and producer of the mixed load
	fellBehindMin = 20   // entries that a node must lack to have fallen behind
)

// result is what a round came to.
type result struct {
	number     int
	fault      string
	seed       uint64
	what, bite string
	after      int64 // confirmed since the fault began
	// first new confirm and first new delivery of something published after the fault began, on a node that did not
	// suffer; 0 if there was none
	confirm, delivery time.Duration
	report            *checker.Report
	mixed             *checker.MixedReport
	err               error
	took              time.Duration
}

// round is one fault under load.
type round struct {
	t       testing.TB
	cluster *harness.Cluster
	rng     *rand.Rand
	seed    uint64
	load    *load.Load
	mixed   *load.Load // beside it: what ends otherwise than by being consumed
	residue *residue

	group  uint64 // the group under load
	leader int
	term   uint64

	began       checker.Time // when the fault began, on the history's clock
	beganBreaks int64
	beganCount  int64
	watch       *watch
	noticed     string // what the fault itself saw of its bite
}

// runRound does one fault on a healthy cluster and leaves it healthy.
func runRound(ctx context.Context, t testing.TB, c *harness.Cluster, number int, f fault, seed uint64) result {
	r := &round{t: t, cluster: c, rng: rand.New(rand.NewPCG(seed, 1)), seed: seed}
	res := result{number: number, fault: f.name, seed: seed}
	start := time.Now()
	res.err = r.run(ctx, f, &res)
	res.took = time.Since(start)
	return res
}

func (r *round) run(ctx context.Context, f fault, res *result) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	defer r.load.Stop()
	defer r.mixed.Stop()
	victim, what, err := f.do(ctx, r)
	res.what = what
	if r.watch != nil {
		defer r.watch.stop()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("doing %s: %w", f.name, err), r.makeGood())
	}
	if err := r.recover(); err != nil {
		return err
	}
	r.watch.stop()
	settled := r.settle(ctx)
	res.report = checker.Check(r.load.History, r.load.Single)
	res.mixed = r.mixed.Mixed()
	res.after = r.load.History.Confirmed() - r.beganCount
	res.confirm, res.delivery = r.firstAfter(victim)
	res.bite = r.bites(victim)
	return errors.Join(settled, r.judge(res))
}

// judge says what is wrong with a round that ran to its end.
func (r *round) judge(res *result) error {
	err := faultsOf(res)
	if prints := r.cluster.Fingerprints(harness.Patience); prints != nil {
		err = errors.Join(err, fmt.Errorf("fingerprints: %w", prints))
	}
	return err
}

func faultsOf(res *result) error {
	var faults []error
	if !res.report.OK() {
		faults = append(faults, fmt.Errorf("the checker found faults:\n  %s", strings.Join(res.report.Examples, "\n  ")))
	}
	if !res.mixed.OK() {
		faults = append(faults, fmt.Errorf("the checker found faults in the mixed load:\n  %s", strings.Join(res.mixed.Examples, "\n  ")))
	}
	if res.bite == "" {
		faults = append(faults, errors.New("the fault was not seen to bite"))
	}
	if res.after < confirmedMin {
		faults = append(faults, fmt.Errorf("only %d messages were confirmed during and after the fault", res.after))
	}
	return errors.Join(faults...)
}

// mixed says whether the mixed loads of all rounds that were judged had messages end in every way. One round alone may see
// nothing of what is rare.
func mixed(results []result) error {
	ends := map[string]int{}
	for _, res := range results {
		if res.mixed == nil {
			continue
		}
		for _, why := range []string{"expired", "maxlen", "rejected", "delivery_limit"} {
			ends[why] += res.mixed.Deaths[why]
		}
		ends["dropped"] += res.mixed.Dropped
		ends["refused"] += res.mixed.Refused
		ends["transactions"] += res.mixed.Batches
	}
	for _, end := range slices.Sorted(maps.Keys(ends)) {
		if ends[end] == 0 {
			return fmt.Errorf("the mixed load was not mixed: of all rounds none saw any %s: %v", end, ends)
		}
	}
	return nil
}

// prepare starts the load, waits until it runs steadily and looks who leads.
func (r *round) prepare(ctx context.Context) error {
	if err := r.cluster.WaitReady(harness.Patience); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	var err error
	r.load, err = load.Start(ctx, load.Options{
		URLs: r.cluster.URLs(), Rate: 400, Seed: r.seed,
		Queues: []load.Queue{
			{Name: fmt.Sprintf("ordered-%d", r.seed), Producers: 2, Consumers: 1},
			{Name: fmt.Sprintf("shared-%d", r.seed), Producers: 2, Consumers: 2},
		},
	})
	if err != nil {
		return fmt.Errorf("starting the load: %w", err)
	}
	queues, rules := load.Mixture(fmt.Sprint(r.seed))
	r.mixed, err = load.Start(ctx, load.Options{URLs: r.cluster.URLs(), Rate: mixedRate, Prefetch: 10, Seed: r.seed, Queues: queues, Rules: rules})
	if err != nil {
		r.load.Stop()
		return fmt.Errorf("starting the mixed load: %w", err)
	}
	if err = r.steady(ctx); err != nil {
		r.load.Stop()
		r.mixed.Stop()
		return fmt.Errorf("before the fault: %w", err)
	}
	return nil
}

// steady waits until the load runs steadily and looks who leads.
func (r *round) steady(ctx context.Context) (err error) {
	if r.residue, err = leaveResidue(r.cluster.URLs(), fmt.Sprintf("left-%d", r.seed)); err != nil {
		return err
	}
	if err = r.progress(harness.Patience, steadyMin); err != nil {
		return err
	}
	if r.group, err = r.cluster.BusiestGroup(ctx); err == nil {
		r.leader, r.term, err = r.cluster.WaitLeader(r.group, harness.Patience)
	}
	return err
}

// begin marks the moment of the fault.
func (r *round) begin() {
	r.watch = startWatch(r.cluster, r.group)
	r.beganBreaks, r.beganCount = r.load.Breaks(), r.load.History.Confirmed()
	r.began = r.load.History.Now()
}

// hold lets the fault last.
func (r *round) hold(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (r *round) upTo(d time.Duration) time.Duration { return time.Duration(r.rng.Int64N(int64(d))) }

func (r *round) follower() int {
	var others []int
	for _, n := range r.cluster.Members() {
		if n.ID != r.leader {
			others = append(others, n.ID)
		}
	}
	return others[r.rng.IntN(len(others))]
}

// recover waits until the healed cluster serves: nodes ready, as much again confirmed and delivered.
func (r *round) recover() error {
	if err := r.cluster.WaitReady(harness.Patience); err != nil {
		return fmt.Errorf("after the fault: %w", err)
	}
	if err := r.progress(harness.Patience, confirmedMin); err != nil {
		return fmt.Errorf("after the fault: %w", err)
	}
	return nil
}

// progress waits for so many more messages to be confirmed and delivered.
func (r *round) progress(atMost time.Duration, n int64) error {
	h := r.load.History
	confirmed, delivered := h.Confirmed(), h.Delivered()
	return harness.Await(atMost, func(context.Context) error {
		if c, d := h.Confirmed()-confirmed, h.Delivered()-delivered; c < n || d < n {
			return fmt.Errorf("%d of %d messages confirmed, %d delivered", c, n, d)
		}
		return nil
	})
}

// settle ends the load and empties the queues.
func (r *round) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	r.load.StopProducers()
	r.mixed.StopProducers()
	err := r.load.WaitEmpty(ctx)
	r.load.StopConsumers()
	r.mixed.StopConsumers()
	if prints := r.cluster.Fingerprints(harness.Patience); prints != nil {
		err = errors.Join(err, fmt.Errorf("fingerprints with messages left in a queue: %w", prints))
	}
	drain, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	return errors.Join(err, r.load.Drain(drain), r.mixed.Drain(drain), r.mixed.Delete(drain), r.residue.letGo(), r.load.Anywhere(drain, r.residue.collect), r.load.Delete(drain))
}

// makeGood undoes a fault that failed half way.
func (r *round) makeGood() error {
	r.cluster.Heal()
	var errs []error
	for _, n := range r.cluster.Members() {
		if !n.Running() {
			errs = append(errs, n.Start())
			continue
		}
		errs = append(errs, n.Resume())
	}
	return errors.Join(errs...)
}

// firstAfter finds the first confirm and the first delivery, on a node other than the victim, of a message published
// after the fault began.
func (r *round) firstAfter(victim int) (confirm, delivery time.Duration) {
	survivor := func(url int) bool { return url+1 != victim }
	fresh := map[checker.ID]bool{}
	first := func(d *time.Duration, at checker.Time) {
		if since := time.Duration(at - r.began); *d == 0 || since < *d {
			*d = since
		}
	}
	for _, p := range r.load.History.Producers {
		for _, a := range p.Attempts {
			if a.At <= r.began {
				continue
			}
			fresh[a.ID] = true
			if a.Fate == checker.Confirmed && survivor(a.Node) {
				first(&confirm, a.FateAt)
			}
		}
	}
	for _, c := range r.load.History.Consumers {
		for _, d := range c.Deliveries {
			if fresh[d.ID] && survivor(d.Node) {
				first(&delivery, d.At)
			}
		}
	}
	return confirm, delivery
}

// bites says how the fault was seen to bite; "" if it was not.
func (r *round) bites(victim int) string {
	var seen []string
	leader, behind, most := r.watch.seen(r.leader, r.term)
	for _, saw := range []string{leader, r.noticed} {
		if saw != "" {
			seen = append(seen, saw)
		}
	}
	if n := r.load.Breaks() - r.beganBreaks; n > 0 {
		seen = append(seen, fmt.Sprintf("%d connections broke", n))
	}
	if most >= fellBehindMin && (victim == 0 || victim == behind) {
		seen = append(seen, fmt.Sprintf("node %d fell %d entries behind", behind, most))
	}
	if before, during := r.confirmTimes(); during > 2*before && during-before > 40*time.Millisecond {
		seen = append(seen, fmt.Sprintf("confirms took %v instead of %v", during.Round(time.Millisecond), before.Round(100*time.Microsecond)))
	}
	return strings.Join(seen, ", ")
}

// confirmTimes are the 90th percentiles of the time to a confirm before the fault and in the 5 s since it began.
func (r *round) confirmTimes() (before, during time.Duration) {
	var was, is []time.Duration
	for _, p := range r.load.History.Producers {
		for _, a := range p.Attempts {
			switch took := time.Duration(a.FateAt - a.At); {
			case a.Fate != checker.Confirmed:
			case a.FateAt < r.began:
				was = append(was, took)
			case a.At > r.began && time.Duration(a.At-r.began) < 5*time.Second:
				is = append(is, took)
			}
		}
	}
	return percentile(was, 90), percentile(is, 90)
}

// percentile sorts ds and answers its p-th percentile, 0 of nothing.
func percentile(ds []time.Duration, p int) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[min(len(ds)*p/100, len(ds)-1)]
}

// watch looks at a group on all nodes while a fault lasts.
type watch struct {
	end, ended chan struct{}
	once       sync.Once

	mu      sync.Mutex
	leaders map[uint64]int // term -> leader
	lag     map[int]uint64 // node -> most entries it was seen to lack
}

func startWatch(c *harness.Cluster, group uint64) *watch {
	w := &watch{end: make(chan struct{}), ended: make(chan struct{}), leaders: map[uint64]int{}, lag: map[int]uint64{}}
	go func() {
		defer close(w.ended)
		applied := map[int]uint64{}
		for {
			w.look(c, group, applied)
			select {
			case <-w.end:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return w
}

// look asks every node that can answer; a node that cannot keeps what it last had.
func (w *watch) look(c *harness.Cluster, group uint64, applied map[int]uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var most uint64
	for _, n := range c.Running() {
		if n.Paused() {
			continue
		}
		groups, err := n.Groups(ctx)
		if err != nil {
			continue
		}
		g := groups[group]
		applied[n.ID] = g.Applied
		most = max(most, g.Applied)
		if g.Role == "leader" {
			w.mu.Lock()
			w.leaders[g.Term] = n.ID
			w.mu.Unlock()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, at := range applied {
		if most > at {
			w.lag[id] = max(w.lag[id], most-at)
		}
	}
}

func (w *watch) stop() {
	w.once.Do(func() { close(w.end) })
	<-w.ended
}

// seen answers a change of leader in words, and which node lacked most and how much.
func (w *watch) seen(leader int, term uint64) (change string, node int, most uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var newest uint64
	for t := range w.leaders {
		newest = max(newest, t)
	}
	if newest > term {
		change = fmt.Sprintf("leader %d -> %d (term %d -> %d)", leader, w.leaders[newest], term, newest)
	}
	for id, n := range w.lag {
		if n > most {
			node, most = id, n
		}
	}
	return change, node, most
}
