package sessions

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

// told waits for the next message of a queue.
func (c *client) told(q string) (e *event) {
	c.t.Helper()
	err := harness.Await(harness.Patience, func(context.Context) error {
		var err error
		if err = c.Send(1, "basic.get", q, true); err != nil {
			return err
		}
		if e, err = c.Next(); err == nil && e.Name != "basic.get-ok" {
			err = fmt.Errorf("%s", e)
		}
		return err
	})
	if err != nil {
		c.t.Fatalf("%s was told nothing: %v", q, err)
	}
	return e
}

func TestAQueueThatIsBoundToTheBrokersExchangesIsToldHowThingsStand(t *testing.T) {
	c := shared()
	a := connect(t, c.Node(1).URL(), session(unique("s")))
	for _, k := range []struct{ exchange, key, header string }{
		{"amq.session", "hosts", "x-session-hosts"},
		{"amq.session", "generation", "x-session-generation"},
		{"amq.session", "session", "x-session-state"},
		{"amq.failover", "", "amq.failover"},
		{"amq.qpid", "cluster", "amq.failover"},
	} {
		q := unique("q")
		a.declare(q, true)
		a.call("queue.bind-ok", 1, "queue.bind", q, k.exchange, k.key)
		got := a.told(q)
		value, there := got.Properties.Headers[k.header]
		if !there {
			t.Errorf("%s %s: no header %s in %v", k.exchange, k.key, k.header, got.Properties.Headers)
		}
		if k.key == "hosts" || k.exchange != "amq.session" {
			hasText(t, k.exchange, fmt.Sprint(value), strings.Split(c.Node(1).AMQP, ",")...)
		}
	}
	q := unique("q")
	a.declare(q, true)
	a.send(1, "queue.bind", q, "amq.session", "hosts", true) // no-wait
	a.told(q)
}

func TestNobodyElsePublishesToTheBrokersExchanges(t *testing.T) {
	c := shared()
	for _, exchange := range []string{"amq.session", "amq.failover", "amq.qpid"} {
		a := connect(t, c.Node(1).URL(), nil)
		b := rawclient.AppendCall(nil, 1, "basic.publish", exchange, "hosts")
		if err := a.Write(rawclient.AppendContent(b, 1, a.FrameMax, &props{}, nil)); err != nil {
			t.Fatal(err)
		}
		closed := a.next("channel.close")
		want(t, exchange, closed.Number(0), 403)
		hasText(t, exchange, closed.Text(1), "the broker's own")
	}
}
