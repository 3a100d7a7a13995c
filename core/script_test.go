package core_test

import (
	"path/filepath"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/understudy-mq/understudy/core/coretest"
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
				}
				return d.Script(x)
			})
		})
	}
}
