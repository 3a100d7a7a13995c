package node

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/cmd/internal/alarm"
	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/core"
)

// gauge is a node's gauges in a test's hand.
type gauge struct{ now atomic.Pointer[alarm.Reading] }

var (
	well      = alarm.Reading{MemoryUsed: 1 << 30, MemoryTotal: 16 << 30, DiskFree: 500 << 30, DiskTotal: 1 << 40}
	lowOnDisk = alarm.Reading{MemoryUsed: 1 << 30, MemoryTotal: 16 << 30, DiskFree: 1 << 20, DiskTotal: 1 << 40}
	lowOnBoth = alarm.Reading{MemoryUsed: 15 << 30, MemoryTotal: 16 << 30, DiskFree: 1 << 20, DiskTotal: 1 << 40}
)

// startGauged starts a node whose gauges show that all is well, and that minds them as it does by default.
func startGauged(t *testing.T, c config.Config) (*Node, *gauge) {
	t.Helper()
	c.DiskFreeMin = config.Default().DiskFreeMin
	g := &gauge{}
	g.now.Store(&well)
	o := options(t, c)
	o.Gauges = func() alarm.Reading { return *g.now.Load() }
	n, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, n) })
	return n, g
}

func blocked(n *Node) string {
	return n.broker.Flow().All()
}

// wantBlocking waits for connection.blocked or unblocked.
func wantBlocking(t *testing.T, from <-chan amqp.Blocking, active bool, reason string) {
	t.Helper()
	select {
	case b := <-from:
		if b.Active != active || b.Reason != reason {
			t.Fatalf("heard %+v, want %t for %q", b, active, reason)
		}
	case <-time.After(patience):
		t.Fatalf("not told within %v", patience)
	}
}

func TestAPublisherWaitsForAnAlarmWhileItsAcksAndOthersGoOn(t *testing.T) {
	n, g := startGauged(t, settings(t, 1))
	ready(t, n)
	client := dial(t, n)
	send(t, client, "q", "before")
	heard := client.NotifyBlocked(make(chan amqp.Blocking, 4))
	ch, err := client.Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume("q", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := <-deliveries
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}

	g.now.Store(&lowOnBoth)
	eventually(t, "publishers have to wait", func() bool { return blocked(n) != "" })
	confirm, err := ch.PublishWithDeferredConfirm("", "q", true, false, amqp.Publishing{Body: []byte("held")})
	if err != nil {
		t.Fatal(err)
	}
	wantBlocking(t, heard, true, "low on memory & low on disk")
	if err := d.Ack(false); err != nil { // on the very channel that waits
		t.Fatal(err)
	}
	eventually(t, "the acknowledgement counts", func() bool { return queuesOf(n, "/")[0].Messages == 0 })
	other, err := client.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.QueueDeclare("p", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := other.QueueDelete("p", false, false, false); err != nil {
		t.Fatal(err)
	}
	if confirm.Acked() {
		t.Fatal("what is held back was confirmed")
	}
	if c := n.Connections(t.Context()); c[0].State != "blocked" {
		t.Errorf("the connection is %s", c[0].State)
	}

	g.now.Store(&well)
	wantBlocking(t, heard, false, "")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
		t.Fatalf("confirm %v, %v", ok, err)
	}
	if d := <-deliveries; string(d.Body) != "held" {
		t.Errorf("delivered %q", d.Body)
	}
}

func TestAlarmsAreShown(t *testing.T) {
	n, g := startGauged(t, settings(t, 1))
	ready(t, n)
	shows := func(status int, want map[string]string) {
		t.Helper()
		for path, text := range want {
			eventually(t, path+" shows "+text, func() bool {
				got, body := ask(t, n, path)
				return got == status && strings.Contains(body, text)
			})
		}
	}
	g.now.Store(&lowOnDisk)
	shows(http.StatusServiceUnavailable, map[string]string{
		"/api/health/checks/alarms": `{"node":"understudy@1","resource":"disk"}`, "/api/health/checks/local-alarms": `"resource":"disk"`,
	})
	shows(http.StatusOK, map[string]string{
		"/api/nodes":           `"disk_free_alarm":true`,
		"/api/cluster/members": `"alarms":["disk"]`,
		"/metrics":             "rabbitmq_alarms_free_disk_space_watermark 1\n",
	})
	publish := `{"properties":{},"routing_key":"q","payload":"x","payload_encoding":"string"}`
	adminCall(t, n, "POST", "/api/exchanges/%2F/amq.default/publish", publish, http.StatusServiceUnavailable)
	_, metrics := ask(t, n, "/metrics")
	for _, line := range []string{
		"rabbitmq_alarms_memory_used_watermark 0\n", `understudy_alarm{alarm="disk"} 1` + "\n", `understudy_alarm{alarm="memory"} 0` + "\n",
		"understudy_publishers_wait 1\n", "rabbitmq_disk_space_available_limit_bytes 1.073741824e+09\n",
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("/metrics lacks %q", line)
		}
	}
	g.now.Store(&well)
	shows(http.StatusOK, map[string]string{"/api/health/checks/alarms": `"ok"`, "/api/nodes": `"disk_free_alarm":false`})
	adminCall(t, n, "POST", "/api/exchanges/%2F/amq.default/publish", publish, http.StatusOK)
}

