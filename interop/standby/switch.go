package standby

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// takeOver has the standby take over as the round's kind says, in some rounds with a fault in the midst of it.
func (r *round) takeOver(ctx context.Context) error {
	r.ahead.Store(false)
	how := "promote"
	switch r.kind.name {
	case "planned":
		how = "switchover"
	case "crash-cut":
		if err := r.cutOff(); err != nil {
			return err
		}
	default:
		if err := r.loseSource(); err != nil {
			return err
		}
	}
	r.fences.watch(ctx, r.Source.Members())
	f, at := r.midst()
	var during sync.WaitGroup
	var trouble error
	if f != nil {
		r.res.faults = append(r.res.faults, "midst:"+f.name)
		during.Go(func() { trouble = f.do(r.Standby.Node(at)) })
	}
	asked, ask := time.Now(), r.rng.Perm(3)
	err := harness.Await(2*time.Minute, func(ctx context.Context) error {
		n := r.Standby.Node(1 + ask[0])
		ask = append(ask[1:], ask[0]) // the next one, if this one does not answer
		var err error
		r.cut, err = n.Promote(ctx, how)
		return err
	})
	during.Wait()
	if err = errors.Join(err, trouble); err != nil {
		return err
	}
	return harness.Await(time.Minute, func(context.Context) error {
		if !r.h.confirmedSince(asked) {
			return errors.New("the promoted cluster has confirmed nothing yet")
		}
		r.res.took = time.Since(asked)
		return nil
	})
}

// cutOff cuts the standby's leaders of two groups off from the source, so that one node at least still reaches that, and kills the
// source a while later.
func (r *round) cutOff() error {
	for g := range uint64(2) {
		leader, _, err := r.Standby.WaitLeader(g, 20*time.Second)
		if err != nil {
			return err
		}
		r.CutLinksOf(leader)
	}
	time.Sleep(time.Duration(1000+r.rng.IntN(2000)) * time.Millisecond)
	return r.loseSource()
}

// midst chooses what happens to which node of the standby while it takes over; nil for nothing.
func (r *round) midst() (*midstFault, int) {
	i, at := r.rng.IntN(2*len(midstFaults)), 1+r.rng.IntN(3)
	if i >= len(midstFaults) {
		return nil, 0
	}
	return &midstFaults[i], at
}

// afterwards brings a fallen source back, which is to be fenced, lets the load go on meanwhile, and empties the queues.
func (r *round) afterwards(ctx context.Context) error {
	if r.kind.name != "planned" {
		if err := r.sameState(ctx); err != nil {
			return err
		}
		if err := r.bringBack(); err != nil {
			return err
		}
	}
	if err := harness.Await(90*time.Second, func(context.Context) error { return r.fences.all() }); err != nil {
		return err
	}
	if err := r.refused(); err != nil {
		return err
	}
	if r.kind.name == "planned" {
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
	if err := harness.Await(20*time.Second, r.heldNothing); err != nil {
		return err
	}
	return r.waitQuiet()
}

// bringBack starts a fallen source again. Until it is fenced it serves whoever asks it: some do, and nobody but them.
func (r *round) bringBack() error {
	r.back = time.Now()
	for _, n := range r.Source.Members() {
		if err := n.Start(); err != nil {
			return err
		}
	}
	var former []place
	for _, p := range r.places {
		if p.source {
			former = append(former, p)
		}
	}
	for i := range vhosts {
		c := client{places: former, vhost: vhostName(i), session: fmt.Sprint("stray-", i), at: i}
		stray := &publisher{client: c, h: r.h, number: i, rate: r.rate / 10, write: writeWork}
		r.publishersDone.Go(func() { stray.run(r.publishing) })
	}
	r.HealLinks()
	return nil
}

// refused says whether each node of the old source turns clients away, and tells them where to go.
func (r *round) refused() error {
	for i, n := range r.Source.Members() {
		c := client{vhost: vhostName(i), session: fmt.Sprint("intruder-", i)}
		var inside bool
		err := harness.Await(20*time.Second, func(context.Context) error { // the library does not always see why it was refused
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
	return harness.Await(90*time.Second, func(context.Context) error {
		if n := r.h.deliveries(); n != last {
			quiet, last = 0, n
		}
		if quiet++; quiet < 50 || time.Since(due) < time.Second {
			return errors.New("deliveries still come")
		}
		return nil
	})
}

// fences watches since when the nodes of the former source say that they are fenced.
type fences struct {
	mu    sync.Mutex
	since map[int]time.Time
	done  sync.WaitGroup
	stop  context.CancelFunc
}

func (f *fences) watch(ctx context.Context, nodes []*harness.Node) {
	ctx, f.stop = context.WithCancel(ctx)
	for _, n := range nodes {
		f.done.Go(func() {
			for ctx.Err() == nil {
				if l, err := n.LinkStatus(ctx); err == nil && l.Fenced {
					f.mu.Lock()
					f.since[n.ID] = time.Now()
					f.mu.Unlock()
					return
				}
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
}

// all says whether every node is fenced.
func (f *fences) all() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.since) < 3 {
		return fmt.Errorf("%d of 3 nodes of the old source say that they are fenced", len(f.since))
	}
	return nil
}

// wait ends the watch.
func (f *fences) wait() {
	f.stop()
	f.done.Wait()
}
