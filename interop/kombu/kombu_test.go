//go:build interop

package kombu

import (
	"os"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/programs"
)

// The versions that are tested with.
const (
	kombuVersion  = "5.7.0"
	celeryVersion = "5.7.0"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

func client(t *testing.T) programs.Client {
	return programs.Python(t, "celery-"+celeryVersion+"-"+kombuVersion, "celery=="+celeryVersion, "kombu=="+kombuVersion)
}

func TestEveryPartOfTheProtocolWithKombu(t *testing.T) { client(t).Basics(t, programs.Broker(t), "x") }

func TestNodeKilledUnderKombu(t *testing.T) { client(t).Failover(t) }
