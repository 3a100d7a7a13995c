//go:build interop

package lapin

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/programs"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// client compiles the programs; what they depend on is compiled once and kept.
func client(t *testing.T) programs.Client {
	t.Helper()
	target := programs.Install(t, "lapin", func(string) error { return nil })
	if err := programs.Run("programs", "cargo", "build", "--quiet", "--locked", "--target-dir", target); err != nil {
		t.Fatal(err)
	}
	return func(program string, args ...string) *exec.Cmd {
		return exec.Command(filepath.Join(target, "debug", program), args...)
	}
}

func TestEveryPartOfTheProtocolWithLapin(t *testing.T) {
	client(t).Basics(t, programs.Broker(t))
}

func TestNodeKilledUnderLapin(t *testing.T) { client(t).Failover(t) }

func TestNodeKilledUnderLapinThatReconnectsByItself(t *testing.T) {
	c := client(t)
	own := func(program string, args ...string) *exec.Cmd { return c(program, append(args, "own")...) }
	programs.Client(own).Failover(t)
}
