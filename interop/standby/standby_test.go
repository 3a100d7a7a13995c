package standby

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

func TestAStandbyNodeThatReachesTheSourceReadsForALeaderThatDoesNot(t *testing.T) {
	p := harness.StartPair(t, harness.PairOptions{Nodes: 3, Args: []string{"--groups", "2"}})
	leader, _, err := p.Standby.WaitLeader(1, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	p.CutLinksOf(leader)
	touch(t, p.Source)
	if err := p.WaitCaughtUp(30 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// touch has the source commit something in a data group.
func touch(t *testing.T, c *harness.Cluster) {
	t.Helper()
	conn, err := amqp.Dial(c.Node(1).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
}
