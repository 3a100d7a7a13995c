package node

import (
	"context"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/cmd/loopback"
)

const (
	publishTo = "/api/exchanges/%2F/amq.default/publish"
	getFrom   = "/api/queues/%2F/q/get"
)

func TestMessagesArePublishedAndGotOverTheAPI(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	long := strings.Repeat("x", 255)
	talk(t, n, []exchange{
		{"PUT", "/api/queues/%2F/q", `{"durable":"true","auto_delete":"false","arguments":{"x-dead-letter-exchange":"","x-dead-letter-routing-key":"dead"}}`, 201, ""},
		{"PUT", "/api/queues/%2F/dead", `{}`, 201, ""},
		{"POST", publishTo, `{"routing_key":"q","payload":"one","payload_encoding":"string","properties":{"delivery_mode":2,"headers":{"k":[1,"v"]},"expiration":"60000","user_id":"guest"}}`, 200, `{"routed":true}`},
		{"POST", publishTo, `{"routing_key":"q","payload":"/w==","payload_encoding":"base64","properties":[]}`, 200, `{"routed":true}`},
		{"POST", publishTo, `{"routing_key":"nowhere","payload":"x","payload_encoding":"string","properties":{}}`, 200, `{"routed":false}`},
		{"POST", "/api/exchanges/%2F/none/publish", `{"routing_key":"q","payload":"x","payload_encoding":"string","properties":{}}`, 404, "no exchange 'none'"},
		{"POST", publishTo, `{"routing_key":"q","payload":"~","payload_encoding":"base64"}`, 400, "base64"},
		{"POST", publishTo, `{"routing_key":"q","payload":"x","payload_encoding":"rot13"}`, 400, "payload_encoding"},
		{"POST", publishTo, `{"routing_key":"q` + long + `","payload":"x"}`, 400, "at most 255"},
		{"POST", publishTo, `{"routing_key":"q","payload":"x","properties":{"app_id":"q` + long + `"}}`, 400, "at most 255"},
		{"POST", publishTo, `{"routing_key":"q","payload":"x","properties":{"priority":256}}`, 400, "from 0 to 255"},
		{"POST", publishTo, `{"routing_key":"q","payload":"x","properties":{"expiration":"-1"}}`, 400, "invalid expiration"},
		{"POST", publishTo, `{"routing_key":"q","payload":"x","properties":{"user_id":"somebody"}}`, 400, "user_id property"},

		{"POST", getFrom, `{"count":5,"ackmode":"ack_requeue_true","encoding":"auto"}`, 200,
			`[{"payload_bytes":3,"redelivered":false,"exchange":"","routing_key":"q","message_count":1,"properties":{"delivery_mode":2,"expiration":"60000","headers":{"k":[1,"v"]},"user_id":"guest"},"payload":"one","payload_encoding":"string"},` +
				`{"payload_bytes":1,"redelivered":false,"exchange":"","routing_key":"q","message_count":0,"properties":{},"payload":"/w==","payload_encoding":"base64"}]`},
		{"POST", getFrom, `{"count":1,"ackmode":"ack_requeue_true","encoding":"base64","truncate":2}`, 200, `"redelivered":true,"exchange":"","routing_key":"q","message_count":1`},
		{"POST", getFrom, `{"count":1,"ackmode":"ack_requeue_true","encoding":"base64","truncate":2}`, 200, `"payload":"b24=","payload_encoding":"base64"`},
		{"POST", getFrom, `{"count":1,"ackmode":"ack_requeue_false","encoding":"auto"}`, 200, `"payload":"one"`},
		{"POST", getFrom, `{"count":1,"ackmode":"reject_requeue_false","encoding":"auto"}`, 200, `"payload":"/w=="`},
		{"POST", getFrom, `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`, 200, `[]`},
		{"POST", "/api/queues/%2F/dead/get", `{"count":1,"ackmode":"reject_requeue_true","encoding":"auto"}`, 200, `"x-death":[{"count":1,"exchange":"","queue":"q","reason":"rejected"`},
		{"POST", getFrom, `{"count":-1,"ackmode":"ack_requeue_true","encoding":"auto"}`, 400, "negative"},
		{"POST", getFrom, `{"count":1,"ackmode":"shred","encoding":"auto"}`, 400, "unknown ackmode"},
		{"POST", getFrom, `{"count":1,"ackmode":"ack_requeue_true","encoding":"rot13"}`, 400, "unknown encoding"},
		{"POST", "/api/queues/%2F/none/get", `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`, 404, "no queue 'none'"},
	})
}

