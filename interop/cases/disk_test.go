package cases

import (
	"context"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

// TestA26DeclareOnAFullDiskIsRefusedAndDoesNotHappenLater has a node of its own, whatever broker the others are run against:
// RabbitMQ's disk alarm is a matter of its configuration.
func TestA26DeclareOnAFullDiskIsRefusedAndDoesNotHappenLater(t *testing.T) {
	n := harness.Start(t, harness.Options{}).Node(1)
	dial := func() (*client, error) {
		f, err := rawclient.DialFrames(n.URL(), rawclient.Handshake{})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = f.Close() })
		c := &client{f, t}
		c.open(1)
		return c, nil
	}
	publisher, err := dial()
	must(t, err)
	declarer, err := dial()
	must(t, err)
	publisher.call(1, "queue.declare-ok", "queue.declare", "before", false, true)
	publisher.confirming()
	room, err := n.FullDisk()
	must(t, err)
	const full = "connection.close 320 CONNECTION_FORCED - node takes nothing for the vhost: node is read-only: "
	confirmed, end := publisher.publishUntilRefused("before")
	if !strings.HasPrefix(end.String(), full) || !strings.Contains(end.String(), "disk is full") {
		t.Errorf("publish %d: got %s", confirmed+1, end)
	}
	declarer.call(1, full, "queue.declare", "refused", false, true)
	if _, err := dial(); err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("another connection: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	if n.Ready(ctx) {
		t.Error("the node says that it serves clients")
	}
	room()
	must(t, n.WaitReady(ctx))
	c, err := dial()
	must(t, err)
	c.refused("404 NOT_FOUND - no queue 'refused'", "queue.declare", "refused", true)
	if got := c.ready("before"); got < confirmed || got > confirmed+1 {
		t.Errorf("%d messages, %d were confirmed and one was not", got, confirmed)
	}
	c.call(1, "queue.declare-ok", "queue.declare", "refused", false, true)
}

// publishUntilRefused publishes a MiB at a time, and answers how many were confirmed and what came instead of a confirm.
func (c *client) publishUntilRefused(queue string) (confirmed uint64, end *event) {
	c.t.Helper()
	body := strings.Repeat("b", 1<<20)
	for {
		c.publish("", queue, body)
		if e := c.next(); e.Name != "basic.ack" {
			return confirmed, e
		}
		confirmed++
	}
}
