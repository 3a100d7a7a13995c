package amqplib

import (
	"os"
	"os/exec"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/programs"
)

// The versions that are tested with.
const (
	version        = "2.3.1"
	managerVersion = "5.0.0"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

func client(t *testing.T) programs.Client {
	return programs.Node(t, "amqplib-"+version+"-"+managerVersion, "amqplib@"+version, "amqp-connection-manager@"+managerVersion)
}

func TestTutorialsWithAmqplib(t *testing.T) { client(t).Tutorials(t, programs.Broker(t)) }

func TestEveryPartOfTheProtocolWithAmqplib(t *testing.T) { client(t).Basics(t, programs.Broker(t)) }

func TestNodeKilledUnderAmqplib(t *testing.T) { client(t).Failover(t) }

func TestNodeKilledUnderAmqpConnectionManager(t *testing.T) { variant(t, "managed").Failover(t) }

// TestWhatAmqpConnectionManagerDoesAgainstOneNode: publishes wait for a connection, or give up; the next address is tried; setup
// functions and consumers come back after a reconnect and after a cut.
func TestWhatAmqpConnectionManagerDoesAgainstOneNode(t *testing.T) {
	variant(t, "managed").Prints(t, programs.Broker(t), "basics",
		"before: 4 wait, connected: false",
		"impatient: timeout",
		"connected: after ECONNREFUSED, 3 confirmed",
		"consumed: 1,2,2 again,3",
		"dead: 3, rejected",
		"returned: 312 NO_ROUTE zzz",
		"setup: added with 0, removed, then 404",
		"reconnected: setups 2, received 4",
		"cut: setups 3, received 4,5",
		"cancelled: 1 consumer, then 0",
		"without confirms: 6",
		"closed: connected false, 0 channels",
	)
}

// variant runs the programs whose files have the prefix.
func variant(t *testing.T, prefix string) programs.Client {
	t.Helper()
	plain := client(t)
	return func(program string, args ...string) *exec.Cmd { return plain(prefix+"-"+program, args...) }
}

func TestSessionOutlivesTwoNodesUnderAmqplib(t *testing.T) { client(t).Session(t) }

func TestSessionOutlivesTwoNodesUnderAmqplibsOwnRecovery(t *testing.T) {
	variant(t, "recovering").Session(t)
}
