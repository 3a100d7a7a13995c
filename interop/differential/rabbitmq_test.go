//go:build interop

package differential

import (
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first conversation")
	runs      = flag.Int("runs", 300, "conversations to walk through")
)

// pairsAtOnce is how many conversations go on at once.
const pairsAtOnce = 6

func TestUnderstudyAnswersAsRabbitMQDoes(t *testing.T) {
	rabbit, rabbitURL := harness.StartRabbitMQ(t)
	n := harness.Start(t, harness.Options{}).Node(1)
	var next, steps, unclear atomic.Uint64
	next.Store(*firstSeed)
	var wg sync.WaitGroup
	for i := range pairsAtOnce {
		vhost := fmt.Sprintf("walk%d", i)
		for _, admin := range []string{"http://" + n.Admin, rabbit} {
			if err := harness.MakeVhost(admin, vhost); err != nil {
				t.Fatal(err)
			}
		}
		p := &Pair{Ours: Broker{URL: n.URL() + vhost}, Theirs: Broker{URL: rabbitURL + vhost}, Patience: 3 * time.Second}
		wg.Go(func() {
			for {
				seed := next.Add(1) - 1
				if seed >= *firstSeed+uint64(*runs) || t.Failed() {
					return
				}
				r, err := p.Walk(seed, 40)
				if err == nil && r.Difference != "" {
					again, _ := p.Walk(seed, 40)
					if again.Difference == "" {
						t.Logf("seed %d: this has not come again, as where RabbitMQ takes its time:\n%s", seed, r.Difference)
					}
					r = again
				}
				if r.Difference != "" {
					r = p.Shrink(r, 20*time.Second)
				}
				if err != nil || r.Difference != "" {
					t.Errorf("%v\n%s\nagain: make interop CLIENT=differential RUNS=1 SEED=%d", err, r, seed)
				}
				if steps.Add(uint64(r.Steps)); r.Unclear {
					unclear.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d conversations of %d steps in all, %d of them broken off", *runs, steps.Load(), unclear.Load())
}
