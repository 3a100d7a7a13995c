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
