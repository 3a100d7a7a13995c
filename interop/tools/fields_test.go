//go:build interop

package tools

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// reads are what tools ask for, and the fields that they read of the answer. A field of the rows of a list is written behind [].
var reads = []struct {
	tool, path string
	fields     string
}{
	{"Flower", "/api/queues/%2F", "[].name [].messages [].messages_unacknowledged [].messages_ready [].consumers [].idle_since?"},
	{"KEDA, one queue", "/api/queues/%2F/t%2Fq", "name vhost messages messages_ready messages_unacknowledged message_stats.publish_details.rate message_stats.deliver_get_details.rate"},
	{"KEDA, a regular expression", "/api/queues/%2F?page=1&use_regex=true&pagination=false&name=%5Et&page_size=100",
		"items.[].name items.[].messages items.[].messages_ready items.[].message_stats.publish_details.rate filtered_count item_count page page_count page_size total_count"},
	{"exporters", "/api/overview", "management_version rabbitmq_version cluster_name node object_totals.channels object_totals.connections object_totals.consumers " +
		"object_totals.exchanges object_totals.queues queue_totals.messages queue_totals.messages_ready queue_totals.messages_unacknowledged queue_totals.messages_details.rate " +
		"message_stats.publish message_stats.publish_details.rate message_stats.ack message_stats.confirm message_stats.deliver message_stats.deliver_get message_stats.deliver_no_ack " +
		"message_stats.get message_stats.get_no_ack message_stats.get_empty message_stats.redeliver message_stats.return_unroutable message_stats.drop_unroutable " +
		"churn_rates.connection_created churn_rates.connection_closed churn_rates.channel_created churn_rates.channel_closed churn_rates.queue_declared churn_rates.queue_created churn_rates.queue_deleted " +
		"listeners.[].node listeners.[].protocol listeners.[].port exchange_types.[].name contexts.[].port rates_mode"},
	{"exporters", "/api/nodes", "[].name [].type [].running [].os_pid [].uptime [].fd_used [].fd_total [].sockets_used [].mem_used [].mem_alarm [].disk_free [].disk_free_alarm " +
		"[].proc_used [].processors [].partitions [].exchange_types.[].name [].auth_mechanisms.[].name [].applications.[].version"},
	{"exporters", "/api/queues", "[].name [].vhost [].durable [].auto_delete [].exclusive [].arguments [].node [].state [].type [].policy [].operator_policy [].consumers [].messages_details.rate " +
		"[].messages_ready_details.rate [].message_bytes [].message_bytes_ready [].message_bytes_unacknowledged [].message_bytes_persistent [].effective_policy_definition [].single_active_consumer_tag [].message_stats.publish [].message_stats.ack [].message_stats.deliver [].message_stats.redeliver"},
	{"exporters", "/api/exchanges", "[].name [].vhost [].type [].durable [].auto_delete [].internal [].arguments"},
	{"exporters", "/api/exchanges/%2F/t.x", "message_stats.publish_in message_stats.publish_in_details.rate message_stats.publish_out"},
	{"exporters", "/api/connections", "[].name [].vhost [].user [].node [].state [].protocol [].peer_host [].peer_port [].host [].port [].ssl [].channels [].channel_max [].frame_max [].timeout " +
		"[].recv_oct [].send_oct [].connected_at [].client_properties.product [].client_properties.connection_name [].user_provided_name [].type"},
	{"management clients", "/api/channels", "[].name [].number [].node [].user [].vhost [].state [].confirm [].transactional [].prefetch_count [].global_prefetch_count [].consumer_count " +
		"[].messages_unacknowledged [].messages_uncommitted [].acks_uncommitted [].connection_details.name [].connection_details.peer_host [].connection_details.peer_port"},
	{"management clients", "/api/consumers", "[].consumer_tag [].queue.name [].queue.vhost [].ack_required [].exclusive [].prefetch_count [].active [].activity_status [].arguments " +
		"[].channel_details.name [].channel_details.connection_name [].channel_details.node [].channel_details.number [].channel_details.user [].channel_details.peer_host"},
	{"management clients", "/api/queues/%2F/t%2Fq", "consumer_details.[].consumer_tag consumer_details.[].channel_details.name"},
	{"management clients", "/api/bindings", "[].source [].vhost [].destination [].destination_type [].routing_key [].arguments [].properties_key"},
	{"management clients", "/api/vhosts", "[].name [].description [].tags [].tracing [].messages [].messages_ready [].messages_unacknowledged [].cluster_state [].metadata.description"},
	{"management clients", "/api/queues?disable_stats=true&enable_queue_totals=true", "[].name [].messages [].messages_ready [].messages_unacknowledged"},
	{"management clients", "/api/queues?page=1&page_size=1&sort=messages&sort_reverse=true&columns=name,messages", "items.[].name items.[].messages page_count"},
	{"management clients", "/api/users", "[].name [].password_hash [].hashing_algorithm [].tags [].limits"},
	{"management clients", "/api/definitions", "rabbit_version rabbitmq_version product_name product_version users.[].name vhosts.[].name permissions.[].user topic_permissions parameters " +
		"global_parameters policies queues.[].durable exchanges.[].type bindings.[].source"},
	{"management clients", "/api/whoami", "name tags"},
	{"management clients", "/api/cluster-name", "name"},
	{"management clients", "/api/aliveness-test/%2F", "status"},
	{"management clients", "/api/healthchecks/node", "status"},
	{"management clients", "/api/feature-flags", "[].name [].state [].desc [].doc_url [].stability [].provided_by"},
	{"management clients", "/api/auth/attempts/understudy@1", "[].protocol [].auth_attempts [].auth_attempts_failed [].auth_attempts_succeeded"},
	{"management clients", "/api/extensions", ""}, {"management clients", "/api/parameters", ""},
	{"management clients", "/api/vhost-limits", ""}, {"management clients", "/api/user-limits", ""}, {"management clients", "/api/operator-policies", ""},
	{"management clients", "/api/global-parameters", "[].name [].value"},
	{"management clients", "/api/connections/username/guest", "[].name [].vhost [].user [].node"},
	{"management clients", "/api/vhosts/%2F/connections", "[].name"}, {"management clients", "/api/vhosts/%2F/channels", "[].name"},
	{"management clients", "/api/vhosts/%2F/permissions", "[].user"}, {"management clients", "/api/users/guest/permissions", "[].vhost"},
	{"management clients", "/api/exchanges/%2F/t.x/bindings/source", "[].destination"}, {"management clients", "/api/exchanges/%2F/t.x/bindings/destination", ""},
}

