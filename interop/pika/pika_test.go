package pika

import (
	"os"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/programs"
)

// version of pika that is tested with.
const version = "1.4.4"

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

func client(t *testing.T) programs.Client {
	return programs.Python(t, "pika-"+version, "pika=="+version)
}

func TestTutorialsWithPika(t *testing.T) { client(t).Tutorials(t, programs.Broker(t)) }

func TestEveryPartOfTheProtocolWithPika(t *testing.T) { client(t).Basics(t, programs.Broker(t), "d") }

func TestNodeKilledUnderPika(t *testing.T) { client(t).Failover(t) }

func TestSessionOutlivesTwoNodesUnderPika(t *testing.T) { client(t).Session(t) }
