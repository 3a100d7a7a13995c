package node

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/core/entry"
)

func TestClientsAreToldWhenTheNodesHaveChanged(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	eventually(t, "the cluster knows this node's address", func() bool { return len(n.hosts()) == 1 })
	ch, err := dial(t, n).Channel()
	if err != nil {
		t.Fatal(err)
	}
	// next is the next message of a queue that a test accepts; what the queue is told more than once does no harm.
	next := func(queue string, is func(amqp.Delivery) bool) {
		t.Helper()
		eventually(t, queue+" is told", func() bool {
			d, ok, err := ch.Get(queue, true)
			if err != nil {
				t.Fatal(err)
			}
			return ok && is(d)
		})
	}
	keys := map[string]string{"amq.session": "hosts", "amq.failover": "", "amq.qpid": "cluster"}
	for exchange, key := range keys {
		if _, err := ch.QueueDeclare(exchange[4:], false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueBind(exchange[4:], key, exchange, false, nil); err != nil {
			t.Fatal(err)
		}
		next(exchange[4:], func(amqp.Delivery) bool { return true }) // how things stand
	}
	moved := &entry.NodeAddress{Cluster: n.ClusterID(), Node: 1, Address: "elsewhere:1"}
	if err := n.raft.Group(systemGroup).Control(entry.Append(nil, moved)); err != nil {
		t.Fatal(err)
	}
	next("session", func(d amqp.Delivery) bool {
		return d.Exchange == "amq.session" && d.RoutingKey == "hosts" && string(d.Body) == `["elsewhere:1"]`
	})
	for _, queue := range []string{"failover", "qpid"} {
		next(queue, func(d amqp.Delivery) bool {
			urls, _ := d.Headers["amq.failover"].([]any)
			return len(urls) == 1 && urls[0] == "amqp:tcp:elsewhere:1"
		})
	}
}

func TestAClientFindsANodeWhereItsPeersDoUnlessItIsSaid(t *testing.T) {
	for _, c := range []struct{ advertise, amqp, host string }{
		{"broker.example:5999", "127.0.0.1:0", "broker.example"},
		{"", "127.0.0.1:0", "127.0.0.1"},
		{"", ":0", "127.0.0.1"}, // of --peer
	} {
		s := settings(t, 1)
		s.AMQPAdvertise, s.AMQP = c.advertise, c.amqp
		n := start(t, s)
		host, port := hostPort(n.clientAddress())
		if host != c.host || port == 0 || c.advertise != "" && port != 5999 {
			t.Errorf("%+v: %s:%d", c, host, port)
		}
	}
}
