package long

import (
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

func TestOneUnackedMessagePinsNoDiskWhileTwoGigabytesPass(t *testing.T) {
	node := harness.Start(t, harness.Options{}).Node(1)
	forgotten := traffic{queue: "forgotten", messages: 1, bytes: 100}
	must(t, forgotten.publish(node.URL()))
	holder, err := rawclient.Dial(node.URL())
	must(t, err)
	defer func() { _ = holder.Close() }()
	must(t, holder.Consume(forgotten.queue, 10))
	d, err := holder.Next()
	must(t, err)
	must(t, forgotten.examine(d.Body, 0))

	const size = 16 << 10
	passing := traffic{queue: "passing", messages: scaled(2 << 30 / size), bytes: size}
	stop, begin := largest(node), time.Now()
	must(t, passing.pass(node.URL(), node.URL()))
	most := stop()
	t.Logf("%d MB passed in %.1f s", passing.messages*size>>20, time.Since(begin).Seconds())
	atMost(t, "largest data folder meanwhile", most, 512<<20)

	must(t, holder.Close())
	must(t, forgotten.consume(node.URL())) // it comes back whole
}
