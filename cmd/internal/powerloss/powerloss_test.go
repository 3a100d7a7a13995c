package powerloss

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the one run of the tests of power loss; 0 runs the usual ones")

func seeds(n uint64) (out []uint64) {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	for i := range n {
		out = append(out, i+1)
	}
	return out
}

// load runs two clients at each node, until the cutter has enough.
func load(ctx context.Context, c *cluster, k *cutter, seed uint64, steps int) error {
	var wait sync.WaitGroup
	errs := make([]error, 2*c.size)
	number := 0
	for id := range c.ids() {
		for vhost := range vhosts {
			i := number
			number++
			cl := newClient(ctx, c.nodes[id].broker, fmt.Sprintf("client %d of node %d", number, id), vhost)
			k.follow(&cl.ledger)
			s := newScript(cl, uint64(number), seed)
			wait.Go(func() { errs[i] = s.run(steps, k.enough) })
		}
	}
	wait.Wait()
	return errors.Join(errs...)
}

func TestPowerLossAtAnySyncOfASingleNodeLosesNothingPromised(t *testing.T) {
	for _, seed := range seeds(8) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			images := singleRun(t, ctx, seed, 60)
			for _, img := range images {
				if err := survives(ctx, t, img, 1); err != nil {
					t.Fatalf("%s: %v\nreplay: go test ./cmd/internal/powerloss -run SingleNode -seed %d", img.name, err, seed)
				}
			}
		})
	}
}

func singleRun(t *testing.T, ctx context.Context, seed uint64, cuts int) []image {
	c := newCluster(t, 1, nil)
	k := watch(c, seed, cuts)
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	defer c.crash()
	if err := c.form(); err != nil {
		t.Fatal(err)
	}
	if err := load(ctx, c, k, seed, 1<<20); err != nil {
		t.Fatal(err)
	}
	for _, err := range c.failures() {
		t.Error(err)
	}
	return k.images
}

// survives boots nodes from an image and judges what they hold.
func survives(ctx context.Context, t *testing.T, img image, size int) error {
	c := newCluster(t, size, img.disks)
	if err := c.start(); err != nil {
		return err
	}
	defer c.crash()
	for _, n := range c.nodes {
		if err := n.awaitRegistered(groups...); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		if err := errors.Join(c.judge(ctx, n, img.clients), n.checkFingerprint(), n.goesOn(ctx, "one")); err != nil {
			return err
		}
	}
	return errors.Join(append(c.failures(), c.agree())...)
}
