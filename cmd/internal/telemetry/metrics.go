package telemetry

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/understudy-mq/understudy/core"
)

// Identity is what does not change while a node runs.
type Identity struct {
	Node     string // as listings name it
	Version  string
	RabbitMQ string // the RabbitMQ version that clients may take it for
	Data     string // data folder: its disk's free space is reported
}

// Messages count what has crossed the node's connections since its start, and what the groups that it leads did by themselves,
// so that a sum over all nodes counts each once.
type Messages struct {
	core.Counters
	core.Buried
	SessionsAttached uint64
}

// Totals are what a node holds now. Queues, messages and consumers are those of the groups that it leads, so that a sum
// over all nodes counts each once.
type Totals struct {
	Queues, Ready, Unacked, Consumers uint64
	Connections, Channels             uint64
	Publishers                        uint64 // channels of the node's clients that have published
	OwnConsumers                      uint64 // of the node's clients
	// Of named sessions, in the groups that the node leads.
	SessionsAttached, SessionsDetached uint64
}

// Sessions count what became of named sessions since the node's start, in all groups: every node counts the same.
type Sessions struct{ Resumed, TakenOver, Expired, Redelivered, Duplicates uint64 }

// Group is one raft group on this node.
type Group struct {
	Group                                      uint64
	Leader, Term, Commit, Applied, Last, First uint64
	Leads                                      bool
	Stopped                                    bool
	CommitLatency                              time.Duration
}

// Log counts what the log has done since the start, and its size now.
type Log struct {
	Bytes, Writes, Syncs uint64
	Segments             int
	SegmentBytes         int64
}

// Sources answer the numbers of the moment; none may block.
type Sources struct {
	Messages  func() Messages
	Totals    func() Totals
	Sessions  func() Sessions
	Groups    func() []Group
	Log       func() Log
	Alarms    func() Alarms
	ClusterID func() string
	Ready     func() bool
}

// Metrics are a node's metrics.
type Metrics struct {
	registry                   *prometheus.Registry
	fsync                      prometheus.Histogram
	leaders                    prometheus.Counter
	checkpoint                 prometheus.Histogram
	checkpointBytes, evacuated prometheus.Counter
	logger                     *slog.Logger
}

// NewMetrics makes the metrics that are counted by calls; Watch adds those that are read from the node.
func NewMetrics(logger *slog.Logger) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		fsync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "understudy_log_fsync_seconds",
			Help:    "Time that an fdatasync of the log took.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16), // 0.1 ms to 3.3 s
		}),
		leaders: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "understudy_leader_changes_total",
			Help: "Leader changes that this node has seen, all groups together.",
		}),
		checkpoint: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "understudy_checkpoint_seconds",
			Help:    "Time until a checkpoint of a group's state was on disk.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14), // 1 ms to 8 s
		}),
		checkpointBytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "understudy_checkpoint_bytes_total",
			Help: "Changes written by checkpoints.",
		}),
		evacuated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "understudy_log_evacuated_bytes_total",
			Help: "Message contents moved out of the log, so that its segments could go.",
		}),
		logger: logger,
	}
	m.registry.MustRegister(m.fsync, m.leaders, m.checkpoint, m.checkpointBytes, m.evacuated, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Synced notes an fsync of the log that took seconds.
func (m *Metrics) Synced(seconds float64) { m.fsync.Observe(seconds) }

// Checkpoint notes a checkpoint of a group's state.
func (m *Metrics) Checkpoint(_ uint64, bytes int, seconds float64) {
	m.checkpoint.Observe(seconds)
	m.checkpointBytes.Add(float64(bytes))
}

// Evacuated notes message contents that were moved out of the log.
func (m *Metrics) Evacuated(_ uint64, _ int, bytes int64) { m.evacuated.Add(float64(bytes)) }

// LeaderChanged notes that a group has another leader.
func (m *Metrics) LeaderChanged() { m.leaders.Inc() }

// Watch adds what is read from the node at each scrape.
func (m *Metrics) Watch(id Identity, s Sources) error {
	return m.registry.Register(newCollector(id, s))
}

// Handler serves /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(m.logger.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
	})
}
