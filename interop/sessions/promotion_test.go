package sessions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/session/resume"
)

// promotedRun is the application, over a source and its standby.
type promotedRun struct {
	*helped
	pair     *harness.Pair
	promoted chan struct{} // one for each session that has noticed
}

func pairOf(t *testing.T, o harness.PairOptions) *harness.Pair {
	t.Helper()
	o.Args = []string{"--groups", "2"}
	return harness.StartPair(t, o)
}

func newPromotedRun(t *testing.T, ctx context.Context, pair *harness.Pair) *promotedRun {
	t.Helper()
	r := &promotedRun{pair: pair, promoted: make(chan struct{}, 2)}
	r.helped = newHelped(t, ctx, slices.Concat(r.pair.Source.Members(), r.pair.Standby.Members()), func(e resume.Event) {
		if e.Kind != resume.Failed { // the standby's nodes refuse all the time
			t.Logf("%s %s %v", e.Kind, e.Address, e.Err)
		}
		if e.Kind == resume.Promoted {
			r.promoted <- struct{}{}
		}
	})
	return r
}

// loseTheLastMoment cuts the standby off, kills the source once n more messages were delivered and acknowledged, and promotes
// the standby when the source has been silent for longer than silence.
func (r *promotedRun) loseTheLastMoment(n int, silence time.Duration) {
	r.t.Helper()
	r.pair.CutLinks()
	before := r.delivered()
	r.await(harness.Patience, func(context.Context) error {
		if more := r.delivered() - before; more < n {
			return fmt.Errorf("%d deliveries while the standby is cut off", more)
		}
		return nil
	})
	r.pair.Source.KillAll()
	standby := r.pair.Standby.Node(1)
	r.await(silence+harness.Patience, func(ctx context.Context) error {
		l, err := standby.LinkStatus(ctx)
		if err != nil {
			return err
		}
		if age := l.Groups[0].ContactAge; age == nil || *age < silence.Seconds() {
			return fmt.Errorf("last contact %v ago", age)
		}
		return nil
	})
	if _, err := standby.Promote(r.ctx, "promote"); err != nil {
		r.t.Fatal(err)
	}
	r.awaitPromoted()
}

// awaitPromoted waits until both sessions have come to the promoted cluster.
func (r *promotedRun) awaitPromoted() {
	r.t.Helper()
	for range 2 {
		select {
		case <-r.promoted:
		case <-r.ctx.Done():
			r.t.Fatal("a session has not noticed the promotion")
		}
	}
}

// publishForLater publishes to a queue from which nobody consumes until the returned function is called: it waits for the end
// of the publishing, and wants to be handed all of it once, in order.
func (r *promotedRun) publishForLater(stop <-chan struct{}) (consume func()) {
	r.t.Helper()
	published := make(chan int, 1)
	go func() {
		n, err := publishUntil(r.ctx, r.publishing, later, later, stop)
		if err != nil {
			r.t.Error(err)
		}
		published <- n
	}()
	return func() {
		r.t.Helper()
		total := <-published
		c, err := r.consuming.Consume(r.ctx, later, resume.ConsumeOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		got := seen{last: map[string]int{}}
		for got.total < total && len(got.faults) == 0 {
			select {
			case d := <-c.Deliveries():
				got.take(string(d.Body))
				if err := d.Ack(false); err != nil {
					r.t.Error(err)
				}
			case <-time.After(patience):
				got.faults = append(got.faults, "nothing more came")
			}
		}
		r.t.Logf("published for later %d, delivered %d", total, got.total)
		if len(got.faults) > 0 {
			r.t.Errorf("published for later %d, delivered %d: %.10q", total, got.total, got.faults)
		}
	}
}

// await waits for a condition of the run.
func (r *promotedRun) await(atMost time.Duration, condition func(context.Context) error) {
	r.t.Helper()
	if err := harness.Await(atMost, condition); err != nil {
		r.t.Fatal(err)
	}
}

// disturbBoth kills a node of either cluster and starts it again, or cuts connections of clients, until so many messages were
// delivered.
func (r *promotedRun) disturbBoth(messages int, random *rand.Rand) {
	r.t.Helper()
	for r.delivered() < messages && r.ctx.Err() == nil {
		c, doors := r.pair.Source, r.doors[:len(r.pair.Source.Members())]
		if random.IntN(3) == 0 {
			c, doors = r.pair.Standby, nil
		}
		disturb(r.t, r.ctx, c, doors, 3*time.Second, random)
	}
}

// TestHelperLosesAndDoublesNothingWhenAStandbyIsPromotedThatHadNotHeardOfTheLastMoment: the standby is cut off for a moment while
// the source confirms and delivers, and then the source dies. What was confirmed in that moment is published again; the
// consumer that has worked it off is not handed it twice, and what nobody had yet is there.
func TestHelperLosesAndDoublesNothingWhenAStandbyIsPromotedThatHadNotHeardOfTheLastMoment(t *testing.T) {
	nodes, lost, length := 1, 200, 2*time.Minute
	if *long {
		nodes, lost, length = 3, 1000, 10*time.Minute
	}
	first := firstSeed(t)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	r := newPromotedRun(t, ctx, pairOf(t, harness.PairOptions{Nodes: nodes}))
	stop := make(chan struct{})
	total := r.publish(stop, "a", "b")
	consumeTheRest := r.publishForLater(stop)
	silence := time.Duration(0)
	if *long {
		r.disturbBoth(18_000, rand.New(rand.NewPCG(first, 2)))
		silence = 12 * time.Second // longer than a session looks back
	}
	if err := r.pair.WaitCaughtUpWithin(500, harness.Patience); err != nil {
		t.Fatal(err)
	}
	r.loseTheLastMoment(lost, silence)
	after := r.delivered()
	r.await(harness.Patience, func(context.Context) error {
		if more := r.delivered() - after; more < lost {
			return fmt.Errorf("%d deliveries by the promoted cluster", more)
		}
		return nil
	})
	close(stop)
	consumeTheRest()
	r.judge(total())
	r.wantHosts()
	if err := r.pair.Standby.Fingerprints(harness.Patience); err != nil {
		t.Error(err)
	}
}

// TestHelperLosesNothingOfASessionThatBeganInTheLastMoment: the promoted cluster knows neither the sessions nor their queues.
func TestHelperLosesNothingOfASessionThatBeganInTheLastMoment(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	pair := pairOf(t, harness.PairOptions{})
	pair.CutLinks()
	r := newPromotedRun(t, ctx, pair)
	stop := make(chan struct{})
	total := r.publish(stop, "a")
	consumeTheRest := r.publishForLater(stop)
	r.loseTheLastMoment(100, 0)
	close(stop)
	consumeTheRest()
	r.judge(total())
}

// wantHosts wants clients to be told of the promoted cluster's nodes, and not of the dead source's.
func (r *promotedRun) wantHosts() {
	r.t.Helper()
	first := r.pair.Standby.Node(1)
	after := connect(r.t, first.URL(), session(unique("s")))
	want(r.t, "generation", after.status()["x-session-generation"], 1)
	r.await(harness.Patience, func(context.Context) error {
		hosts := fmt.Sprint(after.status()["x-session-hosts"])
		told := strings.Split(hosts, ",")
		slices.Sort(told)
		var own []string
		for _, n := range r.pair.Standby.Members() {
			own = append(own, n.AMQP)
		}
		slices.Sort(own)
		if !slices.Equal(told, own) {
			return fmt.Errorf("clients are told of %q, not of %q", told, own)
		}
		return nil
	})
}
