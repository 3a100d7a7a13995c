//go:build interop

package tools

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/programs"
)

// What PerfTest is told to do: so many producers publish so many messages each, at a rate.
const (
	perfProducers = 2
	perfMessages  = 2000
	perfRate      = 1000
)

var perfAverage = regexp.MustCompile(`id: tools, (sending|receiving) rate avg: (\d+) msg/s`)

func TestPerfTestPublishesAndConsumes(t *testing.T) {
	path := programs.Maven(t, "perftest/pom.xml")
	rabbit, rabbitURL := harness.StartRabbitMQ(t)
	node := harness.Start(t, harness.Options{}).Node(1)
	for name, broker := range map[string][2]string{"understudy": {"http://" + node.Admin, node.URL()}, "RabbitMQ": {rabbit, rabbitURL}} {
		runPerfTest(t, name, path, broker[1])
		var q struct {
			Messages *int
			Stats    struct{ Publish, Ack int } `json:"message_stats"`
		}
		if err := harness.Await(harness.Patience, func(context.Context) error {
			decode(t, mustCall(t, broker[0], "GET", "/api/queues/%2F/perf", ""), &q)
			if all := perfProducers * perfMessages; q.Messages == nil || *q.Messages != 0 || q.Stats.Publish != all || q.Stats.Ack != all {
				return fmt.Errorf("%s: the queue shows %+v, want %d messages published and acknowledged", name, q.Stats, all)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// runPerfTest publishes with confirms and consumes with acks, in bounded windows.
func runPerfTest(t *testing.T, name, classPath, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "java", "-XX:TieredStopAtLevel=1", "-cp", classPath, "com.rabbitmq.perf.PerfTest",
		"--id", "tools", "--uri", strings.TrimSuffix(url, "/"), "--queue", "perf", "--auto-delete", "false", "--flag", "persistent", "--flag", "mandatory",
		"--producers", strconv.Itoa(perfProducers), "--pmessages", strconv.Itoa(perfMessages), "--rate", strconv.Itoa(perfRate), "--confirm", "100",
		"--consumers", "1", "--cmessages", strconv.Itoa(perfProducers*perfMessages), "--qos", "50", "--multi-ack-every", "10", "--size", "500").CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	averages := perfAverage.FindAllStringSubmatch(string(out), -1)
	for _, a := range averages {
		if a[2] == "0" {
			averages = nil
		}
	}
	if len(averages) != 2 {
		t.Errorf("%s: no averages of sending and receiving:\n%s", name, out)
	}
}
