package programs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

const (
	tailQueue = "tail.q"
	tailEach  = 20 // messages that the standby has, and as many that only the source has
)

// TakeOver runs program "session", as Session does, against a source and its standby: AMQP_URLS has the addresses of both, the
// balancer knows both, and nothing in the program knows which is which. In its first cycle the whole source is killed with -9 and started again;
// the standby lets nobody in meanwhile. In the second the source is killed for good, while the link is cut, and the standby is
// promoted.
//
// The program must find everything at the promoted cluster as it was, under the same tags, its exclusive queue its own, what
// it publishes again recognised; a rival that is there before it gets nothing. Of another client's messages exactly
// those are missing that only the source had, and the report says from when on something may be.
func (c Client) TakeOver(t *testing.T) {
	t.Helper()
	pair := harness.StartPair(t, harness.PairOptions{Nodes: takeOverNodes, Args: []string{"--groups", "2"}})
	env := append(addressesOf(t, slices.Concat(pair.Source.Members(), pair.Standby.Members())),
		"AMQP_SESSION=interop-"+strconv.Itoa(int(time.Now().UnixNano()%1e9)))
	p := c.Start(t, env, "session")
	p.mustSay("published")
	tags := p.holds(nil)

	pair.Source.KillAll()
	for _, n := range pair.Source.Members() {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	p.mustSay("own 1")
	p.mustSay("published")
	p.holds(tags)

	since, killed := loseTail(t, pair), time.Now()
	report, err := pair.Standby.Node(1).Promote(t.Context(), "promote")
	if err != nil {
		t.Fatal(err)
	}
	rival := startRivalAt(t, pair.Standby.Members()[len(pair.Standby.Members())-1], sessionQueue)
	p.mustSay("own 1")
	p.mustSay("published")
	p.holds(tags)
	t.Logf("the source killed; at the promoted cluster all is as it was %v later", time.Since(killed).Round(time.Millisecond))
	rival.Stop()
	p.mustSay("settled")
	awaitEmpty(t, pair.Standby, sessionQueue)
	judgeTail(t, pair.Standby.Node(1), report, since)
}

// loseTail has a client publish messages that the standby gets and, with the link cut, some that it does not; then the source
// is killed. It answers when the first of the latter was sent.
func loseTail(t testing.TB, pair *harness.Pair) (since time.Time) {
	t.Helper()
	publishTail(t, pair.Source.Node(1), 1)
	if err := pair.WaitCaughtUp(patience); err != nil {
		t.Fatal(err)
	}
	pair.CutLinks()
	since = time.Now()
	publishTail(t, pair.Source.Node(1), 1+tailEach)
	pair.Source.KillAll()
	return since
}

// publishTail publishes the messages from a number on, and waits for their confirms.
func publishTail(t testing.TB, n *harness.Node, first int) {
	t.Helper()
	ch, stop := channelAt(t, n)
	defer stop()
	if _, err := ch.QueueDeclare(tailQueue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for i := first; i < first+tailEach; i++ {
		c, err := ch.PublishWithDeferredConfirm("", tailQueue, true, false, amqp.Publishing{Body: fmt.Append(nil, i)})
		if err != nil {
			t.Fatal(err)
		}
		if !c.Wait() {
			t.Fatalf("message %d of the tail was not confirmed", i)
		}
	}
}

// judgeTail wants all that the standby had, in order, and no more; and the report must have told of the loss.
func judgeTail(t testing.TB, n *harness.Node, report harness.Promotion, since time.Time) {
	t.Helper()
	ch, stop := channelAt(t, n)
	defer stop()
	for i := 1; ; i++ {
		d, ok, err := ch.Get(tailQueue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			if i != 1+tailEach {
				t.Errorf("%d of the %d messages are there that the standby had", i-1, tailEach)
			}
			break
		}
		if string(d.Body) != strconv.Itoa(i) || i > tailEach {
			t.Errorf("message %d is %q; only the first %d were the standby's", i, d.Body, tailEach)
		}
	}
	told := false
	for _, g := range report.Groups {
		told = told || g.MissingSince == nil || !time.UnixMilli(*g.MissingSince).After(since)
	}
	if !told {
		t.Errorf("what was confirmed after %v is missing, and the report has it all: %+v", since, report.Groups)
	}
}

func channelAt(t testing.TB, n *harness.Node) (ch *amqp.Channel, stop func()) {
	t.Helper()
	conn := connectTo(t, n)
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch, func() { _ = conn.Close() }
}

// connectTo connects to a node that is about to serve.
func connectTo(t testing.TB, n *harness.Node) (conn *amqp.Connection) {
	t.Helper()
	err := harness.Await(patience, func(context.Context) (err error) {
		conn, err = amqp.Dial(n.URL())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}