// In RabbitMQ any node's alarm stops the publishers of all.
func TestAnAlarmStopsTheNodesOwnPublishersAndAllOfThemWhereTheRestIsNoMajority(t *testing.T) {
	t.Parallel() // it waits for the most part
	all := []config.Config{settings(t, 1), settings(t, 2), settings(t, 3)}
	var nodes []*Node
	var gauges []*gauge
	for _, c := range all {
		c.Cluster = fmt.Sprintf("1=%s,2=%s,3=%s", all[0].Peer, all[1].Peer, all[2].Peer)
		n, g := startGauged(t, c)
		nodes, gauges = append(nodes, n), append(gauges, g)
	}
	ready(t, nodes...)
	knows := func(by *Node, of uint64, want string) {
		t.Helper()
		eventually(t, fmt.Sprintf("node %d knows of %q at node %d", by.cfg.NodeID, want, of), func() bool {
			return strings.Join(by.Cluster().Members[of-1].Alarms, "") == want
		})
	}
	gauges[1].now.Store(&lowOnDisk)
	knows(nodes[0], 2, "disk")
	knows(nodes[2], 2, "disk")
	eventually(t, "node 2's publishers wait", func() bool { return blocked(nodes[1]) == "low on disk" })
	if why := blocked(nodes[0]); why != "" {
		t.Errorf("with node 2 short of disk: node 1's publishers wait for %q", why)
	}
	gauges[2].now.Store(&lowOnDisk)
	eventually(t, "node 1's publishers wait too", func() bool { return blocked(nodes[0]) == "low on disk" })
	gauges[1].now.Store(&well)
	eventually(t, "node 1's publishers go on", func() bool { return blocked(nodes[0]) == "" && blocked(nodes[1]) == "" })
	knows(nodes[0], 2, "")
}

func TestWhoWaitsForWhoseAlarms(t *testing.T) {
	up := func(id uint64, a alarm.Alarms) core.NodeInfo {
		return core.NodeInfo{Node: id, Up: true, Alarms: uint8(a)}
	}
	down := core.NodeInfo{Node: 3}
	three := []uint64{1, 2, 3}
	for _, c := range []struct {
		name   string
		own    alarm.Alarms
		voters []uint64
		nodes  []core.NodeInfo
		want   string
	}{
		{"all well", 0, three, []core.NodeInfo{up(1, 0), up(2, 0), up(3, 0)}, ""},
		{"its own", alarm.Memory, three, []core.NodeInfo{up(1, 0), up(2, 0), up(3, 0)}, "low on memory"},
		{"its own, over by now", 0, three, []core.NodeInfo{up(1, alarm.Disk), up(2, 0), up(3, 0)}, ""},
		{"one other's", 0, three, []core.NodeInfo{up(1, 0), up(2, alarm.Disk), up(3, 0)}, ""},
		{"one other's, and the third is down", 0, three, []core.NodeInfo{up(1, 0), up(2, alarm.Disk), down}, "low on disk"},
		{"two others'", 0, three, []core.NodeInfo{up(1, 0), up(2, alarm.Disk), up(3, alarm.Memory)}, "low on memory & low on disk"},
		{"two others' of five", 0, []uint64{1, 2, 3, 4, 5}, []core.NodeInfo{up(1, 0), up(2, 1), up(3, 1), up(4, 0), up(5, 0)}, ""},
		{"a learner's", 0, []uint64{1}, []core.NodeInfo{up(1, 0), up(2, alarm.Disk)}, ""},
		{"one other's of two", 0, []uint64{1, 2}, []core.NodeInfo{up(1, 0), up(2, alarm.Disk)}, "low on disk"},
		{"the others are down, and short of nothing", 0, three, []core.NodeInfo{up(1, 0)}, ""},
		{"no voters are known yet", 0, nil, nil, ""},
	} {
		if got := blockReason(1, c.own, c.voters, c.nodes); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
