package long

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

func TestABacklogOfTwoMillionStaysSmallAndComesBackInOrder(t *testing.T) {
	node := harness.Start(t, harness.Options{}).Node(1)
	tr := traffic{queue: "backlog", messages: scaled(2_000_000), bytes: 100}
	begin := time.Now()
	must(t, tr.publish(node.URL()))
	t.Logf("%d messages of %d bytes published in %.1f s", tr.messages, tr.bytes, time.Since(begin).Seconds())
	atMost(t, "peak memory after publishing", must1(t)(node.VmHWM()), 500<<20)
	size, err := node.DataBytes()
	must(t, err)
	t.Logf("data folder with the backlog: %d MB", size>>20)

	node.Kill9()
	must(t, node.Start())
	took := ready(t, node)
	t.Logf("ready %.2f s after the restart (5 s promised)", took.Seconds())
	if *long && took > 5*time.Second {
		t.Errorf("ready only after %v", took)
	}
	begin = time.Now()
	must(t, tr.consume(node.URL()))
	t.Logf("drained in order in %.1f s", time.Since(begin).Seconds())
	atMost(t, "peak memory after the restart and the drain", must1(t)(node.VmHWM()), 500<<20)

	begin = time.Now()
	must(t, harness.Await(harness.Patience, func(context.Context) error {
		size, err := node.DataBytes()
		if err == nil && size >= 300<<20 {
			err = fmt.Errorf("the data folder has %d MB, want less than 300", size>>20)
		}
		return err
	}))
	size, err = node.DataBytes()
	must(t, err)
	t.Logf("data folder %d MB, %.1f s after the drain", size>>20, time.Since(begin).Seconds())
}
