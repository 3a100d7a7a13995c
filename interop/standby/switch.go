package standby

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// takeOver has the standby take over as the round's kind and plan say.
func (r *round) takeOver(ctx context.Context) error {
	if err := r.lose(); err != nil {
		return err
	}
	r.fences.watch(ctx, r.Source.Members())
	promote := func(ctx context.Context, n *harness.Node) (harness.Promotion, error) {
		return n.Promote(ctx, "promote")
	}
	switch {
	case r.plan.end != "":
	case r.plan.upset.name == "force":
		r.forces(ctx)
	default:
		promote = func(ctx context.Context, n *harness.Node) (harness.Promotion, error) {
			return n.Switchover(ctx, r.plan.drain)
		}
		if r.plan.upset.name == "give-up" {
			if err := r.givesUp(ctx); err != nil {
				return err
			}
		}
	}
	r.ahead.Store(false)
	asked := time.Now()
	if r.forced {
		r.lost = asked
	}
	if r.splits() {
		r.back = asked
		r.pin(false) // the others stay where they are served
	}
	if err := r.ask(ctx, promote); err != nil {
		return err
	}
	return harness.Await(harness.Patience, func(context.Context) error {
		if !r.h.confirmedSince(asked) {
			return errors.New("the promoted cluster has confirmed nothing yet")
		}
		r.res.took = time.Since(asked)
		return nil
	})
}

// splits says whether the former source goes on serving while the standby is promoted.
func (r *round) splits() bool {
	return r.forced || r.plan.end == alive || r.plan.end == mute || r.plan.end == surfacing
}

// ask asks the standby's nodes in turn to take over until one says that it has, while the plan's upset happens.
func (r *round) ask(ctx context.Context, promote func(context.Context, *harness.Node) (harness.Promotion, error)) error {
	over, end := context.WithCancel(ctx)
	defer end()
	list := r.rng.Perm(nodes)
	if r.plan.upset.name == "twice" {
		r.note("asked of nodes %d and %d at once", 1+list[0], 1+list[1])
		r.asks(ctx, r.Standby.Node(1+list[1]), func() {})
	}
	var during sync.WaitGroup
	var upset, surfaced error
	during.Go(func() { upset = r.upsets(over) })
	during.Go(func() { surfaced = r.surface(over) })
	err := harness.Await(harness.Patience, func(ctx context.Context) error {
		n := r.Standby.Node(1 + list[0])
		list = append(list[1:], list[0]) // the next one, if this one does not answer
		var err error
		if r.cut, err = promote(ctx, n); err != nil && !slices.Contains(r.res.refusals, err.Error()) {
			r.res.refusals = append(r.res.refusals, err.Error())
		}
		return err
	})
	end()
	during.Wait()
	return errors.Join(err, upset, surfaced)
}

// lose has the source be lost as the plan says.
func (r *round) lose() error {
	if r.plan.end == "" {
		return nil
	}
	if r.kind.name == "crash-cut" {
		if err := r.cutOff(); err != nil {
			return err
		}
	}
	how := ""
	if r.powered && (r.plan.end == dead || r.plan.end == returning) {
		how = " by a power cut"
	}
	r.note("source %s%s", r.plan.end, how)
	r.lost = time.Now()
	switch r.plan.end {
	case alive, surfacing:
		r.CutLinks()
	case mute:
		r.CutAnswers()
	case dead:
		return r.loseSource()
	case returning:
		if err := r.loseSource(); err != nil {
			return err
		}
		time.Sleep(r.plan.lasts)
		return r.bringBack()
	}
	return nil
}

// cutOff cuts the standby's leaders of two groups off from the source, so that one node at least still reaches that, for a while.
func (r *round) cutOff() error {
	for g := range uint64(2) {
		leader, _, err := r.Standby.WaitLeader(g, harness.Patience)
		if err != nil {
			return err
		}
		r.CutLinksOf(leader)
	}
	time.Sleep(time.Duration(1000+r.rng.IntN(2000)) * time.Millisecond)
	return nil
}

// surface heals the link to a source that was cut off while the standby is being promoted.
func (r *round) surface(over context.Context) error {
	if r.plan.end != surfacing {
		return nil
	}
	at := r.await(over, r.plan.step)
	r.HealLinks()
	r.note("the source is back at %v", at)
	return nil
}

