package powerloss

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the one run of each test of power loss; 0 runs the usual ones")

// eachSeed runs a test with the usual seeds, or the one that the command line names, and says how to replay a failure.
func eachSeed(t *testing.T, n uint64, run func(t *testing.T, ctx context.Context, seed uint64) error) {
	first, last := uint64(1), n
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
			defer cancel()
			if err := run(t, ctx, seed); err != nil {
				t.Fatalf("%v\nreplay: go test ./cmd/internal/powerloss -run %s -seed %d", err, t.Name()[:len(t.Name())-len(fmt.Sprintf("/seed=%d", seed))], seed)
			}
		})
	}
}

// crew makes two clients at each node, followed by k, and runs their scripts until enough says so. What ends with the
// loss of a session is no failure.
func crew(ctx context.Context, c *cluster, k *cutter, seed, first uint64, enough func() bool) error {
	var wait sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	number := first
	for id, n := range c.running() {
		for vhost := range vhosts {
			number++
			cl := newClient(ctx, n.broker, fmt.Sprintf("client %d of node %d", number, id), vhost)
			k.follow(&cl.ledger)
			s := newScript(cl, number, seed)
			wait.Go(func() {
				err := s.run(enough)
				if cl.session != nil {
					cl.leave()
				}
				if err != nil && !errors.Is(err, errLeft) {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
			})
		}
	}
	wait.Wait()
	return errors.Join(errs...)
}

// cutRun loads a new cluster and answers what cuts left of it.
func cutRun(t *testing.T, ctx context.Context, size int, seed uint64, p pace, cuts int, moved *atomic.Int64) ([]image, error) {
	c := newCluster(t, size, nil)
	k := watch(c, seed, p, cuts)
	if err := c.start(); err != nil {
		return nil, err
	}
	defer c.crash()
	if err := c.form(); err != nil {
		return nil, err
	}
	if err := crew(ctx, c, k, seed, 0, k.enough); err != nil {
		return nil, err
	}
	if err := errors.Join(c.failures()...); err != nil {
		return nil, err
	}
	return k.stop(), c.worked(moved)
}

// worked says whether the load has had everything happen that a cut could fall into.
func (c *cluster) worked(moved *atomic.Int64) error {
	for id, n := range c.nodes {
		moved.Add(n.evacuated.Load())
		if first := n.raft.Group(1).Status().FirstIndex; n.checkpoints.Load() < 5 || first < 10 {
			return fmt.Errorf("node %d made %d checkpoints and dropped its entries before %d only: the load is too light",
				id, n.checkpoints.Load(), first)
		}
	}
	return nil
}

// expectMoved checks, when all seeds are through, that contents were moved out of the log.
func expectMoved(t *testing.T) *atomic.Int64 {
	moved := new(atomic.Int64)
	t.Cleanup(func() {
		if moved.Load() == 0 && *seedFlag == 0 {
			t.Error("no message was moved out of the log in any run: the load is too light")
		}
	})
	return moved
}

// survives boots a cluster from an image and judges what it holds. With again, power is lost once more during the boot.
func survives(t *testing.T, ctx context.Context, img image, again uint64) error {
	c := newCluster(t, len(img.disks), img.disks)
	k := watch(c, again, pace{2, 2}, int(min(again, 1)))
	k.clients = img.clients
	if err := c.start(); err != nil {
		return fmt.Errorf("%s: %w", img.name, err)
	}
	defer c.crash()
	if err := c.whole(ctx, img.clients, k); err != nil {
		return fmt.Errorf("%s: %w", img.name, err)
	}
	for _, second := range k.images {
		second.name = img.name + "; then, during the boot, " + second.name
		if err := survives(t, ctx, second, 0); err != nil {
			return err
		}
	}
	return nil
}

// whole waits until all nodes are up and judges what they hold, ends k's cuts, and has every node work.
func (c *cluster) whole(ctx context.Context, clients []bounds, k *cutter) error {
	for _, n := range c.nodes {
		if err := n.awaitRegistered(groups...); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		if err := patiently(func() error { return c.judge(ctx, n, clients) }); err != nil {
			return err
		}
	}
	k.stop()
	for _, n := range c.nodes {
		if err := errors.Join(n.checkFingerprint(), patiently(func() error { return n.goesOn(ctx, "one") })); err != nil {
			return err
		}
	}
	return errors.Join(append(c.failures(), c.agree())...)
}

// patiently does something again that failed because a session ended: a node that gets no time to run is taken for dead by the others.
func patiently(do func() error) error {
	err := do()
	for range 9 {
		if !errors.Is(err, errLeft) {
			break
		}
		err = do()
	}
	return err
}

func TestPowerLossAtAnySyncOfASingleNodeLosesNothingPromised(t *testing.T) {
	moved := expectMoved(t)
	eachSeed(t, 9, func(t *testing.T, ctx context.Context, seed uint64) error {
		images, err := cutRun(t, ctx, 1, seed, pace{60, 20}, 50, moved)
		for i, img := range images {
			if err == nil {
				err = survives(t, ctx, img, uint64(max(0, i%4-2)*i))
			}
		}
		return err
	})
}

func TestPowerLossOfAllThreeNodesAtAnySyncLosesNothingPromised(t *testing.T) {
	moved := expectMoved(t)
	eachSeed(t, 4, func(t *testing.T, ctx context.Context, seed uint64) error {
		images, err := cutRun(t, ctx, 3, seed, pace{1000, 400}, 10, moved)
		for _, img := range images {
			if err == nil {
				err = survives(t, ctx, img, 0)
			}
		}
		return err
	})
}

func TestNodeThatLosesPowerRejoinsAndAllAgree(t *testing.T) {
	eachSeed(t, 3, func(t *testing.T, ctx context.Context, seed uint64) error {
		c := newCluster(t, 3, nil)
		if err := c.start(); err != nil {
			return err
		}
		defer c.crash()
		if err := c.form(); err != nil {
			return err
		}
		var clients []bounds
		for round := range uint64(7) {
			more, err := c.loseOne(ctx, seed*100+round, 1+round%3, 100*round)
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			clients = append(clients, more...)
			if err := c.whole(ctx, clients, &cutter{}); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		return nil
	})
}

// stepsAfter is how many steps of scripts are taken beside a node that has lost its power.
const stepsAfter = 40

// loseOne cuts a node's power under load, boots it from what the cut left while the others went on, and answers what the
// clients have been promised and have asked for.
func (c *cluster) loseOne(ctx context.Context, seed, victim, first uint64) ([]bounds, error) {
	k := watchOne(c, seed, victim, pace{60, 30})
	var after atomic.Int64
	if err := crew(ctx, c, k, seed, first, func() bool { return k.enough() && after.Add(1) > stepsAfter }); err != nil {
		return nil, err
	}
	img := k.stop()[0]
	c.crashNode(victim)
	c.disks[victim] = newDisk(c.power, img.disks[victim])
	if err := c.boot(victim); err != nil {
		return nil, fmt.Errorf("%s: %w", img.name, err)
	}
	var clients []bounds
	for _, l := range k.ledgers {
		clients = append(clients, l.bounds(l.promises()))
	}
	return clients, nil
}
