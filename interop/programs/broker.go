package programs

import (
	"os"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
)

// Broker starts a node and answers where it is; INTEROP_AMQP_URL names another broker instead, to compare with.
func Broker(t testing.TB) string {
	t.Helper()
	if url := os.Getenv("INTEROP_AMQP_URL"); url != "" {
		return url
	}
	return watched(t, harness.Start(t, harness.Options{}).Node(1))
}
