package simtest

import (
	"flag"
	"testing"
	"testing/synctest"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run only the simulation of this seed")
	runsFlag = flag.Uint64("runs", 40, "how many seeds to run")
)

// TestSimulatedPairLosesNothingThatItMayNotLose is the whole of package link under partitions, broken connections, slow nodes
// and changes of leaders, to the end of a planned switch or of a promotion.
func TestSimulatedPairLosesNothingThatItMayNotLose(t *testing.T) {
	from, to := uint64(1), *runsFlag+1
	if *seedFlag != 0 {
		from, to = *seedFlag, *seedFlag+1
	}
	met := map[string]int{}
	for seed := from; seed < to; seed++ {
		synctest.Test(t, func(t *testing.T) {
			w, err := New(seed, t.TempDir())
			if err == nil {
				err = w.Run()
			}
			if err != nil {
				t.Errorf("%v\nreplay: go test ./link/simtest -run Simulated -seed %d", err, seed)
			}
			for what, n := range w.Met {
				met[what] += n
			}
		})
	}
	t.Log(met)
	for _, what := range []string{"planned switches", "forced promotions", "cancelled switches", "cut roads", "new leaders", "single roads", "slow nodes",
		"deposed leaders", "stopped leaders", "source nodes alone", "source nodes stopped", "bounds", "entries lost"} {
		if *seedFlag == 0 && met[what] == 0 {
			t.Errorf("the simulation did not meet with %s", what)
		}
	}
}