// afterwards brings a source back that was out of reach, which is to be fenced, lets the load go on meanwhile, and empties the queues.
func (r *round) afterwards(ctx context.Context) error {
	if r.plan.end == dead {
		if err := r.sameState(ctx); err != nil {
			return err
		}
		if err := r.bringBack(); err != nil {
			return err
		}
	} else if r.splits() {
		time.Sleep(r.plan.lasts) // both serve
		r.HealLinks()
	}
	if err := harness.Await(harness.Patience, func(context.Context) error { return r.fences.all() }); err != nil {
		return err
	}
	if err := r.refused(); err != nil {
		return err
	}
	if r.other != nil {
		if err := <-r.other; err != nil {
			return fmt.Errorf("who had asked for another switch, which this cluster's promotion came before: %w", err)
		}
	}
	if r.plan.end != dead {
		r.Source.KillAll()
		if err := r.sameState(ctx); err != nil {
			return err
		}
	}
	r.stopPublishing()
	r.publishersDone.Wait()
	for _, h := range r.holders {
		if err := h.finish(ctx); err != nil {
			return fmt.Errorf("%s: %w", h.session, err)
		}
	}
	if err := harness.Await(harness.Patience, r.heldNothing); err != nil {
		return err
	}
	return r.waitQuiet()
}

// bringBack starts a fallen source again. Until it is fenced it serves whoever asks it: some do, and nobody but them.
func (r *round) bringBack() error {
	r.back = time.Now()
	if err := r.startSource(nil); err != nil {
		return err
	}
	r.pin(true)
	r.HealLinks()
	return nil
}

// pin has further clients publish to nobody but the source, or the standby.
func (r *round) pin(source bool) {
	var places []place
	for _, p := range r.places {
		if p.source == source {
			places = append(places, p)
		}
	}
	for i := range vhosts {
		c := client{places: places, vhost: vhostName(i), session: fmt.Sprintf("pinned-%v-%d", source, i), at: i}
		p := &publisher{client: c, h: r.h, number: i, rate: r.rate / 10, write: writeWork}
		r.publishersDone.Go(func() { p.run(r.publishing) })
	}
}

// refused says whether each node of the old source turns clients away, and tells them where to go.
func (r *round) refused() error {
	for i, n := range r.Source.Members() {
		c := client{vhost: vhostName(i), session: fmt.Sprint("intruder-", i)}
		var inside bool
		err := harness.Await(harness.Patience, func(context.Context) error { // the library does not always see why it was refused
			conn, _, err := c.try(place{n.AMQP, n.ID, true})
			if err == nil {
				drop(conn)
				inside = true
				return nil
			}
			for _, next := range r.Standby.Members() {
				if !strings.Contains(err.Error(), next.AMQP) {
					return fmt.Errorf("node %d of the source does not send clients to %s: %w", n.ID, next.AMQP, err)
				}
			}
			return nil
		})
		if inside {
			return fmt.Errorf("node %d of the source let a client in, though it says that it is fenced", n.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// heldNothing says whether the queues that were held are empty, in flight too.
func (r *round) heldNothing(ctx context.Context) error {
	queues, err := r.Standby.Node(1).Queues(ctx)
	if err != nil {
		return err
	}
	found := 0
	for _, q := range queues {
		if q.Name != "held" {
			continue
		}
		if found++; q.Messages != 0 {
			return fmt.Errorf("all that was held in vhost %s is acknowledged, and %d messages are there, %d of them in flight", q.Vhost, q.Messages, q.Unacked)
		}
	}
	if found != vhosts {
		return fmt.Errorf("%d of %d held queues are there", found, vhosts)
	}
	return nil
}

// waitQuiet waits until what is delayed has come, and then until nothing has come for a while.
func (r *round) waitQuiet() error {
	due := r.h.lastDue()
	quiet, last := 0, -1
	return harness.Await(harness.Patience, func(context.Context) error {
		if n := r.h.deliveries(); n != last {
			quiet, last = 0, n
		}
		if quiet++; quiet < 50 || time.Since(due) < time.Second {
			return errors.New("deliveries still come")
		}
		return nil
	})
}