func TestABigMessageIsPublishedOverTheAPIAsItIs(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	big := strings.Repeat("0123456789", 200_000) // several fragments
	talk(t, n, []exchange{
		{"PUT", "/api/queues/%2F/q", `{}`, 201, ""},
		{"POST", publishTo, `{"routing_key":"q","payload":"` + big + `","payload_encoding":"string","properties":{}}`, 200, `{"routed":true}`},
		{"POST", getFrom, `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`, 200, `"payload":"` + big + `"`},
	})
	if got := take(t, dial(t, n), "q"); got != big {
		t.Errorf("a client gets %d bytes, want the %d that were published", len(got), len(big))
	}
	n.cfg.MaxMessageBytes = 10
	talk(t, n, []exchange{
		{"POST", publishTo, `{"routing_key":"q","payload":"12345678901","payload_encoding":"string"}`, 400, "larger than configured max size 10"},
	})
}

func TestEveryNodeListsAndClosesTheClientsOfAll(t *testing.T) {
	t.Parallel() // it waits for the most part
	nodes := trio(t)
	client := dial(t, nodes[0])
	if _, err := client.Channel(); err != nil {
		t.Fatal(err)
	}
	name := nodes[0].ownConnections()[0].Name
	closed := client.NotifyClose(make(chan *amqp.Error, 1))
	for _, n := range nodes {
		talk(t, n, []exchange{
			{"GET", "/api/connections", "", 200, `"node":"understudy@1"`},
			{"GET", "/api/connections/" + urlPath(name) + "/channels", "", 200, `"number":1,"node":"understudy@1"`},
			{"GET", "/api/overview", "", 200, `"channels":1,"connections":1`},
			{"GET", "/api/nodes/understudy@3", "", 200, `"running":true,"os_pid":"`},
		})
	}
	talk(t, nodes[2], []exchange{{"DELETE", "/api/connections/" + urlPath(name), "", 204, ""}})
	wantClosed(t, closed, "Closed via management API")
}

func TestADrainMovesLeadershipBeforeClientsAreClosed(t *testing.T) {
	t.Parallel() // it waits for the most part
	nodes := trio(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, group := range nodes[0].groups {
		if err := nodes[0].raft.TransferLeader(ctx, group, 1); err != nil {
			t.Fatal(err)
		}
	}
	leads := func() (groups []uint64) {
		for _, group := range nodes[1].groups {
			if nodes[1].raft.Group(group).Status().Leader == 1 {
				groups = append(groups, group)
			}
		}
		return groups
	}
	eventually(t, "node 1 leads all groups", func() bool { return len(leads()) == len(nodes[1].groups) })
	closed := dial(t, nodes[0]).NotifyClose(make(chan *amqp.Error, 1))
	stopped := make(chan struct{})
	go func() {
		stop(t, nodes[0])
		close(stopped)
	}()
	wantClosed(t, closed, "node is being stopped")
	if led := leads(); len(led) > 0 {
		t.Errorf("node 1 still leads groups %v when its client is closed", led)
	}
	<-stopped
}

// trio is a cluster of three.
func trio(t *testing.T) []*Node {
	t.Helper()
	addresses := loopback.Addresses(t, 3)
	cluster := "1=" + addresses[0] + ",2=" + addresses[1] + ",3=" + addresses[2]
	var nodes []*Node
	for i, a := range addresses {
		c := settings(t, uint64(i+1))
		c.Peer, c.Cluster = a, cluster
		nodes = append(nodes, start(t, c))
	}
	ready(t, nodes...)
	return nodes
}
