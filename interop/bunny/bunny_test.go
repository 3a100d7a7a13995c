//go:build interop

package bunny

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/programs"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

func client(program string, args ...string) *exec.Cmd {
	return exec.Command("ruby", append([]string{filepath.Join("programs", program+".rb")}, args...)...)
}

func TestEveryPartOfTheProtocolWithBunny(t *testing.T) {
	programs.Client(client).Basics(t, programs.Broker(t), "x")
}

func TestNodeKilledUnderBunny(t *testing.T) { programs.Client(client).Failover(t) }

func TestSessionOutlivesTwoNodesUnderBunny(t *testing.T) { programs.Client(client).Session(t) }
