//go:build interop

package tools

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// shown are the gauges of RabbitMQ's dashboards; each has to be there, and these to be more than 0 while a client is busy.
var shown = []string{
	"rabbitmq_identity_info", "rabbitmq_build_info", "rabbitmq_queues", "rabbitmq_queue_messages_ready", "rabbitmq_queue_messages_unacked",
	"rabbitmq_queue_messages", "rabbitmq_connections", "rabbitmq_channels", "rabbitmq_consumers", "rabbitmq_global_publishers", "rabbitmq_global_consumers",
	"rabbitmq_process_resident_memory_bytes", "rabbitmq_process_open_fds", "rabbitmq_process_max_fds", "rabbitmq_disk_space_available_bytes",
	"rabbitmq_process_open_tcp_sockets", "rabbitmq_process_max_tcp_sockets",
	"rabbitmq_erlang_uptime_seconds", "rabbitmq_raft_commit_index", "rabbitmq_raft_last_written_index", "rabbitmq_raft_term",
	"rabbitmq_raft_commit_latency_seconds", "rabbitmq_raft_log_commit_index", "rabbitmq_raft_log_last_applied_index",
}

// there alone: 0 is well.
var present = []string{"rabbitmq_raft_snapshot_index", "rabbitmq_raft_log_snapshot_index"}

// moving are the counters, each of which has to count what move does.
var moving = []string{
	"rabbitmq_global_messages_received_total", "rabbitmq_global_messages_received_confirm_total", "rabbitmq_global_messages_routed_total",
	"rabbitmq_global_messages_confirmed_total", "rabbitmq_global_messages_unroutable_dropped_total", "rabbitmq_global_messages_unroutable_returned_total",
	"rabbitmq_global_messages_delivered_total", "rabbitmq_global_messages_delivered_consume_auto_ack_total",
	"rabbitmq_global_messages_delivered_consume_manual_ack_total", "rabbitmq_global_messages_delivered_get_auto_ack_total",
	"rabbitmq_global_messages_delivered_get_manual_ack_total", "rabbitmq_global_messages_redelivered_total", "rabbitmq_global_messages_acknowledged_total",
	"rabbitmq_global_messages_get_empty_total", "rabbitmq_connections_opened_total", "rabbitmq_connections_closed_total", "rabbitmq_channels_opened_total",
	"rabbitmq_channels_closed_total", "rabbitmq_queues_declared_total", "rabbitmq_queues_created_total", "rabbitmq_queues_deleted_total",
	"rabbitmq_message_size_bytes_count", "rabbitmq_message_size_bytes_sum", "rabbitmq_message_size_bytes_bucket",
	"rabbitmq_global_messages_dead_lettered_confirmed_total", "rabbitmq_global_messages_dead_lettered_delivery_limit_total",
	"rabbitmq_global_messages_dead_lettered_expired_total", "rabbitmq_global_messages_dead_lettered_maxlen_total",
	"rabbitmq_global_messages_dead_lettered_rejected_total",
}

func TestEveryMetricOfRabbitMQsDashboardsIsThereAndMoves(t *testing.T) {
	node := harness.Start(t, harness.Options{}).Node(1)
	read := func() map[string]float64 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		m, err := node.Metrics(ctx)
		must(t, err)
		return m
	}
	before := read()
	busy(t, node.URL())
	move(t, node.URL())
	var after map[string]float64
	still := func() (names []string) {
		for _, name := range moving {
			if _, ok := before[name]; !ok || after[name] <= before[name] {
				names = append(names, name)
			}
		}
		return names
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if after = read(); still() == nil || time.Now().After(end) {
			break
		}
	}
	for _, name := range still() {
		t.Errorf("%s: %v before and %v after", name, before[name], after[name])
	}
	for _, name := range shown {
		if after[name] <= 0 {
			t.Errorf("%s is %v", name, after[name])
		}
	}
	for _, name := range present {
		if _, ok := after[name]; !ok {
			t.Errorf("no %s", name)
		}
	}
}

// move has one of everything happen that is counted.
func move(t *testing.T, url string) {
	t.Helper()
	c, err := amqp.Dial(url)
	must(t, err)
	ch, err := c.Channel()
	must(t, err)
	letters := amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "m.dead"}
	declare := func(name string, more amqp.Table) {
		arguments := amqp.Table{}
		for _, t := range []amqp.Table{letters, more} {
			for k, v := range t {
				arguments[k] = v
			}
		}
		_, err := ch.QueueDeclare(name, true, false, false, false, arguments)
		must(t, err)
	}
	declare("m.q", nil)
	declare("m.short", amqp.Table{"x-max-length": 1})
	declare("m.often", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 1})
	_, err = ch.QueueDeclare("m.dead", true, false, false, false, nil)
	must(t, err)
	publish := func(key string, mandatory bool, p amqp.Publishing) {
		p.Body = []byte("x")
		must(t, ch.Publish("", key, mandatory, false, p))
	}
	publish("none", false, amqp.Publishing{})
	_, _, err = ch.Get("m.dead", true) // nothing
	must(t, err)
	must(t, ch.Confirm(false))
	publish("none", true, amqp.Publishing{})
	publish("m.short", false, amqp.Publishing{})
	publish("m.short", false, amqp.Publishing{})
	publish("m.q", false, amqp.Publishing{Expiration: "1"})
	one := func(queue string, auto bool) amqp.Delivery {
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			d, ok, err := ch.Get(queue, auto)
			must(t, err)
			if ok {
				return d
			}
			if time.Now().After(end) {
				t.Fatalf("nothing comes to %s", queue)
			}
		}
	}
	one("m.dead", true)
	must(t, one("m.dead", false).Ack(false))
	publish("m.q", false, amqp.Publishing{})
	must(t, one("m.q", false).Nack(false, true))
	must(t, one("m.q", false).Reject(false))
	publish("m.often", false, amqp.Publishing{})
	must(t, one("m.often", false).Reject(true))
	must(t, one("m.often", false).Reject(true))
	one("m.dead", true)
	deliveries, err := ch.Consume("m.dead", "", true, false, false, false, nil)
	must(t, err)
	<-deliveries
	_, err = ch.QueueDelete("m.q", false, false, false)
	must(t, err)
	must(t, ch.Close())
	must(t, c.Close())
}
