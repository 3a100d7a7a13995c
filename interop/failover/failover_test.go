package failover

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/checker"
	"github.com/understudy-mq/understudy/interop/harness"
)

// go test ./interop/failover -timeout 40m -v -args -long [-runs=N] [-seed=S] [-only=FAULT]
var (
	long = flag.Bool("long", false, "all faults, three rounds each unless -runs says otherwise")
	runs = flag.Int("runs", 0, "number of rounds")
	seed = flag.Uint64("seed", 0, "seed of the first round, 0 for one from the clock; later rounds count on from it")
	only = flag.String("only", "", "only this fault")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Main(m))
}

// plan is which faults to do: two of them, unless the command line asks for more.
func plan(t *testing.T, first uint64) []fault {
	choice := []fault{faults[0], faults[1+first%2]}
	n := len(choice)
	if *long {
		choice, n = faults, 3*len(faults)
	}
	if *only != "" {
		f, ok := named(*only)
		if !ok {
			t.Fatalf("no fault is named %q", *only)
		}
		choice, n = []fault{f}, 2
	}
	if *runs > 0 {
		n = *runs
		if *only == "" {
			choice = faults
		}
	}
	var rounds []fault
	for i := range n {
		rounds = append(rounds, choice[i%len(choice)])
	}
	return rounds
}

func TestNothingConfirmedIsLostDoubledOrDisorderedWhateverHappensToANode(t *testing.T) {
	first := *seed
	if first == 0 {
		first = uint64(time.Now().Unix() % 1_000_000)
	}
	rounds := plan(t, first)
	t.Logf("%d rounds from seed %d", len(rounds), first)
	var cluster *harness.Cluster
	var results []result
	for i, f := range rounds {
		if cluster != nil && f.power != rounds[i-1].power {
			cluster.Stop()
			cluster = nil
		}
		if cluster == nil {
			cluster = harness.Start(t, harness.Options{Nodes: 3, Cuttable: f.power})
		}
		res := runRound(t.Context(), t, cluster, i+1, f, first+uint64(i))
		results = append(results, res)
		t.Log(res.line())
		if res.err != nil {
			t.Errorf("round %d %s: %v\nreplay: %s", res.number, res.fault, res.err, res.replay())
			cluster.Stop() // what is broken would spoil the next round
			cluster = nil
		}
	}
	t.Logf("\n%s", table(results))
	if err := mixed(results); err != nil {
		t.Error(err)
	}
	leaders := add(results)["kill-leader"]
	if *long && leaders != nil && percentile(leaders.confirms, 50) > 3*time.Second {
		t.Errorf("kill-leader: the median time to the first new confirm is %v, over 3 s", percentile(leaders.confirms, 50))
	}
}

func TestAPlanGivesEachFaultItsRounds(t *testing.T) {
	count := map[string]int{}
	defer func(was bool) { *long = was }(*long)
	*long = true
	if *runs > 0 || *only != "" {
		t.Logf("the command line chooses %d rounds of %q itself", *runs, *only)
		return
	}
	for _, f := range plan(t, 1) {
		count[f.name]++
	}
	total := 0
	for _, f := range faults {
		if count[f.name] < 2 {
			t.Errorf("%s has %d rounds", f.name, count[f.name])
		}
		total += count[f.name]
	}
	if total < 20 {
		t.Errorf("%d rounds in all", total)
	}
}

func TestPercentileOfFewAndMany(t *testing.T) {
	for _, c := range []struct {
		ds   []time.Duration
		p    int
		want time.Duration
	}{
		{nil, 50, 0},
		{[]time.Duration{7}, 50, 7},
		{[]time.Duration{3, 1, 2}, 50, 2},
		{[]time.Duration{3, 1, 2}, 100, 3},
	} {
		if got := percentile(c.ds, c.p); got != c.want {
			t.Errorf("%d%% of %v is %v, want %v", c.p, c.ds, got, c.want)
		}
	}
}

func TestARoundWithAFaultInItsReportOrWithoutABiteFails(t *testing.T) {
	every := func() *checker.MixedReport {
		return &checker.MixedReport{
			Report: checker.Report{Refused: 1}, Dropped: 1, Batches: 1,
			Deaths: map[string]int{"expired": 1, "maxlen": 1, "rejected": 1, "delivery_limit": 1},
		}
	}
	torn, tame := every(), every()
	torn.Torn, tame.Dropped = 1, 0
	for name, res := range map[string]result{
		"lost":          {bite: "leader", after: 5000, report: &checker.Report{Lost: 1, Examples: []string{"x"}}, mixed: every()},
		"no bite":       {after: 5000, report: &checker.Report{}, mixed: every()},
		"few confirmed": {bite: "leader", after: confirmedMin - 1, report: &checker.Report{}, mixed: every()},
		"torn":          {bite: "leader", after: 5000, report: &checker.Report{}, mixed: torn},
	} {
		if faultsOf(&res) == nil {
			t.Errorf("%s: passes", name)
		}
	}
	if err := faultsOf(&result{bite: "leader", after: confirmedMin, report: &checker.Report{}, mixed: every()}); err != nil {
		t.Errorf("a good round: %v", err)
	}
	if mixed([]result{{mixed: tame}, {}, {mixed: tame}}) == nil {
		t.Error("rounds in which nothing was dropped pass")
	}
	if err := mixed([]result{{mixed: tame}, {mixed: every()}}); err != nil {
		t.Errorf("rounds of which one saw everything: %v", err)
	}
}
