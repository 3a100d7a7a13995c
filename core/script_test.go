package core_test

import (
	"path/filepath"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

// TestScripts runs testdata/*.txt; each setup begins a case with a machine of its own. -rewrite writes what comes out: read
// the difference.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			d := coretest.New(t)
			datadriven.RunTest(t, path, func(t *testing.T, x *datadriven.TestData) string {
				if x.Cmd == "setup" {
					d = coretest.New(t)
					d.Audit = core.Audit
				}
				return d.Script(x)
			})
		})
	}
}

// TestScriptsSayTheSameWhateverHappensBetweenTheirEntries runs the scripts with a restart from rows, a new leader, or both
// before every single entry: timers of TTLs and of delayed retries, delivery counts, priorities, who is the active consumer,
// transactions and whatever else a script shows are in the middle of it then. (A snapshot is what a restart loads: rows.)
func TestScriptsSayTheSameWhateverHappensBetweenTheirEntries(t *testing.T) {
	restart := func(d *coretest.Driver) { d.Restart() }
	leader := func(d *coretest.Driver) { d.Control(&entry.LeaderUp{Node: 1, Term: d.Index + 1}) }
	for name, interrupt := range map[string]func(*coretest.Driver){
		"restart": restart, "leader": leader, "both": func(d *coretest.Driver) { leader(d); restart(d) },
	} {
		scripts := []string{
			"arguments", "basics", "bindings", "confirms", "consumers", "deadletters", "delays", "exchangetypes", "fragments", "limits",
			"priorities", "queues", "routing", "settle", "timeouts", "ttl", "tx",
		}
		if name == "restart" { // a new leader is a use of the queues that expire without one, and gives sessions their time again
			scripts = append(scripts, "expiry", "policies", "adoption", "claims", "crossings", "dedup", "patience", "recover", "redelivery",
				"resumedrules", "servernames", "sessions", "takeover", "txresume")
		}
		for _, script := range scripts {
			t.Run(name+"/"+script, func(t *testing.T) {
				var d *coretest.Driver
				datadriven.RunTest(t, filepath.Join("testdata", script+".txt"), func(t *testing.T, x *datadriven.TestData) string {
					if d == nil || x.Cmd == "setup" {
						d = coretest.New(t)
						d.Audit = core.Audit
						d.Interrupt = func() { interrupt(d) }
					}
					return d.Script(x)
				})
			})
		}
	}
}