// missing are the fields that an answer lacks. A list with rows to look at must have one.
func missing(v any, fields string) (lacks []string) {
	for field := range strings.FieldsSeq(fields) {
		if strings.HasSuffix(field, "?") {
			continue // read where it is there
		}
		if !there(v, strings.Split(field, ".")) {
			lacks = append(lacks, field)
		}
	}
	return lacks
}

func there(v any, path []string) bool {
	if len(path) == 0 {
		return true
	}
	if path[0] == "[]" {
		rows, ok := v.([]any)
		return ok && len(rows) > 0 && slices.ContainsFunc(rows, func(row any) bool { return there(row, path[1:]) })
	}
	object, ok := v.(map[string]any)
	value, has := object[path[0]]
	return ok && has && there(value, path[1:])
}

func TestEveryFieldThatToolsReadIsThere(t *testing.T) {
	node := harness.Start(t, harness.Options{}).Node(1)
	admin := "http://" + node.Admin
	busy(t, node.URL())
	all := map[string]bool{}
	for _, r := range reads {
		var lacks []string
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) { // listings of RabbitMQ's are late
			if lacks = missing(get(t, admin, r.path), r.fields); lacks == nil || time.Now().After(end) {
				break
			}
		}
		if lacks != nil {
			t.Errorf("%s: %s lacks %v", r.tool, r.path, lacks)
		}
		all[r.tool] = true
	}
	t.Logf("%d paths, for %v", len(reads), slices.Sorted(maps.Keys(all)))
}

// busy leaves a queue t/q bound to an exchange t.x with messages, and a client that consumes and publishes until the test ends.
func busy(t *testing.T, url string) {
	t.Helper()
	c, err := amqp.DialConfig(url, amqp.Config{Properties: amqp.Table{"connection_name": "busy", "product": "tools"}})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	ch, err := c.Channel()
	must(t, err)
	_, err = ch.QueueDeclare("t/q", true, false, false, false, nil)
	must(t, err)
	must(t, ch.ExchangeDeclare("t.x", "topic", true, false, false, false, nil))
	must(t, ch.QueueBind("t/q", "#", "t.x", false, nil))
	must(t, ch.Confirm(false))
	must(t, ch.Qos(2, 0, false))
	for i := range 10 {
		d, err := ch.PublishWithDeferredConfirm("t.x", fmt.Sprint(i), false, false, amqp.Publishing{Body: []byte("x")})
		must(t, err)
		d.Wait()
	}
	deliveries, err := ch.Consume("t/q", "t", false, false, false, false, nil)
	must(t, err)
	must(t, (<-deliveries).Ack(false))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
