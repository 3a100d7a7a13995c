//go:build interop

package tools

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
)

// TestTheCasesHoldOfRabbitMQToo runs the tests of cases/ against RabbitMQ: what they ask of the broker is what RabbitMQ does, but
// for the differences that are listed there.
func TestTheCasesHoldOfRabbitMQToo(t *testing.T) {
	admin, amqp := harness.StartRabbitMQ(t)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=5m", "-v", "./interop/cases")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "INTEROP_AMQP_URL="+amqp, "INTEROP_ADMIN_URL="+admin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	passed := strings.Count("\n"+string(out), "\n--- PASS: Test")
	if t.Logf("%d tests passed", passed); passed < 100 {
		t.Errorf("only %d tests ran:\n%s", passed, out)
	}
}
