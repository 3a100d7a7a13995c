package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Alarms are what a node is short of, and its limits in bytes (0 for none).
type Alarms struct {
	Memory, Disk, PublishersWait     bool
	MemoryLimitBytes, DiskLimitBytes uint64
}

// alarmRows have RabbitMQ's names where it has some.
func alarmRows() []row {
	gauge := func(name, help string, labels prometheus.Labels, value func(*Alarms) float64) row {
		return row{prometheus.NewDesc(name, help, nil, labels), prometheus.GaugeValue, func(r *reading) float64 { return value(&r.alarms) }}
	}
	memory := func(a *Alarms) float64 { return truth(a.Memory) }
	disk := func(a *Alarms) float64 { return truth(a.Disk) }
	const help = "1 if the node is short of it."
	return []row{
		gauge("rabbitmq_alarms_memory_used_watermark", "1 if the node uses more memory than --memory-high allows.", nil, memory),
		gauge("rabbitmq_alarms_free_disk_space_watermark", "1 if the node's disk has less free than --disk-free-min.", nil, disk),
		gauge("rabbitmq_resident_memory_limit_bytes", "Memory that --memory-high allows.", nil,
			func(a *Alarms) float64 { return float64(a.MemoryLimitBytes) }),
		gauge("rabbitmq_disk_space_available_limit_bytes", "Free space that --disk-free-min wants.", nil,
			func(a *Alarms) float64 { return float64(a.DiskLimitBytes) }),
		gauge("understudy_alarm", help, prometheus.Labels{"alarm": "memory"}, memory),
		gauge("understudy_alarm", help, prometheus.Labels{"alarm": "disk"}, disk),
		gauge("understudy_publishers_wait", "1 while this node's publishers have to wait for an alarm.", nil,
			func(a *Alarms) float64 { return truth(a.PublishersWait) }),
	}
}
