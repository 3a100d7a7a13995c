//go:build interop

package librabbitmq

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/programs"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// client compiles the programs.
func client(t *testing.T) programs.Client {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"basics", "failover"} {
		if err := programs.Run("programs", "gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o", filepath.Join(dir, name), name+".c", "broker.c", "-lrabbitmq"); err != nil {
			t.Fatal(err)
		}
	}
	return func(program string, args ...string) *exec.Cmd {
		return exec.Command(filepath.Join(dir, program), args...)
	}
}

func TestEveryPartOfTheProtocolWithLibrabbitmq(t *testing.T) {
	client(t).Basics(t, programs.Broker(t))
}

func TestNodeKilledUnderLibrabbitmq(t *testing.T) { client(t).Failover(t) }
