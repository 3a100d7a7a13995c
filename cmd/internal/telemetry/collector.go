package telemetry

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// row is one metric that a scrape reads.
type row struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*reading) float64
}

// reading is what one scrape reads once.
type reading struct {
	messages Messages
	totals   Totals
	sessions Sessions
	log      Log
	alarms   Alarms
}

type groupRow struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(Group) float64
}

type collector struct {
	id      Identity
	sources Sources
	started time.Time

	identity *prometheus.Desc
	build    *prometheus.Desc
	sizes    *prometheus.Desc
	ready    *prometheus.Desc
	rows     []row
	groups   []groupRow
	process  []processRow
}

type processRow struct {
	desc  *prometheus.Desc
	value func() (float64, bool)
}

var _ prometheus.Collector = (*collector)(nil)

// protocol labels the message counters as RabbitMQ does.
var protocol = prometheus.Labels{"protocol": "amqp091"}

func newCollector(id Identity, s Sources) *collector {
	c := &collector{id: id, sources: s, started: time.Now()}
	c.identity = prometheus.NewDesc("rabbitmq_identity_info", "Node and cluster.",
		[]string{"rabbitmq_node", "rabbitmq_cluster", "rabbitmq_endpoint"}, nil)
	c.build = prometheus.NewDesc("rabbitmq_build_info", "Versions.",
		[]string{"rabbitmq_version", "product_name", "product_version"}, nil)
	c.sizes = prometheus.NewDesc("rabbitmq_message_size_bytes", "Size of the bodies published.", nil, protocol)
	c.ready = prometheus.NewDesc("understudy_ready", "1 if clients are served.", nil, nil)
	c.rows = slices.Concat(totalRows(), messageRows(), sessionRows(), logRows(), alarmRows())
	c.groups = groupRows()
	c.process = c.processRows()
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.identity
	ch <- c.build
	ch <- c.sizes
	ch <- c.ready
	for _, r := range c.rows {
		ch <- r.desc
	}
	for _, r := range c.groups {
		ch <- r.desc
	}
	for _, r := range c.process {
		ch <- r.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	cluster := c.sources.ClusterID()
	ch <- prometheus.MustNewConstMetric(c.identity, prometheus.GaugeValue, 1, c.id.Node, cluster, "prometheus")
	ch <- prometheus.MustNewConstMetric(c.build, prometheus.GaugeValue, 1, c.id.RabbitMQ, "Understudy", c.id.Version)
	ch <- prometheus.MustNewConstMetric(c.ready, prometheus.GaugeValue, truth(c.sources.Ready()))
	now := reading{c.sources.Messages(), c.sources.Totals(), c.sources.Sessions(), c.sources.Log(), c.sources.Alarms()}
	ch <- sizes(c.sizes, &now.messages)
	for _, r := range c.rows {
		ch <- prometheus.MustNewConstMetric(r.desc, r.kind, r.value(&now))
	}
	for _, g := range c.sources.Groups() {
		for _, r := range c.groups {
			ch <- prometheus.MustNewConstMetric(r.desc, r.kind, r.value(g), strconv.FormatUint(g.Group, 10))
		}
	}
	for _, r := range c.process {
		if v, ok := r.value(); ok {
			ch <- prometheus.MustNewConstMetric(r.desc, prometheus.GaugeValue, v)
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func totalRows() []row {
	gauge := func(name, help string, value func(*Totals) uint64) row {
		return row{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue,
			func(r *reading) float64 { return float64(value(&r.totals)) }}
	}
	global := func(name, help string, value func(*Totals) uint64) row {
		return row{prometheus.NewDesc("rabbitmq_global_"+name, help, nil, protocol), prometheus.GaugeValue,
			func(r *reading) float64 { return float64(value(&r.totals)) }}
	}
	return []row{
		gauge("rabbitmq_queues", "Queues of the groups that this node leads.", func(t *Totals) uint64 { return t.Queues }),
		gauge("rabbitmq_consumers", "Consumers of those queues.", func(t *Totals) uint64 { return t.Consumers }),
		gauge("rabbitmq_queue_messages_ready", "Messages of those queues that are ready.", func(t *Totals) uint64 { return t.Ready }),
		gauge("rabbitmq_queue_messages_unacked", "Messages of those queues in flight.", func(t *Totals) uint64 { return t.Unacked }),
		gauge("rabbitmq_queue_messages", "Messages of those queues.", func(t *Totals) uint64 { return t.Ready + t.Unacked }),
		gauge("rabbitmq_connections", "Client connections.", func(t *Totals) uint64 { return t.Connections }),
		gauge("rabbitmq_process_open_tcp_sockets", "Sockets of clients.", func(t *Totals) uint64 { return t.Connections }),
		gauge("rabbitmq_channels", "Open channels.", func(t *Totals) uint64 { return t.Channels }),
		global("publishers", "Channels of this node's clients that have published.", func(t *Totals) uint64 { return t.Publishers }),
		global("consumers", "Consumers of this node's clients.", func(t *Totals) uint64 { return t.OwnConsumers }),
		gauge("understudy_sessions_attached", "Named sessions with a connection, in the groups that this node leads.",
			func(t *Totals) uint64 { return t.SessionsAttached }),
		gauge("understudy_sessions_detached", "Named sessions without one, in those groups.",
			func(t *Totals) uint64 { return t.SessionsDetached }),
	}
}

// sessionRows count what each replica has applied: they are not to be summed over nodes.
func sessionRows() []row {
	counter := func(name, help string, value func(*Sessions) uint64) row {
		return row{prometheus.NewDesc("understudy_sessions_"+name+"_total", help+" Every node counts all.", nil, nil), prometheus.CounterValue,
			func(r *reading) float64 { return float64(value(&r.sessions)) }}
	}
	return []row{
		counter("resumed", "Sessions that went on on another connection.", func(s *Sessions) uint64 { return s.Resumed }),
		counter("taken_over", "Sessions that another connection took over.", func(s *Sessions) uint64 { return s.TakenOver }),
		counter("expired", "Sessions that nobody resumed in time.", func(s *Sessions) uint64 { return s.Expired }),
		counter("redelivered", "Deliveries sent again after a resume.", func(s *Sessions) uint64 { return s.Redelivered }),
		counter("duplicates_dropped", "Publishes that had been enqueued before.", func(s *Sessions) uint64 { return s.Duplicates }),
	}
}

func logRows() []row {
	read := func(name, help string, kind prometheus.ValueType, value func(*Log) float64) row {
		return row{prometheus.NewDesc("understudy_log_"+name, help, nil, nil), kind,
			func(r *reading) float64 { return value(&r.log) }}
	}
	count, gauge := prometheus.CounterValue, prometheus.GaugeValue
	return []row{
		read("written_bytes_total", "Bytes written to the log.", count, func(l *Log) float64 { return float64(l.Bytes) }),
		read("writes_total", "Writes to the log.", count, func(l *Log) float64 { return float64(l.Writes) }),
		read("syncs_total", "fdatasyncs of the log.", count, func(l *Log) float64 { return float64(l.Syncs) }),
		read("segments", "Segments of the log.", gauge, func(l *Log) float64 { return float64(l.Segments) }),
		read("bytes", "Size of the log's segments.", gauge, func(l *Log) float64 { return float64(l.SegmentBytes) }),
	}
}

// groupRows have the names of RabbitMQ 4's and of 3's dashboards where both have the thing.
func groupRows() []groupRow {
	labelled := func(name, help string, kind prometheus.ValueType, value func(Group) float64) groupRow {
		return groupRow{prometheus.NewDesc(name, help, []string{"group"}, nil), kind, value}
	}
	gauge, count := prometheus.GaugeValue, prometheus.CounterValue
	raft := func(name, help string, value func(Group) float64) groupRow {
		return labelled("rabbitmq_raft_"+name, help, gauge, value)
	}
	return []groupRow{
		labelled("understudy_group_leader", "Node id of the leader, 0 for none.", gauge, func(g Group) float64 { return float64(g.Leader) }),
		labelled("understudy_group_leads", "1 if this node leads.", gauge, func(g Group) float64 { return truth(g.Leads) }),
		labelled("understudy_group_applied", "Last entry applied.", count, func(g Group) float64 { return float64(g.Applied) }),
		labelled("understudy_group_first_index", "First entry that the log still has.", gauge, func(g Group) float64 { return float64(g.First) }),
		labelled("understudy_group_stopped", "1 if the group has stopped for an error.", gauge, func(g Group) float64 { return truth(g.Stopped) }),
		labelled("rabbitmq_raft_term", "Raft term.", count, func(g Group) float64 { return float64(g.Term) }),
		labelled("rabbitmq_raft_term_total", "Raft term.", count, func(g Group) float64 { return float64(g.Term) }),
		raft("commit_index", "Last entry committed.", func(g Group) float64 { return float64(g.Commit) }),
		raft("log_commit_index", "Last entry committed.", func(g Group) float64 { return float64(g.Commit) }),
		raft("log_last_applied_index", "Last entry applied.", func(g Group) float64 { return float64(g.Applied) }),
		raft("last_written_index", "Last entry of the log.", func(g Group) float64 { return float64(g.Last) }),
		raft("log_last_written_index", "Last entry of the log.", func(g Group) float64 { return float64(g.Last) }),
		raft("snapshot_index", "Last entry that the log no longer has.", func(g Group) float64 { return float64(max(g.First, 1) - 1) }),
		raft("log_snapshot_index", "Last entry that the log no longer has.", func(g Group) float64 { return float64(max(g.First, 1) - 1) }),
		raft("commit_latency_seconds", "Time until the node's newest batch was applied.", latency),
		raft("entry_commit_latency_seconds", "Time until the node's newest batch was applied.", latency),
	}
}

func latency(g Group) float64 { return g.CommitLatency.Seconds() }

func (c *collector) processRows() []processRow {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return []processRow{
		{desc("rabbitmq_process_resident_memory_bytes", "Resident memory."), residentBytes},
		{desc("rabbitmq_process_open_fds", "Open file descriptors."), openFiles},
		{desc("rabbitmq_process_max_fds", "Most file descriptors that may be open."), maxFiles},
		{desc("rabbitmq_process_max_tcp_sockets", "Most sockets that may be open: file descriptors."), maxFiles},
		{desc("rabbitmq_disk_space_available_bytes", "Free space where the data folder is."), func() (float64, bool) { return diskFree(c.id.Data) }},
		{desc("rabbitmq_erlang_uptime_seconds", "Time since the node's start (the name is RabbitMQ's)."),
			func() (float64, bool) { return time.Since(c.started).Seconds(), true }},
	}
}
