package standby

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// go test ./interop/standby -run TakesOver -timeout 40m -v -args -long [-only=KIND] [-runs=N] [-seed=S]
var (
	long = flag.Bool("long", false, "five rounds of each kind unless -runs says otherwise")
	runs = flag.Int("runs", 0, "number of rounds of each kind")
	seed = flag.Uint64("seed", 0, "seed of the first round, 0 for one from the clock (without -long always the same); later rounds count on from it")
	only = flag.String("only", "", "only this kind: planned, crash, crash-cut or sync")
)

// shortSeed has the link cut in the midst of the planned switch, and the source of one kind go on serving.
const shortSeed = 19

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Main(m))
}

func TestAStandbyTakesOverFromItsSourceAndSessionsGoOn(t *testing.T) {
	first, n, much := uint64(shortSeed), 1, extent{load: time.Second, rate: 250}
	if *long {
		first, n, much = uint64(time.Now().Unix()%1_000_000), 5, extent{load: 6 * time.Second, rate: 500}
	}
	if *seed != 0 {
		first = *seed
	}
	if *runs > 0 {
		n = *runs
	}
	var lines, rows []string
	for _, k := range kinds {
		if *only != "" && *only != k.name {
			continue
		}
		for i := range n {
			res := run(t, k, first+uint64(i), much)
			lines, rows = append(lines, res.line()), append(rows, res.row())
			t.Log(res.line())
			if res.err != nil {
				t.Errorf("%s: %v\nreplay: %s", k.name, res.err, res.replay())
			}
		}
	}
	t.Logf("\n%s\n\n%s", strings.Join(lines, "\n"), strings.Join(rows, "\n"))
}
