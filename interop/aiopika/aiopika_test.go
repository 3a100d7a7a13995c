//go:build interop

package aiopika

import (
	"os"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/programs"
)

// version of aio-pika that is tested with.
const version = "10.2.1"

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

func client(t *testing.T) programs.Client {
	return programs.Python(t, "aio-pika-"+version, "aio-pika=="+version)
}

func TestEveryPartOfTheProtocolWithAioPika(t *testing.T) { client(t).Basics(t, programs.Broker(t)) }

func TestNodeKilledUnderAioPika(t *testing.T) { client(t).Failover(t) }
