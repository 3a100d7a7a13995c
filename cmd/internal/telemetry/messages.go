package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/understudy-mq/understudy/core"
)

// messageRows are the counters that RabbitMQ's dashboards read, and some of ours.
func messageRows() []row {
	var rows []row
	counter := func(name, help string, labels prometheus.Labels, value func(*Messages) uint64) {
		rows = append(rows, row{prometheus.NewDesc(name, help, nil, labels), prometheus.CounterValue,
			func(r *reading) float64 { return float64(value(&r.messages)) }})
	}
	for _, g := range globalRows {
		counter("rabbitmq_global_messages_"+g.name+"_total", g.help, protocol, g.value)
	}
	letters := prometheus.Labels{"queue_type": "rabbit_quorum_queue", "dead_letter_strategy": "at_least_once"}
	for _, g := range letterRows {
		counter("rabbitmq_global_messages_dead_lettered_"+g.name+"_total", g.help, letters, g.value)
	}
	for _, g := range churnRows {
		counter(g.name+"_total", g.help, nil, g.value)
	}
	return rows
}

type counterRow struct {
	name, help string
	value      func(*Messages) uint64
}

// globalRows are of this node's clients.
var globalRows = []counterRow{
	{"received", "Messages published.", func(m *Messages) uint64 { return m.Published }},
	{"received_confirm", "Messages published on channels that confirm.", func(m *Messages) uint64 { return m.PublishedConfirm }},
	{"routed", "Messages published that went to a queue.", func(m *Messages) uint64 { return m.Routed }},
	{"confirmed", "Publishes confirmed.", func(m *Messages) uint64 { return m.Confirmed }},
	{"unroutable_dropped", "Messages published that went to no queue.", func(m *Messages) uint64 { return m.Dropped }},
	{"unroutable_returned", "Mandatory publishes returned.", func(m *Messages) uint64 { return m.Returned }},
	{"delivered", "Deliveries to consumers and gets.", func(m *Messages) uint64 {
		return m.Delivered + m.DeliveredNoAck + m.Got + m.GotNoAck
	}},
	{"delivered_consume_manual_ack", "Deliveries to consumers that acknowledge.", func(m *Messages) uint64 { return m.Delivered }},
	{"delivered_consume_auto_ack", "Deliveries to consumers that do not.", func(m *Messages) uint64 { return m.DeliveredNoAck }},
	{"delivered_get_manual_ack", "Gets to be acknowledged.", func(m *Messages) uint64 { return m.Got }},
	{"delivered_get_auto_ack", "Gets not to be acknowledged.", func(m *Messages) uint64 { return m.GotNoAck }},
	{"redelivered", "Deliveries that were not the first.", func(m *Messages) uint64 { return m.Redelivered }},
	{"acknowledged", "Deliveries acknowledged.", func(m *Messages) uint64 { return m.Acknowledged }},
	{"get_empty", "Gets that found nothing.", func(m *Messages) uint64 { return m.GotEmpty }},
}

// letterRows are of the groups that this node leads. A dead letter is in its queues in the same step in which the message leaves
// its own: the strategy can only be at-least-once, whatever the queue asks for.
var letterRows = []counterRow{
	{"rejected", "Dead letters that a client rejected.", func(m *Messages) uint64 { return m.Rejected }},
	{"expired", "Dead letters that expired.", func(m *Messages) uint64 { return m.Expired }},
	{"maxlen", "Dead letters that there was no room for.", func(m *Messages) uint64 { return m.MaxLength }},
	{"delivery_limit", "Dead letters that were delivered too often.", func(m *Messages) uint64 { return m.DeliveryLimit }},
	{"confirmed", "Dead letters that reached a queue.", func(m *Messages) uint64 { return m.Arrived }},
}

// churnRows are of this node's clients, but for queues deleted: those of the groups that it leads.
var churnRows = []counterRow{
	{"rabbitmq_connections_opened", "Connections opened.", func(m *Messages) uint64 { return m.SessionsOpened }},
	{"rabbitmq_connections_closed", "Connections closed.", func(m *Messages) uint64 { return m.SessionsClosed }},
	{"rabbitmq_channels_opened", "Channels opened.", func(m *Messages) uint64 { return m.ChannelsOpened }},
	{"rabbitmq_channels_closed", "Channels closed.", func(m *Messages) uint64 { return m.ChannelsClosed }},
	{"rabbitmq_queues_declared", "Declarations of queues.", func(m *Messages) uint64 { return m.QueuesDeclared }},
	{"rabbitmq_queues_created", "Queues created.", func(m *Messages) uint64 { return m.QueuesCreated }},
	{"rabbitmq_queues_deleted", "Queues deleted.", func(m *Messages) uint64 { return m.QueuesDeleted }},
	{"understudy_messages_nacked", "Publishes refused to a confirming publisher.", func(m *Messages) uint64 { return m.Nacked }},
	{"understudy_sessions_attached", "Sessions attached.", func(m *Messages) uint64 { return m.SessionsAttached }},
}

// sizes is the histogram of what was published.
func sizes(desc *prometheus.Desc, m *Messages) prometheus.Metric {
	buckets := make(map[float64]uint64, len(core.SizeBounds))
	below := uint64(0)
	for i, bound := range core.SizeBounds {
		below += m.Sizes[i]
		buckets[float64(bound)] = below
	}
	return prometheus.MustNewConstHistogram(desc, m.Published, float64(m.PublishedBytes), buckets)
}
