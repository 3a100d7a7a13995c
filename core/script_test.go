package core_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/understudy-mq/understudy/core/coretest"
)

// TestScripts runs testdata/*.txt, one machine per file. -rewrite writes what comes out; read the difference.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		d := coretest.New(t)
		datadriven.RunTest(t, path, func(t *testing.T, x *datadriven.TestData) string {
			if x.Cmd == "setup" { // a machine of its own for each case
				d = coretest.New(t)
			}
			return d.Script(x)
		})
	})
}
