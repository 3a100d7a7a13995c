package telemetry

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/core"
)

// scrape is what /metrics says of a node with these sources.
func scrape(t *testing.T, m *Metrics, s Sources) string {
	t.Helper()
	if err := m.Watch(Identity{Node: "n@1", Version: "v", RabbitMQ: "3", Data: t.TempDir()}, s); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetricsSayWhatTheNodeSays(t *testing.T) {
	m := NewMetrics(slog.New(slog.DiscardHandler))
	m.Synced(0.001)
	m.Checkpoint(1, 10, 0.5)
	m.Evacuated(1, 2, 30)
	m.LeaderChanged()
	text := scrape(t, m, Sources{
		Messages: func() Messages {
			return Messages{
				Counters: core.Counters{
					Confirmed: 1, Nacked: 2, Returned: 3, Delivered: 4, DeliveredNoAck: 5, Redelivered: 6, Got: 7, GotEmpty: 8, GotNoAck: 31,
					Published: 3, PublishedConfirm: 33, Routed: 34, Dropped: 35, Acknowledged: 36, PublishedBytes: 5050,
					Sizes: [9]uint64{1, 1, 0, 0, 0, 0, 0, 0, 1}, ChannelsOpened: 37, ChannelsClosed: 38, SessionsOpened: 39,
					SessionsClosed: 40, QueuesDeclared: 41, QueuesCreated: 42, QueuesDeleted: 43,
				},
				Buried:           core.Buried{Rejected: 51, Expired: 52, MaxLength: 53, DeliveryLimit: 54, Arrived: 55},
				SessionsAttached: 9,
			}
		},
		Totals: func() Totals {
			return Totals{Queues: 11, Ready: 12, Unacked: 13, Consumers: 14, Connections: 15, Channels: 16, Publishers: 17, OwnConsumers: 18,
				SessionsAttached: 19, SessionsDetached: 20}
		},
		Sessions: func() Sessions {
			return Sessions{Resumed: 31, TakenOver: 32, Expired: 33, Redelivered: 34, Duplicates: 35}
		},
		Groups: func() []Group {
			return []Group{{Group: 2, Leader: 3, Term: 4, Commit: 5, Applied: 6, Last: 7, First: 8, Leads: true, Stopped: true, CommitLatency: time.Second / 4}}
		},
		Log: func() Log { return Log{Bytes: 21, Writes: 22, Syncs: 23, Segments: 24, SegmentBytes: 25} },
		Alarms: func() Alarms {
			return Alarms{Memory: true, PublishersWait: true, MemoryLimitBytes: 26, DiskLimitBytes: 27}
		},
		ClusterID: func() string { return "c" },
		Ready:     func() bool { return true },
	})
	for _, line := range []string{
		`rabbitmq_identity_info{rabbitmq_cluster="c",rabbitmq_endpoint="prometheus",rabbitmq_node="n@1"} 1`,
		`rabbitmq_build_info{product_name="Understudy",product_version="v",rabbitmq_version="3"} 1`,
		"understudy_ready 1",
		`rabbitmq_global_messages_confirmed_total{protocol="amqp091"} 1`,
		"understudy_messages_nacked_total 2",
		`rabbitmq_global_messages_unroutable_returned_total{protocol="amqp091"} 3`,
		`rabbitmq_global_messages_delivered_consume_manual_ack_total{protocol="amqp091"} 4`,
		`rabbitmq_global_messages_delivered_consume_auto_ack_total{protocol="amqp091"} 5`,
		`rabbitmq_global_messages_delivered_total{protocol="amqp091"} 47`,
		`rabbitmq_global_messages_delivered_get_manual_ack_total{protocol="amqp091"} 7`,
		`rabbitmq_global_messages_delivered_get_auto_ack_total{protocol="amqp091"} 31`,
		`rabbitmq_global_messages_received_total{protocol="amqp091"} 3`,
		`rabbitmq_global_messages_received_confirm_total{protocol="amqp091"} 33`,
		`rabbitmq_global_messages_routed_total{protocol="amqp091"} 34`,
		`rabbitmq_global_messages_unroutable_dropped_total{protocol="amqp091"} 35`,
		`rabbitmq_global_messages_acknowledged_total{protocol="amqp091"} 36`,
		`rabbitmq_message_size_bytes_bucket{protocol="amqp091",le="100"} 1`,
		`rabbitmq_message_size_bytes_bucket{protocol="amqp091",le="1000"} 2`,
		`rabbitmq_message_size_bytes_bucket{protocol="amqp091",le="1e+08"} 2`,
		`rabbitmq_message_size_bytes_bucket{protocol="amqp091",le="+Inf"} 3`,
		`rabbitmq_message_size_bytes_sum{protocol="amqp091"} 5050`,
		`rabbitmq_global_publishers{protocol="amqp091"} 17`, `rabbitmq_global_consumers{protocol="amqp091"} 18`,
		"rabbitmq_channels_opened_total 37", "rabbitmq_channels_closed_total 38", "rabbitmq_connections_opened_total 39",
		"rabbitmq_connections_closed_total 40", "rabbitmq_queues_declared_total 41", "rabbitmq_queues_created_total 42",
		"rabbitmq_queues_deleted_total 43", `rabbitmq_raft_commit_latency_seconds{group="2"} 0.25`, `rabbitmq_raft_snapshot_index{group="2"} 7`,
		`rabbitmq_global_messages_dead_lettered_rejected_total{dead_letter_strategy="at_least_once",queue_type="rabbit_quorum_queue"} 51`,
		`rabbitmq_global_messages_dead_lettered_expired_total{dead_letter_strategy="at_least_once",queue_type="rabbit_quorum_queue"} 52`,
		`rabbitmq_global_messages_dead_lettered_maxlen_total{dead_letter_strategy="at_least_once",queue_type="rabbit_quorum_queue"} 53`,
		`rabbitmq_global_messages_dead_lettered_delivery_limit_total{dead_letter_strategy="at_least_once",queue_type="rabbit_quorum_queue"} 54`,
		`rabbitmq_global_messages_dead_lettered_confirmed_total{dead_letter_strategy="at_least_once",queue_type="rabbit_quorum_queue"} 55`,
		`rabbitmq_global_messages_redelivered_total{protocol="amqp091"} 6`,
		`rabbitmq_global_messages_get_empty_total{protocol="amqp091"} 8`,
		"understudy_sessions_attached_total 9",
		"rabbitmq_queues 11", "rabbitmq_queue_messages_ready 12", "rabbitmq_queue_messages_unacked 13", "rabbitmq_queue_messages 25",
		"rabbitmq_consumers 14", "rabbitmq_connections 15", "rabbitmq_process_open_tcp_sockets 15", "rabbitmq_channels 16",
		"understudy_sessions_attached 19", "understudy_sessions_detached 20", "understudy_sessions_resumed_total 31",
		"understudy_sessions_taken_over_total 32", "understudy_sessions_expired_total 33", "understudy_sessions_redelivered_total 34",
		"understudy_sessions_duplicates_dropped_total 35",
		`understudy_group_leader{group="2"} 3`, `rabbitmq_raft_term{group="2"} 4`, `rabbitmq_raft_commit_index{group="2"} 5`,
		`understudy_group_applied{group="2"} 6`, `rabbitmq_raft_last_written_index{group="2"} 7`,
		`understudy_group_first_index{group="2"} 8`, `understudy_group_leads{group="2"} 1`, `understudy_group_stopped{group="2"} 1`,
		"understudy_log_written_bytes_total 21", "understudy_log_writes_total 22", "understudy_log_syncs_total 23",
		"understudy_log_segments 24", "understudy_log_bytes 25",
		"rabbitmq_alarms_memory_used_watermark 1", "rabbitmq_alarms_free_disk_space_watermark 0", "understudy_publishers_wait 1",
		"rabbitmq_resident_memory_limit_bytes 26", "rabbitmq_disk_space_available_limit_bytes 27",
		"understudy_log_fsync_seconds_count 1", "understudy_checkpoint_seconds_sum 0.5", "understudy_checkpoint_bytes_total 10",
		"understudy_log_evacuated_bytes_total 30", "understudy_leader_changes_total 1",
	} {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	for _, name := range []string{"rabbitmq_process_open_fds", "rabbitmq_process_max_fds", "rabbitmq_process_max_tcp_sockets", "rabbitmq_disk_space_available_bytes", "go_goroutines", "process_cpu_seconds_total"} {
		if !strings.Contains(text, "\n"+name+" ") {
			t.Errorf("no %s", name)
		}
	}
}

func TestLogLines(t *testing.T) {
	for _, c := range []struct{ level, format, want string }{
		{"warn", "text", "level=WARN msg=second"},
		{"error", "json", ""},
		{"info", "json", `"msg":"first"`},
	} {
		var out bytes.Buffer
		log, err := NewLogger(&out, c.level, c.format)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("first")
		log.Warn("second")
		if !strings.Contains(out.String(), c.want) || c.want == "" && out.Len() > 0 {
			t.Errorf("%s %s: %q, want %q", c.level, c.format, out.String(), c.want)
		}
	}
	for _, bad := range [][2]string{{"loud", "text"}, {"info", "xml"}} {
		if _, err := NewLogger(nil, bad[0], bad[1]); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}
